# Google's Cloud Translation, basic edition (v2): its wire forms as its clients
# send them, its answers, its errors.

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
    '{"family": "mt1.5", "greedy": true,'
    . ' "languages": ["en", "zh", "zh-Hant", "he", "tl"]}');


my $s = Hymt::Server->new(conf => <<"END");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    log_format key '\$uri "\$hymt_api_key"';
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    hymt_model more { path $model; threads 1; max_batch 4; context 512;
                      queue_tokens 400; }
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/logs/key.log key;
        location /language/translate/v2 { hymt_translate demo api=google; }
        location /language/ { hymt_translate demo api=google; }
        location /all/ { hymt_translate demo api=google; }
        location = /exact { hymt_translate demo api=google; }
        location /more/ { hymt_translate more api=google; }
        location /few/ {
            hymt_translate demo api=google;
            hymt_max_texts 2;
            hymt_max_body 1k;
            hymt_split none;
        }
        location /long/ { hymt_translate demo api=google; hymt_split none; }
        location /defaults/ {
            hymt_translate demo api=google;
            hymt_default_source en;
            hymt_default_target fr;
        }
    }
}
END

$s->start();

my $v2 = '/language/translate/v2';
my $form = 'Content-Type: application/x-www-form-urlencoded';
my $json = 'Content-Type: application/json';


# The translations that the server gives for parameters.
sub translated {
    my ($data, $where) = @_;

    my $res = $s->json($where || $v2, $data);

    is($res->{status}, 200, 'status 200') or diag($res->{body});

    return $res->{json}{data}{translations};
}


sub error_is {
    my ($res, $status, $reason, $message, $name) = @_;

    my $error = ($res->{json} || {})->{error} || {};

    is($res->{status}, $status, "$name: status") or diag($res->{body});
    is(header($res, 'Content-Type'), 'application/json', "$name: type");
    is($error->{code}, $status, "$name: code");
    is_deeply($error->{errors}, [{ message => $error->{message},
                                   domain => $reason eq 'rateLimitExceeded'
                                             ? 'usageLimits' : 'global',
                                   reason => $reason }], "$name: errors");

    if (ref $message) {
        like($error->{message}, $message, "$name: message");

    } else {
        is($error->{message}, $message, "$name: message");
    }
}


# ---- what comes in ----

my $one = translated({ q => 'Open the file.', source => 'en', target => 'de' });

is(scalar @$one, 1, 'one translation');
is_deeply([keys %{$one->[0]}], ['translatedText'],
          'no detected source where one was given');
like($one->[0]{translatedText}, qr/Datei/, 'is one');

my $want = $one->[0]{translatedText};

my %forms = (
    'array' => $s->json($v2, { q => ['Open the file.'], source => 'en',
                               target => 'de' }),
    'GET' => $s->get("$v2?q=Open+the+file.&source=en&target=de&key=K"),
    'GET with a type' => $s->get("$v2?q=Open+the+file.&source=en&target=de",
                                 $json),
    'POST with a query string' => $s->post("$v2?q=Open+the+file.&source=en"
        . '&target=de', undef, 'Content-Length: 0'),
    'form' => $s->post($v2, 'q=Open+the+file.&source=en&target=de', $form),
    'form, and key in the query string' => $s->post("$v2?key=K&target=de",
        'q=Open+the+file.&source=en', $form, 'X-HTTP-Method-Override: GET'),
    'slash at the end' => $s->get("$v2/?q=Open+the+file.&source=en&target=de"),
    'below language/' => $s->get('/language/translate/v2/?q=Open+the+file.'
                                 . '&source=en&target=de'),
    'below another place' => $s->get('/all/language/translate/v2'
        . '?q=Open+the+file.&source=en&target=de'),
    'exact location' => $s->get('/exact?q=Open+the+file.&source=en&target=de'),
    'unknown fields' => $s->json($v2, { q => 'Open the file.', source => 'EN',
        target => 'DE', prettyprint => 1, cid => [], more => { a => [] } }),

    # @google-cloud/translate 8 and google-cloud-translate 3 (translate_v2)
    'Node' => $s->json("$v2?key=K", '{"q":["Open the file."],"format":"text",'
        . '"target":"de","source":"en"}', 'x-goog-api-client: gl-node/20',
        'Accept-Encoding: gzip'),
    'Python' => $s->json($v2, '{"target": "de", "q": ["Open the file."],'
        . ' "cid": [], "format": null, "source": "en", "model": null}'),
);

