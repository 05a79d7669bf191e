# An engine that hangs for good: its worker leaves without it, another one takes
# its place, requests of the other workers are answered by that; a worker that
# is to leave does not wait for it either.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Hang;
use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes @WORKERS@;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    log_format buffered '$uri';
    access_log %%DIR%%/logs/buffered.log buffered buffer=64k;
    hymt_watchdog 1s;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    hymt_model other { path %%MODEL%%; threads 1; max_batch 2; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /other { hymt_translate other; }
        location = /status { hymt_status; }
        location = /ready { hymt_status ready; }
        location = /static { return 200 "static\n"; }
    }
}
END

my $s;

sub server {
    my ($workers) = @_;

    $s = Hymt::Server->new(conf => $CONF =~ s/\@WORKERS\@/$workers/r,
                           timeout => 60);
    $s->start();

    return ready();
}

sub status { return $s->get('/status')->{json} }
sub host   { return (status() || {})->{engine_worker}{pid} || 0 }

# All engines, of another worker than that.
sub ready {
    my ($pid, $hang) = @_;

    # with one worker nobody answers before it is gone

    $s->wait_until(20, sub { $hang->reap() }) if $hang;

    return $s->wait_until(30, sub {
        my $j = status() || return 0;

        return $j->{engine_worker}{pid} != ($pid || 0)
               && 2 == grep { $_->{state} eq 'ready' } @{$j->{models}};
    });
}

# The engine of one of the models.
sub hold {
    my ($pid) = @_;

    my $hang = Hymt::Hang::hold($pid, 'hymt-engine');

    plan skip_all => "ptrace: $!" if !$hang;

    return $hang;
}

sub request {
    my ($i, $uri) = @_;

    return $s->http_json($uri || '/translate', {
        text => "Open the file number $i and close it.", tgt_lang => 'de',
    });
}

# the engines' own worker

{
    server(2) or BAIL_OUT('not ready');

    my @requests = map { request($_, $_ % 5 ? '/translate' : '/other') }
                       1 .. 40;
    my @want = map { $_->{json}{translation} } $s->send_many(\@requests);
    my $pid = host();
    my $hang = hold($pid);

    my @socks = map { $s->open($_) } @requests;

    my $began = time();

    ok($s->wait_until(10, sub { $s->get('/ready')->{status} == 503 }),
       sprintf 'dedicated: not ready after %.1f s', time() - $began);
    is($s->get('/static')->{status}, 200, 'dedicated: all else is served');

    ok(ready($pid, $hang), 'dedicated: another worker takes its place');
    note(sprintf 'ready again after %.1f s', time() - $began);

    my @responses = map { $s->read_response($_) } @socks;

    close $_ for @socks;

    is(scalar(grep { ($_->{status} || 0) == 200 } @responses), 40,
       'dedicated: all are answered')
        or diag(join "\n", map { $_->{body} // $_->{error} } @responses);
    is(scalar(grep { ($responses[$_]{json}{translation} // '') ne $want[$_] }
                   0 .. 39), 0, 'dedicated: as without it');

    like($s->log(), qr/hymt "(?:demo|other)": the engine is stuck/,
         'dedicated: the log says so');
    like($s->log(), qr/the engine does not go on: this worker leaves it/,
         'dedicated: and what is done');
    like($s->log(), qr/worker process $pid exited with code 0/,
         'dedicated: it left of its own');
    is(status()->{engine_worker}{ended_in_a_row}, 1,
       'dedicated: which counts as an end before its time');

    # on its way out with a hanging engine

    $pid = host();
    $hang = hold($pid);

    $began = time();
    $s->signal('HUP');

    ok(ready($pid), 'reload: the next ones are ready');
    ok($s->wait_until(20, sub { $hang->reap(); !kill(0, $pid) }),
       sprintf 'reload: the old one does not wait for it (%.1f s)',
               time() - $began);
    like($s->log(), qr/the engine does not stop: this worker ends/,
         'reload: the log says so');

    is($s->send($requests[0])->{json}{translation}, $want[0],
       'reload: translates');

    $s->finish();
}

# one for both: its requests are told, others end as they should

{
    server(1) or BAIL_OUT('not ready');

    my $want = $s->send(request(1))->{json}{translation};

    $s->get('/static') for 1 .. 10;

    my $pid = host();
    my $hang = hold($pid);
    my @socks = map { $s->open(request($_, $_ % 2 ? '/translate' : '/other')) }
                    1 .. 10;
    my @responses = map { $s->read_response($_) } @socks;

    close $_ for @socks;

    is(join(' ', sort map { $_->{status} } @responses),
       '200 200 200 200 200 503 503 503 503 503',
       'shared: its requests get 503, those of the other model are answered');

    ok(ready($pid, $hang), 'shared: another worker takes its place');
    is($s->send(request(1))->{json}{translation}, $want, 'shared: translates');

    # NGINX's own way out: what it had in its buffers is written

    my @lines = Hymt::Process::slurp($s->dir() . '/logs/buffered.log')
                =~ m{^/static$}mg;

    is(scalar(@lines), 10, 'shared: buffered logs are written');

    $s->finish();
}

done_testing();
