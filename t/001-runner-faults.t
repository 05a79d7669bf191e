#!/usr/bin/perl
#
# The test runner itself: what is wrong fails.  Each case below is a test file
# of its own, run with the runner, that must not pass.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More;

use Hymt::Http qw(free_port parse_response);


my $dir = tempdir(CLEANUP => 1);

my @cases = (
    ['status', <<'END', qr/status code ok/],
--- config
    location = /t { return 404; }
--- request
GET /t
END
    ['body', <<'END', qr/response is expected.*got: 'one.*expected: 'two/s],
--- config
    location = /t { return 200 "one\n"; }
--- request
GET /t
--- response_body
two
END
    ['a header that is not there', <<'END', qr/header X-A ok/],
--- config
    location = /t { return 200; }
--- request
GET /t
--- response_headers
X-A: 1
END
    ['a header that is there', <<'END', qr/header x-a not present/],
--- config
    location = /t { add_header X-A 1; return 200; }
--- request
GET /t
--- response_headers
!x-a
END
    ['a log line that does not come', <<'END', qr/"nothing" matches a line/],
--- config
    location = /t { return 200; }
--- request
GET /t
--- error_log
nothing
END
    ['a log line that should not come', <<'END', qr/"failed" matches no line/],
--- config
    location = /t { root /nonexistent; }
--- request
GET /t
--- error_code: 404
--- no_error_log
failed
END
    ['a configuration that is fine after all', <<'END', qr/NGINX must die/],
--- config
--- must_die
END
    ['a configuration that is not', <<'END', qr/NGINX did not start/],
--- config
    bad;
--- request
GET /t
END
    ['a response that does not end', <<'END', qr/client socket timed out/],
--- config
    location = /index.html { limit_rate 100; }
--- request
GET /index.html
--- timeout: 100ms
--- response_body_like: .
END
    ['an expectation for one of several requests', <<'END', qr/must be an arr/],
--- config
    location = /t { return 200 "a\n"; }
--- request eval
["GET /t", "GET /t"]
--- response_body
a
END
    ['an alert', <<'END', qr/error\.log: .*\[alert\] x/],
--- config
    location = /t { return 200 "a\n"; }
--- request
GET /t
--- response_body_filters eval
sub {
    open my $log, '>>', "$ENV{TEST_NGINX_SERVER_ROOT}/logs/error.log";
    print $log "2000/01/01 00:00:00 [alert] x\n";
    return $_[0];
}
--- response_body
a
END
);

$ENV{TEST_NGINX_SERVROOT} = "$dir/servroot";
$ENV{TEST_NGINX_PORT} = free_port();
$ENV{HYMT_TEST_ALERTS} = 1;
delete $ENV{TEST_NGINX_LOAD_MODULES};
delete $ENV{TEST_NGINX_USE_VALGRIND};

for my $case (@cases) {
    my ($name, $block, $says) = @$case;

    open my $out, '>', "$dir/case.t" or die "$dir/case.t: $!\n";
    print $out "use Test::Nginx::Socket 'no_plan';\nrun_tests();\n"
               . "__DATA__\n\n=== TEST 1: case\n$block";
    close $out;

    my $said = `$^X -It/lib $dir/case.t 2>&1`;

    ok($? != 0, "$name: fails");
    like($said, $says, "$name: says why");
}

my $head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

is(parse_response("${head}5\r\nhello\r\n0\r\n\r\n")->{body}, 'hello',
   'chunks: whole');
is(parse_response("${head}5\r\nhello\r\n0\r\n\r\nmore")->{left}, 'more',
   'chunks: what follows');
like(parse_response("${head}5\r\nhello\r\n")->{error}, qr/missing/,
     'chunks: the last is missing');
like(parse_response("${head}5\r\nhel")->{error}, qr/cut/, 'chunks: cut');
like(parse_response("${head}5\r\nhello\r\n0\r\n")->{error}, qr/empty line/,
     'chunks: no empty line');
ok(parse_response("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")->{truncated},
   'a body shorter than its Content-Length');

done_testing();
