# Who waits for a slot of the engine's queue: first come, first served.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $SLOTS = 2;

my $s = Hymt::Server->new(timeout => 60, conf => <<"END");
%%GLOBALS%%
worker_processes 2;
events { worker_connections 256; }
http {
    %%GLOBALS_HTTP%%
    log_format n '\$arg_n \$status';
    access_log %%DIR%%/logs/n.log n;
    hymt_model one { path %%MODEL%%; threads 1; max_batch 1; context 256;
                     queue $SLOTS; ignore_eos on; coalesce off; }
    hymt_split none;
    server {
        listen 127.0.0.1:%%PORT%%;
        lingering_close off;
        location = /translate { hymt_translate one; access_log off; }
        location = /in-line { hymt_translate one; }
        location = /status { hymt_status; access_log off; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');
$s->allow_alerts(qr/exited on signal 9/);

my $host = $s->host();

sub worker { return grep { $_ != $host } $s->workers() }

sub request {
    my ($uri, $text, $tokens) = @_;

    return $s->http_json($uri, { text => $text, src_lang => 'en',
                                 tgt_lang => 'de', max_tokens => $tokens });
}

# -1: nobody answers, a worker has just been killed

sub in_flight {
    my $json = $s->get('/status')->{json};

    return $json ? $json->{models}[0]{queue}{in_flight} : -1;
}

# the numbers of those that were answered, in this order

sub answered {
    open(my $f, '<', $s->dir() . '/logs/n.log') or return '';

    return join ' ', map { /^(\d+) 200$/ ? $1 : () } <$f>;
}

# Sockets of requests that all stand in the line of a worker: a new one's lane
# is not open before the engine has let go of the former one's jobs, which it
# has not while it is stopped.

sub line {
    my ($name, $tokens, @texts) = @_;

    my ($old) = worker();
    my $before = $s->open(request('/translate', "$name, before", 200));

    ok($s->wait_until(20, sub { in_flight() == 1 }), "$name: one is in");

    $s->signal('STOP', $host);
    $s->signal('KILL', $old);

    ok($s->wait_until(20, sub {
        my ($new) = worker();

        return $new && $new != $old && in_flight() == 0;
    }), "$name: a new worker");

    close $before;
    truncate $s->dir() . '/logs/n.log', 0;

    my @socks;

    for my $n (1 .. @texts) {
        push @socks, $s->open(request("/in-line?n=$n", $texts[$n - 1],
                                       $tokens));

        # it has been read when the worker has answered what came after it

        in_flight();
    }

    is(in_flight(), 0, "$name: all wait");

    return @socks;
}

sub all_answered {
    my ($name, @socks) = @_;

    my $n = grep { $s->read_response($_)->{status} == 200 } @socks;

    is($n, scalar(@socks), "$name: all are answered");
}

# of as many as there are slots

{
    my @socks = line('order', 12, map { "Text number $_" } 1 .. 14);

    $s->signal('CONT', $host);

    all_answered('order', @socks);
    is(answered(), join(' ', 1 .. 14), 'order: the first come first');
}

# one with several texts

{
    my @socks = line('several', 12, [map { "Several, text $_" } 1 .. 5],
                     map { "One text, $_" } 2 .. 5);

    $s->signal('CONT', $host);

    all_answered('several', @socks);
    is(answered(), '2 3 4 5 1', 'several: one after the other');
}

# one that is woken has gone

{
    my @socks = line('gone', 120, map { "Soon, number $_" } 1 .. 8);
    my ($worker) = worker();

    # the first two are in the engine

    $s->signal('CONT', $host);
    ok($s->wait_until(20, sub { answered() ne '' || in_flight() == $SLOTS }),
       'gone: the first are in');
    $s->signal('STOP', $worker);

    # their results, and the next ones' ends, come to the worker in one turn

    sleep 1;
    close $socks[$_] for 2, 3, 6;
    $s->signal('CONT', $worker);

    all_answered('gone', @socks[0, 1, 4, 5, 7]);
    is(answered(), '1 2 5 6 8', 'gone: the others come in their order');
}

# one that comes when slots are free, but for those in line: at its headers' end
# and at its body's

{
    my @socks = line('kept', 120, map { "Kept for number $_" } 1 .. 6);
    my ($worker) = worker();
    my $late = request('/translate', 'Late', 12);
    my @late = map { [$s->open(substr($late, 0, $_)), substr($late, $_)] }
               20, length($late) - 5;

    is(in_flight(), 0, 'kept: both begin before the engine does');

    $s->signal('CONT', $host);
    ok($s->wait_until(20, sub { answered() ne '' || in_flight() == $SLOTS }),
       'kept: the first are in');
    $s->signal('STOP', $worker);

    # what they free, and the late ones' ends, come to the worker in one turn

    sleep 1;
    $s->write(@$_) for @late;
    $s->signal('CONT', $worker);

    my @got = map { $s->read_response($_->[0]) } @late;

    is($got[0]{status}, 429, 'kept: no slot for who comes now');
    like($got[0]{body}, qr/the model's queue is full/, 'kept: at its headers');
    is($got[1]{status}, 429, 'kept: nor for who was late');
    like($got[1]{body}, qr/the queue of model \\"one\\" is full/,
         'kept: at its body');

    all_answered('kept', @socks);
    is(answered(), join(' ', 1 .. 6), 'kept: those in line have them');
}

$s->finish();
done_testing();
