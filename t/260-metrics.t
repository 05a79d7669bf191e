# hymt_status prometheus: its format, to the letter; figures that are what was
# sent, by two workers and over a reload; ready, live; the watchdog.

use strict;
use warnings;

use lib 't/lib';

use File::Copy qw(copy);
use Hymt::Hang;
use Hymt::Metrics;
use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep time);

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    log_format pid '$pid $uri';
    hymt_model 'a"b\\c' { path %%MODEL%%; threads 1; max_batch 8;
                          coalesce off; prefix_cache off;
                          context 512; }
    hymt_model small { path %%MODEL%%; threads 1; max_batch 2; context 512;
                       queue 2; }
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        access_log %%DIR%%/logs/pid.log pid;
        location = /translate { hymt_translate 'a"b\\c'; }
        location = /hurry { hymt_translate 'a"b\\c'; hymt_timeout 20ms; }
        location = /small { hymt_translate small; }
        location /libre/ { hymt_translate 'a"b\\c' api=libretranslate; }
        location /v1/ { hymt_translate 'a"b\\c' api=openai; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus; }
        location = /vllm { hymt_status prometheus vllm; }
    }
}
END

my $MODEL = 'a"b\\c';

my %USE = (text => 'Open the file.', src_lang => 'en', tgt_lang => 'de');

sub metrics {
    my ($s, $uri) = @_;

    return Hymt::Metrics->new($s->get($uri || '/metrics')->{body});
}

sub many {
    my ($n) = @_;

    return { tgt_lang => 'de', src_lang => 'en',
             text => [map { "Open the file number $_ and close it." } 1 .. $n] };
}


my $s = Hymt::Server->new(conf => $CONF, timeout => 60);

$s->start();

ok($s->wait_until(30, sub {
    my $m = metrics($s);
    return ($m->value('hymt_engine_up') || 0) == 2;
}), 'hymt_engine_up');

# the page itself

{
    my $r = $s->get('/metrics');
    my $m = Hymt::Metrics->new($r->{body});

    is(Hymt::Http::header($r, 'Content-Type'),
       'text/plain; version=0.0.4; charset=utf-8', 'page: its type');
    is(Hymt::Http::header($r, 'Cache-Control'), 'no-store',
       'page: not to be kept');
    is(join("\n", $m->faults()), '', 'page: every line is right');
    is_deeply([grep { /^vllm:/ } $m->families()], [], 'page: only our names');

    is($m->value('hymt_requests_total', model => $MODEL, api => 'native',
                 code => 200), 0, 'page: zeros are there from the beginning');
    is(scalar $m->find('hymt_requests_total', api => 'deepl'), 0,
       'page: but not of what is not offered');
    is($m->value('hymt_engine_state', model => $MODEL, state => 'ready'), 1,
       'page: state');
    is($m->value('hymt_engine_state', model => $MODEL), 1,
       'page: one state at a time');
    cmp_ok($m->value('hymt_model_load_seconds', model => $MODEL), '>', 0,
           'page: load time');
    cmp_ok($m->value('hymt_memory_bytes', model => $MODEL, kind => 'weights'),
           '>', 1e6, 'page: memory');
    is($m->value('hymt_kv_blocks_used'), 0, 'page: KV blocks');
    is($m->value('hymt_workers'), 2, 'page: workers');

    is($s->send($s->http('HEAD', '/metrics'))->{status}, 200, 'page: HEAD');
    is($s->post('/metrics', 'x')->{status}, 405, 'page: no POST');
}

# figures

my %sent;         # "api code" -> requests
my %tokens;       # kind -> tokens that answers told
my ($texts, $pairs) = (0, 0);

sub note_response {
    my ($api, $r) = @_;

    $sent{"$api $r->{status}"}++;

    my $usage = $r->{json} && $r->{json}{usage};

    if ($usage) {
        $tokens{prompt} += $usage->{prompt_tokens};
        $tokens{output} += $usage->{completion_tokens};
    }
}

