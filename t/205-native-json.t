# A body of the native API that is read without jansson, and one that says the
# same with an escape, which is not, are answered alike: each field with each
# kind of value.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $s = Hymt::Server->new(timeout => 60, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 8; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

my @fields = (qw(text src_lang tgt_lang format split terms keep context style
                 stream session_id temperature top_p top_k repetition_penalty
                 seed max_tokens), '', 'Text', 'text1', 'x' x 63);
my @values = ('""', '"de"', '"auto"', '"html"', '"none"', '" a"',
              "\"\xc3\xa9\"", '"' . 's' x 65 . '"',
              '"' . "\xe4\xbd\xa0" x 60 . '"', 'true', 'false', '0', '-0', '1',
              '-1', '0.5', '-0.0', '1e2', '1e-400', '3.5e38', '2147483647',
              '4294967296', '123456789012345678');


# What comes for the body, but for times and how a stream is cut.
sub answer {
    my ($body) = @_;

    my $res = $s->send("POST /translate HTTP/1.1\r\nHost: x\r\n"
                       . "Connection: close\r\n"
                       . "Content-Type: application/json\r\nContent-Length: "
                       . length($body) . "\r\n\r\n$body");
    my $text = $res->{body} =~ s/,"timing":.*//sr;

    return "$res->{status} "
           . $text =~ s/"\}\s*data: \{"delta":"//gr;
}


$s->start();
ok($s->wait_ready('/status'), 'ready');

for my $field (@fields) {
    my @others = grep { !/^"$field"/ }
                 '"text":"Open."', '"tgt_lang":"de"', '"seed":7',
                 '"max_tokens":2';
    my $plain = join ',', @others;
    my $escaped = $plain =~ s/^"t/"\\u0074/r;
    my (@flat, @tree);

    for my $value (@values) {
        push @flat, "$value: " . answer("{$plain,\"$field\":$value}");
        push @tree, "$value: " . answer("{$escaped,\"$field\":$value}");
    }

    is_deeply(\@flat, \@tree, "\"$field\"");
}

$s->finish();
done_testing();
