# A binary upgrade: USR2 starts another NGINX with engines of its own beside the
# old one; WINCH and QUIT then end that.  No request fails.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;
use Time::HiRes qw(sleep);

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

$s->start();
ok($s->wait_ready('/status'), 'ready');

my @requests = map {
    $s->http_json('/translate', { text => "Open the file number $_.",
                                  tgt_lang => 'de' })
} 1 .. 40;

my @want = map { $_->{json}{translation} } $s->send_many(\@requests);

sub same {
    my (@responses) = @_;

    return scalar grep { ($responses[$_]{json}{translation} // '')
                         eq $want[$_] } 0 .. $#want;
}

my $old = $s->master();
my @socks = map { $s->open($_) } @requests;

$s->signal('USR2');

is(same(map { $s->read_response($_) } @socks), 40, 'answered during USR2');
close $_ for @socks;

ok($s->wait_until(20, sub { $s->master() && $s->master() != $old }),
   'there is a new master');
ok($s->wait_until(20, sub {
    2 == grep { $_->{title} =~ /worker process$/ } $s->children()
}), 'with workers');
ok(Hymt::Process::alive($old), 'beside the old one');

is(same($s->send_many(\@requests)), 40, 'both serve');

@socks = map { $s->open($_) } @requests;
$s->signal('WINCH', $old);

is(same(map { $s->read_response($_) } @socks), 40, 'answered during WINCH');
close $_ for @socks;

is(same($s->send_many(\@requests)), 40, 'the new one serves');

$s->signal('QUIT', $old);

ok($s->wait_until(20, sub { !Hymt::Process::alive($old) }),
   'the old master leaves');
is(same($s->send_many(\@requests)), 40, 'the new one goes on');

is($s->get('/status')->{json}{counters}{failed}, 0, 'none failed');
ok($s->get('/status')->{json}{counters}{answered} < 200,
   'the new one counts for itself');

my $engine = $s->get('/status')->{json}{engine_worker};

is($engine->{mode}, 'dedicated', 'with a worker for its engines');
ok((grep { $_ == $engine->{pid} } $s->workers()), 'of its own');

$s->finish();
done_testing();
