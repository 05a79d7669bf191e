# Who waits, and for how long: bounds of the queue, classes, clients that ask for
# much beside those that ask for little.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Http;
use Hymt::Metrics;
use Hymt::Server;
use IO::Select;
use Test::More;
use Time::HiRes qw(sleep time);

# one that says it takes terms, context and style

my $model = Hymt::Server::own_model('{"family": "mt2", "greedy": true}');

my $CONF = <<"END" =~ s/&/\$/gr;
%%GLOBALS%%
worker_processes 3;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model one { path %%MODEL%%; threads 1; max_batch 1; context 1024;
                     ignore_eos on; coalesce off; }
    hymt_model few { path %%MODEL%%; threads 1; max_batch 4; context 1024;
                     queue_tokens 300; ignore_eos on; coalesce off; }
    hymt_model full { path $model; threads 1; max_batch 4; context 1024;
                      queue_tokens 300; ignore_eos on; coalesce off; }
    hymt_split none;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /one { hymt_translate one; }
        location = /batch { hymt_translate one; hymt_priority batch; }
        location = /fair { hymt_translate one; hymt_fair_key &http_x_key; }
        location = /two { hymt_translate one; hymt_concurrency 2; }
        location = /few { hymt_translate few; }
        location = /full { hymt_translate full; hymt_sessions zone=s:256k;
                           hymt_owner &http_x_owner; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus; }
    }
}
END

my $s = Hymt::Server->new(timeout => 60, conf => $CONF);

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $number = 0;

sub request {
    my ($uri, $tokens, @headers) = @_;

    return $s->http_json($uri, { text => 'Text number ' . $number++,
                                 src_lang => 'en', tgt_lang => 'de',
                                 max_tokens => $tokens }, @headers);
}

# opens them in order; name => socket

sub ask {
    my ($all, $name, @request) = @_;

    my $sock = $s->open(request(@request));

    $all->{$name} = $sock;
}

# waits until the engine has that many

sub wait_queue {
    my ($n) = @_;

    return $s->wait_until(20, sub {
        my ($m) = grep { $_->{name} eq 'one' }
                       @{$s->get('/status')->{json}{models}};

        return $m->{queue}{waiting} + $m->{queue}{running} >= $n;
    });
}

# how many of the others are answered before that one

sub before {
    my ($all, $name) = @_;

    my $others = IO::Select->new(map { $all->{$_} }
                                 grep { $_ ne $name } keys %$all);
    my $me = IO::Select->new($all->{$name});

    return $me->can_read(60) ? scalar($others->can_read(0)) : -1;
}

sub finish {
    my ($all) = @_;

    my $n = grep { $s->read_response($_)->{status} == 200 } values %$all;

    is($n, scalar(keys %$all), 'and all are answered');
}

# in order of arrival

{
    my %all;

    ask(\%all, $_, '/one', 60) for 1 .. 12;
    ok(wait_queue(6), 'arrival: twelve wait');
    ask(\%all, 'last', '/one', 60);
    cmp_ok(before(\%all, 'last'), '>=', 11, 'arrival: the last comes last');
    finish(\%all);
}

# classes

{
    my %all;

    ask(\%all, $_, '/batch', 60) for 1 .. 12;
    ok(wait_queue(6), 'batch: twelve wait');
    ask(\%all, 'live', '/one', 20);

    my $n = before(\%all, 'live');

    cmp_ok($n, '<=', 8, "batch: an interactive one goes before most ($n)");
    finish(\%all);
}

# shares

{
    my %all;

    ask(\%all, $_, '/fair', 60, 'X-Key: much') for 1 .. 12;
    ok(wait_queue(6), 'key: twelve of one client wait');
    ask(\%all, 'little', '/fair', 20, 'X-Key: little');

    my $n = before(\%all, 'little');

    cmp_ok($n, '<=', 9, "key: another client's goes before most ($n)");
    finish(\%all);
}

# requests of a location

{
    my %all;

    ask(\%all, $_, '/two', 800) for 1 .. 2;
    ok(wait_queue(2), 'concurrency: two');

    my $start = time();
    my $r = $s->send(request('/two', 10));
    my $ms = 1000 * (time() - $start);

    is($r->{status}, 429, 'concurrency: a third one is turned away');
    is($r->{json}{error}{code}, 'queue_full', 'concurrency: its code');
    like(Hymt::Http::header($r, 'Retry-After') || '', qr/^\d+$/,
         'concurrency: and says when to come again');
    diag(sprintf('turned away in %.1f ms', $ms));

    my %more;

    ask(\%more, 'other', '/one', 10);
    finish(\%more);
    finish(\%all);
    is($s->send(request('/two', 5))->{status}, 200,
       'concurrency: then there is room');
}

# tokens

