# Leaving: QUIT finishes what is running, worker 0 goes last; TERM ends within a
# second; worker_shutdown_timeout cuts.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
@MORE@
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

sub server {
    my $s = Hymt::Server->new(conf => $CONF =~ s/\@MORE\@/$_[0]/r,
                              timeout => 60);

    $s->start();
    ok($s->wait_ready('/status'), 'ready');

    return $s;
}

sub work {
    my ($s, $n) = @_;

    return $s->http_json('/translate', {
        text => [map { "Open the file number $_ and close it again." }
                     1 .. $n],
        tgt_lang => 'de',
    });
}

# QUIT

{
    my $s = server('');
    my @socks = map { $s->open(work($s, 40)) } 1 .. 6;

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{running} > 0
    }), 'QUIT: work is running');

    $s->signal('QUIT');

    my @responses = map { $s->read_response($_) } @socks;

    close $_ for @socks;

    is(scalar(grep { $_->{status} && $_->{status} == 200 } @responses), 6,
       'QUIT: all that was running is answered');
    ok($s->wait_until(10, sub { !kill(0, $s->master() || -1) || !$s->master() }),
       'QUIT: then NGINX leaves');

    my @exits = $s->grep_log(qr/worker process \d+ exited with code 0/);

    is(scalar(@exits), 2, 'QUIT: both workers left of their own');

    my ($host) = $s->log() =~ /(\d+)#\d+: hymt "demo": ready/;

    like($exits[-1], qr/worker process $host exited/,
         'QUIT: the one with the engine last');
    is(scalar($s->alerts()), 0, 'QUIT: no alert');
}

# QUIT while large bodies still come

{
    my $s = server('');
    my $body = '{"tgt_lang": "de", "text": ["' . 'x' x 700_000 . '"]}';
    my $raw = $s->http_json('/translate', $body);
    my @socks = map { $s->open(substr($raw, 0, 300_000)) } 1 .. 6;

    # what nobody has accepted by then is lost

    ok($s->wait_until(10, sub {
        $s->get('/status')->{json}{counters}{requests} == 6
    }), 'QUIT: all have come');

    $s->signal('QUIT');
    sleep(0.3);

    $s->write($_, substr($raw, 300_000)) for @socks;

    my @codes = map { $s->read_response($_)->{status} || 'none' } @socks;

    close $_ for @socks;

    is(scalar(grep { $_ eq '422' || $_ eq '200' } @codes), 6,
       "QUIT: bodies that still came are answered (@codes)");
    ok($s->wait_until(10, sub { !$s->master() }), 'QUIT: then NGINX leaves');
    is(scalar($s->alerts()), 0, 'QUIT: no alert');
}

# TERM

{
    my $s = server('');
    my @socks = map { $s->open(work($s, 200)) } 1 .. 6;

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{running} > 0
    }), 'TERM: work is running');

    # a second of a machine that has nothing else to do

    my $slow = Hymt::Process::slowness();
    my $took = $s->stop('TERM', 5 * $slow);
    my $after = Hymt::Process::slowness();

    $slow = $after if $after > $slow;

    ok(defined $took && $took < 1.0 * $slow,
       sprintf 'TERM: gone within a second (%s s, slowness %.1f)',
               $took // 'never', $slow);

    # NGINX's master kills after a second and a half, be the machine as it may

    SKIP: {
        skip('the machine is busy', 1) if $slow > 3;
        is(scalar(grep { /exited on signal 9/ } split /\n/, $s->log()), 0,
           'TERM: nobody had to be killed');
    }

    is(scalar($s->alerts()), 0, 'TERM: no alert');
}

# worker_shutdown_timeout

{
    my $s = server('worker_shutdown_timeout 300ms;');
    my @socks = map { $s->open(work($s, 900)) } 1 .. 4;

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{running} > 0
    }), 'shutdown timeout: work is running');

    my $took = $s->stop('QUIT', 10);

    ok(defined $took && $took < 3 * Hymt::Process::slowness(),
       'shutdown timeout: it cuts (' . ($took // 'never') . ' s)');
    is(scalar($s->alerts()), 0, 'shutdown timeout: no alert');
}

done_testing();
