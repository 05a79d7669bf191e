# Clients that leave: before, during and after; everything is freed and the work
# stops at the next step.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use IO::Socket;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

# under valgrind a text takes seconds

my $slow = $ENV{TEST_NGINX_USE_VALGRIND};
my $N = $slow ? 30 : $ENV{HYMT_LONG} ? 10000 : 200;

my $s = Hymt::Server->new(timeout => 60, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 1024; }
    hymt_model endless { path %%MODEL%%; threads 1; max_batch 1; context 8192;
                         ignore_eos on; coalesce off; prefix_cache off; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /stubborn {
            hymt_translate demo;
            hymt_ignore_client_abort on;
            hymt_timeout 20m;
        }
        location = /endless { hymt_translate endless; hymt_split none; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

sub idle {
    my ($limit) = @_;

    return $s->wait_until($limit, sub {
        my $j = $s->get('/status')->{json};
        my $m = $j->{models}[0];

        return $m->{queue}{in_flight} == 0 && $m->{queue}{running} == 0
               && $m->{queue}{waiting} == 0 && $m->{kv}{blocks_used} == 0
               && !grep { $_ } @{$j->{buffers}{used}};
    });
}

my $long = $s->http_json('/translate', {
    text => [map { "Open the file number $_ and close it again." } 1 .. 900],
    tgt_lang => 'de',
});

# before: in the middle of the head, of the body, right after it

for my $part (20, length($long) - 5000, length($long)) {
    close $s->open(substr($long, 0, $part)) for 1 .. 5;
}

ok(idle(10), 'before: all is given back');

# during

my @socks = map { $s->open($long) } 1 .. 4;

ok($s->wait_until(5, sub {
    $s->get('/status')->{json}{models}[0]{queue}{running} > 0
}), 'during: work is running');

ok($s->wait_until(5, sub {
    $s->get('/status')->{json}{buffers}{used}[1] > 4 * 900 * 1024
}), 'during: what each of many texts takes is counted');

my $steps = $s->get('/status')->{json}{models}[0]{work};

close $_ for @socks;

ok(idle($slow ? 10 : 2), 'during: all is given back within two seconds, not'
                         . ' after thousands of texts');

my $status = $s->get('/status')->{json};

cmp_ok($status->{counters}{canceled}, '>=', 4, 'during: counted as canceled');

my $was = $status->{models}[0]{work}{steps};

sleep(0.3);
is($s->get('/status')->{json}{models}[0]{work}{steps}, $was,
   'during: the engine rests');

like($s->access_log(), qr/ 499 /, 'during: the access log says 499');

# in each phase: the engine's worker is stopped, the client leaves, and the work
# that was being done when it goes on is the last

sub endless {
    my ($j) = grep { $_->{name} eq 'endless' }
                   @{$s->get('/status')->{json}{models}};

    return { %{$j->{queue}}, %{$j->{work}} };
}

sub ask {
    my ($text, %more) = @_;

    return $s->http_json('/endless', { text => $text, src_lang => 'en',
                                       tgt_lang => 'de', max_tokens => 900,
                                       %more });
}

# Closes a connection while the engine's worker is stopped; the figures then,
# and when nothing of it is left but so many others.
sub leaves {
    my ($sock, $others, $when) = @_;

    my $host = $s->host();
    my $canceled = $s->get('/status')->{json}{counters}{canceled};

    if ($when) {
        $s->signal('STOP', $host);

        if (!$when->(endless())) {
            $s->signal('CONT', $host);
            return;
        }
    }

    my $then = endless();

    close $sock;

    my $seen = $s->wait_until(5, sub {
        $s->get('/status')->{json}{counters}{canceled} > $canceled
    });

    $s->signal('CONT', $host);

    $s->wait_until(10, sub {
        my $q = endless();
        return $q->{in_flight} == $others
               && $q->{running} + $q->{waiting} == $others;
    });

    return $seen ? ($then, endless()) : ();
}

# on a card it would be over before it is seen; under valgrind a step takes longer
# than what waits for it

if (!$ENV{HYMT_TEST_BACKEND} && !$slow) {
    for my $case (['decoding'], ['streaming', stream => JSON::PP::true]) {
        my ($phase, %more) = @$case;
        my $began = endless()->{output_tokens};
        my $sock = $s->open(ask('Open the file.', %more));

        ok($s->wait_until(20, sub {
            endless()->{output_tokens} > $began + 5
        }), "$phase: it is");

        my ($then, $now) = leaves($sock, 0, sub { $_[0]->{running} });

        # figures are told after a step: one may not have been, one was running

        cmp_ok($now->{steps} - $then->{steps}, '<=', 3,
               "$phase: one step more at most");
    }

    {
        my $began = endless()->{output_tokens};
        my $running = $s->open(ask('Open the file.'));

        ok($s->wait_until(20, sub { endless()->{output_tokens} > $began }),
           'queued: another one runs, its prompt is counted');

        my $prompts = endless()->{prompt_tokens};
        my $sock = $s->open(ask('Close the file.'));

        ok($s->wait_until(20, sub { endless()->{waiting} == 1 }),
           'queued: it is');

        my ($then, $now) = leaves($sock, 1, sub { $_[0]->{waiting} });

        is($now->{prompt_tokens}, $prompts,
           'queued: nothing of it is computed');
        leaves($running, 0);
    }

    # prompts are computed in pieces

    {
        my $text = 'Open the next file and read all of it. ' x 500;
        my $before = endless()->{prompt_tokens};

        $s->send(ask($text, max_tokens => 1));

        my $whole = endless()->{prompt_tokens} - $before;
        my ($then, $now);

        for my $try (1 .. 50) {
            $before = endless()->{prompt_tokens};

            my $sock = $s->open(ask($text, max_tokens => 100));

            $s->wait_until(10, sub { endless()->{running} });
            ($then, $now) = leaves($sock, 0, sub {
                $_[0]->{running}
                && $_[0]->{prompt_tokens} - $before < $whole / 2
            });

            last if $now;

            leaves($sock, 0);
        }

        ok($now, 'prefilling: it is');
        cmp_ok($now->{prompt_tokens} - $before, '<', $whole,
               "prefilling: not all of its $whole tokens are computed");
    }
}

# large bodies at the same time, each parsed on a thread of its own

sub memory {
    my $most = 0;

    for my $pid ($s->workers()) {
        my ($kb) = Hymt::Process::slurp("/proc/$pid/status")
                   =~ /^VmRSS:\s+(\d+)/m;

        $most = $kb if $kb && $kb > $most;
    }

    return $most;
}

if (!$slow && !$ENV{HYMT_TEST_ASAN}) {
    my $small = memory();

    for (1 .. 6) {
        my @many = map { $s->open($long) } 1 .. 48;

        sleep(0.1);
        close $_ for @many;
        idle(10);
    }

    my $kb = memory();

    note("a worker has $kb KB, $small before");
    cmp_ok($kb - $small, '<', 200_000,
           'many large ones: no memory of them is kept');
}

# half-closed: taken for gone, unless told otherwise

my $one = { text => 'Open the file.', tgt_lang => 'de' };

my $half = $s->open($s->http_json('/stubborn', {
    text => [map { "Open the file number $_." } 1 .. ($slow ? 2 : 40)],
    tgt_lang => 'de' }));

shutdown($half, 1);
is($s->read_response($half)->{status}, 200,
   'hymt_ignore_client_abort: half-closed and still answered');

# ignoring aborts, the work goes on to its end

$was = $s->get('/status')->{json}{counters}{answered};
my $gone = $s->open($s->http_json('/stubborn', {
    text => [map { "Close the file number $_." } 1 .. ($slow ? 2 : 60)],
    tgt_lang => 'de' }));
sleep(0.05);
close $gone;

ok($s->wait_until(20, sub {
    $s->get('/status')->{json}{counters}{answered} == $was + 1
}), 'hymt_ignore_client_abort: worked to its end for nobody');

# many, at random times

srand(7);

my $stream = $s->http_json('/translate', {
    text => 'Open the file and close it again. Then open the next one.',
    tgt_lang => 'de', stream => JSON::PP::true,
});

for my $i (1 .. $N) {
    my $sock = $s->open($i % 3 == 0 ? $long : $i % 3 == 1 ? $stream
                        : $s->http_json('/translate', $one));

    sleep(rand($i % 5 ? 0.01 : 0.1));
    close $sock;
}

ok(idle(10), "$N aborts at random times: all is given back");

is($s->json('/translate', $one)->{status}, 200, 'and it still translates');

# after: keep-alive goes on

my $keep = $s->open(join '', map { $_ =~ s/Connection: close\r\n//r }
                             $s->http_json('/translate', $one));
sleep(1);
$s->write($keep, $s->http_json('/translate', $one));

my $both = $s->read_response($keep);
is($both->{status}, 200, 'after: a second request on the same connection');

$s->finish();
done_testing();
