# Crashes, by kill -9.  The worker with the engines takes no request along: all
# are answered as without it, once.  Another worker takes its own clients along
# and nobody else's.  In a random order, among reloads, nothing is left over.
#
# HYMT_SEED=N repeats an order.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Http;
use Hymt::Memory;
use Hymt::Server;
use JSON::PP;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

my $ROUNDS = $ENV{HYMT_LONG} ? 50 : 5;
my $SEED = $ENV{HYMT_SEED} || int(time() * 1000) % 1_000_000;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes @WORKERS@;
events { worker_connections 1024; }
http {
    %%GLOBALS_HTTP%%
    hymt_timeout 120s;
    hymt_model one { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    hymt_model two { path %%MODEL%%; threads 1; max_batch 4; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /one { hymt_translate one; }
        location = /two { hymt_translate two; }
        location = /status { hymt_status; }
        location = /who { return 200 "$pid"; }
    }
}
END

my $s;

sub server {
    my ($workers) = @_;

    $s = Hymt::Server->new(conf => $CONF =~ s/\@WORKERS\@/$workers/r,
                           timeout => 120);
    $s->allow_alerts(qr/exited on signal 9/);
    $s->start();

    return ready();
}

sub status {
    return $s->get('/status')->{json}
           || { models => [], engine_worker => { pid => 0,
                                                 ended_in_a_row => 0 } };
}

sub host { return status()->{engine_worker}{pid} }

sub running {
    my $n = 0;

    $n += $_->{queue}{running} for @{status()->{models}};

    return $n;
}

# All engines, of another worker than that.
sub ready {
    my ($pid) = @_;

    return $s->wait_until(60, sub {
        my $j = status();

        return $j->{engine_worker}{pid} != ($pid || 0)
               && 2 == grep { $_->{state} eq 'ready' } @{$j->{models}};
    });
}

sub idle {
    return $s->wait_until(20, sub {
        my $j = status();

        return 0 if !@{$j->{models}} || grep { $_ } @{$j->{buffers}{used}};

        return !grep { $_->{queue}{in_flight} || $_->{queue}{running}
                       || $_->{queue}{waiting} || $_->{kv}{blocks_used} }
                     @{$j->{models}};
    });
}

# So many workers and nobody else.
sub settled {
    my ($n) = @_;

    return $s->wait_until(20, sub {
        $s->workers() == $n && $s->children() == $n
    });
}

sub request {
    my ($model, $i) = @_;

    return $s->http_json("/$model", {
        text => "Open the file number $i, read the line and close it.",
        tgt_lang => 'de',
    });
}

# So many sentences, others than those of another room: equal ones are computed
# once.
sub large {
    my ($n, $room) = @_;

    return $s->http_json('/one', {
        text => [map { "Open the file number $_ and close room $room again." }
                     1 .. $n],
        tgt_lang => 'de',
    });
}

# A stream of so many sentences, and what had come when a process was killed
# after its first event.
sub stream {
    my ($pid, $n, $split) = @_;

    my $sock = $s->open($s->http_json('/one', {
        text => join(' ', map { "Open the file number $_ and close it again." }
                              1 .. $n),
        tgt_lang => 'de',
        split => $split,
        stream => JSON::PP::true,
    }));

    my $data = '';

    $s->wait_until(30, sub {
        sysread($sock, $data, 65536, length $data);
        return $data =~ /\r\n\r\n.*data: /s;
    });

    $s->signal('KILL', $pid) if $pid;

    my $first = $data;

    $s->wait_until(60, sub {
        my $n = sysread($sock, $data, 65536, length $data);
        return defined $n && $n == 0;
    });
    close $sock;

    return ($data, $first);
}

# The text of its events.
sub streamed {
    my ($data) = @_;

    return join '', $data =~ /\{"delta":"(.*?)"\}/g;
}

# What a process holds: descriptors by kind, shared mappings.
sub held {
    my ($pid) = @_;

    my %n;

    for my $fd (glob "/proc/$pid/fd/*") {
        my $to = readlink($fd) || next;

        $n{$to =~ /^anon_inode:\[?(\w+)/ ? $1
           : $to =~ /^(socket|pipe):/ ? $1 : 'file'}++;
    }

    $n{shared} = grep { m{/dev/zero} }
                      split /\n/, Hymt::Process::slurp("/proc/$pid/maps");

    return join ' ', map { "$_=$n{$_}" } sort keys %n;
}

# Of all processes, those of workers without their order.
sub all_held {
    return join '; ', held($s->master()), sort map { held($_) } $s->workers();
}

for my $workers (2, 4) {
    my $name = "$workers workers";

    ok(server($workers), "$name: ready");

    my @requests = map { request($_ % 2 ? 'one' : 'two', $_) } 1 .. 200;
    my @want = map { $_->{json}{translation} } $s->send_many(\@requests);

    is(scalar(grep { defined } @want), 200, "$name: all are answered at first");

    my $before = status()->{counters};

    # the engines' worker, with 200 requests in flight on the others

    my $pid = host();

    # it waits until all have come, or it might be through with them

    $s->signal('STOP', $pid);

    my @socks = map { $s->open($_) } @requests;

    ok($s->wait_until(10, sub {
        my $j = status();

        return 200 <= sum(map { $_->{queue}{in_flight} // 0 } @{$j->{models}});
    }), "$name: 200 are in flight");

    $s->signal('CONT', $pid);

    ok($s->wait_until(10, sub { running() >= 4 }), "$name: they run");
    $s->signal('KILL', $pid);

    my @responses = map { $s->read_response($_) } @socks;

    close $_ for @socks;

    is(scalar(grep { ($_->{status} || 0) == 200 } @responses), 200,
       "$name: all 200 are answered with 200");
    is(scalar(grep { ($responses[$_]{json}{translation} // '') ne $want[$_] }
                   0 .. 199), 0, "$name: as without the crash");

    ok(ready($pid), "$name: another worker has taken over");

    my $after = status()->{counters};
    my $again = $after->{resubmitted} - $before->{resubmitted};

    is($after->{answered} - $before->{answered}, 200, "$name: none twice");
    ok($again > 0, "$name: some were submitted again ($again)");
    is($after->{failed}, 0, "$name: none failed");
    ok(idle(), "$name: nothing is left over");

    # a stream whose unit has been sent in part has no second beginning

    $pid = host();
    $s->reload();
    ok(ready($pid), "$name: reloaded");
    $pid = host();

    my ($data, $first) = stream($pid, 8, 'none');

    SKIP: {
        skip 'it was too fast', 1 if $first =~ /"done":true/;
        like($data, qr/200 OK.*"unavailable".*the engine was restarted/s,
             "$name: a stream of one unit ends with its error event");
    }

    # one whose units were sent whole goes on

    ok(ready($pid), "$name: ready");

    my ($want) = stream(0, 40, 'sentence');

    $pid = host();
    $s->reload();
    ok(ready($pid), "$name: reloaded");
    $pid = host();

    ($data) = stream($pid, 40, 'sentence');

    is(streamed($data), streamed($want), "$name: one of many units goes on");
    like($data, qr/"done":true/, "$name: to its end");
    ok(ready($pid), "$name: ready");

    # how long it takes to serve again

    $pid = host();
    $s->reload();
    ok(ready($pid), "$name: reloaded");
    $pid = host();

    my $killed = time();

    $s->signal('KILL', $pid);

    my $res = $s->send($requests[0]);

    is($res->{json}{translation}, $want[0], "$name: the next request");
    note(sprintf '%s: served again %.0f ms after the kill', $name,
         1000 * (time() - $killed));

    $s->finish();
}

# another worker

{
    ok(server(4), 'another one: ready');

    my $want = $s->send(request('one', 7))->{json}{translation};
    my $body = large(60, 1);

    # who has got a connection is asked on it, before its request

    my %socks;

    for (1 .. 30) {
        my $sock = $s->open("GET /who HTTP/1.1\r\nHost: a\r\n\r\n");
        my $data = '';

        $s->wait_until(5, sub {
            sysread($sock, $data, 65536, length $data);
            return $data =~ /\r\n\r\n\d+/;
        });

        my ($pid) = $data =~ /\r\n\r\n(\d+)/;

        push @{$socks{$pid}}, $sock;
    }

    my ($victim) = sort { @{$socks{$b}} <=> @{$socks{$a}} } keys %socks;

    is($socks{host()}, undef, 'another one: it is not that of the engines');

    $s->write($_, $body) for map { @$_ } values %socks;
    ok($s->wait_until(10, sub { running() >= 4 }), 'another one: they run');

    my $epoch = status()->{models}[0]{epoch};

    $s->signal('KILL', $victim);

    for my $pid (sort keys %socks) {
        my @responses = map { $s->read_response($_) } @{$socks{$pid}};
        my $n = grep { ($_->{status} || 0) == 200 } @responses;

        is($n, $pid == $victim ? 0 : scalar(@responses),
           'another one: ' . @responses . ' clients of '
           . ($pid == $victim ? 'it lose their connection'
                              : 'another worker are answered'));

        close $_ for @{$socks{$pid}};
    }

    is(status()->{models}[0]{epoch}, $epoch, 'another one: the engine goes on');
    ok(idle(), 'another one: its jobs are canceled, its slots free');
    is($s->send(request('one', 7))->{json}{translation}, $want,
       'another one: and translates');

    $s->finish();
}

# the engines of workers that are leaving have no successor

{
    ok(server(2), 'leaving: ready');

    my $pid = host();

    my $requests = status()->{counters}{requests};

    # enough that the last one lasts until the next ones are ready, on a card too

    my $n = 24;
    my ($sock, @others) = reverse map { $s->open(large(900, $_)) }
                                 1 .. $n;

    # one whose body is not whole yet

    my $body = request('one', 1);
    my $late = $s->open(substr($body, 0, -10));

    # what nobody has accepted by then is for the next ones

    ok($s->wait_until(10, sub {
        status()->{counters}{requests} == $requests + $n + 1 && running() > 0
    }), 'leaving: all have come, it runs');

    $s->signal('HUP');
    ok(ready($pid), 'leaving: the next ones are ready');
    ok($s->wait_until(10, sub { $s->leaving() == 2 }),
       'leaving: both are on their way');

    my $killed = time();

    $s->signal('KILL', $pid);

    my $res = $s->read_response($sock);
    my $took = time() - $killed;

    close $_ for $sock, @others;
    is($res->{status}, 503, 'leaving: who waits for it gets 503');
    ok($took < 30, sprintf 'leaving: and soon (%.2f s)', $took);

    $s->write($late, substr($body, -10));
    is($s->read_response($late, 30)->{status}, 503,
       'leaving: so does who comes later');
    close $late;

    ok($s->wait_until(10, sub { !$s->leaving() }), 'leaving: then they leave');

    $s->finish();
}

# in a row: engines wait longer each time

{
    ok(server(2), 'in a row: ready');

    my $want = $s->send(request('one', 7))->{json}{translation};

    for my $case ([1, 0], [2, 1], [3, 2]) {
        my ($n, $wait) = @$case;
        my $pid = host();
        my $sock = $s->open(large(200, 1));

        ok($s->wait_until(10, sub { running() > 0 }), "in a row: $n: it runs");

        my $killed = time();

        $s->signal('KILL', $pid);

        ok($s->wait_until(5, sub {
            status()->{engine_worker}{ended_in_a_row} == $n
        }), "in a row: $n: the next one knows");

        SKIP: {
            my $res = $s->send(request('one', 7));
            my $j = status();

            skip 'they start at once', 4 if !$wait;
            skip 'too slow a machine', 4 if time() - $killed > $wait;

            is($j->{models}[0]{state}, 'backing off', "in a row: $n: waits");
            is($res->{status}, 503, "in a row: $n: new requests get 503");
            like($res->{body}, qr/"unavailable".*starts again in \d+ s/,
                 "in a row: $n: which says when");
            like(Hymt::Http::header($res, 'Retry-After'), qr/^[1-$wait]$/,
                 "in a row: $n: in Retry-After, too");
        }

        ok(ready($pid), "in a row: $n: ready again");

        my $took = time() - $killed;

        ok($took >= $wait, sprintf 'in a row: %d: after %.1f s', $n, $took);

        my $res = $s->read_response($sock);

        close $sock;
        is($res->{status}, 200, "in a row: $n: who waited is answered")
            or diag($res->{body});
    }

    is($s->send(request('one', 7))->{json}{translation}, $want,
       'in a row: translates');

    # as if it had been for the tenth time: no longer than half a minute

    my $pid = host();

    SKIP: {
        my $mem = Hymt::Memory->new($pid)
            or skip "/proc/PID/mem: $!", 4;

        my $at = $mem->roster($pid)->{at};

        # behind the processes

        my ($ended) = grep { $mem->word($at + 8 * $_) } 2 .. 511;

        is($mem->word($at + 8 * $ended), 3, 'in a row: where it is counted');
        $mem->poke($at + 8 * $ended, 9);

        $s->signal('KILL', $pid);
        ok($s->wait_until(5, sub {
            status()->{engine_worker}{ended_in_a_row} == 10
        }), 'in a row: for the tenth time');

        my $wait = status()->{engine_worker}{starts_in_seconds};

        ok($wait <= 30 && $wait > 20, "in a row: half a minute ($wait s)");
        like(Hymt::Http::header($s->send(request('one', 7)), 'Retry-After'),
             qr/^(?:30|2\d)$/, 'in a row: in Retry-After, too');
    }

    # a new generation has no past

    $pid = host();
    $s->reload();
    ok(ready($pid), 'in a row: ready after a reload');
    is(status()->{engine_worker}{ended_in_a_row}, 0, 'in a row: which forgets');

    $s->finish();
}

# in any order

for my $workers (2, 4) {
    my $name = "any order, $workers workers";

    srand($SEED);
    note("HYMT_SEED=$SEED");

    ok(server($workers), "$name: ready");

    my @requests = map { request($_ % 2 ? 'one' : 'two', $_) } 1 .. 40;
    my @want = map { $_->{json}{translation} } $s->send_many(\@requests);

    # a reload brings all descriptors that there will be

    my $pid = host();

    $s->reload();
    ok(ready($pid), "$name: ready");

    ok(settled($workers), "$name: the old ones have left");

    # the master closes what it had of them a moment later

    my $held = '';

    $s->wait_until(20, sub {
        my $before = $held;

        sleep(0.2);
        $held = all_held();

        return $held eq $before;
    });

    my $lost = 0;

    for my $round (1 .. $ROUNDS) {
        my $what = (qw(engine engine other reload reload+engine))[rand 5];

        # engines that wait would make it a test of patience

        $what = 'reload' if status()->{engine_worker}{ended_in_a_row} > 1;

        $pid = host();

        my @others = grep { $_ != $pid } $s->workers();
        my @socks = map { $s->open($_) } @requests;
        my $test = "$name: $round, $what";

        sleep(rand(0.1));

        $s->signal('HUP') if $what =~ /reload/;
        $s->signal('KILL', $pid) if $what eq 'engine';
        $s->signal('KILL', $others[rand @others]) if $what eq 'other';

        if ($what eq 'reload+engine') {
            my $next;

            $s->wait_until(20, sub { ($next = host()) && $next != $pid });
            sleep(rand(0.1));
            $s->signal('KILL', $next);
            $pid = $next;
        }

        my @responses = map { $s->read_response($_) } @socks;

        close $_ for @socks;

        my @bad = grep { !$_->{status} || $_->{status} != 200 } @responses;

        # a worker takes its clients along, but tells nobody something else

        @bad = grep { $_->{status} } @bad if $what eq 'other';
        $lost += grep { !$_->{status} } @responses;

        is(scalar(@bad), 0, "$test: all are answered")
            or diag(join "\n", map { $_->{body} // $_->{error} // 'closed' }
                                   @bad);

        is(scalar(grep { $responses[$_]{json}
                         && ($responses[$_]{json}{translation} // '')
                            ne $want[$_] } 0 .. $#responses), 0,
           "$test: as before");

        ok(ready($what eq 'other' ? 0 : $pid), "$test: ready");
        ok(settled($workers), "$test: as many workers");
        ok(idle(), "$test: nothing is left over");

        $s->wait_until(5, sub { all_held() eq $held });
        is(all_held(), $held, "$test: descriptors, shared memory");
    }

    note("$name: $lost clients lost with their worker");

    $s->finish();
}

done_testing();
