# hymt_cache: a result that was had before costs no engine; what may be kept and
# for whom; documents by their sentences; every API; without an engine, too.

use strict;
use warnings;

use lib 't/lib';

use File::Copy qw(copy);
use Hymt::Http;
use Hymt::Metrics;
use Hymt::Server;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 3;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    log_format cache '$arg_n $hymt_cache $hymt_finish';
    hymt_cache zone=t:8m @CACHE@;
    hymt_cache_header on;
    hymt_loading_wait 5s;
    hymt_model demo { path %%DIR%%/model; threads 1; max_batch 8; context 512; }
    hymt_model small { path %%DIR%%/model; threads 1; max_batch 2; context 512;
                       queue 1; }
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/logs/cache.log cache;
        location = /translate { hymt_translate demo; }
        location = /small { hymt_translate small; }
        location = /off { hymt_translate demo; hymt_cache off; }
        location = /quiet { hymt_translate demo; hymt_cache_header off;
                            add_header X-Own "$hymt_cache"; }
        location = /scope { hymt_translate demo;
                            hymt_cache_scope $http_x_scope; }
        location = /owner { hymt_translate demo; hymt_owner $http_x_owner; }
        location = /open { hymt_translate demo; hymt_owner $http_x_owner;
                           hymt_cache_scope ""; }
        location = /seeded { hymt_translate demo;
                             hymt_sampling greedy temperature=0.8 seed=5; }
        location = /runs { hymt_translate demo; hymt_tags runs; }
        location /libre/ { hymt_translate demo api=libretranslate; }
        location /deepl/ { hymt_translate demo api=deepl; }
        location /google/ { hymt_translate demo api=google; }
        location /v1/ { hymt_translate demo api=openai; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus; }
        location = /pid { return 200 $pid; }
    }
}
END

