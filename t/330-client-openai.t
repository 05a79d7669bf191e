# openai, the client from PyPI, asks us as it is.

use strict;
use warnings;
use utf8;

use lib 't/lib';

use Hymt::Client;
use Hymt::Server;
use JSON::PP ();
use Test::More;

binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


my $client = Hymt::Client->new('openai==3.57.0', limit => 300);


my $s = Hymt::Server->new(conf => <<'END');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /v1/ { hymt_translate demo api=openai; }
        location /v1/hurry/ {
            hymt_translate demo api=openai;
            hymt_timeout 100ms;
            hymt_ping 20ms;
        }
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $want = $s->json('/translate', { text => 'Open the file and save your'
    . ' changes.', src_lang => 'en', tgt_lang => 'de' })->{json};
my $german = $want->{translation};
my $total = $want->{usage}{prompt_tokens} + $want->{usage}{completion_tokens};

my $url = 'http://127.0.0.1:' . $s->port() . '/v1';
my $out = $client->run('t/clients/openai_client.py', $url);

is($?, 0, 'the client got through') or diag($out);

my $got = eval { JSON::PP->new->utf8->decode($out) } || {};

is($got->{content}, $german, 'an answer');
is($got->{reason}, 'stop', 'its reason');
is($got->{total}, $total, 'its usage');
like($got->{parts} // '', qr/^(?:stop|length)$/, 'a list of parts');
is($got->{extra}, $german =~ s/\.$//r, 'fields that are not OpenAI\'s');
is($got->{stop}, $german =~ s/ und.*//sr, 'a stop string');
is_deeply($got->{streamed}, [$german, 'stop', $total], 'a stream');
is_deeply($got->{broken}, ['timeout', 'not done within 100 ms'],
          'a stream that breaks');
is_deeply($got->{models}, ['demo'], 'models');
is($got->{model}, 'demo', 'a model');
is_deeply($got->{not_found}, ['NotFoundError', 404, 'model_not_found',
                              'model'], 'no such model');
is_deeply($got->{bad}, ['BadRequestError', 400, 'invalid_value',
                        'temperature'], 'a bad value');
is_deeply($got->{n}, ['BadRequestError', 400, 'unsupported_value', 'n'],
          'two answers');

$s->finish();
done_testing();
