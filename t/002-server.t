#!/usr/bin/perl
#
# Hymt::Server itself, with NGINX alone: what the tests of reload, quit, abort
# and kill stand on.

use strict;
use warnings;

use Test::More;

use Hymt::Server;


my $conf = <<'END';
pid %%DIR%%/logs/nginx.pid;
error_log %%DIR%%/logs/error.log info;
worker_processes 2;

events { }

http {
    %%GLOBALS_HTTP%%

    server {
        listen 127.0.0.1:%%PORT%%;

        location = /json {
            default_type application/json;
            return 200 '{"text": "one", "n": [1, 2]}';
        }

        location = /status {
            return 200 '{"state": "ready"}';
        }

        location = /slow {
            proxy_pass http://127.0.0.1:%%PORT_1%%;
        }
    }

    server {
        listen 127.0.0.1:%%PORT_1%%;

        location = /slow {
            alias %%DIR%%/html/slow;
            limit_rate 400;
        }
    }
}
END

my $s = Hymt::Server->new(conf => $conf);

$s->write_file('html/slow', 'x' x 500);
$s->start();

is($s->get('/nothing')->{status}, 404, 'get');
is_deeply($s->json('/json', { a => 1 })->{json}, { text => 'one', n => [1, 2] },
          'a JSON answer is decoded');
is($s->send([{ value => "GET /json HTT" },
             { value => "P/1.0\r\n\r\n", delay_before => 0.1 }])->{status},
   200, 'packets');
ok($s->wait_ready('/status'), 'ready');

my @many = $s->send_many([($s->http('GET', '/json')) x 20,
                          $s->http('GET', '/slow')]);

is(scalar(grep { $_->{status} == 200 && !defined $_->{error} } @many), 21,
   'many at once');
is(length $many[20]{body}, 500, 'the slow one among them is whole');

my $sock = $s->open($s->http('GET', '/slow'));
is($s->read_response($sock)->{status}, 200, 'a connection of our own');

my @workers = $s->workers();

is(scalar @workers, 2, 'two workers');
is($s->threads($workers[0]), 1, 'one thread each');

$sock = $s->open($s->http('GET', '/slow'));
select undef, undef, undef, 0.2;

ok($s->reload(), 'reload');
ok($s->leaving() > 0, 'a worker stays for its client');
is(length $s->read_response($sock)->{body}, 500, 'which is served to its end');
ok($s->wait_until(5, sub { !$s->leaving() }), 'and then goes');
isnt(join(' ', $s->workers()), "@workers", 'the workers are others');

my $from = $s->log_size();
my ($victim) = $s->workers();

$s->signal('KILL', $victim);

ok($s->wait_log(qr/worker process $victim exited on signal 9/, 5, $from),
   'a killed worker is in the log');
ok($s->wait_until(5, sub { $s->workers() == 2 }), 'and comes again');
is(scalar($s->alerts()), 1, 'that is an alert');

$s->allow_alerts(qr/exited on signal 9/);
is(scalar($s->alerts()), 0, 'unless it is allowed');

my ($code, $said) = $s->test_conf("events { }\nhttp { nonsense; }\n");

isnt($code, 0, 'a bad configuration is refused');
like($said, qr/unknown directive "nonsense"/, 'with a reason');

$s->finish();

is($s->master(), 0, 'NGINX has gone');

done_testing();
