# Faults of a GPU as NGINX sees them, on a GPU: a call that fails, a device that
# is lost, no memory.  The worker leaves of its own, the next one opens the
# device anew, who was waiting is answered with the same bytes, and nothing ends
# a process.  Part of ./build.sh gpu-test.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Http;
use Hymt::Server;
use Test::More;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 3;
@FAULT@
events { worker_connections 1024; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo {
        path %%MODEL%%; backend cuda; threads 1; max_batch 4; context 512;
        @MORE@
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /ready { hymt_status ready; }
        location = /static { return 200 "static\n"; }
    }
}
END

my $REQUESTS = 120;

my $s = Hymt::Server->new(timeout => 60, conf => conf('', ''));


sub conf {
    my ($fault, $more) = @_;

    $fault = "env HYMT_CUDA_FAULT=$fault;" if $fault;

    return $CONF =~ s/\@FAULT\@/$fault/r =~ s/\@MORE\@/$more/r;
}


sub request {
    my ($text) = @_;

    return $s->http_json('/translate', { text => $text, tgt_lang => 'de' });
}


sub status {
    return $s->get('/status')->{json} || { engine_worker => { pid => 0 },
                                           models => [{ state => '' }] };
}


# Another configuration, and its engine is in that state.
sub change {
    my ($conf, $state) = @_;

    my $pid = status()->{engine_worker}{pid};

    $s->write_conf($conf);

    return $s->reload(20) && $s->wait_until(30, sub {
        my $j = status();

        return $j->{engine_worker}{pid} != $pid
               && $j->{models}[0]{state} eq $state;
    });
}


# Reloads where the old workers stay and the new engine waits; a client that
# waits for that.
sub another {
    my ($name, $request) = @_;

    my $from = $s->log_size();

    $s->signal('HUP');
    ok($s->wait_log(qr/waits for the memory of the engine before it/, 20,
                    $from), "three: the $name waits");
    ok($s->wait_until(10, sub {
        status()->{models}[0]{state} eq 'loading'
        && (() = substr($s->log(), $from) =~ /gracefully shutting down/g) == 3
    }), "three: the workers of the $name serve");

    my $sock = $s->open($request);

    ok($s->wait_until(10, sub { grep { $_ } @{status()->{buffers}{used}} }),
       "three: a client waits for the $name");

    return $sock;
}


sub steps { return status()->{models}[0]{work}{steps} }


# ---- none ----

$s->start();

$s->wait_until(30, sub { status()->{models}[0]{state} =~ /^(?:ready|failed)$/ });

like($s->log(), qr/backend cuda: /, 'on the device')
    or BAIL_OUT('no engine on a device');

my @all = map { request("Open the file number $_ for me.") } 1 .. $REQUESTS;
my @want = map { $_->{json}{translation} } $s->send_many(\@all);
my $steps = steps();

is(scalar(grep { defined } @want), $REQUESTS, 'all are answered');
is(status()->{engine_worker}{ended_in_a_row}, 0, 'by one engine');

# what is left for the next engine has to be less than the first one did, since
# that fails at the same step: so many, four at a time, then four one by one

my $at = int($steps * 0.7);

cmp_ok($steps, '>', 250, 'in as many steps as this test needs');


# ---- it fails once it works ----

my %reason = (
    launch  => qr/the launch of step $at failed/,
    collect => qr/step $at failed/,
    lost    => qr/CUDA: .*illegal/i,
);

for my $fault (qw(launch collect lost)) {
    ok(change(conf("$fault:$at", ''), 'ready'), "$fault: ready");

    my $pid = status()->{engine_worker}{pid};
    my $from = $s->log_size();
    my @responses = $s->send_many(\@all);
    my @late = grep { ($responses[$_]{status} || 0) == 503 } 0 .. $#all;

    cmp_ok(scalar(@late), '<', $REQUESTS / 2,
           "$fault: most are kept for the next engine");
    is(scalar(grep { !defined Hymt::Http::header($responses[$_],
                                                 'Retry-After') } @late), 0,
       "$fault: the others are told when to come again");
    ok($s->wait_ready('/status'), "$fault: there is an engine again");

    @responses[@late] = $s->send_many([@all[@late]]) if @late;

    is(scalar(grep { $_->{status} == 200 } @responses), $REQUESTS,
       "$fault: all are answered");
    is_deeply([map { $_->{json}{translation} } @responses], \@want,
              "$fault: the same bytes");

    my $j = status();
    my $said = substr($s->log(), $from);

    isnt($j->{engine_worker}{pid}, $pid, "$fault: by another process");
    is($j->{engine_worker}{ended_in_a_row}, 1, "$fault: the second");
    is($j->{models}[0]{queue}{in_flight}, 0, "$fault: nothing is in flight");
    like($said, $reason{$fault}, "$fault: the log says why");
    like($said, qr/the engine has failed: this worker leaves/,
         "$fault: and what comes of it");
    like($said, qr/worker process $pid exited with code 0/,
         "$fault: the worker left of its own");
    is($s->workers(), 3, "$fault: there are as many workers");
}