sub traffic {
    note_response('native', $_)
        for $s->send_many([map { $s->http_json('/translate', \%USE) } 1 .. 30]);

    note_response('native', $s->json('/translate', many(20)));
    note_response('native', $s->json('/translate', { text => 'x' })) for 1 .. 3;
    note_response('native', $s->json('/translate', 'no JSON'));
    note_response('native', $s->get('/translate'));
    note_response('native', $s->post('/translate', 'x', 'Content-Type: a/b'));

    note_response('openai', $s->json('/v1/chat/completions', {
        model => $MODEL, max_tokens => 5,
        messages => [{ role => 'user', content => 'Good morning.' }],
    }));

    # tokens of these are told by nobody

    my $before = metrics($s);
    my $r = $s->json('/libre/translate',
                     { q => 'Good morning.', source => 'en', target => 'fr' });
    my $after = metrics($s);

    note_response('libretranslate', $r);
    note_response('libretranslate', $s->get('/libre/nothing'));

    for my $kind (qw(prompt output)) {
        $tokens{$kind} += $after->value('hymt_tokens_total', kind => $kind)
                          - $before->value('hymt_tokens_total', kind => $kind);
    }

    $texts += 30 + 20 + 1 + 1;
    $pairs += 30 + 20;
}

sub compare {
    my ($when) = @_;

    my $m = metrics($s);

    is(join("\n", $m->faults()), '', "$when: every line is right");

    my %got = map { ("$_->{labels}{api} $_->{labels}{code}" => $_->{value}) }
              grep { $_->{value} } $m->find('hymt_requests_total',
                                            model => $MODEL);

    is_deeply(\%got, \%sent, "$when: requests by API and status");
    is($m->value('hymt_texts_total', model => $MODEL), $texts,
       "$when: texts");
    is($m->value('hymt_language_pair_texts_total', source => 'en',
                 target => 'de'), $pairs, "$when: texts by languages");
    is($m->value('hymt_tokens_total', kind => 'prompt'), $tokens{prompt},
       "$when: prompt tokens");
    is($m->value('hymt_tokens_total', kind => 'output'), $tokens{output},
       "$when: output tokens");

    my $ok = 0;
    $ok += /200$/ ? $sent{$_} : 0 for keys %sent;

    is($m->value("hymt_${_}_seconds_count", model => $MODEL), $ok,
       "$when: hymt_${_}_seconds")
        for qw(request queue_wait time_to_first_token prefill decode);

    is($m->value("hymt_text_${_}_tokens_sum", model => $MODEL), $tokens{$_},
       "$when: hymt_text_${_}_tokens") for qw(prompt output);
    is($m->value('hymt_text_prompt_tokens_count', model => $MODEL), $texts,
       "$when: of each text");

    # an upper bound that holds whatever the machine does: parts of the whole

    my %sum = map { ($_ => $m->value("hymt_${_}_seconds_sum",
                                     model => $MODEL)) }
              qw(request queue_wait time_to_first_token prefill decode);

    cmp_ok($sum{queue_wait}, '<=', $sum{time_to_first_token} + 1e-4,
           "$when: first steps come before first tokens");
    cmp_ok($sum{queue_wait} + $sum{prefill} + $sum{decode}, '<=',
           $sum{request} + 1e-4, "$when: times are parts of a whole");

    # the engine's own figures follow within a second; the last token of an
    # output that is cut does not go through it

    ok($s->wait_until(5, sub {
        my $m = metrics($s);
        my ($p, $o) = map { $m->value('hymt_engine_tokens_total',
                                      model => $MODEL, kind => $_) }
                      qw(prompt output);

        $o += $m->value('hymt_truncations_total', model => $MODEL);

        return $p >= $tokens{prompt} && $o >= $tokens{output}
               && $m->value('hymt_batch_size_sum', model => $MODEL) > 0;
    }), "$when: the engine's tokens");

    $m = metrics($s);

    is($m->value('hymt_step_seconds_count', model => $MODEL),
       $m->value('hymt_batch_size_count', model => $MODEL),
       "$when: as many batches as steps");
    is($m->value('hymt_in_flight'), 0, "$when: nothing is left");

    return $m;
}

