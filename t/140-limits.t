# What is full, late, loading or broken: 429, 503 and 504, at once, and counted.

use strict;
use warnings;

use lib 't/lib';

use File::Copy qw(copy);
use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 1;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    @BUFFERS@
    hymt_model demo { path @PATH@; threads 1; max_batch 2; context 1024;
                      queue 4; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /hurry { hymt_translate demo; hymt_timeout 30ms; }
        location = /now { hymt_translate demo; hymt_loading_wait 0; }
        location = /narrow { hymt_translate demo; hymt_window 1; }
        location = /static { return 200 "static\n"; }
        location = /status { hymt_status; }
    }
}
END

sub server {
    my (%o) = @_;

    my $path = $o{path} || '%%MODEL%%';
    my $buffers = $o{buffers} || '';

    return Hymt::Server->new(timeout => 60,
        conf => $CONF =~ s/\@PATH\@/$path/r =~ s/\@BUFFERS\@/$buffers/r);
}

sub texts {
    my ($n) = @_;

    return { tgt_lang => 'de',
             text => [map { "Open the file number $_ and close it." } 1 .. $n] };
}

my $one = { text => 'Open the file.', tgt_lang => 'de' };

{
    my $s = server();

    $s->start();
    ok($s->wait_ready('/status'), 'ready');

    # the queue: four texts in flight fill it

    my $busy = $s->open($s->http_json('/translate', texts(400)));

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{in_flight} == 4
    }), 'queue: full');

    my $t = time();
    my $r = $s->json('/translate', $one);
    my $took = time() - $t;

    is($r->{status}, 429, 'queue: the next one gets 429');
    is($r->{json}{error}{code}, 'queue_full', 'queue: and is told why');
    ok(defined Hymt::Http::header($r, 'Retry-After'), 'queue: Retry-After');
    cmp_ok($took, '<', 0.5 * Hymt::Process::slowness(),
           'queue: without waiting');
    is($s->get('/static')->{body}, "static\n", 'queue: others are served');

    close $busy;

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{in_flight} == 0
    }), 'queue: empty again');

    is($s->json('/translate', $one)->{status}, 200, 'queue: served again');

    # who waits for a slot gets one when its holder leaves

    my @wait = map { $s->open($s->http_json('/translate', texts(40))) } 1 .. 3;

    sleep(0.1);
    close shift @wait;
    is(scalar(grep { ($s->read_response($_)->{status} || 0) =~ /^(?:200|429)$/ }
                   @wait), 2, 'queue: those in line are served');
    close $_ for @wait;

    ok($s->wait_until(5, sub {
        $s->get('/status')->{json}{models}[0]{queue}{in_flight} == 0
    }), 'queue: empty once more');

    # a window of one leaves room for others

    my $slow = $s->open($s->http_json('/narrow', texts(100)));

    sleep(0.1);
    is($s->json('/translate', $one)->{status}, 200,
       'window: a document with a window of one does not fill the queue');
    is(scalar @{$s->read_response($slow)->{json}{translation}}, 100,
       'window: and comes back whole');

    # late

    $r = $s->json('/hurry', texts(300));

    is($r->{status}, 504, 'timeout: 504');
    is($r->{json}{error}{code}, 'timeout', 'timeout: its code');
    like($r->{json}{error}{message}, qr/30 ms/, 'timeout: names the limit');

    ok($s->wait_until(5, sub {
        my $q = $s->get('/status')->{json}{models}[0]{queue};
        return $q->{in_flight} == 0 && $q->{running} == 0;
    }), 'timeout: the work is canceled');

    my $c = $s->get('/status')->{json}{counters};

    is($c->{timeouts}, 1, 'timeout: counted');
    cmp_ok($c->{rejected}, '>=', 1, 'queue: counted');

    $s->finish();
}

# buffers

{
    my $s = server(buffers => 'hymt_buffers 20k;');

    $s->start();
    ok($s->wait_ready('/status'), 'ready');

    my $r = $s->json('/translate', texts(1000));

    is($r->{status}, 503, 'buffers: a body over them gets 503');
    is($r->{json}{error}{code}, 'buffers_full', 'buffers: its code');
    is($s->json('/translate', $one)->{status}, 200,
       'buffers: a small one still fits');
    is_deeply($s->get('/status')->{json}{buffers}{used}, [0],
              'buffers: given back');

    # memory follows what has come, not what Content-Length promises

    my $sock = $s->open("POST /translate HTTP/1.1\r\nHost: l\r\n"
                        . "Content-Type: application/json\r\n"
                        . "Content-Length: 900000\r\n\r\n{");

    sleep(0.2);
    cmp_ok($s->get('/status')->{json}{buffers}{used}[0], '<', 4096,
           'buffers: a promise costs nothing');
    close $sock;

    $s->finish();
}