{
    my $text = 'word ' x 120;         # 600 bytes, some 200 tokens
    my $use = sub {
        return $s->http_json('/few', { text => $_[0], src_lang => 'en',
                                       tgt_lang => 'de', max_tokens => 300 });
    };
    my %all = (first => $s->open($use->($text)));

    ok($s->wait_until(10, sub {
        my ($m) = grep { $_->{name} eq 'few' }
                       @{$s->get('/status')->{json}{models}};
        return $m->{queue}{running} > 0;
    }), 'tokens: one runs');

    my $r = $s->send($use->($text));

    is($r->{status}, 429, 'tokens: no room for another one');
    is($r->{json}{error}{code}, 'queue_full', 'tokens: its code');

    $r = $s->send($use->('word ' x 300));
    is($r->{status}, 413, 'tokens: one that never has room');
    is($r->{json}{error}{code}, 'too_large', 'tokens: its code');

    $all{small} = $s->open($use->('word ' x 20));
    finish(\%all);
    is($s->send($use->($text))->{status}, 200, 'tokens: then there is room');
}

# of all that is in their prompts

{
    my %use = (text => 'word', src_lang => 'en', tgt_lang => 'de',
               max_tokens => 4);

    my $status = sub {
        return $s->json('/full', { %use, @_ }, 'X-Owner: me')->{status};
    };

    my $long = 'about ' x 80;                        # some 160 tokens

    is($status->(), 200, 'prompts: a word');
    is($status->(context => $long), 200, 'prompts: with a context');
    is($status->(context => "$long$long"), 413, 'prompts: with too much of it');
    is($status->(context => $long, style => 'formal ' x 70), 413,
       'prompts: with a style');
    is($status->(context => $long, text => ['word', 'more']), 413,
       'prompts: with a context in each of two');
    is($status->(context => $long, terms => { word => 'Wort ' x 90 }), 413,
       'prompts: with a term');
    is($status->(context => $long, terms => { work => 'Wort ' x 90 }), 200,
       'prompts: with a term that is not in it');
    is($status->(text => 'word ' x 90, session_id => 'a'), 200,
       'prompts: a session begins');
    is($status->(text => 'word ' x 90, session_id => 'a'), 413,
       'prompts: what it remembers counts');
    is($status->(text => 'word ' x 90, session_id => 'b'), 200,
       'prompts: another session');
    is($status->(text => 'Go on. ' x 30), 200, 'prompts: a text as a whole');
    is($status->(text => 'Go on. ' x 30, split => 'sentence'), 413,
       'prompts: by its sentences, each with the instruction');
}

my $m = Hymt::Metrics->new($s->get('/metrics')->{body});

is($m->value('hymt_rejections_total', reason => 'queue_full'), 2,
   'both are counted');

# a worker that is killed leaves nothing in the figures

{
    $s->allow_alerts(qr/exited on signal 9/);

    my %all;

    ask(\%all, $_, '/two', 400) for 1 .. 2;
    ok(wait_queue(2), 'killed: two run');
    kill 'KILL', $s->workers();
    close $_ for values %all;

    # as soon as all of them are there again

    ok($s->wait_until(20, sub {
        my @r = $s->send_many([map { request('/two', 5) } 1, 2]);

        return join(' ', map { $_->{status} } @r) eq '200 200';
    }), 'killed: there is room');
}

$s->finish();

# results of many wait in the worker, and one of another model's engine

{
    $s = Hymt::Server->new(timeout => 60, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 256; }
http {
    %%GLOBALS_HTTP%%
    hymt_model many { path %%MODEL%%; threads 1; max_batch 64; context 512;
                      queue 128; }
    hymt_model one { path %%MODEL%%; threads 1; max_batch 1; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /many { hymt_translate many; }
        location = /one { hymt_translate one; }
        location = /status { hymt_status; }
    }
}
END

    $s->start();
    ok($s->wait_until(30, sub {
        2 == grep { $_->{state} eq 'ready' }
                  @{$s->get('/status')->{json}{models}};
    }), 'models: ready');

    my $host = $s->host();
    my ($worker) = grep { $_ != $host } $s->workers();

    # the engines get them at once, and the worker their results; connections
    # are kept, as those that are not linger, and the log waits for that

    $s->signal('STOP', $host);

    my @socks = map {
        $s->open(request($_, 2) =~ s/Connection: close\r\n//r)
    } '/one', ('/many') x 100;

    ok($s->wait_until(20, sub {
        my $n = 0;

        $n += $_->{queue}{in_flight}
            for @{$s->get('/status')->{json}{models}};

        return $n == 101;
    }), 'models: all are in flight');

    $s->signal('STOP', $worker);
    $s->signal('CONT', $host);

    # until the engines have nothing more to do

    my $ticks = -1;

    $s->wait_until(30, sub {
        my @stat = split ' ', Hymt::Process::slurp("/proc/$host/stat");
        my $now = $stat[13] + $stat[14];
        my $rest = $now == $ticks;

        $ticks = $now;
        sleep(1) if !$rest;

        return $rest;
    });

    $s->signal('CONT', $worker);

    my @order;

    ok($s->wait_until(20, sub {
        @order = $s->access_log() =~ m{"POST /(many|one) HTTP/1.1" 200 }g;
        return @order == 101;
    }), 'models: all are answered');

    my ($at) = grep { $order[$_] eq 'one' } 0 .. $#order;

    cmp_ok($at, '<', 50, 'models: it does not wait for all of the others');

    $s->finish();
}

done_testing();
