# OpenAI's API: chats as its clients send them, answers, events, errors.

use strict;
use warnings;
use utf8;

use lib 't/lib';

use Hymt::Http qw(header);
use Hymt::Server;
use JSON::PP ();
use Test::More;

binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


my $s = Hymt::Server->new(conf => <<'END');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model small { path %%MODEL%%/; threads 1; max_batch 8; context 1024; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /v1/ { hymt_translate small api=openai; }
        location /openai/ { hymt_translate small api=openai; }
        location = /translate { hymt_translate small; }
        location /hurry/ { hymt_translate small api=openai; hymt_timeout 1ms; }
        location /few/ { hymt_translate small api=openai; hymt_max_body 1k; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $chat = '/v1/chat/completions';
my ($base) = $s->{model} =~ m{([^/]+)$};
my $json = JSON::PP->new->utf8->canonical;

my $text = 'Open the file and save your changes.';
my $prompt = "Translate the following segment into German, without additional"
             . " explanation.\n\n$text";


sub ask {
    my (%more) = @_;

    return { model => 'small',
             messages => [{ role => 'user', content => $prompt }], %more };
}

sub stream { return ask(stream => JSON::PP::true, @_) }


sub content {
    my ($res) = @_;

    return $res->{json}{choices}[0]{message}{content};
}

sub events {
    my ($res) = @_;

    return map { eval { $json->decode($_) } || $_ }
           $res->{body} =~ /^data: (.*)\n\n/mg;
}

# The text, reason and number of events of a stream.
sub streamed {
    my ($res) = @_;

    my @events = events($res);
    my @choices = map { ref && @{$_->{choices} || []} ? $_->{choices}[0] : () }
                  @events;

    return {
        text   => join('', map { $_->{delta}{content} // '' } @choices),
        reason => $choices[-1]{finish_reason},
        n      => scalar @events,
    };
}

sub error_is {
    my ($res, $status, $type, $code, $param, $message, $name) = @_;

    my $error = ($res->{json} || {})->{error} || {};

    is($res->{status}, $status, "$name: status") or diag($res->{body});
    is_deeply([sort keys %$error], [qw(code message param type)],
              "$name: form");
    is($error->{type}, $type, "$name: type");
    is($error->{code}, $code, "$name: code");
    is($error->{param}, $param, "$name: param");
    like($error->{message} // '', $message, "$name: message");
}


# ---- the answer ----

my $want = $s->json('/translate', { text => $text, src_lang => 'en',
                                    tgt_lang => 'de' });
my $res = $s->json($chat, ask());
my $answer = $res->{json};

is($res->{status}, 200, 'status');
is(content($res), $want->{json}{translation},
   'the official prompt gives what the native API gives');
is($answer->{usage}{prompt_tokens}, $want->{json}{usage}{prompt_tokens},
   'in as many tokens');
like($answer->{id}, qr/^chatcmpl-[0-9a-f]{24}$/, 'id');
isnt($s->json($chat, ask())->{json}{id}, $answer->{id}, 'another id');
cmp_ok(abs($answer->{created} - time()), '<', 60, 'created');

delete @$answer{qw(id created)};

is_deeply($answer, {
    object => 'chat.completion',
    model => 'small',
    choices => [{
        index => 0,
        message => { role => 'assistant',
                     content => $want->{json}{translation},
                     refusal => undef },
        logprobs => undef,
        finish_reason => 'stop',
    }],
    usage => {
        prompt_tokens => $want->{json}{usage}{prompt_tokens},
        completion_tokens => $want->{json}{usage}{completion_tokens},
        total_tokens => $want->{json}{usage}{prompt_tokens}
                        + $want->{json}{usage}{completion_tokens},
        prompt_tokens_details => { cached_tokens => 0 },
    },
    system_fingerprint => undef,
}, 'the answer');

my $german = $want->{json}{translation};


# ---- what comes in ----

my %same = (
    'the directory as the model' => ask(model => $base),
    'no model' => ask(model => undef),
    'parts' => ask(messages => [{ role => 'user', content => [
        { type => 'text', text => $prompt }] }]),
    'parts, lines of their own' => ask(messages => [{ role => 'user',
        content => [map { { type => 'text', text => $_ } }
                    split /\n/, $prompt, -1] }]),
    'all null' => ask(map { $_ => undef } qw(temperature top_p top_k seed stop
        repetition_penalty n stream stream_options max_tokens
        max_completion_tokens stop_token_ids)),
    'all at once' => ask(temperature => 0, top_p => 1, top_k => -1, n => 1,
        seed => -5, repetition_penalty => 1, max_tokens => 1000,
        max_completion_tokens => 9000000000000000, stop => [], stop_token_ids => [],
        stream => JSON::PP::false, stream_options => {}),
    'fields not known' => ask(user => 'me', frequency_penalty => 0, tools => [],
        response_format => { type => 'text' }, metadata => { a => [1] }),

    # openai-python 2 and openai-node 6, as they send it
    'Python' => '{"messages":[{"role":"user","content":'
        . JSON::PP->new->utf8->allow_nonref->encode($prompt)
        . '}],"model":"small","temperature":0.0}',
);

for my $name (sort keys %same) {
    is(content($s->json($chat, $same{$name})), $german, $name);
}

is($s->json($chat, $same{'the directory as the model'})->{json}{model}, $base,
   'the model is called as it was');
is(content($s->json('/openai/v1/chat/completions', ask(),
                    'Authorization: Bearer anything', 'Accept-Encoding: gzip',
                    'X-Stainless-Lang: python')), $german,
   'a folder above, with headers of clients');

my $turns = [
    { role => 'system', content => 'You translate.' },
    { role => 'user', content => 'Hello' },
    { role => 'assistant', content => 'Hallo' },
    { role => 'user', content => $prompt },
];

$res = $s->json($chat, ask(messages => $turns));

is($res->{status}, 200, 'a system message and several turns');
cmp_ok($res->{json}{usage}{prompt_tokens}, '>',
       $want->{json}{usage}{prompt_tokens}, 'are all in the prompt');

my $system = $res->{json};

$turns->[0]{role} = 'developer';
$res = $s->json($chat, ask(messages => $turns));
is_deeply($res->{json}{choices}, $system->{choices}, 'developer is system');

$turns->[2] = { role => 'assistant', content => undef, tool_calls => [] };
is($s->json($chat, ask(messages => $turns))->{status}, 200,
   'an assistant without content');


# ---- sampling and ends ----

my @drawn = map {
    content($s->json($chat, ask(temperature => 1.5, seed => $_)))
} 1, 1, 2, 3, 4;

is($drawn[0], $drawn[1], 'a seed: the same');
isnt(join("\n", @drawn[1 .. 4]), join("\n", ($drawn[1]) x 4),
     'other seeds: others');

for my $name (qw(max_tokens max_completion_tokens)) {
    $res = $s->json($chat, ask($name => 3));

    is($res->{json}{usage}{completion_tokens}, 3, "$name: so many");
    is($res->{json}{choices}[0]{finish_reason}, 'length', "$name: reason");
    is(content($res), substr($german, 0, length content($res)),
       "$name: text");
}

is($s->json($chat, ask(max_tokens => 9, max_completion_tokens => 2))
     ->{json}{usage}{completion_tokens}, 2, 'the newer name counts');

$res = $s->json($chat, ask(stop => ' und'));
is(content($res), $german =~ s/ und.*//sr, 'stop: a string');
is($res->{json}{choices}[0]{finish_reason}, 'stop', 'stop: reason');
is(content($s->json($chat, ask(stop => ['ZZ', 'spei', ' und', 'Datei und']))),
   $german =~ s/Datei und.*//sr, 'stop: the first of several');
is(content($s->json($chat, ask(stop => $german))), '', 'stop: at once');

# the engine stops there too: a token more than what is sent, at most two

my $whole = $s->json($chat, ask())->{json}{usage}{completion_tokens};

$res = $s->json($chat, ask(stop => substr($german, 0, 3)));
is(content($res), '', 'stop: nothing is sent');
cmp_ok($res->{json}{usage}{completion_tokens}, '<=', 3,
       'stop: nothing more is computed');
cmp_ok($res->{json}{usage}{completion_tokens}, '<', $whole,
       "stop: less than the $whole tokens of the whole");
is($s->json($chat, ask(stop => ['x' x 3000, "\x{1f600}"]))
     ->{json}{usage}{completion_tokens}, $whole,
   'stop: very long ones, and those that never come, change nothing');

# every part of the text as a stop string, in both ways

my (@stops, @plain, @streams);

srand(5);

for (1 .. 60) {
    my $stop = substr($german, rand(length($german) - 1), 1 + rand 12);

    push @stops, $stop;
    push @plain, $s->http_json($chat, ask(stop => $stop));
    push @streams, $s->http_json($chat, stream(stop => ['ZZZ', $stop]));
}

@plain = $s->send_many(\@plain);
@streams = $s->send_many(\@streams);

is_deeply([map { content($_) } @plain],
          [map { substr($german, 0, index($german, $_)) } @stops],
          'stop: anywhere');
is_deeply([map { streamed($_)->{text} } @streams],
          [map { substr($german, 0, index($german, $_)) } @stops],
          'stop: anywhere in a stream');
is_deeply([map { streamed($_)->{reason} } @streams], [('stop') x @streams],
          'stop: reasons');

# "." is a token of the demo model's

is(content($s->json($chat, ask(stop_token_ids => [13]))), $german =~ s/\.$//r,
   'stop_token_ids');


# ---- streams ----

$res = $s->json($chat, stream());

my @events = events($res);
my %head = map { $_ => $events[0]{$_} } qw(id object created model);

is(header($res, 'Content-Type'), 'text/event-stream', 'stream: type');
is($events[-1], '[DONE]', 'stream: its end');
is($head{object}, 'chat.completion.chunk', 'stream: object');
like($head{id}, qr/^chatcmpl-[0-9a-f]{24}$/, 'stream: id');
is_deeply($events[0]{choices}, [{ index => 0, logprobs => undef,
    finish_reason => undef, delta => { role => 'assistant', content => '' } }],
    'stream: the first event has the role');
is_deeply($events[-2]{choices}, [{ index => 0, logprobs => undef,
    finish_reason => 'stop', delta => {} }], 'stream: the last one the reason');
is_deeply([map { $_->{id} . $_->{created} . $_->{model} . $_->{object} }
               @events[0 .. $#events - 1]],
          [(join '', @head{qw(id created model object)}) x $#events],
          'stream: all of one');
is(scalar(grep { ref && exists $_->{usage} } @events), 0,
   'stream: no usage unasked');
is(streamed($res)->{text}, $german, 'stream: the text');

# how many pieces there are is a matter of time: a busy machine joins them

my $pieces = 0;

for (1 .. 20) {
    $pieces = grep { ref && length($_->{choices}[0]{delta}{content} // '') }
        events($s->json($chat, stream()));

    last if $pieces > 2;
}

cmp_ok($pieces, '>', 2, 'stream: in pieces');

$res = $s->json($chat, stream(stream_options => {
    include_usage => JSON::PP::true }));
@events = events($res);

is_deeply($events[-2]{choices}, [], 'include_usage: no choices at the end');
is_deeply($events[-2]{usage}, $answer->{usage}, 'include_usage: the usage');
is(scalar(grep { ref && exists $_->{usage} && !defined $_->{usage} } @events),
   @events - 2, 'include_usage: null before');

is(streamed($s->json($chat, stream(max_tokens => 4)))->{reason}, 'length',
   'stream: length');
is_deeply([map { ref ? $_->{choices}[0]{delta} : $_ }
               events($s->json($chat, stream(stop => $german)))],
          [{ role => 'assistant', content => '' }, {}, '[DONE]'],
          'stream: nothing');

# a loop ends, and says "length"

my $loop = ask(messages => [{ role => 'user', content => 'la ' x 60 }],
               max_tokens => 400);
my $looped = $s->json($chat, $loop)->{json}{choices}[0]{finish_reason};

like($looped, qr/^(?:length|stop)$/, "a loop: $looped");


# ---- models ----

$res = $s->get('/v1/models');

is($res->{json}{object}, 'list', 'models: a list');
is(scalar @{$res->{json}{data}}, 1, 'models: of one');

my $model = $res->{json}{data}[0];

is($model->{id}, 'small', 'models: id');
is($model->{object}, 'model', 'models: object');
like($model->{created}, qr/^[1-9]\d+$/, 'models: created');
is($model->{owned_by}, 'hymt', 'models: owner');
is_deeply($s->get('/v1/models/small')->{json}, $model, 'models/small');
is($s->get("/v1/models/$base")->{json}{id}, $base, 'models/ its directory');
error_is($s->get('/v1/models/gpt-5'), 404, 'invalid_request_error',
         'model_not_found', 'model', qr/`gpt-5` does not exist/, 'models/gpt-5');


# ---- errors ----

my $user = { role => 'user', content => 'a' };
my $t = 'invalid_request_error';

for my $case (
    [ask(model => 'gpt-5'), 404, 'model_not_found', 'model',
     qr/^The model `gpt-5` does not exist/],
    [ask(model => ''), 404, 'model_not_found', 'model', qr/does not exist/],
    [ask(model => 5), 400, 'invalid_type', 'model', qr/must be a string/],
    [ask(messages => undef), 400, 'missing_required_parameter', 'messages',
     qr/missing/],
    [ask(messages => 'Hello'), 400, 'invalid_type', 'messages', qr/array/],
    [ask(messages => []), 400, 'invalid_value', 'messages', qr/1 to 256/],
    [ask(messages => [($user) x 257]), 400, 'invalid_value', 'messages',
     qr/257/],
    [ask(messages => ['a']), 400, 'invalid_type', 'messages[0]', qr/object/],
    [ask(messages => [{ content => 'a' }]), 400, 'missing_required_parameter',
     'messages[0].role', qr/missing/],
    [ask(messages => [{ role => 1, content => 'a' }]), 400, 'invalid_type',
     'messages[0].role', qr/string/],
    [ask(messages => [{ role => 'tool', content => 'a' }]), 400,
     'invalid_value', 'messages[0].role', qr/"tool"/],
    [ask(messages => [$user, { role => 'system', content => 'a' }, $user]),
     400, 'invalid_value', 'messages[1].role', qr/first/],
    [ask(messages => [{ role => 'user' }]), 400, 'missing_required_parameter',
     'messages[0].content', qr/missing/],
    [ask(messages => [{ role => 'user', content => '' }]), 400,
     'invalid_value', 'messages[0].content', qr/empty/],
    [ask(messages => [{ role => 'user', content => 5 }]), 400, 'invalid_type',
     'messages[0].content', qr/parts/],
    [ask(messages => [{ role => 'user', content => [{ type => 'image_url',
         image_url => {} }] }]), 400, 'invalid_value',
     'messages[0].content[0]', qr/reads nothing else/],
    [ask(messages => [{ role => 'user', content => ['a'] }]), 400,
     'invalid_value', 'messages[0].content[0]', qr/text/],
    [ask(messages => [$user, { role => 'assistant', content => 'b' }]), 400,
     'invalid_value', 'messages', qr/last message/],
    [ask(temperature => 'hot'), 400, 'invalid_type', 'temperature', qr/number/],
    [ask(temperature => -1), 400, 'invalid_value', 'temperature', qr/-1/],
    [ask(temperature => 1e300), 400, 'invalid_value', 'temperature',
     qr/1e\+300 is out of range/],
    [ask(top_p => 0), 400, 'invalid_value', 'top_p', qr/top_p/],
    [ask(top_p => [1]), 400, 'invalid_type', 'top_p', qr/number/],
    [ask(top_k => -2), 400, 'invalid_value', 'top_k', qr/-2/],
    [ask(top_k => 1.5), 400, 'invalid_type', 'top_k', qr/integer/],
    [ask(repetition_penalty => 0), 400, 'invalid_value', 'repetition_penalty',
     qr/out of range/],
    [ask(seed => 'x'), 400, 'invalid_type', 'seed', qr/integer/],
    [ask(n => 2), 400, 'unsupported_value', 'n', qr/n must be 1/],
    [ask(n => 0), 400, 'unsupported_value', 'n', qr/n must be 1/],
    [ask(max_tokens => 0), 400, 'invalid_value', 'max_tokens', qr/from 1/],
    [ask(max_completion_tokens => 'x'), 400, 'invalid_type',
     'max_completion_tokens', qr/integer/],
    [ask(stop => 5), 400, 'invalid_type', 'stop', qr/string/],
    [ask(stop => ['a', 5]), 400, 'invalid_type', 'stop', qr/strings/],
    [ask(stop => ''), 400, 'invalid_value', 'stop', qr/empty/],
    [ask(stop => ["a\0b"]), 400, 'invalid_value', 'stop', qr/U\+0000/],
    [ask(stop => [qw(a b c d e)]), 400, 'invalid_value', 'stop', qr/at most 4/],
    [ask(stop_token_ids => 5), 400, 'invalid_type', 'stop_token_ids',
     qr/array/],
    [ask(stop_token_ids => ['a']), 400, 'invalid_type', 'stop_token_ids',
     qr/integers/],
    [ask(stop_token_ids => [-1]), 400, 'invalid_value', 'stop_token_ids',
     qr/-1/],
    [ask(stop_token_ids => [1 .. 9]), 400, 'invalid_value', 'stop_token_ids',
     qr/at most 8/],
    [ask(stream => 'yes'), 400, 'invalid_type', 'stream', qr/boolean/],
    [ask(stream_options => 5), 400, 'invalid_type', 'stream_options',
     qr/object/],
    [ask(stream_options => { include_usage => 1 }), 400, 'invalid_type',
     'stream_options.include_usage', qr/boolean/],
    [ask(messages => [{ role => 'user', content => 'word ' x 4000 }]), 400,
     'context_length_exceeded', undef, qr/context/],
    [stream(messages => [{ role => 'user', content => 'word ' x 4000 }]), 400,
     'context_length_exceeded', undef, qr/context/],
    ['{"model": "small",}', 400, 'invalid_json', undef, qr/line 1/],
    ['[]', 400, 'invalid_type', undef, qr/object/],
    ['', 400, 'empty_body', undef, qr/empty/],
    ['{"model": "small", "model": "small"}', 400, 'invalid_json', undef,
     qr/duplicate/],
    ["{\"model\": \"\xff\"}", 400, 'invalid_utf8', undef, qr/UTF-8/],
    ['{"messages": [{"role": "user", "content": "a\ud800b"}]}', 400,
     'invalid_json', undef, qr/D800/],
    ['{"messages": ' . '[' x 3000, 400, undef, undef, qr/./],
) {
    my ($data, $status, $code, $param, $message) = @$case;

    $res = $s->json($chat, $data);
    error_is($res, $status, $t, $code // $res->{json}{error}{code}, $param,
             $message, substr(ref $data ? $json->encode($data) : $data, 0, 60));
}

error_is($s->get($chat), 405, $t, 'method_not_allowed', undef, qr/POST/, 'GET');
error_is($s->get('/v1/embeddings'), 404, $t, 'not_found', undef, qr/nothing/,
         'another path');
error_is($s->post($chat, 'a=b',
                  'Content-Type: application/x-www-form-urlencoded'),
         415, $t, 'unsupported_media_type', undef, qr/json/, 'a form');
error_is($s->json('/few/chat/completions', ask(user => 'x' x 2000)), 413, $t,
         'body_too_large', undef, qr/larger/, 'a large body');
error_is($s->json('/hurry/chat/completions', ask()), 504, 'server_error',
         'timeout', undef, qr/1 ms/, 'a timeout');

# control characters are text like any other

is($s->json($chat, ask(messages => [{ role => 'user',
       content => "a\x01\x00\x7f\x{202e}" }]))->{status}, 200,
   'control characters');

$s->finish();
done_testing();