traffic();
my $first = compare('before');

my %pids = map { /^(\d+) / ? ($1 => 1) : () }
           split /\n/, Hymt::Process::slurp($s->dir() . '/logs/pid.log');

is(scalar keys %pids, 2, 'both workers had their part');

ok($s->reload(), 'reload');
ok($s->wait_ready('/status'), 'ready again');
ok($s->wait_until(20, sub {
    return (grep { $_->{title} =~ /worker process/ } $s->children()) == 2
}), 'the old workers have gone');

traffic();
my $second = compare('after a reload');

is($second->value('hymt_engine_starts_total', model => $MODEL), 2,
   'after a reload: two engines so far');
is($second->value('hymt_engine_epoch', model => $MODEL), 1,
   'after a reload: the first one of this configuration');

my @fell = grep {
    my $now = $second->value($_->{name}, %{$_->{labels}});
    my $family = $_->{name} =~ s/_(?:bucket|sum|count)$//r;
    my $type = $second->type($_->{name}) || $second->type($family) || '';

    $type ne 'gauge' && (!defined $now || $now < $_->{value});
} @{$first->{samples}};

is_deeply([map { $_->{name} } @fell], [], 'after a reload: nothing fell');

# nothing that a client names becomes a label

{
    my $odd = sub {
        my ($name) = @_;

        $s->json('/v1/chat/completions', { model => $name,
            messages => [{ role => 'user', content => 'Go.' }] });
        $s->json('/translate', { %USE, src_lang => $name });
        $s->json('/translate', { %USE, text => '', session_id => $name });
        $s->get("/libre/$name");
        $s->json('/libre/translate', { q => 'Go.', source => $name,
                                       target => 'de' });
    };

    $odd->('oddname0');

    my $before = metrics($s);

    $odd->("oddname$_") for 1 .. 5;

    unlike($s->get('/metrics')->{body}, qr/oddname/, 'names: none is shown');
    is(scalar @{metrics($s)->{samples}}, scalar @{$before->{samples}},
       'names: no series more');
}

# a folder under the roof of "small": full, late, gone

my $served = 0;

{
    my $busy = $s->open($s->http_json('/small', many(200)));

    ok($s->wait_until(5, sub {
        return metrics($s)->value('hymt_in_flight', model => 'small') == 2
    }), 'full: two in flight');

    my $m = metrics($s);
    my $r = $s->json('/small', \%USE);

    # it may come just as one text has ended and the next one is not in

    while ($r->{status} == 200 && $served < 20) {
        $served++;
        $r = $s->json('/small', \%USE);
    }

    is($r->{status}, 429, 'full: 429');
    is($m->value('hymt_queue_limit', model => 'small'), 2, 'full: the limit');

    $m = metrics($s);
    is($m->value('hymt_rejections_total', model => 'small',
                 reason => 'queue_full'), 1, 'full: counted by reason');
    is($m->value('hymt_rejections_total'), 1, 'full: once');
    is($m->value('hymt_requests_total', model => 'small', code => 429), 1,
       'full: and by status');

    close $busy;

    ok($s->wait_until(5, sub {
        my $m = metrics($s);

        return $m->value('hymt_cancels_total', model => 'small') == 1
               && $m->value('hymt_requests_total', model => 'small',
                            code => 499) == 1;
    }), 'gone: counted');

    is($s->json('/hurry', many(100))->{status}, 504, 'late: 504');
    is(metrics($s)->value('hymt_requests_total', code => 504), 1,
       'late: counted');

    my $cut = metrics($s)->value('hymt_truncations_total', model => $MODEL,
                                 reason => 'length');

    $r = $s->json('/translate', { %USE, max_tokens => 1 });
    is($r->{json}{finish_reason}, 'length', 'cut: an output');
    is(metrics($s)->value('hymt_truncations_total', model => $MODEL,
                          reason => 'length'), $cut + 1, 'cut: counted');
}

# names that others know

