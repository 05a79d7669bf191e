# deepl, DeepL's own client from PyPI, asks us as it is.

use strict;
use warnings;
use utf8;

use JSON::PP ();
use Test::More;

use Hymt::Client;
use Hymt::Server;


binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


my $client = Hymt::Client->new('deepl>=1.22');


# a model that says it has prompts for terms, whatever the built-in one says

my $model = Hymt::Server::own_model(
    '{"family": "mt1.5", "greedy": true,'
    . ' "languages": ["en", "zh", "de"]}');

my $s = Hymt::Server->new(conf => <<"END");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path $model; threads 1; max_batch 8; context 1024; }
    server {
        listen 127.0.0.1:%%PORT%%;
        hymt_glossaries html;
        hymt_owner \$http_authorization;
        location / { hymt_translate demo api=deepl; }
        location /off/ { hymt_translate demo api=deepl; hymt_glossaries off; }
        location /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $url = 'http://127.0.0.1:' . $s->port();
my $out = $client->run('t/clients/deepl_client.py', $url);

is($?, 0, 'the client got through') or diag($out);

my $got = eval { JSON::PP->new->utf8->decode($out) } || {};

like($got->{texts}[$_]{text}, qr/Datei/, 'translate_text()') for 0, 1;
is_deeply([map { $_->{source}, $_->{billed} } @{$got->{texts}}],
          ['EN', 14, 'EN', 15], 'what it reads besides');
like($got->{tags}, qr{^[^<]*<x id="1"></x>[^<]*$}, 'tags');
is($got->{zh}[1], 'latency_optimized', 'model_type');
is("@{$got->{sources}}", 'ZH EN DE', 'get_source_languages()');
is("@{$got->{targets}}", 'ZH ZH-HANS EN-GB EN-US DE',
   'get_target_languages(), by the body of a GET');
ok(!(grep { $_ } @{$got->{formality}}), 'formality');
is($got->{pairs}, 6, 'get_glossary_languages()');
is($got->{usage}[0], 14 + 15 + 24 + 14, 'get_usage()');
ok(!$got->{usage}[2], 'and no limit reached');

my $g = $got->{glossaries};

is_deeply([@{$g->{made}}[0 .. 3]], ['mine', 'EN', 'DE', 2],
          'create_glossary()');
ok($g->{made}[4], 'ready');
cmp_ok($g->{made}[5], '>', 2020, 'creation_time');
is($g->{same}, 'mine', 'get_glossary()');
is("@{$g->{list}}", 'csv mine', 'list_glossaries()');
is($g->{others}, 0, "another key's");
ok($g->{entries}, 'get_glossary_entries()');
is_deeply($g->{csv}, { a => 'b', 'c, d' => 'e' },
          'create_glossary_from_csv()');
like($g->{used}, qr/T\x{fc}r/, 'translate_text() with one');
is("@{$g->{not_mine}}[0, 1]", 'GlossaryNotFoundException 404',
   'another key finds none');
like($g->{bad}[2], qr/Bad request, message: Bad glossary: .*line 1/,
     'an error in entries');
is("@{$g->{deleted}}[0, 1]", 'GlossaryNotFoundException 404',
   'delete_glossary()');

like($got->{unsupported}[2],
     qr/Bad request, message: Value for 'target_lang' not supported/,
     'a language');
like($got->{more}[2], qr/'formality' is not supported/, 'a formality');
like($got->{multilingual}[2], qr/Not available/, 'glossaries of version 3');
like($got->{document}[2], qr/Not available/, 'documents');
is("@{$got->{nobody}}[0, 1]", 'AuthorizationException 403', 'no glossaries');

$s->finish();
done_testing();
