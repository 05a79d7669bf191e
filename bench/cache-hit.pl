#!/usr/bin/perl
#
# What a hit of hymt_cache costs a worker, in CPU time, beside a POST of the
# same body to `return 200`; see --help.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../t/lib";

use Getopt::Long;
use Hymt::Server;
use JSON::PP;
use List::Util qw(max min);

my %o = (requests => 4000, rounds => 9);

GetOptions(\%o, 'requests=i', 'rounds=i', 'limit=f', 'help') or exit 2;

if ($o{help}) {
    print <<"END";
usage: bench/cache-hit.pl [--requests N] [--rounds N] [--limit RATIO]

Starts NGINX with one worker that serves clients and the built-in model (or
HYMT_MODEL), sends POSTs over one kept connection, and prints the worker's CPU
time for each: to `return 200`, and to hymt_translate where hymt_cache has the
answer.  Rounds of N requests ($o{requests}) alternate; the figures are medians
of $o{rounds} rounds.  With --limit the exit status is 1 where the ratio for a
sentence is above it.

Needs ./build.sh first, and /proc.
END
    exit 0;
}

my $s = Hymt::Server->new(conf => <<'END', log_level => 'error');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    access_log off;
    keepalive_requests 1000000;
    hymt_cache zone=t:8m;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /plain { return 200 "{}"; }
        location = /translate { hymt_translate demo; }
        location /v1/ { hymt_translate demo api=openai; }
        location /libre/ { hymt_translate demo api=libretranslate; }
        location /deepl/ { hymt_translate demo api=deepl; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
$s->wait_ready('/status') or die "the model does not load\n";

my $host = $s->get('/status')->{json}{engine_worker}{pid};
my ($worker) = grep { $_ != $host } $s->workers();

my $sentence = 'Open the file and save your changes before you close it.';
my %use = (src_lang => 'en', tgt_lang => 'de');

my @cases = (
    ['a sentence', '/translate', { %use, text => $sentence }],
    ['libretranslate', '/libre/translate',
     { q => $sentence, source => 'en', target => 'de' }],
    ['deepl', '/deepl/v2/translate',
     { text => [$sentence], source_lang => 'EN', target_lang => 'DE' }],
    ['a paragraph', '/translate', { %use, text => join ' ', map {
        "Open the file number $_ and save your changes." } 1 .. 8 }],
    ['8 sentences', '/translate', { %use, text => [ map {
        "Open the file number $_ and save your changes." } 1 .. 8 ] }],
);

printf "%-16s %14s %14s %7s\n", 'POST', 'return 200, us', 'a hit, us', 'ratio';

my $worst = 0;

for my $case (@cases) {
    my ($name, $uri, $ask) = @$case;
    my $body = encode_json($ask);

    # what is cut is not kept

    $s->post($uri, $body, 'Content-Type: application/json');

    my $before = hits();
    my $r = $s->post($uri, $body, 'Content-Type: application/json');

    die "$name: $r->{status} $r->{body}\n" if $r->{status} != 200;
    die "$name: no hit\n" if hits() == $before;

    my (@plain, @hit);

    for (1 .. $o{rounds}) {
        push @plain, cost('/plain', $body);
        push @hit, cost($uri, $body);
    }

    my $ratio = median(@hit) / median(@plain);

    printf "%-16s %14.1f %14.1f %7.2f\n", $name, median(@plain), median(@hit),
           $ratio;

    $worst = max($worst, $ratio) if $case == $cases[0];
}

$s->stop();
$s->{finished} = 1;

exit($o{limit} && $worst > $o{limit} ? 1 : 0);


sub hits {
    return $s->get('/status')->{json}{models}[0]{translation_cache}{hits};
}

sub median { return (sort { $a <=> $b } @_)[@_ / 2] }


# us of the worker's CPU time a request.
sub cost {
    my ($uri, $body) = @_;

    my $raw = $s->http('POST', $uri, $body, 'Content-Type: application/json')
              =~ s/Connection: close\r\n//r;
    my $sock = $s->open();

    $sock->blocking(1);
    once($sock, $raw) for 1 .. 20;

    my $from = cpu();

    once($sock, $raw) for 1 .. $o{requests};

    my $took = cpu() - $from;

    close $sock;

    return $took / $o{requests} / 1000;
}


sub once {
    my ($sock, $raw) = @_;

    my $data = '';

    syswrite($sock, $raw) == length $raw or die "write: $!\n";

    until ($data =~ /Content-Length: (\d+).*?\r\n\r\n(.*)/s
           && length $2 >= $1)
    {
        sysread($sock, $data, 65536, length $data) or die "closed: $data\n";
    }
}


# ns of the worker's main thread.
sub cpu {
    return (split / /, Hymt::Process::slurp("/proc/$worker/schedstat"))[0];
}