{
    my $m = metrics($s, '/vllm');

    is(join("\n", $m->faults()), '', 'vllm: every line is right');
    is($m->value('vllm:generation_tokens_total', model_name => $MODEL,
                 engine => 0),
       $m->value('hymt_tokens_total', model => $MODEL, kind => 'output'),
       'vllm: tokens');
    is($m->value('vllm:e2e_request_latency_seconds_count',
                 model_name => 'small'), $served, 'vllm: a histogram');
    is($m->type("vllm:$_"), 'gauge', "vllm:$_")
        for qw(num_requests_running num_requests_waiting
               kv_cache_usage_perc);
}

# promtool, where there is one

SKIP: {
    my ($tool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};

    skip 'no promtool', 3 if !$tool;

    $s->write_file('metrics.txt', $s->get('/metrics')->{body});

    my $said = `$tool check metrics < @{[$s->dir()]}/metrics.txt 2>&1`;

    is($said, '', 'promtool: metrics');

    for my $file (glob 'conf/prometheus/*.yml') {
        my $what = $file =~ /rules/ ? 'rules' : 'config --syntax-only';

        $said = `$tool check $what $file 2>&1`;
        is($?, 0, "promtool: $file") or diag($said);
    }
}

# what -t refuses

for (['hymt_status yaml;', qr/"yaml".*json, prometheus, ready and live/],
     ['hymt_status ready vllm;', qr/"prometheus" alone knows one/],
     ['hymt_status prometheus all;', qr/"all"/])
{
    my ($bad, $why) = @$_;
    my ($code, $said) = $s->test_conf($CONF =~ s/hymt_status;/$bad/r);

    isnt($code, 0, "-t refuses $bad");
    like($said, $why, 'and says why');
}

$s->finish();


# ready and live

my $HEALTH = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%DIR%%/model; threads 1; max_batch 8;
                      context 512; }
    hymt_watchdog @WATCHDOG@;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus; }
        location = /ready { hymt_status ready; }
        location = /live { hymt_status live; }
        location = /pid { return 200 $pid; }
    }
}
END

# Asks on a connection that is kept.
sub ask {
    my ($s, $sock, $uri) = @_;

    my ($data, $end) = ('', time() + 20);

    $s->write($sock, "GET $uri HTTP/1.1\r\nHost: l\r\n\r\n");

    while (time() < $end) {
        sysread($sock, $data, 65536, length $data) or sleep(0.01);

        my $r = Hymt::Http::parse_response($data, 0);

        return $r if $r->{status} && !$r->{truncated};
    }

    return {};
}

# A connection to a worker that is not the one with the engine.
sub aside {
    my ($s) = @_;

    my $host = host($s);

    for (1 .. 100) {
        my @socks = map { $s->open() } 1 .. 4;
        my @there = grep { ask($s, $_, '/pid')->{body} != $host } @socks;

        return $there[0] if @there;
    }

    die "the other worker takes no connections\n";
}

sub healthy {
    my ($watchdog) = @_;

    my $s = Hymt::Server->new(conf => $HEALTH =~ s/\@WATCHDOG\@/$watchdog/r,
                              timeout => 60);

    mkdir $s->dir() . '/model';
    copy("$s->{model}/$_", $s->dir() . "/model/$_")
        for qw(config.json generation_config.json hymt.json
               model.safetensors tokenizer.json);

    $s->start();

    return $s;
}

sub host {
    my ($s) = @_;

    return (grep { $s->threads($_, qr/^hymt-/) } $s->workers())[0];
}