# ---- it can't be loaded ----

my %full = (
    'no memory'      => [conf('alloc', ''),
                         qr/not enough memory on device 0/],
    'memory is taken' => [conf('taken', ''),
                          qr/no device memory for \d+ MB of KV cache/],
    'no room for KV' => [conf('', 'kv_tokens 100000000;'),
                         qr/lower kv_tokens/],
);

my %said;

for my $name (sort keys %full) {
    my ($conf, $reason) = @{$full{$name}};

    ok(change($conf, 'failed'), "$name: failed");
    $said{$name} = status()->{models}[0]{reason};
    like($said{$name}, $reason, "$name: the status says why");
    like($s->log(), $reason, "$name: so does the log");

    my $res = $s->send(request('Open the file.'));

    is($res->{status}, 503, "$name: 503");
    like($res->{head}, qr/^Retry-After: \d+/mi, "$name: to be asked again");
    is($s->get('/ready')->{status}, 503, "$name: not ready");
    is($s->get('/static')->{status}, 200, "$name: the rest goes on");

    ok(change(conf('', ''), 'ready'), "$name: ready after a reload");
    is($s->send($all[0])->{json}{translation}, $want[0],
       "$name: and it translates");
}


# ---- two don't fit, and one does ----

my ($each, $total) = $said{'no room for KV'}
                     =~ /(\d+) bytes a token.* into (\d+) bytes/;

if (ok($each && $total, 'two: how much there is') or diag(explain(\%said))) {
    my $tokens = int(0.55 * $total / $each);

    ok(change(conf('', "kv_tokens $tokens;"), 'ready'), 'two: one is there');

    my $held = $s->open(substr($all[0], 0, -5));

    ok($s->wait_until(10, sub { grep { $_ } @{status()->{buffers}{used}} }),
       'two: a client is slow');

    my $from = $s->log_size();

    $s->signal('HUP');
    ok($s->wait_log(qr/waits for the memory of the engine before it/, 20,
                    $from), 'two: the other one waits');

    # the old workers may still accept

    ok($s->wait_until(10, sub {
        status()->{models}[0]{state} eq 'loading'
    }), 'two: its state');

    my $waiting = $s->open($all[1]);

    like(status()->{models}[0]{reason}, qr/not enough memory on device 0/,
         'two: its reason');

    $s->write($held, substr($all[0], -5));
    is($s->read_response($held)->{json}{translation}, $want[0],
       'two: who is slow is answered by the first');
    is($s->read_response($waiting)->{json}{translation}, $want[1],
       'two: who waits by the second');
    is(status()->{models}[0]{state}, 'ready', 'two: which is ready');

    # two wait for it, and the newer one has it

    ok($s->wait_until(20, sub { $s->children() == 3 }), 'three: one is there');

    $held = $s->open(substr($all[0], 0, -5));
    ok($s->wait_until(10, sub { grep { $_ } @{status()->{buffers}{used}} }),
       'three: a client is slow');

    my $start = $s->log_size();
    my @waits = map { another($_, $all[1]) } 'second', 'third';

    $s->write($held, substr($all[0], -5));
    is($s->read_response($held)->{json}{translation}, $want[0],
       'three: who is slow is answered by the first');
    is($s->read_response($waits[1])->{json}{translation}, $want[1],
       'three: who waits last by the third');
    is($s->read_response($waits[0])->{status}, 503,
       'three: the second has had no turn');
    unlike(substr($s->log(), $start), qr/no device memory for/,
           'three: none took what was not there');

    ok(change(conf('', ''), 'ready'), 'two: a small one again');
}


# ---- it is to leave ----

my @socks = map {
    my $room = $_;

    $s->open($s->http_json('/translate', {
        text => [map { "Open the window $_ of room $room." } 1 .. 300],
        tgt_lang => 'de',
    }))
} 1 .. 20;

ok($s->wait_until(5, sub { status()->{models}[0]{queue}{running} }),
   'TERM: work is in flight');

my $took = $s->stop('TERM', 5);

ok(defined $took && $took < 1,
   sprintf 'TERM: gone within a second: %.2f s', $took // -1);

$s->finish();
done_testing();
