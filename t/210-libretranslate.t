# LibreTranslate's API: its wire forms as its clients send them, its answers,
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
    '{"family": "mt1.5", "greedy": true,'
    . ' "languages": ["en", "zh", "zh-Hant", "pt", "yue"]}');


my $s = Hymt::Server->new(conf => <<"END");
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    log_format key '\$uri "\$hymt_api_key"';
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    hymt_model more { path $model; threads 1; max_batch 4; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log %%DIR%%/logs/key.log key;
        location /libre/ { hymt_translate demo api=libretranslate; }
        location = /translate { hymt_translate demo api=libretranslate; }
        location /few/ {
            hymt_translate demo api=libretranslate;
            hymt_max_texts 2;
            hymt_max_body 1k;
        }
        location /defaults/ {
            hymt_translate demo api=libretranslate;
            hymt_default_source en;
            hymt_default_target fr;
        }
        location /cors/ {
            hymt_translate demo api=libretranslate;
            hymt_cors *;
        }
        location /long/ {
            hymt_translate demo api=libretranslate;
            hymt_split none;
        }
        location /more/ { hymt_translate more api=libretranslate; }
        location = /ready { hymt_status; }
    }
}
END

$s->start();

my $form = 'Content-Type: application/x-www-form-urlencoded';
my $json = 'Content-Type: application/json';


# The text that the server gives for parameters.
sub translated {
    my ($data, $where) = @_;

    my $res = $s->json(($where || '/libre') . '/translate', $data);

    is($res->{status}, 200, 'status 200') or diag($res->{body});

    return $res->{json};
}


sub error_is {
    my ($res, $status, $error, $name) = @_;

    is($res->{status}, $status, "$name: status");
    is(header($res, 'Content-Type'), 'application/json', "$name: type");

    my @keys = keys %{$res->{json} || {}};

    is("@keys", 'error', "$name: has an error alone");

    if (ref $error) {
        like($res->{json}{error}, $error, "$name: text");

    } else {
        is($res->{json}{error}, $error, "$name: text");
    }
}


# ---- what comes in ----

my $one = translated({ q => 'Open the file.', source => 'en',
                       target => 'de' });

is_deeply([keys %$one], ['translatedText'], 'the translation alone');
like($one->{translatedText}, qr/Datei/, 'is one');

my $want = $one->{translatedText};

my %forms = (
    'form' => $s->post('/libre/translate', 'q=Open+the%20file.&source=en'
                       . '&target=de', $form),
    'form with a charset' => $s->post('/libre/translate',
        'q=Open+the%20file.&source=en&target=de', "$form; charset=UTF-8"),
    'query string' => $s->post('/libre/translate?q=Open%20the+file.&source=en'
                               . '&target=de', undef, 'Content-Length: 0'),
    'query string and form' => $s->post('/libre/translate?source=en&target=de',
                                        'q=Open+the+file.', $form),
    'multipart' => $s->post('/libre/translate', join("\r\n",
        map({ ('--xyz', "Content-Disposition: form-data; name=\"$_->[0]\"", '',
               $_->[1]) }
            ['q', 'Open the file.'], ['source', 'en'], ['target', 'de']),
        '--xyz--', ''), 'Content-Type: multipart/form-data; boundary=xyz'),
    'JSON without a type' => $s->post('/libre/translate',
        '{"q":"Open the file.","source":"en","target":"de"}'),
    'exact location' => $s->json('/translate',
        { q => 'Open the file.', source => 'EN', target => 'DE' }),
    'unknown fields' => $s->json('/libre/translate',
        { q => 'Open the file.', source => 'en', target => 'de',
          api_key => '', secret => [1, { a => undef }], suggest => 1 }),
    'null is unset' => $s->json('/libre/translate',
        { q => 'Open the file.', source => 'en', target => 'de',
          format => undef, alternatives => undef, api_key => undef }),
    'empty is unset' => $s->post('/libre/translate',
        'q=Open+the+file.&source=en&target=de&format=&api_key=', $form),

    # libretranslatepy 2.1.4, Weblate 5, Mastodon 4 as they send it
    'libretranslatepy' => $s->send("POST /libre/translate HTTP/1.1\r\n"
        . "Accept-Encoding: identity\r\n"
        . "Content-Type: application/x-www-form-urlencoded\r\n"
        . "Content-Length: 39\r\nHost: localhost\r\n"
        . "User-Agent: Python-urllib/3.11\r\nConnection: close\r\n\r\n"
        . 'q=Open+the+file.&source=en&target=de&a='),
    'Weblate' => $s->post('/libre/translate', 'api_key=&q=Open+the+file.'
        . '&source=en&target=de', $form, 'Accept: */*',
        'Accept-Encoding: gzip, deflate'),
);