# slow bodies: they leave room for those that come as a whole, and end

{
    my $s = server(buffers => 'hymt_buffers 1m; client_body_timeout 6s;');
    my $used = sub { $s->get('/status')->{json}{buffers}{used}[0] };

    $s->start();
    ok($s->wait_ready('/status'), 'ready');

    my $body = '{"tgt_lang": "de", "text": "Open the file."' . ' ' x 119_000
               . '}';
    my $raw = $s->http_json('/translate', $body);
    my @slow = map { $s->open(substr($raw, 0, $_)) } (100_000) x 20,
                                                     (60_000) x 6;
    my (%refused, @more);

    # five of 100 KB, at most, fit into the half that is for them

    ok($s->wait_until(5, sub {
        for my $i (grep { !$refused{$_} } 0 .. $#slow) {
            my $data = '';

            $slow[$i]->blocking(0);
            sysread($slow[$i], $data, 4096);
            $refused{$i} = $1 if $data =~ /^HTTP\S+ (\d+)/;
        }

        return keys %refused >= 20;
    }), 'slow: those over half of the buffers are refused');
    is(join(' ', grep { $_ ne '503' } values %refused), '', 'slow: with 503');
    cmp_ok($used->(), '<=', 512 * 1024 + 26 * 8192, 'slow: a part is left');
    is($s->json('/translate', $one)->{status}, 200,
       'slow: others are served');

    # one that goes on before its time

    my ($i) = grep { !$refused{$_} } 0 .. $#slow;

    $s->write($slow[$i], substr($raw, 100_000, 1));

    # what is left of the half is taken, until there is no room for 12 KB more;
    # they are as large as one that comes as a whole: in one segment

    my $whole = $s->http_json('/translate', '{"tgt_lang": "de", "text":'
                              . ' "Open the file."' . ' ' x 20_000 . '}');
    my $full = '';

    while (@more < 40 && !$full) {
        my $before = $used->();

        push @more, $s->open(substr($whole, 0, -1));

        $s->wait_until(5, sub {
            sysread($more[-1], $full, 4096);
            return $full || $used->() > $before + 12 * 1024;
        });
    }

    like($full, qr/ 503 /, 'slow: the half is full');
    is($s->send($whole)->{status}, 200,
       'slow: a body that is there at once takes nothing of it');

    $s->write($slow[$i], substr($raw, 100_001));
    is($s->read_response($slow[$i])->{status}, 200,
       'slow: one that goes on is answered');
    ok($s->wait_until(30, sub { $used->() == 0 }),
       'slow: client_body_timeout ends the others');

    $s->finish();
}

# loading: asked before the model is there

{
    my ($now, $wait);

    for my $try (1 .. 10) {
        my $s = server();

        $s->start();
        $now = $s->json('/now', $one);
        $wait = $s->json('/translate', $one);
        $s->finish();

        last if $now->{status} == 503;
    }

    is($now->{status}, 503, 'loading: hymt_loading_wait 0 answers 503');
    is($now->{json}{error}{code}, 'loading', 'loading: its code');
    ok(defined Hymt::Http::header($now, 'Retry-After'),
       'loading: Retry-After');
    is($wait->{status}, 200, 'loading: without it the request waits');
}

# an engine that can't start: the model was there when NGINX started, and is
# gone when worker 0 has to start again

{
    my $s = server(path => '%%DIR%%/model');
    my $from = $s->{model};

    mkdir $s->dir() . '/model';
    copy("$from/$_", $s->dir() . "/model/$_")
        for qw(config.json generation_config.json hymt.json
               model.safetensors tokenizer.json);

    $s->start();
    ok($s->wait_ready('/status'), 'failed: ready at first');

    rename $s->dir() . '/model', $s->dir() . '/away';
    $s->allow_alerts(qr/exited on signal 9/);
    kill 'KILL', $s->workers();

    ok($s->wait_until(10, sub {
        ($s->get('/status')->{body} || '') =~ /"state": "failed"/
    }), 'failed: the status says so');

    my $model = $s->get('/status')->{json}{models}[0];

    like($model->{reason}, qr/no such file/i, 'failed: and why');

    my $r = $s->json('/translate', $one);

    is($r->{status}, 503, 'failed: 503');
    is($r->{json}{error}{code}, 'unavailable', 'failed: its code');
    unlike($r->{json}{error}{message}, qr/\//, 'failed: paths are not told');
    ok(defined Hymt::Http::header($r, 'Retry-After'), 'failed: Retry-After');
    is($s->get('/static')->{body}, "static\n", 'failed: others are served');

    $s->finish();
}

done_testing();
