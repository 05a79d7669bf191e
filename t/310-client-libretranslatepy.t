# libretranslatepy, the client from PyPI, asks us as it is.

use strict;
use warnings;
use utf8;

use JSON::PP ();
use Test::More;

use Hymt::Client;
use Hymt::Server;


binmode Test::More->builder->$_(), ':utf8' for qw(output failure_output);


my $client = Hymt::Client->new('libretranslatepy==2.1.4');


my $s = Hymt::Server->new(conf => <<'END');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /libre/ { hymt_translate demo api=libretranslate; }
    }
}
END

$s->start();

my $url = 'http://127.0.0.1:' . $s->port() . '/libre/';
my $out = $client->run('t/clients/libretranslate.py', $url);

is($?, 0, 'the client got through') or diag($out);

my $got = eval { JSON::PP->new->utf8->decode($out) } || {};

like($got->{translate}, qr/Datei/, 'translate()');
like($got->{auto}, qr/fichier/, 'translate() from any language');
is($got->{lines}, "\x{1f600}\n\x{1f600}", 'lines end with LF');
is($got->{detect}[0]{language}, 'fr', 'detect()');
is(join(' ', map { $_->{code} } @{$got->{languages}}), 'zh-Hans en fr es de',
   'languages()');
ok($got->{keyed}, 'languages() with a key, in the body of a GET');
is_deeply($got->{unsupported}, [400, 'zz is not supported'], 'an error');
is_deeply($got->{missing}, [400, 'Invalid request: missing q parameter'],
          'another error');

$s->finish();
done_testing();