for my $name (sort keys %forms) {
    is($forms{$name}{status}, 200, "$name: status")
        or diag($forms{$name}{body});
    is($forms{$name}{json}{translatedText}, $want, "$name: text");
}

my $masto = translated({ q => ['<p>Open the file.</p>'], source => 'auto',
                         target => 'de', format => 'html', api_key => '' });

like($masto->{translatedText}[0], qr{^<p>.*Datei.*</p>$}, 'Mastodon: HTML');
is($masto->{detectedLanguage}[0]{language}, 'en', 'Mastodon: source');


# ---- arrays, detection, alternatives ----

my $many = translated({ q => ['Open the file.', '', "\x{1f600} \x{1f44d}\x{1f3fd}",
                              'Close the window.'], source => 'auto',
                        target => 'de' });

is(scalar @{$many->{translatedText}}, 4, 'an array comes back as long');
like($many->{translatedText}[0], qr/Datei/, 'in its order: first');
is($many->{translatedText}[1], '', 'nothing stays nothing');
is($many->{translatedText}[2], "\x{1f600} \x{1f44d}\x{1f3fd}", 'emoji stay');
like($many->{translatedText}[3], qr/Fenster/, 'in its order: last');
is_deeply($many->{detectedLanguage},
          [($many->{detectedLanguage}[0]) x 4],
          'one detection for all of them');
is($many->{detectedLanguage}[0]{language}, 'en', 'of English');

my $raw = $s->json('/libre/translate', { q => 'Open the file and close it.',
                                         source => 'auto', target => 'de' });

like($raw->{body}, qr/"detectedLanguage":\{"confidence":\d+\.\d,"language":"en"\}/,
     'confidence is a real number of 100');

for my $text ("\x{1f600}", "?! \x{1f600} ...", "\x{1f1e9}\x{1f1ea} \x{2764}\x{fe0f}",
              "1\x{fe0f}\x{20e3}", "\x{1f468}\x{200d}\x{1f469}\x{200d}\x{1f467}")
{
    my $res = $s->json('/libre/translate', { q => $text, source => 'auto',
                                             target => 'de' });

    is($res->{json}{translatedText}, $text, 'emoji alone come back');
    like($res->{body}, qr/"detectedLanguage":\{"confidence":0\.0,"language":"en"\}/,
         'as English of no confidence');
}

my $same = translated({ q => 'Öffnen  Sie die Datei.', source => 'de',
                        target => 'de' });

is($same->{translatedText}, 'Öffnen  Sie die Datei.',
   'what is in the target language comes back');

my $others = translated({ q => 'Open the file and save your changes.',
                          source => 'en', target => 'de',
                          alternatives => 3 });

is(ref $others->{alternatives}, 'ARRAY', 'alternatives of a text');
cmp_ok(scalar @{$others->{alternatives}}, '<=', 3, 'no more than asked for');

my %seen = ($others->{translatedText} => 1);

is(scalar(grep { $seen{$_}++ || $_ eq '' } @{$others->{alternatives}}), 0,
   'all differ, from the translation too');

my $again = translated({ q => 'Open the file and save your changes.',
                         source => 'en', target => 'de', alternatives => 3 });

is_deeply($again, $others, 'asked again, the same answer');

my $lists = translated({ q => ['Open the file.', "\x{1f600}"],
                         source => 'en', target => 'de',
                         alternatives => '1' });

is(scalar @{$lists->{alternatives}}, 2, 'alternatives of an array: of each');
is(ref $lists->{alternatives}[0], 'ARRAY', 'an array');
is_deeply($lists->{alternatives}[1], [], 'or none');

is(translated({ q => 'Open the file.', source => 'en', target => 'de',
                alternatives => $_ })->{alternatives}, undef,
   "alternatives $_: none") for 0, -1;


# a body of a size that is parsed off the event loop

my $large = translated({ q => [map { "\x{1f600}" x 50 } 1 .. 100],
                         source => 'auto', target => 'de',
                         alternatives => 2 });

