# Sessions: earlier texts of a conversation are the context of the next one; they
# belong to an owner, are bounded, and end.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $model = Hymt::Server::own_model('{"family": "mt1.5", "greedy": true}');

my $s = Hymt::Server->new(conf => <<"END");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    hymt_model able { path $model; threads 1; max_batch 8; context 1024; }
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 2; context 256; }
    hymt_sessions zone=s:256k bytes=128 ttl=2s;
    hymt_owner \$http_x_owner;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate able; }
        location = /demo { hymt_translate demo; }
        location = /near { hymt_translate able; hymt_neighbours on; }
        location = /off { hymt_translate able; hymt_sessions off; }
    }
}
END

$s->start();

sub ask {
    my ($uri, $owner, $id, $text) = @_;

    my $r = $s->json($uri, { text => $text || 'Open the file.',
                             tgt_lang => 'de', max_tokens => 20,
                             ($id ? (session_id => $id) : ()) },
                     $owner ? ("X-Owner: $owner") : ());

    return $r->{json}{usage}{prompt_tokens} if $r->{status} == 200;
    return "$r->{status} $r->{json}{error}{code}";
}

my $plain = ask('/translate');

ok($plain =~ /^\d+$/, 'a request without a session');
is(ask('/translate', undef, 's1'), '400 sessions_off',
   'a session without an owner');
is(ask('/off', 'a', 's1'), '400 sessions_off', 'where sessions are off');
is(ask('/demo', 'a', 's1'), '400 not_supported',
   'with a model that takes no context');

is(ask('/translate', 'a', 's1'), $plain, 'a new session has no context');

my $second = ask('/translate', 'a', 's1');

cmp_ok($second, '>', $plain, 'the second text has the first for context');

is($s->json('/translate', { text => 'Open the file.', tgt_lang => 'de',
                            max_tokens => 1, context => 'Open the file.' })
     ->{json}{usage}{prompt_tokens}, $second,
   'which is what a context of that text makes');

is(ask('/translate', 'b', 's1'), $plain, 'another owner has another session');
is(ask('/translate', 'a', 's2'), $plain, 'another id is another session');

# bounded: the oldest texts go

ask('/translate', 'a', 's3', "Text number $_ of a long session.") for 1 .. 12;

my $full = ask('/translate', 'a', 's3', 'Text number 13 of a long session.');
my $next = ask('/translate', 'a', 's3', 'Text number 14 of a long session.');

cmp_ok($next, '<=', $full + 4, 'what a session keeps is bounded');

# bad ids

is(ask('/translate', 'a', $_ x 65), '400 invalid_value', 'an id too long')
    for 'x';
is(ask('/translate', 'a', "a b"), '400 invalid_value', 'an id with a blank');
is(ask('/translate', 'x' x 200, 's1'), '400 invalid_value', 'an owner too long');

# the unit before as context

my $two = { text => 'Open the file. Close the window.', tgt_lang => 'de',
            split => 'sentence', max_tokens => 20 };
my ($near, $apart) = map { $s->json($_, $two)->{json}{usage}{prompt_tokens} }
                         '/near', '/translate';

cmp_ok($near, '>', $apart, 'hymt_neighbours: a unit knows the one before');

# it ends

ok($s->wait_until(6, sub { sleep(3); ask('/translate', 'a', 's1') == $plain }),
   'a session ends after its time');

$s->finish();
done_testing();