for my $name (sort keys %forms) {
    is($forms{$name}{status}, 200, "$name: status")
        or diag($forms{$name}{body});
    is_deeply($forms{$name}{json}, { data => { translations => [
        { translatedText => $want } ] } }, "$name: answer");
}

is_deeply(translated({ q => 'Open the file.', source => 'en', target => 'de',
                       model => 'nmt' }),
          [{ translatedText => $want, model => 'nmt' }], 'model comes back');


# ---- several texts, the source, the format ----

my $many = $s->get("$v2?q=Open+the+file.&q=Close+the+window.&target=de"
                   . '&format=text')->{json}{data}{translations};

is(scalar @$many, 2, 'repeated q');
like($many->[0]{translatedText}, qr/Datei/, 'in its order: first');
like($many->[1]{translatedText}, qr/Fenster/, 'in its order: last');
is($many->[1]{detectedSourceLanguage}, 'en', 'source detected');

is_deeply(translated({ q => ["\x{1f600}", ''], target => 'de' }), [
    { translatedText => "\x{1f600}", detectedSourceLanguage => 'und' },
    { translatedText => '', detectedSourceLanguage => 'und' },
], 'nothing to translate, nothing detected');

is_deeply(translated({ q => ['Wo ist  die Datei, die ich gestern gespeichert'
                             . ' habe?'], target => 'de', format => 'text' }), [
    { translatedText => 'Wo ist  die Datei, die ich gestern gespeichert habe?',
      detectedSourceLanguage => 'de' },
], 'in the target language already');

for my $source (undef, '', 'auto') {
    is(translated({ q => 'Open the file.', target => 'de', source => $source })
         ->[0]{detectedSourceLanguage}, 'en', 'source null, empty or auto');
}

is_deeply([keys %{$s->json('/defaults/', { q => 'Open the file.' })
                    ->{json}{data}{translations}[0]}], ['translatedText'],
          'default languages');

# a body of a size that is parsed off the event loop

is_deeply(translated({ q => [map { "\x{1f600}" x 50 } 1 .. 100],
                       source => 'en', target => 'de' }),
          [map { { translatedText => "\x{1f600}" x 50 } } 1 .. 100],
          'a large array');

my $quoted = { q => "\x{1f600} '\x{fe0f}\"\x{fe0f}", source => 'en',
               target => 'de' };

is(translated($quoted)->[0]{translatedText},
   "\x{1f600} &#39;\x{fe0f}&quot;\x{fe0f}", 'HTML by default: quotes escaped');
is(translated({ %$quoted, format => undef })->[0]{translatedText},
   "\x{1f600} &#39;\x{fe0f}&quot;\x{fe0f}", 'format null: HTML');
is(translated({ %$quoted, format => 'text' })->[0]{translatedText},
   "\x{1f600} '\x{fe0f}\"\x{fe0f}", 'format text: as it is');

my $html = translated({ q => '<p title="It\'s">Open the <b>file</b>.</p>'
    . "<!-- it's \"so\" --><script>a = 'b' + \"c\"</script><p>'</p>",
    source => 'en', target => 'de' })->[0]{translatedText};

