# One engine for all workers: 1, 2 and 4 of them, and master_process off; the
# cache manager and loader start none.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $CONF = <<'END';
%%GLOBALS%%
@PROCESSES@
events { worker_connections 256; }
http {
    %%GLOBALS_HTTP%%
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /who { return 200 "$pid"; }
    }
}
END

my @CASES = (
    [1, 'worker_processes 1;'],
    [2, 'worker_processes 2;'],
    [4, 'worker_processes 4;'],
    [1, 'worker_processes 1; master_process off;'],
);

my $want;

for my $case (@CASES) {
    my ($lanes, $processes) = @$case;

    my $s = Hymt::Server->new(conf => $CONF =~ s/\@PROCESSES\@/$processes/r);

    $s->start();
    ok($s->wait_ready('/status'), "$processes ready");

    my $status = $s->get('/status')->{json};

    is($status->{workers}, $lanes, "$processes as many lanes");
    is($status->{models}[0]{epoch}, 1, "$processes one engine was started");

    my @requests = map {
        $s->http_json('/translate', { text => 'Open the file.',
                                      tgt_lang => 'de' })
    } 1 .. 40;

    my @responses = $s->send_many(\@requests);

    is(scalar(grep { $_->{status} == 200 } @responses), 40,
       "$processes 40 requests at once are answered");

    my %texts = map { $_->{json}{translation} => 1 } @responses;

    is(scalar(keys %texts), 1, "$processes with the same text");

    my ($text) = keys %texts;

    $want = $text unless defined $want;
    is($text, $want, "$processes which is that of one worker");

    if ($processes !~ /off/) {
        my @hosts = grep { $s->threads($_->{pid}, qr/^hymt-/) }
                         $s->children();

        is(scalar(@hosts), 1, "$processes one process has engine threads");
        like($hosts[0]{title}, qr/worker process/,
             "$processes and it is a worker");
    }

    # with two steps in flight blocks come back a step after the answer, and
    # clients have theirs before workers are done with it

    my $after;

    $s->wait_until(5, sub {
        $after = $s->get('/status')->{json};
        return $after->{models}[0]{kv}{blocks_used} == 0
               && !grep { $_ } @{$after->{buffers}{used}};
    });

    is($after->{models}[0]{queue}{in_flight}, 0, "$processes none in flight");
    is($after->{models}[0]{kv}{blocks_used}, 0, "$processes no block in use");
    is($after->{counters}{answered}, 40, "$processes all are counted");
    is_deeply($after->{buffers}{used}, [(0) x $lanes],
              "$processes all buffers given back");

    $s->finish();
}

done_testing();
