#!/usr/bin/perl
#
# What becomes of a server that is asked for ten times what it can do; see
# --help.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../t/lib";

use Getopt::Long;
use Hymt::Http;
use Hymt::Server;
use IO::Select;
use Time::HiRes qw(sleep time);

my %o = (seconds => 15, queue => 64, batch => 8, times => 10, in => 60,
         out => 20);

GetOptions(\%o, 'seconds=i', 'queue=i', 'batch=i', 'times=f', 'in=i', 'out=i',
           'check', 'help') or exit 2;

if ($o{help}) {
    print <<"END";
usage: bench/overload.pl [--seconds N] [--queue N] [--batch N] [--times X]
                         [--in N] [--out N] [--check]

Starts NGINX with two workers that serve clients and the built-in model (or
HYMT_MODEL, on HYMT_MODULE) with a queue of $o{queue}, finds with bench/http-load
what it can do, and then asks for X times as much ($o{times}) for N seconds
($o{seconds}).  Prints how long the answers took that were accepted, beside the
bound that the queue implies (texts in it by texts a second, as they were served
meanwhile: what else the machine does is in both); how long those waited that
were turned away, asked 40 times a second by a client of its own, and of that
without the time in which this client waited for a core; and what a static
location of the same workers did meanwhile, and idle.

Where Linux groups processes by session (kernel.sched_autogroup_enabled), nice
does not help against other sessions: write -15 to /proc/self/autogroup of a
session of its own (setsid) instead.

With --check the exit status is 1 where the 99th percentile of those accepted
is over 1.3 times the bound, the 99th of those turned away over 5 ms, or one of
these without Retry-After.

Needs ./build.sh, and make bench.
END
    exit 0;
}

my $load = 'build/bench/http-load';

die "$load: not there: make bench\n" if !-x $load;

my $s = Hymt::Server->new(conf => <<"END", log_level => 'error');
%%GLOBALS%%
worker_processes 3;
events { worker_connections 4096; }
http {
    %%GLOBALS_HTTP%%
    access_log off;
    keepalive_requests 1000000;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch $o{batch};
                      context 1024; queue $o{queue}; ignore_eos on; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /static { return 200 "static\\n"; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
$s->wait_ready('/status') or die "the model does not load\n";

my @load = ($load, '--model', $ENV{HYMT_MODEL} || 'models/demo', '--in',
            $o{in}, '--out', $o{out}, '--seconds', $o{seconds});
my $at = '127.0.0.1:' . $s->port();

my $report = run(@load, '--clients', $o{queue} / 2, '--warm', 3, $at);
my ($capacity) = $report =~ /^answers .*?([\d.]+) a second/m
    or die "http-load: $report";

printf "capacity       %.1f texts a second, %d at once\n", $capacity,
       $o{queue} / 2;

my $pid = open(my $pipe, '-|', @load, '--rate', $o{times} * $capacity,
               '--warm', 5, '--static', '/static', $at) or die "fork: $!\n";
my ($accepted, $missing, $own, @away) = probe($o{seconds});

$report = do { local $/; <$pipe> };
close $pipe;

my ($p50, $p99) = $report =~ /^latency ms .*?P50 ([\d.]+).*?P99 ([\d.]+)/m
    or die "http-load: $report";
my ($answers, $rate) = $report =~ /^answers +(\d+), ([\d.]+)/m;
my ($static) = $report =~ /^static us +(.*)/m;
my $bound = 1000 * $o{queue} / $rate;

printf "bound          %.0f ms: a queue of %d at %.1f texts a second, %.2f of"
       . " the capacity\n", $bound, $o{queue}, $rate, $rate / $capacity;
printf "accepted       %d, %.1f a second: P50 %.0f ms, P99 %.0f ms,"
       . " %.2f of the bound\n", $answers, $rate, $p50, $p99, $p99 / $bound;

@away = sort { $a <=> $b } @away;
my @served = sort { $a <=> $b } @$own;

die "nobody was turned away\n" if !@away;

printf "turned away    %d of %d asked: P50 %.2f ms, P99 %.2f ms, max %.2f ms;"
       . " %d without Retry-After\n", scalar @away, $accepted + @away,
       at(50), at(99), $away[-1], $missing;
printf "               without this client's waiting for a core: P99 %.2f ms,"
       . " max %.2f ms\n", $served[int($#served * 99 / 100)], $served[-1];
printf "static us      %s\n", $static;

$s->stop();

exit($o{check} && ($p99 > 1.3 * $bound || at(99) > 5 || $missing) ? 1 : 0);


sub at { return $away[int($#away * $_[0] / 100)] }


sub run {
    my (@command) = @_;

    open(my $p, '-|', @command) or die "fork: $!\n";
    my $out = do { local $/; <$p> };
    close $p;

    return $out;
}


# Milliseconds that this process was ready to run and did not.
sub waited {
    open(my $f, '<', '/proc/self/schedstat') or return 0;

    return (split ' ', <$f>)[1] / 1e6;
}


# Asks while the other load is on: how many were accepted, how many refusals
# had no Retry-After, the milliseconds of each refusal without this client's own
# waiting, and with it.
sub probe {
    my ($seconds) = @_;

    my ($in, $bare, @ms, @own, @waiting) = (0, 0);

    # when its idle second and its first five are over

    sleep 7;

    my $end = time() + $seconds - 2;

    for (my $n = 0; time() < $end; $n++) {
        my $raw = $s->http_json('/translate', {
            text => "Overload, question number $n of many.",
            src_lang => 'en', tgt_lang => 'de', max_tokens => $o{out},
        });
        my $sock = $s->open();
        my $waited = waited();
        my $start = time();

        $s->write($sock, $raw);

        if (!IO::Select->new($sock)->can_read(0.1)) {

            # it waits: its socket stays open until the end

            push @waiting, $sock;
            $in++;
            next;
        }

        my $took = 1000 * (time() - $start);

        $waited = waited() - $waited;

        my $r = $s->read_response($sock);

        if ($r->{status} == 429 || $r->{status} == 503) {
            push @ms, $took;
            push @own, $took - $waited;
            $bare++ if !defined Hymt::Http::header($r, 'Retry-After');

        } else {
            $in++;
        }

        sleep 0.025;
    }

    return ($in, $bare, \@own, @ms);
}
