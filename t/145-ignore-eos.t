# ignore_eos, for measurements: an output has exactly max_tokens tokens.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 1024; }
    hymt_model exact { path %%MODEL%%; threads 1; max_batch 4; context 1024;
                       ignore_eos on; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /exact { hymt_translate exact; }
        location /v1/ { hymt_translate exact api=openai; }
        location = /status { hymt_status; }
    }
}
END

my $s = Hymt::Server->new(timeout => 60, conf => $CONF);

$s->start();
ok($s->wait_ready('/status'), 'ready');

my %one = (text => 'Open the file.', src_lang => 'en', tgt_lang => 'de');

# what ends here by itself goes on there; 400 tokens of it repeat themselves

for my $n (1, 2, 40, 400) {
    my $r = $s->json('/exact', { %one, max_tokens => $n });

    is($r->{status}, 200, "$n tokens: status");
    is($r->{json}{usage}{completion_tokens}, $n, "$n tokens: as many come");
    is($r->{json}{finish_reason}, 'length', "$n tokens: length ends them");
}

my $r = $s->json('/translate', { %one, max_tokens => 400 });

is($r->{json}{finish_reason}, 'stop', 'without ignore_eos: ends by itself');
cmp_ok($r->{json}{usage}{completion_tokens}, '<', 40,
       'without ignore_eos: as long as it is');

# drawn at random, and in another API

$r = $s->json('/exact', { %one, max_tokens => 60, temperature => 1.5,
                          top_k => 0, top_p => 1, seed => 7 });
is($r->{json}{usage}{completion_tokens}, 60, 'drawn: as many come');

$r = $s->json('/v1/chat/completions',
              { model => 'exact', max_tokens => 33, messages => [
                    { role => 'user', content => 'Open the file.' } ] });
is($r->{json}{usage}{completion_tokens}, 33, 'chat: as many come');

like($s->log(), qr/\[warn\] .*"exact": with "ignore_eos"/,
     'the log warns of it');
unlike($s->log(), qr/"demo": with "ignore_eos"/,
       'and not where it is off');

done_testing();
