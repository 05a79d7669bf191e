# The test runner itself, with NGINX alone: what a section means.

use Test::Nginx::Socket 'no_plan';

repeat_each(2);

run_tests();

__DATA__

=== TEST 1: a static file
--- config
--- user_files
>>> a/hello.txt
hello
world
--- request
GET /a/hello.txt
--- response_headers
Content-Length: 12
Content-Type: text/plain
!ETag2
--- response_body
hello
world
--- no_error_log
[error]
[alert]



=== TEST 2: a request line without a URL is for the root
--- config
--- request
GET
--- response_body_like: It works!
--- response_body_unlike: nothing



=== TEST 3: status, headers, a body without newline
--- config
    location = /t {
        add_header X-Two b always;
        return 403 "no";
    }
--- request
GET /t
--- error_code: 403
--- response_headers
X-Two: b
--- response_body chomp
no
--- raw_response_headers_like: X-Two: b\r\n
--- raw_response_headers_unlike: X-Three



=== TEST 4: a header that comes twice, a pattern for its value
--- config
    location = /t {
        add_header X-A 12;
        add_header X-A 34;
        return 200;
    }
--- request
GET /t
--- response_headers_like
X-A: \d+, \d+
--- error_code_like: ^2



=== TEST 5: a chunked response
--- config
    location = /t.html {
        ssi on;
    }
--- user_files
>>> t.html
a<!--# echo var="uri" -->b
--- request
GET /t.html
--- response_headers
Transfer-Encoding: chunked
--- response_body
a/t.htmlb



=== TEST 6: HEAD has no body
--- config
    location = /t { return 200 "hello"; }
--- request
HEAD /t
--- response_headers
Content-Length: 5
--- response_body chomp



=== TEST 7: a request's body loses the blank space around it
--- http_config
    client_body_in_single_buffer on;
--- config
    location = /t {
        proxy_set_header X-Body $request_body;
        proxy_set_header X-Length $http_content_length;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/back;
    }
    location = /back { return 200 "$http_x_length:$http_x_body:$http_x_foo\n"; }
--- request
POST /t
hello world
--- more_headers
X-Foo: bar
--- response_body
11:hello world:bar



=== TEST 8: a chunked request, in packets
--- http_config
    client_body_in_single_buffer on;
--- config
    location = /t {
        proxy_set_header X-Body $request_body;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/back;
    }
    location = /back { return 200 "$http_content_length:$http_x_body"; }
--- request eval
[["POST /t\r\n5\r\nhel", "lo\r\n",
  {value => "0\r\n\r\n", delay_before => 0.1}]]
--- more_headers
Transfer-Encoding: chunked
--- response_body chomp
5:hello



=== TEST 9: several requests want lists
--- config
    location = /a { return 200 "a\n"; }
    location = /b { return 404 "$http_x_b\n"; }
--- request eval
["GET /a", "POST /b\nbody"]
--- more_headers eval
["X-A: 1", "X-B: 2"]
--- error_code eval
[200, 404]
--- response_body eval
["a\n", "2\n"]



=== TEST 10: pipelined requests
--- config
    location = /a { return 200 "a\n"; }
    location = /b { return 200 "b\n"; }
--- pipelined_requests eval
["GET /a", "GET /b"]
--- response_body eval
["a\n", qr/^b$/]



=== TEST 11: a raw request
--- config
    location = /t { return 200 "$args\n"; }
--- raw_request eval
["GET /t?a=1 HTTP/1.1\r\nHost: x\r\n", "Connection: close\r\n\r\n"]
--- raw_request_middle_delay: 0.05
--- response_body
a=1



=== TEST 12: the error log, by text and pattern
--- config
    location = /t { root /nonexistent; }
--- request
GET /t
--- error_code: 404
--- error_log eval
["open() \"/nonexistent/t\" failed", qr/No such \w+/]
--- no_error_log eval
qr/Permission/
--- grep_error_log eval
qr/open\(\) "[^"]+"/
--- grep_error_log_out
open() "/nonexistent/t"



=== TEST 13: the access log
--- config
    location = /t { return 204; }
--- request
GET /t
--- error_code: 204
--- access_log
GET /t HTTP/1.1
--- no_access_log
POST /t



=== TEST 14: a client that goes away
--- config
    location = /index.html { limit_rate 100; }
--- request
GET /index.html
--- timeout: 100ms
--- abort
--- ignore_response
--- no_error_log
[error]



=== TEST 15: a configuration to refuse
--- config
    there_is_no_such_directive;
--- must_die
--- error_log
unknown directive "there_is_no_such_directive"
--- no_error_log
[alert]



=== TEST 16: ports that are free, a second server
--- http_config
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
        return 200 "second\n";
    }
--- config
    location = /t { proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1; }
--- request
GET /t
--- response_body
second



=== TEST 17: a skipped block
--- config
--- skip_nginx
1: > 1.0.0: it is newer
--- request
GET /nothing



=== TEST 18: filters on the body
--- config
    location = /t { return 200 "abc"; }
--- request
GET /t
--- response_body_filters
uc md5_hex
--- response_body chomp
902fbdd2b1df0c4f70b4a5d23525e932



=== TEST 19: filters for several requests: the same, or a list each
--- config
    location = /t { return 200 "abc"; }
--- request eval
["GET /t", "GET /t"]
--- response_body_filters eval
[[sub { uc $_[0] }], ["ucfirst", "length"]]
--- response_body eval
["ABC", "3"]