is_deeply($large, {
    translatedText => [map { "\x{1f600}" x 50 } 1 .. 100],
    detectedLanguage => [map { { confidence => 0, language => 'en' } }
                         1 .. 100],
    alternatives => [map { [] } 1 .. 100],
}, 'a large array');


# ---- line endings ----

# emoji, so that no model has a word in it

my $smile = '%F0%9F%98%80';

for my $end ('%0D%0A', '%0D', '%0A') {
    is($s->post('/libre/translate', "q=$smile$end$end$smile&source=en&target=de",
                $form)->{json}{translatedText}, "\x{1f600}\n\n\x{1f600}",
       "a form ends lines with LF, not $end");
}

is(translated({ q => "\x{1f600}\r\n\r\n\x{1f600}", source => 'en',
                target => 'de' })->{translatedText},
   "\x{1f600}\r\n\r\n\x{1f600}", 'JSON has them as they are');


# ---- HTML ----

my $html = translated({ q => '<p class="a">Open the <b>file</b>.</p>'
                             . '<!-- Open --><p>Tom &amp; Jerry</p>',
                        source => 'en', target => 'de', format => 'html' });

like($html->{translatedText},
     qr{^<p class="a">.*</p><!-- Open --><p>.*</p>$}, 'markup stays');
like($html->{translatedText}, qr{<b>[^<]+</b>}, 'tags in a sentence too');


# ---- /detect, /languages, /health, /frontend/settings ----

my $french = 'Bonjour tout le monde, comment allez-vous ?';