like($html, qr{^<p title="It's">.*</p><!-- it's "so" --><script>a = 'b' \+ "c"</script><p>&#39;</p>$},
     'markup stays, quotes in text are escaped');
like($html, qr{<b>[^<]+</b>}, 'tags in a sentence too');

like(translated({ q => 'Save A & B.', source => 'en', target => 'de' })
       ->[0]{translatedText}, qr/^(?:[^&]|&\w+;|&#\d+;)*$/,
     'plain text comes back as HTML');


# ---- /detect, /languages ----

for my $res ($s->json("$v2/detect", { q => ['Open the file and close it.'] }),
             $s->json("$v2/detect", { q => 'Open the file and close it.' }),
             $s->get("$v2/detect?q=Open+the+file+and+close+it.&key=K"),
             $s->get('/language/translate/v2/detect?q=Open+the+file+and+close'
                     . '+it.'))
{
    like($res->{body}, qr/^\{"data":\{"detections":\[\[\{"language":"en","isReliable":(?:true|false),"confidence":[01]\.\d+\}\]\]\}\}$/,
         'detect: one inner item');
}

my $found = $s->json("$v2/detect", { q => ["\x{1f600}",
    'Bonjour tout le monde'] })->{json}{data}{detections};

is(join(' ', map { scalar(@$_) . $_->[0]{language} } @$found), '1und 1fr',
   'detect: as many as texts');

my @codes = qw(zh-CN en fr es de);

is_deeply($s->get("$v2/languages")->{json}, { data => { languages =>
    [map { { language => $_ } } @codes] } }, 'languages: codes');

my @names = qw(Chinese English French Spanish German);

for my $target (qw(en de)) {
    is_deeply($s->get("$v2/languages?target=$target&key=K")->{json}{data}
                {languages},
              [map { { language => $codes[$_], name => $names[$_] } } 0 .. 4],
              "languages: names for $target");
}

is($s->get("$v2/languages?target=zh-CN")->{json}{data}{languages}[0]{name},
   '中文', 'languages: names in Chinese');
is_deeply($s->json("$v2/languages", { target => undef })->{json},
          $s->get("$v2/languages")->{json}, 'languages: POST');

is(join(' ', map { $_->{language} }
        @{$s->get('/more/languages')->{json}{data}{languages}}),
   'zh-CN en tl zh-TW he', 'codes on the wire');

for my $code (qw(zh zh-CN ZH-cn zh-Hans zh-TW zh-HK he iw tl fil)) {
    is($s->json('/more/', { q => 'Open the file.', source => 'en',
                            target => $code })->{status}, 200, "code $code");
}


# ---- keys ----

$s->get("$v2/languages?key=a%2Bb");
$s->get("$v2/languages", 'X-Goog-Api-Key: from-header');

my $keys = Hymt::Process::slurp($s->dir() . '/logs/key.log');

like($keys, qr{languages "a\+b"\n.*languages "from-header"\n\z}, 'keys');


# ---- errors ----

my %ok = (q => 'a', source => 'en', target => 'de');

sub with {
    my ($name, $value) = @_;

    return { %ok, $name => $value };
}

my @errors = (
    ['q missing', { target => 'de' }, 'required', 'Required Text'],
    ['q null', with(q => undef), 'required', 'Required Text'],
    ['q an empty array', with(q => []), 'required', 'Required Text'],
    ['q a number', with(q => 5), 'invalid', qr/^q must be a string/],
    ['q an object', with(q => {}), 'invalid', qr/^q must be a string/],
    ['q false', with(q => JSON::PP::false), 'invalid', qr/^q must be/],
    ['q mixed', with(q => ['a', 1]), 'invalid', qr/^q must be an array/],
    ['q nested', with(q => [['a']]), 'invalid', qr/^q must be an array/],
    ['q null in an array', with(q => [undef]), 'invalid', qr/^q must be/],
    ['target missing', { q => 'a' }, 'required', 'Required parameter: target'],
    ['target null', with(target => undef), 'required',
     'Required parameter: target'],
    ['target empty', with(target => ''), 'required',
     'Required parameter: target'],
    ['target a number', with(target => 1), 'invalid',
     'target must be a string, not an integer'],
    ['target an array', with(target => ['de']), 'invalid',
     'target must be a string, not an array'],
    ['target unknown', with(target => 'zz'), 'invalid',
     'Invalid Value: target "zz" is not supported'],
    ['target of another model', with(target => 'ja'), 'invalid',
     'Invalid Value: target "ja" is not supported'],
    ['target auto', with(target => 'auto'), 'invalid',
     'Invalid Value: target "auto" is not supported'],
    ['target long', with(target => 'z' x 5000), 'invalid',
     'Invalid Value: target "' . 'z' x 40 . '" is not supported'],
    ['target with control characters', with(target => "z\x01\n\x7f"),
     'invalid', 'Invalid Value: target "z???" is not supported'],
    ['source unknown', with(source => 'zz'), 'invalid',
     'Invalid Value: source "zz" is not supported'],
    ['source an object', with(source => {}), 'invalid',
     'source must be a string, not an object'],
    ['source the target', with(source => 'de-AT'), 'invalid',
     'Bad language pair: de|de'],
    ['format unknown', with(format => 'xml'), 'invalid',
     'Invalid Value: format must be html or text, not "xml"'],
    ['format a number', with(format => 1), 'invalid',
     'format must be a string, not an integer'],
    ['an array', '[]', 'invalid', 'the body must be a JSON object, not an array'],
    ['null', 'null', 'invalid', qr/./],
    ['no JSON', '{"q"', 'invalid', qr/^line 1, column \d+: /],
    ['a field twice', '{"q":"a","q":"b"}', 'invalid', qr/duplicate/],
    ['a huge number', '{"q":' . '9' x 400 . '}', 'invalid', qr/^line 1/],
    ['deep nesting', '{"q":' . '[' x 2900, 'invalid', qr/depth/],
    ['very deep nesting', '{"q":' . '[' x 100000, 'invalid', qr/values/],
    ['a lone surrogate', '{"q":"\ud800"}', 'invalid', qr/uD800/],
    ['not UTF-8', "{\"q\":\"\xff\"}", 'invalid', qr/not UTF-8/],
    ['a control character', "{\"q\":\"a\x01b\"}", 'invalid', qr/^line 1/],
    ['no body', '', 'required', 'Required Text'],
);

for my $case (@errors) {
    my ($name, $data, $reason, $message) = @$case;

    error_is($s->json($v2, $data), 400, $reason, $message, $name);
}

error_is($s->get("$v2?target=de"), 400, 'required', 'Required Text',
         'GET without q');
error_is($s->get("$v2?q=%ff&target=de"), 400, 'invalid', qr/not UTF-8/,
         'GET that is not UTF-8');
error_is($s->get("$v2/detect"), 400, 'required', 'Required Text',
         'detect without q');
error_is($s->get("$v2/languages?target=zz"), 400, 'invalid',
         'Invalid Value: target "zz" is not supported', 'languages for zz');
error_is($s->json('/few/', with(q => ['a', 'b', 'c'])), 400, 'invalid',
         'Too many text segments: 3; at most 2 are taken', 'too many texts');
error_is($s->json('/few/', with(q => 'a' x 2000)), 413, 'uploadTooLarge',
         qr/larger/, 'a large body');
error_is($s->json('/more/', { %{with(q => 'word ' x 300)}, target => 'zh' }),
         413, 'uploadTooLarge', qr/never has room/, 'more than "queue_tokens"');
error_is($s->json('/long/', { %{with(q => 'word ' x 3000)}, format => 'text' }),
         400, 'invalid', qr/takes at most|tokens/, 'a long text');
error_is($s->get("$v2/nothing"), 404, 'notFound', qr/./, 'no such path');
error_is($s->send($s->http('DELETE', $v2)), 405, 'httpMethodNotAllowed',
         'use GET or POST', 'DELETE');
error_is($s->json($v2, { %{with(q => 'a')}, target => "de\0x" }), 400,
         'invalid', 'Invalid Value: target "de?x" is not supported',
         'a target with NUL');
error_is($s->post($v2, 'a', 'Content-Type: text/plain'), 415, 'invalid',
         qr/./, 'plain text');

is($s->json($v2, with(q => "a\0b"))->{status} =~ /^(?:200|400)$/ ? 1 : 0, 1,
   'NUL in a text does no harm');

$s->finish();
done_testing();
