# DeepL's API, version 2: its wire forms as its clients send them, its options,
# its errors.

use strict;
use warnings;
use utf8;

use JSON::PP ();
use Test::More;

use Hymt::Http qw(header);
use Hymt::Server;


binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


# a model that says it knows languages whose codes are not ours

my $model = Hymt::Server::own_model(
    '{"family": "mt2", "greedy": true,'
    . ' "languages": ["en", "zh", "zh-Hant", "pt", "he", "yue"]}');


my $s = Hymt::Server->new(timeout => 60, conf => <<"END");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    hymt_model more { path $model; threads 1; max_batch 4; context 512; }
    hymt_model old { path %%MODEL%%; threads 1; family mt1; max_batch 4;
                     context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /v2/ { hymt_translate demo api=deepl; }
        location /deepl/ { hymt_translate demo api=deepl; }
        location /more/ { hymt_translate more api=deepl; }
        location /old/ { hymt_translate old api=deepl; }
        location /tags/ { hymt_translate more api=deepl; hymt_tags model; }
        location /few/ {
            hymt_translate demo api=deepl;
            hymt_max_texts 2;
            hymt_max_body 1k;
        }
        location /hurry/ { hymt_translate demo api=deepl; hymt_timeout 1ms; }
        location /defaults/ {
            hymt_translate demo api=deepl;
            hymt_default_source en;
            hymt_default_target fr;
        }
        location /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $form = 'Content-Type: application/x-www-form-urlencoded';
my $json = 'Content-Type: application/json';


# The translations that the server gives for parameters.
sub translations {
    my ($data, $where) = @_;

    my $res = $s->json(($where || '/v2') . '/translate', $data);

    is($res->{status}, 200, 'answered') or diag($res->{body});

    return @{$res->{json}{translations} || []};
}


# What their texts cost, in tokens of prompts.
sub cost {
    my ($data, $where) = @_;

    my $tokens = sub {
        return $s->get('/status')->{json}{counters}{prompt_tokens};
    };

    my $before = $tokens->();

    translations($data, $where);

    return $tokens->() - $before;
}


my $one = { text => ['Open the file.'], target_lang => 'DE' };


# ---- translate ----

{
    my @t = translations({ text => ['Open the file.', '', "\x{1f600}\n",
                                    'Close the file.'],
                           target_lang => 'DE' });

    is(scalar @t, 4, 'as many translations as texts');
    like($t[0]{text}, qr/Datei/, 'the first in its place');
    is($t[1]{text}, '', 'nothing stays nothing');
    is($t[2]{text}, "\x{1f600}\n", 'symbols stay as they are');
    like($t[3]{text}, qr/Datei/, 'the last in its place');
    is(join(' ', map { $_->{detected_source_language} } @t), 'EN EN EN EN',
       'the source is detected, and always told');
    is(join(' ', map { $_->{billed_characters} } @t), '14 0 2 15',
       'characters, not bytes, always told');
    is(join(' ', sort keys %{$t[0]}),
       'billed_characters detected_source_language text', 'and nothing else');

    @t = translations({ text => ['Ouvrez le fichier et fermez la fenêtre.',
                                 'Open the file and close the window.'],
                        target_lang => 'ES' });
    is(join(' ', map { $_->{detected_source_language} } @t), 'FR EN',
       'each text has its own source');

    @t = translations({ text => 'Open the file.', target_lang => 'DE',
                        source_lang => 'en-GB' });
    is($t[0]{detected_source_language}, 'EN',
       'a source that was given is told without its region');

    @t = translations({ text => ['Open the file.'], source_lang => 'EN',
                        target_lang => 'EN-US' });
    is($t[0]{text}, 'Open the file.', 'the same language: as it was');
    is($t[0]{detected_source_language}, 'EN', 'and its name');

    @t = translations({ text => ['Open the file.'] }, '/defaults');
    is($t[0]{detected_source_language}, 'EN', 'a default source');
    like($t[0]{text}, qr/fichier/, 'a default target');
    like((translations($one, '/deepl/v2'))[0]{text}, qr/Datei/,
         'a location above "v2"');
}

# cases and regions of languages

for my $code (qw(de De DE de-DE DE-AT)) {
    like((translations({ %$one, target_lang => $code }))[0]{text}, qr/Datei/,
         "target $code");
}

is((translations({ %$one, target_lang => $_ }, '/more'))[0]
       {detected_source_language}, 'EN', "target $_")
    for qw(ZH zh-hans ZH-HANS ZH-HANT zh-TW PT-BR pt-pt PT HE);

is((translations({ text => ['繁體中文'], source_lang => 'ZH-HANT',
                   target_lang => 'PT-BR' }, '/more'))[0]
       {detected_source_language}, 'ZH', 'a source has no script');


# ---- what clients really send ----

# deepl-python: JSON, languages in upper case

{
    my $res = $s->post('/v2/translate',
        '{"target_lang": "DE", "text": ["Open the file."],'
        . ' "source_lang": "EN", "show_billed_characters": true,'
        . ' "preserve_formatting": false, "split_sentences": "1"}',
        $json, 'Authorization: DeepL-Auth-Key abc',
        'User-Agent: deepl-python/1.22.0 (Linux) python/3.11.2');

    is($res->{status}, 200, 'deepl-python: answered');
    like($res->{json}{translations}[0]{text}, qr/Datei/, 'deepl-python');
    is($res->{json}{translations}[0]{billed_characters}, 14,
       'deepl-python: what it can not do without');
}

# deepl-node: a form, languages in lower case, "0" and "1"

{
    my $res = $s->post('/v2/translate',
        'text=Open+the+file.&text=Close%20the%20file.&target_lang=de'
        . '&source_lang=en&preserve_formatting=1&show_billed_characters=1',
        "$form; charset=UTF-8");

    is($res->{status}, 200, 'deepl-node: answered');
    is(scalar @{$res->{json}{translations}}, 2, 'deepl-node: two texts');
    like($_->{text}, qr/Datei/, 'deepl-node') for @{$res->{json}{translations}};
}

# both ask for languages: one by the body of a GET

{
    my $source = $s->get('/v2/languages')->{json};
    my $target = $s->get('/v2/languages?type=target')->{json};

    is_deeply($source, [map { { language => $_->[0], name => $_->[1] } }
        ['ZH', 'Chinese'], ['EN', 'English'], ['FR', 'French'],
        ['ES', 'Spanish'], ['DE', 'German']], 'sources');

    is(join(' ', map { $_->{language} } @$target),
       'ZH ZH-HANS EN-GB EN-US FR ES DE', 'targets');
    is((grep { $_->{supports_formality} } @$target), 0,
       'no formality where the family has none');
    ok(exists $target->[0]{supports_formality}, 'and that is told');

    is_deeply($s->get('/v2/languages?type=source')->{json}, $source,
              'sources, asked for');

    my $res = $s->send($s->http('GET', '/v2/languages', 'type=target', $form));

    is_deeply($res->{json}, $target, 'type in the body of a GET');

    $res = $s->get('/more/languages?type=target')->{json};
    is(join(' ', map { $_->{language} } @$res),
       'ZH ZH-HANS EN-GB EN-US PT-BR PT-PT ZH-HANT HE YUE',
       'variants of the script and region');
    is((grep { $_->{supports_formality} } @$res), 9, 'formality of mt2');
    is(join(' ', map { $_->{language} } @{$s->get('/more/languages')->{json}}),
       'ZH EN PT HE YUE', 'sources have none');

    $res = $s->get('/v2/languages?type=both');
    is($res->{status}, 400, 'another type');
    like($res->{json}{message}, qr/'type' .*source, target/, 'and its error');
}

# Weblate: XML with placeholders that must survive

{
    my $res = $s->json('/v2/translate', {
        text => ['Open <x id="12"></x> now.', 'a &lt; b <x id="1"></x>'],
        target_lang => 'DE', source_lang => 'EN', tag_handling => 'xml',
        ignore_tags => ['x'], formality => 'prefer_more',
        context => '' });

    is($res->{status}, 200, 'Weblate: answered');
    is(() = $res->{json}{translations}[0]{text} =~ m{<x id="12"></x>}g, 1,
       'Weblate: its placeholder, once');
    like($res->{json}{translations}[1]{text}, qr{^[^<]*<x id="1"></x>[^<]*$},
         'Weblate: no broken markup');
}

# Mastodon: a form with HTML

{
    my $res = $s->post('/v2/translate',
        'text=%3Cp%3EOpen+the+%3Cb%3Efile%3C%2Fb%3E.%3C%2Fp%3E'
        . '&source_lang=EN&target_lang=de&tag_handling=html', $form);

    is($res->{status}, 200, 'Mastodon: answered');
    like($res->{json}{translations}[0]{text},
         qr{^<p>.*<b>.*</b>.*</p>$}, 'Mastodon: its tags');
}

# a multipart form

{
    my $body = join '', map {
        "--b\r\nContent-Disposition: form-data; name=\"$_->[0]\"\r\n\r\n"
        . "$_->[1]\r\n" } ['text', 'Open the file.'], ['target_lang', 'DE'];

    my $res = $s->post('/v2/translate', "$body--b--\r\n",
                       'Content-Type: multipart/form-data; boundary=b');

    like($res->{json}{translations}[0]{text}, qr/Datei/, 'multipart');
}

# a client gives up after ten seconds and asks again: nobody works for it then

{
    my $sock = $s->open($s->http_json('/v2/translate',
        { target_lang => 'DE',
          text => [map { "Open the file number $_." } 1 .. 300] }));

    ok($s->wait_until(5, sub {
        return $s->get('/status')->{json}{models}[0]{queue}{in_flight} > 0;
    }), 'a client that will go away: at work');

    close $sock;

    ok($s->wait_until(5, sub {
        return $s->get('/status')->{json}{models}[0]{queue}{in_flight} == 0;
    }), 'a client that has gone away: not any more');
}


# ---- options ----

{
    my @t = translations({ %$one, text => ['Open <b>the file</b>.'],
                           tag_handling => 'xml',
                           tag_handling_version => 'v2',
                           model_type => 'prefer_quality_optimized' });

    is($t[0]{tag_handling_version}, 'v2', 'tag_handling_version is told');
    is($t[0]{model_type_used}, 'quality_optimized', 'model_type_used is told');

    is((translations({ %$one, model_type => 'latency_optimized' }))[0]
           {model_type_used}, 'latency_optimized', 'the other model_type');

    @t = translations({ %$one, source_lang => 'EN',
        text => ['<doc><keep>Open the file.</keep><b>Open the file.</b></doc>'],
        tag_handling => 'xml', ignore_tags => ['keep'] });
    like($t[0]{text}, qr{^<doc><keep>Open the file\.</keep><b>.*</b></doc>$},
         'ignore_tags');
    unlike($t[0]{text}, qr{<b>Open the file}, 'and the rest is translated');

    my $res = $s->post('/v2/translate', 'target_lang=DE&source_lang=EN'
        . '&tag_handling=xml&ignore_tags=a,keep,,b&text='
        . '%3Ckeep%3EOpen%20the%20file.%3C/keep%3E', $form);
    is($res->{json}{translations}[0]{text}, '<keep>Open the file.</keep>',
       'ignore_tags with commas');

    @t = translations({ %$one, text => ['a <b> b'] });
    is(scalar @t, 1, 'without tag_handling tags are text');

    # each unit has a prompt of its own

    my $lines = { %$one, text => ["Open the file.\nClose the file."],
                  source_lang => 'EN' };
    my $two = cost($lines);

    is(cost({ %$lines, split_sentences => '1' }), $two, 'split_sentences 1');
    is(cost({ %$lines, split_sentences => 1 }), $two,
       'split_sentences 1, a number');
    cmp_ok(cost({ %$lines, split_sentences => 'nonewlines' }), '<=', $two,
           'nonewlines: lines are not parted');

    # style, context and families

    my $zh = { %$one, target_lang => 'ZH', source_lang => 'EN' };
    my $plain = cost($zh, '/more');

    cmp_ok(cost({ %$zh, formality => $_ }, '/more'), '>', $plain,
           "formality $_: into the prompt")
        for qw(more less prefer_more prefer_less);
    is(cost({ %$zh, formality => 'default' }, '/more'), $plain,
       'formality default');
    cmp_ok(cost({ %$zh, context => 'A menu.' }, '/more'), '>', $plain,
           'context: into the prompt');

    my $refused = $s->json('/v2/translate', { %$zh, context => 'A menu.' });

    is($refused->{status}, 400, 'context: the family has no prompt for it');
    like($refused->{json}{message}, qr/: leave out context$/,
         'context: and is named as DeepL names it');
    is(cost({ %$zh, formality => $_ }), cost($zh), "formality $_: without")
        for qw(prefer_more prefer_less default);

    for my $plain (qw(more less)) {
        my $res = $s->json('/v2/translate', { %$zh, formality => $plain });

        is($res->{status}, 400, "formality $plain: the family has none");
        like($res->{json}{message}, qr/'formality' is not supported.*mt1\.5/,
             "formality $plain: told clearly");
    }

    $res = $s->json('/old/translate', { %$zh, context => 'A menu.' });
    is($res->{status}, 400, 'context: the family has none');
    like($res->{json}{message}, qr/family mt1\b/, 'context: told');
    is($s->json('/old/translate', $zh)->{status}, 200, 'that family without');
}

# what is in the target language already comes back as it is

{
    my ($t) = translations({ text => ['Wo ist  die Datei, die ich gestern'
                                      . ' gespeichert habe?'],
                             target_lang => 'DE' });

    is($t->{text}, 'Wo ist  die Datei, die ich gestern gespeichert habe?',
       'in the target language already');
    is($t->{detected_source_language}, 'DE', '... and told so');
}

# outline_detection=0: tags part sentences where splitting_tags say so alone; it
# shows where a model is given tags

{
    my $menu = { text => ['<menu><p>Open the file.</p>'
                          . '<q>Close the window.</q></menu>'],
                 source_lang => 'EN', target_lang => 'ZH',
                 tag_handling => 'xml' };
    my $two = cost($menu, '/tags');
    my ($off, $on) = (JSON::PP::false, JSON::PP::true);

    is(cost({ %$menu, outline_detection => $on }, '/tags'), $two,
       'outline_detection: the default is true');
    isnt(cost({ %$menu, outline_detection => $off }, '/tags'), $two,
         'outline_detection false: the two are one text');
    is(cost({ %$menu, outline_detection => $off, splitting_tags => ['q'] },
            '/tags'), $two,
       'outline_detection false: splitting_tags part them');

    my ($back) = translations({ %$menu, outline_detection => $off }, '/tags');

    like($back->{text}, qr{^<menu><p>[^<]+</p><q>[^<]+</q></menu>$},
         'outline_detection false: the tags come back');
}

# null is absent; what is not known is ignored

is(scalar translations({ %$one, map { $_ => undef } qw(source_lang context
       show_billed_characters split_sentences preserve_formatting formality
       model_type glossary_id glossary_ids style_id custom_instructions
       tag_handling tag_handling_version outline_detection non_splitting_tags
       splitting_tags ignore_tags) }), 1, 'null is as good as absent');
is(scalar translations({ %$one, map { $_ => '' } qw(source_lang context
       split_sentences formality model_type glossary_id glossary_ids
       tag_handling) }), 1, 'and so is an empty string');
is(scalar translations({ %$one, glossary_ids => [], ignore_tags => [],
                         enable_beta_languages => JSON::PP::true,
                         nobody => { knows => ['this'] } }), 1,
   'unknown fields are ignored');


# ---- usage ----

{
    my $used = sub { return $s->get('/v2/usage')->{json} };
    my $before = $used->()->{character_count};

    translations({ %$one, text => ['Größe', 'Open the file.'] });

    is($used->()->{character_count} - $before, 19, 'characters are counted');
    is($used->()->{character_limit}, 1000000000000, 'there is no limit');
    is_deeply($s->get('/v2/glossary-language-pairs')->{json},
              { supported_languages => [] }, 'no glossaries here');
}


# ---- errors ----

# [what, value of one field over a good request, the message]

my @bad = (
    ['text', 1, qr/^text must be a string or an array of strings, not an int/],
    ['text', { a => 1 }, qr/^text must be .*, not an object/],
    ['text', ['a', undef], qr/^text must be .*, not null/],
    ['text', ['a', ['b']], qr/^text must be .*, not an array/],
    ['text', [], qr/^Parameter 'text' not specified/],
    ['text', undef, qr/^Parameter 'text' not specified/],
    ['target_lang', undef, qr/^Parameter 'target_lang' not specified/],
    ['target_lang', '', qr/^Parameter 'target_lang' not specified/],
    ['target_lang', 5, qr/^target_lang must be a string, not an integer/],
    ['target_lang', ['DE'], qr/^target_lang must be a string, not an array/],
    ['target_lang', 'XX', qr/^Value for 'target_lang' not supported: "XX" is/],
    ['target_lang', "DE\0", qr/^Value for 'target_lang' not supported/],
    ['target_lang', "\"\n\x{202e}", qr/^Value for 'target_lang' not supp/],
    ['target_lang', 'd' x 5000, qr/^Value for 'target_lang' not supported/],
    ['target_lang', 'JA', qr/"JA" is none of zh .Chinese.*de .German/],
    ['source_lang', 'XX', qr/^Value for 'source_lang' not supported/],
    ['source_lang', {}, qr/^source_lang must be a string, not an object/],
    ['source_lang', JSON::PP::true, qr/^source_lang must be .* a boolean/],
    ['context', 7, qr/^context must be a string, not an integer/],
    ['context', ['a'], qr/^context must be a string, not an array/],
    ['split_sentences', '2', qr/^Value for 'split_sentences' not supported/],
    ['split_sentences', 2, qr/^split_sentences must be a string/],
    ['split_sentences', [], qr/^split_sentences must be a string/],
    ['preserve_formatting', 'x', qr/^preserve_formatting must be a boolean/],
    ['preserve_formatting', {}, qr/^preserve_formatting must be a boolean/],
    ['preserve_formatting', 3, qr/^preserve_formatting must be a boolean/],
    ['show_billed_characters', [], qr/^show_billed_characters must be a bool/],
    ['outline_detection', 'maybe', qr/^outline_detection must be a boolean/],
    ['formality', 'polite', qr/^Value for 'formality' .*default, more, less/],
    ['formality', 1, qr/^formality must be a string, not an integer/],
    ['model_type', 'best', qr/^Value for 'model_type' not supported/],
    ['model_type', [], qr/^model_type must be a string/],
    ['tag_handling', 'sgml', qr/^Value for 'tag_handling' .*html, xml/],
    ['tag_handling', 0, qr/^tag_handling must be a string/],
    ['tag_handling_version', 'v3', qr/^Value for 'tag_handling_version' not/],
    ['ignore_tags', 1, qr/^ignore_tags must be a string or an array/],
    ['ignore_tags', [1], qr/^ignore_tags must be an array of strings/],
    ['splitting_tags', { a => 1 }, qr/^splitting_tags must be/],
    ['non_splitting_tags', [undef], qr/^non_splitting_tags must be/],
    ['glossary_id', 1, qr/^glossary_id must be a string/],
    ['glossary_id', 'x', qr/requires the source_lang/],
    ['glossary_ids', ['x'], qr/^'glossary_ids' is not supported/],
);

for my $case (@bad) {
    my ($field, $value, $message) = @$case;
    my $res = $s->json('/v2/translate', { %$one, $field => $value });
    my $what = "$field " . substr(JSON::PP->new->allow_nonref->ascii
                                  ->encode($value), 0, 30);

    is($res->{status}, 400, "$what: 400");
    is(join(' ', keys %{$res->{json} || {}}), 'message', "$what: its form");
    like($res->{json}{message}, $message, "$what: its message");
}

# whole bodies

@bad = (
    ['', qr/^the body is empty|^Parameter/],
    ['{', qr/^line 1, column/],
    ['[]', qr/^the body must be a JSON object, not an array/],
    ['"a"', qr/^line 1, column/],
    ['{"text": ["a"], "text": ["b"], "target_lang": "DE"}', qr/duplicate/],
    ['{"text": ["a\ud800"], "target_lang": "DE"}', qr/^line 1, column/],
    ["{\"text\": [\"a\xff\"], \"target_lang\": \"DE\"}", qr/not UTF-8/],
    ["{\"text\": [\"a\x01\"], \"target_lang\": \"DE\"}", qr/^line 1, column/],
    ['{"text": ' . '[' x 3000 . ']' x 3000 . '}', qr/depth|values/],
    ['{"text": "a", "target_lang": "DE"} x', qr/^line 1, column/],
);

for my $case (@bad) {
    my $res = $s->post('/v2/translate', $case->[0], $json);
    my $what = 'body ' . substr($case->[0], 0, 40) =~ s/[^ -~]/?/gr;

    is($res->{status}, 400, "$what: 400");
    like($res->{json}{message}, $case->[1], "$what: its message");
}

# forms

@bad = (
    ['text=a', qr/^Parameter 'target_lang' not specified/],
    ['target_lang=DE', qr/^Parameter 'text' not specified/],
    ['text=%ff&target_lang=DE', qr/not UTF-8/],
    ['text=a&target_lang=DE&preserve_formatting=2', qr/must be a boolean/],
    ['text=a&target_lang=DE&preserve_formatting=1%00x', qr/must be a boolean/],
    ['text=a&target_lang=FR&target_lang=XX', qr/^Value for 'target_lang'/],
);

for my $case (@bad) {
    my $res = $s->post('/v2/translate', $case->[0], $form);

    is($res->{status}, 400, "form $case->[0]: 400");
    like($res->{json}{message}, $case->[1], "form $case->[0]: its message");
}

# control characters in a text are the text's

is($s->json('/v2/translate', { %$one, text => ["a\0b\x{1}\x{7f}"] })
       ->{status}, 200, 'control characters in a text');

# XML that is none

{
    my $res = $s->json('/v2/translate', { %$one, text => ['<a>b</c>'],
                                          tag_handling => 'xml' });

    is($res->{status}, 400, 'broken XML: 400');
    like($res->{json}{message}, qr/^Tag handling parsing failed, please check/,
         'broken XML: its message');
}

# codes that clients know

{
    my $code = sub {
        my ($res, $status, $message, $what) = @_;

        is($res->{status}, $status, "$what: $status");
        is(header($res, 'Content-Type'), 'application/json', "$what: JSON");
        is(join(' ', keys %{$res->{json} || {}}), 'message', "$what: its form");
        like($res->{json}{message}, $message, "$what: its message");
    };

    $code->($s->json('/few/translate', { %$one, text => ['a', 'b', 'c'] }),
            400, qr/^Too many texts: 3, at most 2/, 'too many texts');
    $code->($s->json('/few/translate', { %$one, text => ['a' x 2000] }), 413,
            qr/larger than/, 'a large body');
    $code->($s->json('/v2/translate', { %$one, split_sentences => '0',
                                        text => ['Open the file. ' x 900] }),
            413, qr/1024|bytes|split/, 'a text that is not to be split');
    $code->($s->post('/v2/translate', 'a', 'Content-Type: text/plain'), 415,
            qr/application\/json/, 'another type');
    $code->($s->json('/hurry/translate', { %$one, text => ['Open it.'] x 200 }),
            504, qr/1 ms/, 'late');
    $code->($s->get('/v2/translate'), 405, qr/POST/, 'a method');
    $code->($s->json('/v2/usage', {}), 405, qr/GET/, 'another method');
    $code->($s->post('/v2/document', "--b--\r\n",
                     'Content-Type: multipart/form-data; boundary=b'), 404,
            qr/^Not available/, 'documents');
    $code->($s->json('/v2/document/1/result', {}), 404, qr/^Not available/,
            'a document');
    $code->($s->get($_), 404, qr/^Not available/, "$_ of version 3")
        for '/deepl/v3/glossaries', '/deepl/v3/glossaries/1/entries',
            '/deepl/v3/style_rules';
    $code->($s->get('/v2/glossaries'), 403, qr/off here/, 'no glossaries');
    $code->($s->json('/v2/translate', { %$one, source_lang => 'EN',
                                        glossary_id => 'x' }),
            403, qr/off here/, 'no glossary');
}

# whole after all that

like((translations($one))[0]{text}, qr/Datei/, 'still there');

$s->finish();
done_testing();
