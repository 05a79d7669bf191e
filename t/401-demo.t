# The demo's configuration: the page with what it needs, and every API where its
# clients look for it.

use strict;
use warnings;

use Test::More;

use Hymt::Demo;
use Hymt::Http qw(header);


my $s = Hymt::Demo::server();

$s->start();
ok($s->wait_ready('/status'), 'the model is ready');


# ---- the page ----

my %type = (
    '/'           => 'text/html; charset=utf-8',
    '/app.js'     => 'text/javascript; charset=utf-8',
    '/style.css'  => 'text/css; charset=utf-8',
);

for my $uri (sort keys %type) {
    my $res = $s->get($uri);

    is($res->{status}, 200, "GET $uri");
    is(header($res, 'Content-Type'), $type{$uri}, "type of $uri");
    is(header($res, 'X-Content-Type-Options'), 'nosniff', "$uri: nosniff");
    is(header($res, 'Content-Security-Policy'), "frame-ancestors 'none'",
       "$uri: in no frame");
}

my $html = $s->get('/')->{body};

like($html, qr/http-equiv="Content-Security-Policy"\s+content="default-src
               \s'none'/x, 'a policy that lets nothing in by default');
unlike($html, qr/\bon\w+\s*=|javascript:|<style|\bstyle=|<script>/i,
       'no inline handlers, scripts, styles');
unlike("$html$_", qr{\bhttps?://}, 'nothing from elsewhere')
    for map { $s->get($_)->{body} } '/app.js', '/style.css';


# ---- the APIs ----

my $body = { text => 'Open the file.', src_lang => 'en', tgt_lang => 'de' };

for my $uri ('/translate', '/translate/') {
    like($s->json($uri, $body)->{json}{translation}, qr/Datei/, "POST $uri");
}

is(join(' ', sort map { $_->{code} }
        @{$s->get('/translate/languages')->{json}{languages}}),
   'de en es fr zh', 'GET /translate/languages');

like($s->json('/translate/', { %$body, text => 'Open the <b>file</b>.',
                               format => 'html' })->{json}{translation},
     qr{<b>[^<]+</b>}, 'tags stay where the model knows none');

like($s->json('/libre/translate', { q => 'Open the file.', source => 'en',
                                    target => 'de' })
     ->{json}{translatedText}, qr/Datei/, 'POST /libre/translate');

like($s->json('/v2/translate', { text => ['Open the file.'],
                                 target_lang => 'DE' })
     ->{json}{translations}[0]{text}, qr/Datei/, 'POST /v2/translate');

like($s->json('/v1/chat/completions', { model => 'demo', messages => [
                  { role => 'user', content => 'Translate the following segment'
                    . ' into German, without additional explanation.'
                    . "\n\nOpen the file." }] })
     ->{json}{choices}[0]{message}{content}, qr/Datei/,
     'POST /v1/chat/completions');

is($s->get('/v1/models')->{json}{data}[0]{id}, 'demo', 'GET /v1/models');

like($s->json('/language/translate/v2', { q => 'Open the file.',
                                          source => 'en', target => 'de' })
     ->{json}{data}{translations}[0]{translatedText}, qr/Datei/,
     'POST /language/translate/v2');

is($s->get('/language/translate/v2/languages')->{status}, 200,
   'GET /language/translate/v2/languages');

$s->finish();
done_testing();
