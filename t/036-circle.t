# A fallback that proxies to the location it is for: each turn takes two of
# worker_connections, so it ends, all is given back, and the rest goes on.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $s = Hymt::Server->new(timeout => 30, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 64; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /circle {
            hymt_translate demo;
            hymt_timeout 1ms;
            error_page 429 503 504 = @self;
        }
        location @self {
            rewrite ^ /circle break;
            proxy_pass http://127.0.0.1:%%PORT%%;
        }
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

sub status { return $s->get('/status')->{json} }
sub turns { return scalar(() = $s->access_log() =~ /"POST \/circle /g) }

# more than a millisecond's work

my %long = (text => [map { "Open the file number $_ and close it." } 1 .. 60],
            tgt_lang => 'de');

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $res = $s->json('/circle', \%long);

is($res->{status}, 500, 'a circle ends');
ok($s->wait_until(10, sub { turns() > 20 }), 'after many turns');
cmp_ok(turns(), '<=', 32, 'two connections each');

# several at once end as they may: there are no connections for more

$s->send_many([map { $s->http_json('/circle', \%long) } 1 .. 8]);

ok($s->wait_until(20, sub {
    my $j = status() or return 0;

    !grep({ $_ } @{$j->{buffers}{used}})
    && $j->{models}[0]{queue}{in_flight} == 0
}), 'all is given back');

is($s->json('/translate', { text => 'Open the file.', tgt_lang => 'de' })
     ->{status}, 200, 'the rest goes on');

$s->allow_alerts(qr/worker_connections are not enough/);
$s->finish();
done_testing();