for my $res ($s->json('/libre/detect', { q => $french }),
             $s->post('/libre/detect', 'q=Bonjour+tout+le+monde,+comment'
                      . '+allez-vous+%3F&api_key=', $form),
             $s->json('/libre/detect', { q => [$french, $french] }))
{
    is($res->{status}, 200, 'detect: status') or diag($res->{body});
    is($res->{json}[0]{language}, 'fr', 'detect: French');
    cmp_ok($res->{json}[0]{confidence}, '>', 50, 'detect: of 100');
    like($res->{body}, qr/^\[\{"confidence":\d+\.\d,"language":"fr"\}/,
         'detect: wire form');
}

is($s->json('/libre/detect', { q => "\x{1f600}" })->{body},
   qq([{"confidence":0.0,"language":"en"}]\n), 'detect: nothing');

my $langs = $s->get('/libre/languages');

is_deeply($langs->{json}, [
    map { { code => $_->[0], name => $_->[1],
            targets => [qw(zh-Hans en fr es de)] } }
    ['zh-Hans', 'Chinese'], ['en', 'English'], ['fr', 'French'],
    ['es', 'Spanish'], ['de', 'German']
], 'languages');

is($s->send($s->http('GET', '/libre/languages', 'api_key=', $form))->{body},
   $langs->{body}, 'languages: GET with a form (libretranslatepy)');

is($s->get('/libre/health')->{body}, qq({"status":"ok"}\n), 'health');
is($s->send($s->http('GET', '/libre/health', '{}', $json))->{body},
   qq({"status":"ok"}\n), 'health: GET with JSON (its Docker image)');

is_deeply($s->get('/libre/frontend/settings')->{json}, {
    charLimit => -1, frontendTimeout => 500, apiKeys => JSON::PP::false,
    keyRequired => JSON::PP::false, suggestions => JSON::PP::false,
    filesTranslation => JSON::PP::false, supportedFilesFormat => [],
    language => { source => { code => 'auto', name => 'Auto Detect' },
                  target => { code => 'en', name => 'English' } },
}, 'frontend/settings');

is($s->get('/defaults/frontend/settings')->{json}{language}{target}{code},
   'fr', "frontend/settings: the location's target");


# ---- codes of its own ----

my $codes = $s->get('/more/languages')->{json};

is(join(' ', map { $_->{code} } @$codes), 'zh-Hans en pt pt-BR zh-Hant yue',
   'codes on the wire');
is(join(', ', map { $_->{name} } @$codes), 'Chinese, English, Portuguese,'
   . ' Portuguese (Brazil), Chinese (traditional), Cantonese', 'their names');

for my $code (qw(zh-Hans ZH-HANS zh zh-CN zh-Hant zt zh-TW pt pt-BR PT-br pb
                 yue))
{
    is($s->json('/more/translate', { q => 'Open the file.', source => 'en',
                                     target => $code })->{status}, 200,
       "code $code");
}

is($s->json('/more/detect', { q => '打开文件并保存您的更改。' })->{json}[0]{language},
   'zh-Hans', 'detect gives its code');

is($s->json('/more/translate', { q => 'abc', source => 'pt-BR',
                                 target => 'pt' })->{json}{translatedText},
   'abc', 'pt-BR and pt are one language');


# ---- defaults, CORS, keys ----

like($s->json('/defaults/translate', { q => 'Open the file.' })
       ->{json}{translatedText}, qr/fichier/, 'default languages');

is(header($s->get('/cors/languages', 'Origin: https://example.com'),
          'Access-Control-Allow-Origin'), '*', 'CORS');

$s->get('/libre/health?api_key=a%20b');
$s->get('/libre/health', 'Authorization: Bearer s3cret');
$s->get('/libre/health?api_key=');

my $keys = Hymt::Process::slurp($s->dir() . '/logs/key.log');

like($keys, qr{^/libre/health "a b"$}m, 'api_key in the query string');
like($keys, qr{^/libre/health "s3cret"$}m, 'a bearer');
like($keys, qr{/libre/health "-"\n\z}, 'an empty key is none');


# ---- errors ----

my %ok = (q => 'a', source => 'en', target => 'de');

sub with {
    my ($name, $value) = @_;

    return { %ok, $name => $value };
}

my @errors = (
    ['q missing', { source => 'en', target => 'de' },
     'Invalid request: missing q parameter'],
    ['q null', with(q => undef), 'Invalid request: missing q parameter'],
    ['q empty', with(q => ''), 'Invalid request: missing q parameter'],
    ['q an empty array', with(q => []), 'Invalid request: missing q parameter'],
    ['q a number', with(q => 5), qr/^Invalid request: q must be a string/],
    ['q an object', with(q => {}), qr/^Invalid request: q must be a string/],
    ['q true', with(q => JSON::PP::true), qr/^Invalid request: q must be/],
    ['q mixed', with(q => ['a', 1]), qr/^Invalid request: q must be/],
    ['q nested', with(q => [['a']]), qr/^Invalid request: q must be/],
    ['q null in an array', with(q => [undef]), qr/^Invalid request: q must be/],
    ['source missing', { q => 'a', target => 'de' },
     'Invalid request: missing source parameter'],
    ['source null', with(source => undef),
     'Invalid request: missing source parameter'],
    ['source empty', with(source => ''),
     'Invalid request: missing source parameter'],
    ['source a number', with(source => 1),
     'Invalid request: source must be a string, not an integer'],
    ['source an array', with(source => ['en']),
     'Invalid request: source must be a string, not an array'],
    ['source unknown', with(source => 'zz'), 'zz is not supported'],
    ['source of another model', with(source => 'ja'), 'ja is not supported'],
    ['target missing', { q => 'a', source => 'en' },
     'Invalid request: missing target parameter'],
    ['target null', with(target => undef),
     'Invalid request: missing target parameter'],
    ['target an object', with(target => {}),
     'Invalid request: target must be a string, not an object'],
    ['target unknown', with(target => 'zz'), 'zz is not supported'],
    ['target auto', with(target => 'auto'), 'auto is not supported'],
    ['target long', with(target => 'z' x 5000),
     'z' x 40 . ' is not supported'],
    ['target with control characters', with(target => "z\x01\n\x7f"),
     'z??? is not supported'],
    ['target with NUL', with(target => "de\0"), qr/ is not supported$/],
    ['format unknown', with(format => 'xml'), 'xml format is not supported'],
    ['format a number', with(format => 1),
     'Invalid request: format must be a string, not an integer'],
    ['alternatives a word', with(alternatives => 'x'),
     'Invalid request: alternatives parameter is not a number'],
    ['alternatives empty', with(alternatives => ''),
     'Invalid request: alternatives parameter is not a number'],
    ['alternatives true', with(alternatives => JSON::PP::true),
     'Invalid request: alternatives parameter is not a number'],
    ['alternatives an array', with(alternatives => [1]),
     'Invalid request: alternatives parameter is not a number'],
    ['alternatives many', with(alternatives => 4),
     'Invalid request: alternatives parameter must be <= 3'],
    ['alternatives huge', with(alternatives => '9' x 30),
     'Invalid request: alternatives parameter must be <= 3'],
    ['alternatives 1e30', '{"q":"a","source":"en","target":"de",'
     . '"alternatives":1e30}',
     'Invalid request: alternatives parameter must be <= 3'],
    ['an array', '[]', 'Invalid JSON format'],
    ['a string', '"a"', qr/^Invalid JSON format/],
    ['null', 'null', qr/^Invalid JSON format/],
    ['no JSON', '{"q"', qr/^Invalid JSON format: line 1, column \d+: /],
    ['a field twice', '{"q":"a","q":"b"}', qr/^Invalid JSON format: .*duplicate/],
    ['a huge number', '{"q":' . '9' x 400 . '}', qr/^Invalid JSON format: /],
    ['deep nesting', '{"q":' . '[' x 2900, qr/^Invalid JSON format: .*depth/],
    ['very deep nesting', '{"q":' . '[' x 100000, qr/^Invalid request: .*values/],
    ['a lone surrogate', '{"q":"\ud800"}', qr/^Invalid JSON format: .*uD800/],
    ['not UTF-8', "{\"q\":\"\xff\"}", qr/^Invalid request: .*not UTF-8/],
    ['a control character', "{\"q\":\"a\x01b\"}", qr/^Invalid JSON format: /],
    ['no body', '', 'Invalid request: missing q parameter'],
);

for my $case (@errors) {
    my ($name, $data, $error) = @$case;

    error_is($s->json('/libre/translate', $data), 400, $error, $name);
}

error_is($s->post('/libre/translate', 'source=en&target=es', $form), 400,
         'Invalid request: missing q parameter', 'form without q');
error_is($s->post('/libre/translate', 'q=a&source=en&target=zz', $form), 400,
         'zz is not supported', 'form with zz');
error_is($s->post('/libre/translate', 'q=a&source=en&target=de&alternatives=1x',
                  $form), 400,
         'Invalid request: alternatives parameter is not a number',
         'form with a bad number');
error_is($s->post('/libre/translate', 'q=%ff&source=en&target=de', $form), 400,
         'Invalid request: the form is not UTF-8', 'form that is not UTF-8');
error_is($s->post('/libre/translate', 'nothing', 'Content-Type:'
                  . ' multipart/form-data; boundary=x'), 400,
         qr/^Invalid request: the multipart/, 'broken multipart');

error_is($s->json('/libre/detect', {}), 400,
         'Invalid request: missing q parameter', 'detect without q');
error_is($s->json('/libre/detect', { q => 1 }), 400,
         qr/^Invalid request: q must be a string/, 'detect of a number');

error_is($s->json('/few/translate', with(q => ['a', 'b', 'c'])), 400,
         'Invalid request: request (3) exceeds text limit (2)',
         'too many texts');
error_is($s->json('/few/translate', with(q => 'a' x 2000)), 400,
         qr/^Invalid request: request exceeds text limit: /, 'a large body');
error_is($s->json('/long/translate', with(q => 'word ' x 3000)), 400,
         qr/^Invalid request: request exceeds text limit: /, 'a long text');

error_is($s->get('/libre/nothing'), 404, qr/./, 'no such path');
error_is($s->get('/libre/translate'), 405, qr/POST/, 'GET of translate');
error_is($s->post('/libre/translate', 'a', 'Content-Type: text/plain'), 415,
         qr/./, 'plain text');

error_is($s->post('/libre/translate_file', '{}', $json), 403,
         'Files translation are disabled on this server.', 'files');
error_is($s->get('/libre/download_file/a.txt'), 400,
         'Files translation are disabled on this server.', 'a file');
error_is($s->post('/libre/suggest', 'q=a&s=b', $form), 403,
         'Suggestions are disabled on this server.', 'suggestions');

my ($code, $said) = $s->test_conf(<<'END');
%%GLOBALS%%
events { }
http {
    hymt_model demo { path %%MODEL%%; }
    server { location / { hymt_translate demo api=libre; } }
}
END

isnt($code, 0, 'an API that is none');
like($said, qr/"api=libre" of "hymt_translate": it knows api=native, api=libretranslate,/,
     'says which there are');

is($s->json('/libre/translate', with(q => "a\0b"))->{status}
   =~ /^(?:200|400)$/ ? 1 : 0, 1, 'NUL in a text does no harm');

$s->finish();
done_testing();
