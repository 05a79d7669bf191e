# A reload where both generations don't fit into memory: the new engine waits for
# that of the old one, with its requests; when the old one has left and there is
# still too little, it fails and says so, also where a foreign process has got
# the old one's pid.

use strict;
use warnings;

use lib 't/lib';

use Hymt::AddressSpace;
use Hymt::Http;
use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep time);

Hymt::AddressSpace::check();

# 512 MB of KV, of which little is touched

my $s = Hymt::Server->new(timeout => 60, log_level => 'notice',
                          conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 64; }
http {
    %%GLOBALS_HTTP%%
    client_body_timeout 60s;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4;
                      kv_tokens 65536; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /now { hymt_translate demo; hymt_loading_wait 0; }
        location = /status { hymt_status; }
        location = /ready { hymt_status ready; }
    }
}
END

my $one = $s->http_json('/translate', { text => 'Open the file.',
                                        tgt_lang => 'de' });

# Reloads, the new engine short of memory, while a client's body keeps the old
# workers; that client's connection, and what it has not sent.
sub reload {
    my ($held, $rest) = $s->open_slow($one);

    Hymt::AddressSpace::squeeze($s);
    $s->reload_short();

    return ($held, $rest);
}

# Another process that has this pid, which is free; undef: there can't be one.
sub take_pid {
    my ($pid) = @_;

    for (1 .. 100) {
        open my $f, '>', '/proc/sys/kernel/ns_last_pid' or return undef;
        print {$f} $pid - 1;
        close $f or return undef;

        my $got = fork() // return undef;

        exec 'sleep', '60' if $got == 0;
        return $got if $got == $pid;

        kill 'KILL', $got;
        waitpid $got, 0;
    }

    return undef;
}

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $want = $s->send($one)->{json}{translation};

# there will be enough

{
    my ($held, $rest) = reload();
    my $waiting = $s->open($one);

    is($s->model()->{state}, 'loading', 'the state is that of loading');
    like($s->model()->{reason}, qr/bytes of memory/, 'the reason is memory');
    is($s->get('/ready')->{status}, 503, 'not ready');
    is($s->json('/now', { text => 'Open the file.', tgt_lang => 'de' })
         ->{status}, 503, 'who does not wait gets 503');

    Hymt::AddressSpace::limit($s->host(), 'unlimited');

    is($s->read_response($waiting)->{json}{translation}, $want,
       'who waits is answered when there is memory');
    is($s->get('/ready')->{status}, 200, 'ready');

    $s->write($held, $rest);
    is($s->read_response($held)->{json}{translation}, $want,
       'the old one goes on');
    ok($s->wait_until(20, sub { $s->children() == 2 }), 'the old ones leave');
}

# there won't be

{
    my ($held, $rest) = reload();
    my $waiting = $s->open($one);

    sleep(1.5);
    is($s->model()->{state}, 'loading', 'it waits as long as the old one is there');

    $s->write($held, $rest);
    is($s->read_response($held)->{json}{translation}, $want,
       'the old one goes on');

    is($s->read_response($waiting)->{status}, 503,
       'who waits gets 503 when it has gone');
    is($s->model()->{state}, 'failed', 'the new engine has failed');
    like($s->model()->{reason}, qr/bytes of memory/, 'for the same reason');

    Hymt::AddressSpace::limit($s->master(), 'unlimited');
    $s->signal('HUP');
    ok($s->wait_ready('/status'), 'another reload mends it');
    is($s->send($one)->{json}{translation}, $want, 'as before');
}

# nor when the old one was killed, and its pid is somebody else's

SKIP: {
    my $old = $s->host();
    my ($held) = reload();

    kill 'KILL', $old;
    ok($s->wait_until(10, sub { !kill 0, $old }), 'the old one is killed');
    $s->allow_alerts(qr/exited on signal 9/);

    my $taken = take_pid($old);

    skip 'no process can be given a pid here', 2 if !defined $taken;

    ok($s->wait_until(10, sub { $s->model()->{state} eq 'failed' }),
       'a process that has its pid is not waited for');
    is(kill('KILL', $taken), 1, 'which is there');
    waitpid $taken, 0;
}

$s->finish();
done_testing();
