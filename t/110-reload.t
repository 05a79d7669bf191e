# Reload: both generations work side by side, nothing fails, counters go on, the
# old worker 0 leaves last, memory is where it was; a broken configuration leaves
# the old one at work.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $RELOADS = $ENV{HYMT_LONG} ? 50 : 5;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path @PATH@; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

my $s = Hymt::Server->new(conf => $CONF =~ s/\@PATH\@/%%MODEL%%/r,
                          timeout => 60);

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $one = $s->http_json('/translate', { text => 'Open the file.',
                                        tgt_lang => 'de' });
my $many = $s->http_json('/translate', {
    text => [map { "Open the file number $_, please." } 1 .. 60],
    tgt_lang => 'de',
});

my $want = $s->send($one)->{json}{translation};
my $sent = 1;
my $answered = 1;

# KB of the master and its workers.
sub memory {
    my $kb = 0;

    for my $pid ($s->master(), map { $_->{pid} } $s->children()) {
        $kb += $1 if Hymt::Process::slurp("/proc/$pid/status")
                     =~ /^VmRSS:\s+(\d+)/m;
    }

    return $kb;
}

my $memory;

# a reload each time while requests of both kinds are on their way

for my $i (1 .. $RELOADS) {
    my @old = $s->workers();
    my @socks = map { $s->open($many) } 1 .. 4;

    sleep(0.05);
    $s->signal('HUP');

    my @responses = $s->send_many([($one) x 20]);

    push @responses, map { $s->read_response($_) } @socks;

    # NGINX lingers until the client closes too

    close $_ for @socks;

    $sent += @responses;
    $answered += grep { $_->{status} && $_->{status} == 200 } @responses;

    is(scalar(grep { ($_->{json}{translation} || '') eq $want }
                   @responses[0 .. 19]), 20, "reload $i: short ones as before");
    is(scalar(grep { ref $_->{json}{translation}
                     && @{$_->{json}{translation}} == 60 }
                   @responses[20 .. 23]), 4, "reload $i: long ones whole");

    my %old = map { $_ => 1 } @old;

    ok($s->wait_until(20, sub {
        my @now = grep { $_->{title} =~ /worker process/ } $s->children();
        return @now == 2 && !grep { $old{$_->{pid}} } @now;
    }), "reload $i: the old workers have gone");

    # the first one shows what a generation under that load takes

    ok($s->wait_ready('/status'), "reload $i: ready");
    $memory ||= memory();
}

my $grown = memory() - $memory;

# sanitizers and valgrind keep what was freed

cmp_ok($grown, '<', 24 * 1024, "memory is where it was ($grown KB more)")
    if !$ENV{HYMT_TEST_ASAN} && !$ENV{TEST_NGINX_USE_VALGRIND};

is($answered, $sent, 'every request was answered with 200');

# what an operator reads of it, and nothing of a request

like($s->log(), qr/\[notice\].* hymt "demo": loading \S/, 'log: what is loaded');

my ($ready) = $s->grep_log(qr/\[notice\].* hymt "demo": ready in [\d.]+ s: /);

like($ready, qr/ backend .* weights [\d.]+ MB, KV [\d.]+ MB /,
     'log: in what time, with how much memory');
is(scalar $s->grep_log(qr/\[(?:notice|warn|error|crit)\].*client:/), 0,
   'log: no line of a request');

my $status = $s->get('/status')->{json};

is($status->{counters}{answered}, $answered, 'counters survive reloads');
is($status->{models}[0]{queue}{in_flight}, 0, 'nothing is left in flight');

# an idle worker 0 stays while the other one still has work

SKIP: {
    my @hosts = grep { $s->threads($_, qr/^hymt-/) } $s->workers();

    is(scalar(@hosts), 1, 'one worker has the engine');

    my @others = grep { $_ != $hosts[0] } $s->workers();
    my $held = $s->open(substr($many, 0, -10));

    # whoever got that connection: the body ends only after the reload

    sleep(0.1);
    ok($s->reload(), 'reloaded');
    sleep(0.5);

    $s->write($held, substr($many, -10));

    is($s->read_response($held)->{status}, 200,
       'a body that ends after the reload is translated by the old engine');
    close $held;

    ok($s->wait_until(20, sub { !kill(0, $hosts[0]) && !kill(0, $others[0]) }),
       'then the old workers leave');
}

# another model, while requests are on their way: each is answered by the one or
# the other

{
    my $other = Hymt::Server::own_model('{"family": "mt2", "greedy": true}');
    my $last = '';

    for my $path ($other, '%%MODEL%%', $other) {
        my $host = $s->host();
        my @socks = map { $s->open($many) } 1 .. 2;

        $s->write_conf($CONF =~ s/\@PATH\@/$path/r);
        sleep(0.05);
        $s->signal('HUP');

        my @responses = $s->send_many([($one) x 20]);
        my @long = map { $s->read_response($_) } @socks;

        close $_ for @socks;

        is(join(' ', map { $_->{status} } @responses, @long),
           join(' ', (200) x 22), 'another model: no request fails');

        # all may be answered before NGINX has begun

        ok($s->wait_until(20, sub { !kill(0, $host) && $s->children() == 2 }),
           'another model: the old one leaves');
        ok($s->wait_ready('/status'), 'another model: ready');

        my $new = $s->send($one)->{json}{translation};

        if ($path eq '%%MODEL%%') {
            is($new, $want, 'another model: and back');

        } else {
            isnt($new, $want, 'another model: it translates');
        }

        is(scalar(grep { $_->{json}{translation} ne $want
                         && $_->{json}{translation} ne ($last || $new) }
                       @responses), 0, 'another model: nothing between them');
        $last = $new if $path ne '%%MODEL%%';
    }

    $s->write_conf($CONF =~ s/\@PATH\@/%%MODEL%%/r);
    ok($s->reload(), 'another model: reloaded');
    ok($s->wait_ready('/status'), 'another model: ready');
}

# refused configurations

for my $case (
    ['/nowhere', qr/hymt_model "demo" in .*\/nowhere/],
    ['%%DIR%%/html', qr/hymt_model "demo" in .*config\.json/],
) {
    my ($path, $message) = @$case;
    my $from = $s->log_size();

    $s->allow_alerts(qr/hymt_model "demo" in /);
    $s->write_conf($CONF =~ s/\@PATH\@/$path/r);
    $s->signal('HUP');

    ok($s->wait_log($message, 10, $from), "path $path is refused by name");
    is($s->send($one)->{json}{translation}, $want, 'the old one goes on');
}

# and a better one is taken

$s->write_conf($CONF =~ s/\@PATH\@/%%MODEL%%/r);
ok($s->reload(), 'the next reload works');
is($s->send($one)->{json}{translation}, $want, 'and translates');

$s->finish();
done_testing();