my $s = Hymt::Server->new(conf => $CONF =~ s/\@CACHE\@//r, timeout => 60);
my %USE = (src_lang => 'en', tgt_lang => 'de');

mkdir $s->dir() . '/model';
copy("$s->{model}/$_", $s->dir() . "/model/$_")
    for qw(config.json generation_config.json hymt.json model.safetensors
           tokenizer.json);

$s->start();

sub status { return $s->get('/status')->{json} }

# Of both models.
sub figures {
    my %sum;

    for my $m (@{status()->{models}}) {
        $sum{$_} += $m->{translation_cache}{$_}
            for qw(hits misses stores evictions);
        $sum{steps} += $m->{work}{steps};
    }

    return \%sum;
}

# Steps once they are counted: a step is, a moment after its answer is out.
sub steps {
    my ($n, $was) = (figures()->{steps}, -1);

    while ($n != $was) {
        sleep(0.1);
        ($n, $was) = (figures()->{steps}, $n);
    }

    return $n;
}

sub since {
    my ($before) = @_;

    my $now = figures();

    return join ' ', map { $now->{$_} - $before->{$_} } qw(hits misses stores);
}

sub ready {
    return $s->wait_until(30, sub {
        my $j = status() || { models => [] };
        return 2 == grep { $_->{state} eq 'ready' } @{$j->{models}};
    });
}

sub cached { return Hymt::Http::header($_[0], 'X-Cache-Status') // '-' }

# An answer without what it says of its time.
sub bare {
    my ($r) = @_;

    my $body = $r->{body};

    $body =~ s/"(?:timings|\w*_ms|created|id)":(?:\{.*?\}|"[^"]*"|[\d.]+)//g;

    return $body;
}

ok(ready(), 'ready');

# the same again

{
    my $before = figures();
    my $one = $s->json('/translate', { %USE, text => 'Open the file.' });
    my $steps = steps();
    my $two = $s->json('/translate', { %USE, text => 'Open the file.' });

    is(cached($one), 'MISS', 'again: the first one is none');
    is(cached($two), 'HIT', 'again: the second one is');
    is($two->{status}, 200, 'again: 200');
    is(bare($two), bare($one), 'again: the same answer, tokens included');
    is(since($before), '1 1 1', 'again: hits, misses, stores');
    is(steps(), $steps, 'again: the engine did nothing');

    my @many = $s->send_many([map {
        $s->http_json('/translate', { %USE, text => 'Open the file.' })
    } 1 .. 40]);

    is(scalar(grep { cached($_) eq 'HIT' && bare($_) eq bare($one) } @many),
       40, 'again: by every worker');
}

# where it is off, or does not tell

is(cached($s->json('/off', { %USE, text => 'Open the file.' })), '-',
   'off: nothing');

{
    my $r = $s->json('/quiet', { %USE, text => 'Open the file.' });

    is(cached($r), '-', 'hymt_cache_header off');
    is(Hymt::Http::header($r, 'X-Own'), 'HIT', '$hymt_cache in a header');
}

# what else is asked is something else

for my $case (
    ['another text', '/translate', { text => 'Open the file' }],
    ['another target', '/translate', { tgt_lang => 'fr' }],
    ['no source', '/translate', { src_lang => undef }],
    ['a cap', '/translate', { max_tokens => 200 }],
    ['a penalty', '/translate', { repetition_penalty => 1.1 }],
    ['a seed', '/translate', { temperature => 0.9, seed => 1 }],
    ['another seed', '/translate', { temperature => 0.9, seed => 2 }],
    ['a seed of the location', '/seeded', {}],
) {
    my ($name, $uri, $more) = @$case;
    my %ask = (%USE, text => 'Open the file.', %$more);

    delete $ask{src_lang} if !defined $ask{src_lang};

    my @r = map { $s->json($uri, \%ask) } 1 .. 2;

    is(join(' ', map { "$_->{status} " . cached($_) } @r), '200 MISS 200 HIT',
       "$name: of its own");
    is(bare($r[1]), bare($r[0]), "$name: the same");
}

# a seed that nobody named

is(join(' ', map { cached($s->json('/translate', { %USE,
                               text => 'Open the file.', temperature => 1 })) }
             1 .. 2), 'BYPASS BYPASS', 'at random: never');

# what was cut

{
    my $before = figures();
    my @r = map { $s->json('/translate', { %USE, max_tokens => 2,
                      text => 'Close the window and open it again.' }) } 1 .. 2;

    is($r[0]{json}{finish_reason}, 'length', 'cut: it is')
        or diag($r[0]{body});
    is(cached($r[1]), 'MISS', 'cut: never');
    is(since($before), '0 2 0', 'cut: not kept');
}

# Cache-Control

{
    my %ask = (%USE, text => 'Read the line.');

    is(cached($s->json('/translate', \%ask, 'Cache-Control: no-store')),
       'BYPASS', 'no-store: not looked at');
    is(cached($s->json('/translate', \%ask)), 'MISS', 'no-store: not kept');
    is(cached($s->json('/translate', \%ask)), 'HIT', 'then it is');
    is(cached($s->json('/translate', \%ask, 'cache-control: NO-STORE')),
       'BYPASS', 'no-store: case does not matter');

    my $before = figures();

    is(cached($s->json('/translate', \%ask,
                       'Cache-Control: max-age=0, no-cache')), 'BYPASS',
       'no-cache: made anew');
    is(since($before), '0 0 1', 'no-cache: and kept');
    is(cached($s->json('/translate', \%ask, 'Cache-Control: no-cachet, x')),
       'HIT', 'another word is none of them');
    is(cached($s->json('/translate', \%ask, 'Cache-Control: max-age=0',
                       'Cache-Control:  no-cache ')), 'BYPASS',
       'no-cache: in any line');
}

# for whom

{
    my %ask = (%USE, text => 'Save the page.');

    sub by {
        my ($uri, $key, @who) = @_;

        return join ' ', map {
            cached($s->json($uri, \%ask, "$key: $_"))
        } @who;
    }

    is(by('/scope', 'X-Scope', qw(a a b b a)), 'MISS HIT MISS HIT HIT',
       'scope: each has his own');
    is(by('/owner', 'X-Owner', qw(a a c c)), 'MISS HIT MISS HIT',
       'scope: the owner where nothing else is said; not a scope of his name');
    is(by('/open', 'X-Owner', qw(a c d)), 'MISS HIT HIT',
       'scope: one for all where it is empty');
    is(cached($s->json('/translate', \%ask)), 'HIT',
       'scope: as where there is none');
}

# documents, by sentences

{
    my @text = map { "Open the file number $_ and read it." } 1 .. 40;

    my $ask = sub {
        my ($uri, @sentences) = @_;

        return $s->json($uri, { %USE, split => 'sentence',
                                text => join(' ', @sentences) });
    };

    $ask->('/translate', @text);
    $text[20] = 'Close the window.';

    my $before = figures();
    my $r = $ask->('/translate', @text);

    is(cached($r), 'MISS', 'document: one sentence is new');
    is(since($before), '39 1 1', 'document: it costs one sentence');
    is(bare($r), bare($ask->('/off', @text)), 'document: as without a cache');

    $before = figures();
    $r = $ask->('/translate', reverse @text);

    is(cached($r), 'HIT', 'document: in another order all are there');
    is(since($before), '40 0 0', 'document: each of them');

    $before = figures();
    $r = $s->json('/translate', { %USE, text => [@text, @text] });
    is(cached($r), 'HIT', 'an array: all are there');
    is(since($before), '80 0 0', 'an array: each of them');

    # large enough for more than a turn of the event loop, and for threads

    my @long = map { "Open the file number $_ and read it." } 1 .. 400;
    my $first = $ask->('/translate', @long);
    my $second = $ask->('/translate', @long);

    is(cached($second), 'HIT', 'a large document');
    is(bare($second), bare($first), 'a large document: the same');

    my $html = '<p>Open the <b>file</b> and read it.</p><ul><li>Save the page.'
               . '</li><li>Close the <i>window</i> now.</li></ul>';

    for my $uri ('/translate', '/runs') {
        my @r = map { $s->json($uri, { %USE, format => 'html', text => $html })
                    } 1 .. 2;

        is(cached($r[1]), 'HIT', "HTML at $uri");
        is(bare($r[1]), bare($r[0]), "HTML at $uri: the same");
    }
}

# streams

{
    my $text = 'Go to the park. Close the window. Open the last file.';

    for my $split (qw(none sentence)) {
        my @r = map { $s->json('/translate', { %USE, text => $text,
                                               split => $split,
                                               stream => JSON::PP::true }) }
                1 .. 2;
        my @text = map { join '', $_->{body} =~ /\{"delta":"(.*?)"\}/g } @r;

        is(join(' ', map { cached($_) } @r), 'MISS HIT', "stream, $split");
        ok(length $text[0], "stream, $split: $text[0]");
        is($text[1], $text[0], "stream, $split: the same text");
        like($r[1]{body}, qr/"done":true/, "stream, $split: to its end");
    }
}

# every API

for my $case (
    ['libretranslate', '/libre/translate', { q => 'Good morning.',
     source => 'en', target => 'fr', alternatives => 2 }],
    ['deepl', '/deepl/v2/translate', { text => ['Good morning.'],
     target_lang => 'FR' }],
    ['google', '/google/translate/v2', { q => ['Good morning.'],
     target => 'fr', format => 'text' }],
    ['openai', '/v1/chat/completions', { model => 'demo', temperature => 0,
     messages => [{ role => 'user', content => 'Good morning.' }] }],
) {
    my ($api, $uri, $ask) = @$case;
    my @r = map { $s->json($uri, $ask) } 1 .. 3;

    is($r[0]{status}, 200, "$api: 200") or diag($r[0]{body});

    # a demo model's chat may not end by itself

    my $cut = ($r[0]{json}{choices}[0]{finish_reason} || '') eq 'length'
        if $api eq 'openai';

    like(cached($r[2]), $cut ? qr/^MISS$/ : qr/^HIT$/, "$api: again");
    is(bare($r[2]), bare($r[0]), "$api: the same");
}

# the access log

{
    $s->json('/translate?n=hit', { %USE, text => 'Open the file.' });
    $s->json('/translate?n=emoji', { %USE, text => '!!!' });
    $s->json('/translate?n=bad', '{');

    my $log = sub {
        return Hymt::Process::slurp($s->dir() . '/logs/cache.log');
    };

    $s->wait_until(5, sub { $log->() =~ /^bad/m });

    like($log->(), qr/^hit HIT stop$/m, '$hymt_cache: HIT');
    like($log->(), qr/^emoji - stop$/m, '$hymt_cache: nothing to translate');
    like($log->(), qr/^bad - invalid_json$/m, '$hymt_cache: nothing asked');
}

# metrics

{
    my $m = Hymt::Metrics->new($s->get('/metrics')->{body});
    my $f = figures();

    is(join(' ', $m->faults()), '', 'metrics: right lines');
    is($m->value("hymt_translation_cache_${_}_total"), $f->{$_},
       "metrics: $_ are $f->{$_}") for qw(hits misses stores evictions);
}

# a full queue

{
    my $long = $s->http_json('/small', { %USE, text => [
        map { "Close the door number $_ and the window of room $_." } 1 .. 60
    ] });

    $s->json('/small', { %USE, text => 'Open the file.' });

    my $sock = $s->open($long);
    my ($hits, $full) = (0, 0);

    $s->wait_until(10, sub {
        my ($m) = grep { $_->{name} eq 'small' } @{status()->{models}};
        return $m->{queue}{in_flight} >= 1;
    });

    my $hit = $s->json('/small', { %USE, text => 'Open the file.' });
    my $miss = $s->json('/small', { %USE, text => 'Something else here.' });

    is("$hit->{status} " . cached($hit), '200 HIT',
       'a full queue: what is there is answered');
    is($miss->{status}, 429, 'a full queue: what is not, is not');
    close $sock;
}

# reload, crashes

{
    my $want = bare($s->json('/translate', { %USE, text => 'Open the file.' }));

    # both generations look at the same table, the new one at once

    $s->reload();

    my $r = $s->json('/translate', { %USE, text => 'Open the file.' });

    is("$r->{status} " . cached($r), '200 HIT', 'reload: it is there');
    is(bare($r), $want, 'reload: the same');
    ok(ready(), 'reload: ready');

    # workers that die, busy with it

    $s->allow_alerts(qr/exited on signal 9/);

    my $wrong = 0;

    for my $round (1 .. 8) {
        my $host = status()->{engine_worker}{pid};
        my @others = grep { $_ != $host } $s->workers();

        my @socks = map {
            $s->open($s->http_json('/translate', { %USE, text => [
                map { 'Open the file number ' . int(rand 60) . ' and read it.' }
                    1 .. 20 ] }))
        } 1 .. 20;

        sleep(rand 0.05);
        $s->signal('KILL', $others[rand @others]);

        for my $r (map { $s->read_response($_) } @socks) {
            $wrong++ if $r->{status} && $r->{status} != 200;
        }

        close $_ for @socks;

        $s->wait_until(10, sub { $s->workers() == 3 });
    }

    is($wrong, 0, 'killed workers: nobody else is harmed');

    my @text = map { "Open the file number $_ and read it." } 0 .. 59;

    is(bare($s->json('/translate', { %USE, text => \@text })),
       bare($s->json('/off', { %USE, text => \@text })),
       'killed workers: what is there is right');
}

# without an engine

{
    rename $s->dir() . '/model', $s->dir() . '/away';
    $s->allow_alerts(qr/exited on signal 9/);
    $s->signal('KILL', status()->{engine_worker}{pid});

    ok($s->wait_until(20, sub {
        return 2 == grep { $_->{state} eq 'failed' } @{status()->{models}};
    }), 'no engine: it has failed');

    my $hit = $s->json('/translate', { %USE, text => 'Open the file.' });
    my $miss = $s->json('/translate', { %USE, text => 'Nobody knows.' });
    my $off = $s->json('/off', { %USE, text => 'Open the file.' });

    is("$hit->{status} " . cached($hit), '200 HIT',
       'no engine: what is there is answered');
    is($miss->{status}, 503, 'no engine: what is not, is not');
    is($off->{status}, 503, 'no engine: nor without a cache');

    rename $s->dir() . '/away', $s->dir() . '/model';
}

# those who wait in line for the model to load: what one of them finds in the
# cache leaves its place in the engine to the next

{
    my $line = Hymt::Server->new(timeout => 20, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_cache zone=t:1m;
    hymt_timeout 10s;
    hymt_model demo { path %%MODEL%%; threads 1; queue 1; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

    my $look = sub { $line->get('/status')->{json} };
    my $host;

    # worker 0 is stopped before its engine has loaded

    for my $try (1 .. 20) {
        $line->start();
        $line->wait_until(10, sub {
            $host = $look->()->{engine_worker}{pid};
        });
        $line->signal('STOP', $host);

        last if $look->()->{models}[0]{state} eq 'loading';

        $line->signal('CONT', $host);
        $line->stop();
    }

    my @socks = map {
        $line->open($line->http_json('/translate', { %USE,
                                                     text => 'Open the file.' }))
    } 1 .. 6;

    ok($line->wait_until(10, sub { $look->()->{counters}{texts} == 6 }),
       'in line: six wait for the model');
    $line->signal('CONT', $host);

    is(join(' ', map { $line->read_response($_)->{status} } @socks),
       join(' ', (200) x 6), 'in line: all are answered');

    $line->finish();
}

# other files at the same place are another model

{
    my $time = time() - 1000;

    utime $time, $time, $s->dir() . '/model/model.safetensors';
    $s->reload();
    ok(ready(), 'another model: ready');

    is(cached($s->json('/translate', { %USE, text => 'Open the file.' })),
       'MISS', 'another model: nothing of the old one');
    is(cached($s->json('/translate', { %USE, text => 'Open the file.' })),
       'HIT', 'another model: but of its own');
}

# an old one, and a reload that asks for too much

{
    $s->write_conf($CONF =~ s/\@CACHE\@/ttl=1s/r);
    $s->reload();
    ok(ready(), 'ttl: ready');

    $s->json('/translate', { %USE, text => 'Wait for me.' });
    sleep(3);
    is(cached($s->json('/translate', { %USE, text => 'Wait for me.' })),
       'MISS', 'ttl: too old');

    my $from = $s->log_size();

    $s->allow_alerts(qr/"size" of the hymt_cache zone/);
    $s->write_conf($CONF =~ s/\@CACHE\@/size=1k/r);
    $s->signal('HUP');
    ok($s->wait_log(qr/"size" of the hymt_cache zone "t" can't change/, 10,
                    $from), 'size: not with a reload');
}

$s->finish();

# configurations

for my $case (
    ['hymt_cache zone=t;', qr/invalid parameter "zone=t" of "hymt_cache"/],
    ['hymt_cache ttl=1s;', qr/"hymt_cache" directive needs zone=NAME:SIZE/],
    ['hymt_cache zone=t:1k;', qr/zone "zone=t:1k" is too small/],
    ['hymt_cache zone=t:64k size=100k;', qr/zone "t" is too small/],
    ['hymt_cache zone=t:1m ttl=0;', qr/invalid parameter "ttl=0"/],
    ['hymt_cache zone=t:1m size=1g;',
     qr/"size=1g" of "hymt_cache": it must be from 64 to 196608 bytes/],
    ['hymt_cache zone=t:1m size=63;', qr/"size=63" .*from 64 to 196608 bytes/],
    ['hymt_cache zone=t:1m zone=u:1m;',
     qr/duplicate parameter "zone=u:1m" of "hymt_cache"/],
    ['hymt_cache zone=t:1m size=1k size=2k;', qr/duplicate parameter "size=2k"/],
    ['hymt_cache zone=t:1m ttl=1m ttl=1h;', qr/duplicate parameter "ttl=1h"/],
    ['hymt_sessions zone=t:1m zone=t:1m;',
     qr/duplicate parameter "zone=t:1m" of "hymt_sessions"/],
    ['hymt_sessions zone=t:1m bytes=1m;',
     qr/"bytes=1m" of "hymt_sessions": it must be from 64 to 65536 bytes/],
    ['hymt_cache zone=t:1m bytes=1k;', qr/invalid parameter "bytes=1k"/],
    ['hymt_cache zone=t:1m; hymt_cache off;', qr/is duplicate/],
    ['hymt_cache zone=t:1m size=100 ttl=10m; hymt_cache_header on;', undef],
    ['hymt_cache off; hymt_cache_scope "$host/$uri";', undef],
) {
    my ($lines, $message) = @$case;

    my $t = Hymt::Server->new(conf => '');
    $t->allow_alerts($message || qr/^$/);

    my ($code, $said) = $t->test_conf(<<"END");
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; }
    $lines
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
    }
}
END

    is($code ? 'refused' : 'taken', $message ? 'refused' : 'taken', $lines)
        or diag($said);
    like($said, $message, $lines) if $message;
}

done_testing();
