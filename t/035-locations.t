# How the location stands among NGINX's others: if, limit_except, nesting,
# error_page, mirror, subrequests, Expect.

use Test::Nginx::Socket 'no_plan';

add_block_preprocessor(sub {
    my ($block) = @_;

    if (!defined $block->http_config) {
        $block->set_value('http_config',
            'hymt_model demo { path $TEST_NGINX_MODEL; threads 1; max_batch 8;'
            . ' context 512; }');
    }

    if (!defined $block->more_headers) {
        $block->set_value('more_headers', 'Content-Type: application/json');
    }
});

no_shuffle();
run_tests();

__DATA__

=== TEST 1: an "if" that matches is part of its location
--- config
    location = /t {
        if ($arg_x) { set $y 1; }
        hymt_translate demo;
    }
--- request
POST /t?x=1
{"text": "Open the file.", "tgt_lang": "de"}
--- response_body_like chomp
Datei



=== TEST 2: so is limit_except
--- config
    location = /t {
        limit_except GET { allow all; }
        hymt_translate demo;
    }
--- request
POST /t
{"text": "Open the file.", "tgt_lang": "de"}
--- response_body_like chomp
Datei



=== TEST 3: limits of a location are not those of the ones in it
--- config
    location /n/ {
        client_max_body_size 30;
        hymt_translate demo;

        location /n/b/ {
            client_max_body_size 10m;
            hymt_translate demo;
        }
    }
--- request
POST /n/b/
{"text": "Open the file.", "tgt_lang": "de"}
--- response_body_like chomp
Datei



=== TEST 4: a fallback gets the body: a call that comes too late
--- config
    location = /t {
        hymt_translate demo;
        hymt_timeout 1ms;
        error_page 504 = @b;
    }
    location @b { hymt_translate demo; }
--- request eval
"POST /t\n" . '{"tgt_lang": "de", "text": ["Open the file."'
. ', "Close the file and open it again." ' x 60 . ']}'
--- response_body_like chomp
^\{"translation":\[



=== TEST 5: so does a proxied one
--- config
    location = /t {
        hymt_translate demo;
        hymt_timeout 1ms;
        error_page 504 = @p;
    }
    location @p {
        rewrite ^ /t2 break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT;
    }
    location = /t2 { hymt_translate demo; }
--- request eval
"POST /t\n" . '{"tgt_lang": "de", "text": ["Open the file."'
. ', "Close the file and open it again." ' x 60 . ']}'
--- response_body_like chomp
^\{"translation":\[



=== TEST 6: headers of a refusal are not those of the fallback
--- config
    location = /t {
        hymt_translate demo;
        error_page 405 = @ok;
    }
    location @ok { return 200 "ok\n"; }
--- request
GET /t
--- response_headers
!Allow
--- response_body
ok



=== TEST 7: but they are of an error_page that keeps the status
--- config
    location = /t {
        hymt_translate demo;
        error_page 405 /own;
    }
    location = /own { return 200 "own\n"; }
--- request
GET /t
--- error_code: 405
--- response_headers
Allow: POST



=== TEST 8: an error while the body still comes is answered where it is
--- config
    location = /t {
        hymt_translate demo;
        hymt_max_body 100;
        error_page 413 = @u;
    }
    location @u { return 200 "fallback\n"; }
--- raw_request eval
["POST /t HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
 . "Transfer-Encoding: chunked\r\n\r\n" . "c8\r\n" . 'x' x 200 . "\r\n",
 "c8\r\n" . 'y' x 200 . "\r\n0\r\n\r\n"]
--- raw_request_middle_delay: 0.3
--- error_code: 413
--- response_body_like chomp
body_too_large
--- no_error_log
[alert]



=== TEST 9: a bad chunk with an error_page
--- config
    location = /t {
        hymt_translate demo;
        error_page 400 = @u;
    }
    location @u { return 200 "fallback\n"; }
--- raw_request eval
["POST /t HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
 . "Transfer-Encoding: chunked\r\n\r\n" . "zz\r\n", "more"]
--- raw_request_middle_delay: 0.3
--- ignore_response
--- no_error_log
[alert]



=== TEST 10: mirror sees the body too
--- config
    location = /t {
        mirror /shadow;
        hymt_translate demo;
    }
    location = /shadow {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/seen;
    }
    location = /seen { hymt_translate demo; }
    location = /status { hymt_status; }
--- request eval
["POST /t\n{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}", "GET /status"]
--- more_headers eval
["Content-Type: application/json", ""]
--- error_code eval
[200, 200]
--- response_body_like eval
["Datei", '"answered": 2']



=== TEST 11: a body that is refused is not asked for
--- config
    location = /t { hymt_translate demo; hymt_max_body 100; }
--- raw_request eval
"POST /t HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
. "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
--- shutdown
--- error_code: 413
--- response_body_like chomp
body_too_large



=== TEST 12: one that is taken is
--- config
    location = /t { hymt_translate demo; }
--- raw_request eval
["POST /t HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nConnection: close\r\n"
. "Expect: 100-continue\r\nContent-Length: 44\r\n\r\n",
"{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}"]
--- raw_request_middle_delay: 0.2
--- error_code: 100
--- ignore_response



=== TEST 13: a location of a regular expression, a named one
--- config
    location ~ ^/api/[a-z]+/translate$ { hymt_translate demo; }
    location = /n { try_files /nowhere @named; }
    location @named { hymt_translate demo; }
--- request eval
["POST /api/abc/translate\n{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}",
 "POST /n\n{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}"]
--- more_headers eval
["Content-Type: application/json", "Content-Type: application/json"]
--- error_code eval
[200, 200]
--- response_body_like eval
["Datei", "Datei"]



=== TEST 14: a tree of very many small values is refused before it grows
--- config
    location = /t { hymt_translate demo; }
--- request eval
"POST /t\n" . '{"tgt_lang": "de", "text": [' . '{},' x 20000 . '{}]}'
--- error_code: 400
--- response_body_like chomp
"code":"too_many_values"



=== TEST 15: one location, one answer
--- config
    location = /t { hymt_status; hymt_translate demo; }
--- must_die
--- error_log
"hymt_translate" directive comes after another directive that answers this location



=== TEST 16: cross-origin requests
--- config
    location = /t { hymt_translate demo; hymt_cors https://a.example https://b.example; }
--- request eval
["OPTIONS /t", "OPTIONS /t", "POST /t\n{}"]
--- more_headers eval
["Origin: https://b.example\nAccess-Control-Request-Method: POST",
 "Origin: https://evil.example\nAccess-Control-Request-Method: POST",
 "Origin: https://a.example\nContent-Type: application/json"]
--- error_code eval
[204, 405, 400]
--- raw_response_headers_like eval
["Access-Control-Allow-Origin: https://b.example\r\n", "Vary: Origin\r\n",
 "Access-Control-Allow-Origin: https://a.example\r\n"]



=== TEST 17: every origin and owners do not go together
--- config
    location = /t { hymt_translate demo; hymt_cors *; hymt_owner $http_authorization; }
--- must_die
--- error_log
location "/t": "hymt_cors *" does not go with "hymt_owner"