{
    my $s = healthy('500ms');
    my ($loading, $live);

    ok($s->wait_until(20, sub {
        my $r = $s->get('/ready');

        $loading ||= $r if $r->{status} != 200;
        $live ||= $s->get('/live');

        return $r->{status} == 200;
    }), 'ready: 200 in the end');

    # a machine may be faster than we ask

    is($loading->{status}, 503, 'ready: 503 while loading') if $loading;
    like($loading->{body}, qr/^demo: (?:starting|loading)$/, 'ready: says why')
        if $loading;
    is($live->{status}, 200, 'live: even then');
    is($s->get('/ready')->{body}, "ready\n", 'ready: its body');

    # a worker 0 that stands still: the other one tells

    my $host = host($s);
    my $sock = aside($s);

    is(ask($s, $sock, '/ready')->{status}, 200, 'silent host: ready before');

    $s->signal('STOP', $host);

    ok($s->wait_until(10, sub { ask($s, $sock, '/ready')->{status} == 503 }),
       'silent host: not ready');
    is(ask($s, $sock, '/ready')->{body}, "demo: stuck\n",
       'silent host: why');
    is(Hymt::Metrics->new(ask($s, $sock, '/metrics')->{body})
       ->value('hymt_engine_up'), 0, 'silent host: not up');
    is(ask($s, $sock, '/live')->{status}, 200, 'silent host: live');

    $s->signal('CONT', $host);
    close $sock;

    ok($s->wait_until(10, sub { $s->get('/ready')->{status} == 200 }),
       'silent host: ready when it goes on');

    # no engine any more

    rename $s->dir() . '/model', $s->dir() . '/away';
    $s->allow_alerts(qr/exited on signal 9/);
    $s->signal('KILL', host($s));

    ok($s->wait_until(10, sub {
        return ($s->get('/ready')->{body} || '') eq "demo: failed\n";
    }), 'failed: not ready');
    is(metrics($s)->value('hymt_engine_state', state => 'failed'), 1,
       'failed: state');
    is($s->get('/live')->{status}, 200, 'failed: live');

    $s->finish();
}

# a worker that drains

{
    my $s = healthy('500ms');

    ok($s->wait_ready('/status'), 'drain: ready');

    my $sock = $s->open("GET /ready HTTP/1.1\r\nHost: l\r\n");

    # to be accepted

    sleep(0.3 * Hymt::Process::slowness());
    $s->signal('QUIT');
    ok($s->wait_until(5, sub { $s->leaving() }), 'drain: on its way out');

    $s->write($sock, "Connection: close\r\n\r\n");

    my $r = $s->read_response($sock);
    close $sock;

    is($r->{status}, 503, 'drain: not ready');
    is($r->{body}, "draining\n", 'drain: why');

    $s->finish();
}

# an engine that hangs, seen in time and told of once, and goes on before it is
# given up (t/190-watchdog.t)

SKIP: {
    my $s = healthy('3s');

    ok($s->wait_ready('/status'), 'hang: ready');
    is($s->json('/translate', \%USE)->{status}, 200, 'hang: it works');

    my $hang = Hymt::Hang::hold(host($s), 'hymt-engine');

    if (!$hang) {
        $s->finish();
        skip "ptrace: $!", 12;
    }

    # idle is not stuck

    sleep(3.5);
    is($s->get('/ready')->{status}, 200, 'hang: idle, ready');

    my $sock = $s->open($s->http_json('/translate', \%USE));
    my $began = time();

    ok($s->wait_until(10, sub { $s->get('/ready')->{status} == 503 }),
       'hang: not ready');
    cmp_ok(time() - $began, '<', 1.5 * Hymt::Process::slowness(),
           sprintf 'hang: after %.2f s, long before the watchdog',
                   time() - $began);
    is(metrics($s)->value('hymt_engine_state', state => 'stuck'), 1,
       'hang: stuck');
    is(metrics($s)->value('hymt_engine_up'), 0, 'hang: not up');
    like($s->get('/status')->{body}, qr/"state": "stuck"/,
         'hang: in the JSON, too');
    ok($s->wait_log(qr/\[error\].*hymt "demo": the engine is stuck/),
       'hang: in the log');

    $hang->release();

    is($s->read_response($sock)->{status}, 200, 'hang: answered when it ends');
    close $sock;

    ok($s->wait_until(10, sub { $s->get('/ready')->{status} == 200 }),
       'hang: ready again');
    ok($s->wait_log(qr/hymt "demo": the engine goes on/), 'hang: told');
    is(scalar $s->grep_log(qr/the engine is stuck/), 1, 'hang: once');

    $s->finish();
}

done_testing();
