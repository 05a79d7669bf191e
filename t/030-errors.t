# Bad input: every kind has its status, its code and a message that names the
# cause.

use Test::Nginx::Socket 'no_plan';

add_block_preprocessor(sub {
    my ($block) = @_;

    if (!defined $block->http_config) {
        $block->set_value('http_config',
            'hymt_model demo { path $TEST_NGINX_MODEL; threads 1; max_batch 8;'
            . ' context 256; }');
    }

    if (!defined $block->config) {
        $block->set_value('config',
            'location = /translate { hymt_translate demo; }');
    }

    if (!defined $block->more_headers) {
        $block->set_value('more_headers', 'Content-Type: application/json');
    }

    if (!defined $block->error_code) {
        $block->set_value('error_code', 400);
    }
});

no_shuffle();
run_tests();

__DATA__

=== TEST 1: no JSON: line and column
--- request
POST /translate
{"text": "a",
 "tgt_lang" "de"}
--- response_headers
Content-Type: application/json
--- response_body_like chomp
^\{"error":\{"code":"invalid_json","message":"line 2, column \d+: .*"\}\}\n$



=== TEST 2: something after the JSON
--- request
POST /translate
{"text": "a", "tgt_lang": "de"} x
--- response_body_like chomp
"code":"invalid_json"



=== TEST 3: a field twice
--- request
POST /translate
{"text": "a", "text": "b", "tgt_lang": "de"}
--- response_body_like chomp
"code":"invalid_json","message":"line 1, column \d+: duplicate object key



=== TEST 4: no object
--- request
POST /translate
["text"]
--- response_body
{"error":{"code":"invalid_type","message":"the body must be a JSON object, not an array"}}



=== TEST 5: an unknown field
--- request
POST /translate
{"text": "a", "tgt_lang": "de", "source": "en"}
--- response_body_like chomp
"code":"unknown_field","message":"unknown field \\"source\\"; known are text, src_lang



=== TEST 6: no text
--- request
POST /translate
{"tgt_lang": "de"}
--- response_body
{"error":{"code":"missing_field","message":"the field \"text\" is missing"}}



=== TEST 7: no target language
--- request
POST /translate
{"text": "a"}
--- response_body_like chomp
"code":"missing_field","message":"the target language is missing: give \\"tgt_lang\\", one of .*de \(German\)



=== TEST 8: wrong types
--- request eval
[map { "POST /translate\n{\"text\": \"a\", \"tgt_lang\": \"de\", $_}" =~ s/"text": "a", (.*"text")/$1/r }
    '"text": 1', '"text": null', '"text": {"a": 1}', '"text": ["a", 2]',
    '"src_lang": 5', '"temperature": "hot"', '"top_k": 1.5', '"seed": true',
    '"max_tokens": []']
--- more_headers eval
[map { "Content-Type: application/json" } 1 .. 9]
--- error_code eval
[(400) x 9]
--- response_body eval
[map { "{\"error\":{\"code\":\"invalid_type\",\"message\":\"$_\"}}\n" }
    'text must be a string or an array of strings, not an integer',
    'text must be a string or an array of strings, not null',
    'text must be a string or an array of strings, not an object',
    'text 1 must be a string, not an integer',
    'src_lang must be a string, not an integer',
    'temperature must be a number, not a string',
    'top_k must be an integer, not a real number',
    'seed must be an integer, not a boolean',
    'max_tokens must be an integer, not an array']



=== TEST 9: wrong values
--- request eval
[map { "POST /translate\n{\"text\": \"a\", \"tgt_lang\": \"de\", $_}" }
    '"temperature": -1', '"temperature": 1e30', '"top_p": 0', '"top_p": 2',
    '"top_k": -1', '"repetition_penalty": 0', '"max_tokens": 0', '"seed": -1',
    '"max_tokens": 4294967296', '"src_lang": "de"', '"temperature": 1e300',
    '"keep": [""]', '"keep": ["a", "b\\u0000c"]', '"format": "html\\u0000"',
    '"split": "none\\u0000x"']
--- more_headers eval
[map { "Content-Type: application/json" } 1 .. 15]
--- error_code eval
[(400) x 15]
--- response_body_like eval
[map { "^\\{\"error\":\\{\"code\":\"invalid_value\",\"message\":\".*$_" }
    'temperature', 'temperature', 'top_p', 'top_p', 'top_k',
    'repetition_penalty', 'max_tokens must be from 1 to 2147483647, not 0',
    'seed must be from 0 to 9223372036854775807, not -1',
    'max_tokens must be from 1 to 2147483647, not 4294967296',
    'source and target language are the same: de',
    'temperature: 1e.300 is out of range',
    'a term of keep must not be empty or hold a NUL character',
    'a term of keep must not be empty or hold a NUL character',
    'format must be text, html or xml, not \\\\"html\\?\\\\"',
    'split must be auto, none, sentence or paragraph, not \\\\"none\\?x\\\\"']



=== TEST 10: languages the model does not know
--- request eval
[map { "POST /translate\n{\"text\": \"a\", $_}" }
    '"tgt_lang": "ja"', '"tgt_lang": "tlh"', '"tgt_lang": ""',
    '"tgt_lang": "de", "src_lang": "automatic"', '"tgt_lang": "de\\u0000x"']
--- more_headers eval
[map { "Content-Type: application/json" } 1 .. 5]
--- error_code eval
[(400) x 5]
--- response_body_like eval
[map { "\"code\":\"unsupported_language\",\"message\":\"$_ is no language of model \\\\\"demo\\\\\"; it knows .*zh .Chinese" }
    'tgt_lang \\\\"ja\\\\"', 'tgt_lang \\\\"tlh\\\\"', 'tgt_lang \\\\"\\\\"', 'src_lang \\\\"automatic\\\\"',
    'tgt_lang \\\\"de\\?x\\\\"']



=== TEST 11: empty things
--- request eval
["POST /translate\n", "POST /translate\n{\"text\": \"\", \"tgt_lang\": \"de\"}",
 "POST /translate\n{\"text\": [], \"tgt_lang\": \"de\"}",
 "POST /translate\n{\"text\": [\"a\", \"\"], \"tgt_lang\": \"de\"}"]
--- more_headers eval
[map { "Content-Type: application/json" } 1 .. 4]
--- error_code eval
[(400) x 4]
--- response_body eval
["{\"error\":{\"code\":\"empty_body\",\"message\":\"the body is empty\"}}\n",
 "{\"error\":{\"code\":\"empty_text\",\"message\":\"the text is empty\"}}\n",
 "{\"error\":{\"code\":\"empty_text\",\"message\":\"the array \\\"text\\\" is empty\"}}\n",
 "{\"error\":{\"code\":\"empty_text\",\"message\":\"text 1 is empty\"}}\n"]



=== TEST 12: bytes that are not UTF-8
--- request eval
"POST /translate\n{\"text\": \"a\xff\xfe\", \"tgt_lang\": \"de\"}"
--- response_body_like chomp
"code":"invalid_utf8","message":"line 1, column 12: the body is not UTF-8"



=== TEST 12a: on another line, behind characters of several bytes
--- request eval
"POST /translate\n{\"tgt_lang\": \"de\",\n \"text\": \"\xc3\xa4\xe4\xbd\xa0\xff\"}"
--- response_body
{"error":{"code":"invalid_utf8","message":"line 2, column 13: the body is not UTF-8"}}



=== TEST 13: the same in plain text
--- request eval
"POST /translate?to=de\nabc\xc3("
--- more_headers
Content-Type: text/plain
--- response_body
{"error":{"code":"invalid_utf8","message":"the body is not UTF-8 at byte 3"}}



=== TEST 14: a lone surrogate
--- request
POST /translate
{"text": "a\ud800b", "tgt_lang": "de"}
--- response_body_like chomp
"code":"invalid_json","message":"line 1, column \d+: .*uD800



=== TEST 15: deep nesting does no harm
--- request eval
"POST /translate\n" . '[' x 2900
--- response_body_like chomp
"code":"invalid_json","message":"line 1, column \d+: .*depth



=== TEST 16: a type we do not speak
--- request
POST /translate
text=a&tgt_lang=de
--- more_headers
Content-Type: application/x-www-form-urlencoded
--- error_code: 415
--- response_headers
Accept: application/json, text/plain
--- response_body_like chomp
"code":"unsupported_media_type"



=== TEST 17: a charset that is not UTF-8, a body that is compressed
--- request eval
["POST /translate?to=de\na", "POST /translate?to=de\na"]
--- more_headers eval
["Content-Type: text/plain; charset=iso-8859-1",
 "Content-Type: text/plain\nContent-Encoding: gzip"]
--- error_code eval
[415, 415]
--- response_body_like eval
['unsupported_media_type', 'unsupported_media_type']



=== TEST 18: a body over hymt_max_body
--- config
    location = /translate { hymt_translate demo; hymt_max_body 1k; }
--- request eval
"POST /translate\n" . 'x' x 2000
--- error_code: 413
--- response_headers
Content-Type: application/json
--- response_body_like chomp
"code":"body_too_large"



=== TEST 19: a body that NGINX itself would refuse gets the same answer
--- config
    location = /translate { hymt_translate demo; client_max_body_size 1k; }
--- request eval
"POST /translate\n" . 'x' x 2000
--- error_code: 413
--- response_headers
Content-Type: application/json
--- response_body_like chomp
"code":"body_too_large"



=== TEST 20: a chunked body that grows over the limit
--- config
    location = /translate { hymt_translate demo; hymt_max_body 1k; }
--- request eval
"POST /translate\n" . "400\r\n" . 'x' x 1024 . "\r\n400\r\n" . 'x' x 1024 . "\r\n0\r\n\r\n"
--- more_headers
Content-Type: application/json
Transfer-Encoding: chunked
--- error_code: 413
--- response_body_like chomp
"code":"body_too_large"



=== TEST 21: a text that does not fit the context
--- request eval
"POST /translate\n" . '{"tgt_lang": "de", "split": "none", "text": "' . 'word ' x 700 . '"}'
--- error_code: 422
--- response_body_like chomp
"code":"text_too_long","message":".*256



=== TEST 22: a text that does not even fit a slot
--- request eval
"POST /translate\n" . '{"tgt_lang": "de", "split": "none", "text": ["a", "' . 'word ' x 7000 . '"]}'
--- error_code: 200
--- response_body_like chomp
^\{"translation":\["[^"]*",null\],.*"finish_reason":\["[a-z]*","error"\],.*"errors":\[null,\{"code":"text_too_long","message":"a text of 34999 bytes



=== TEST 23: too many texts
--- config
    location = /translate { hymt_translate demo; hymt_max_texts 3; }
--- request
POST /translate
{"text": ["a", "b", "c", "d"], "tgt_lang": "de"}
--- response_body
{"error":{"code":"too_many_texts","message":"the array \"text\" has 4 texts; at most 3 are taken"}}



=== TEST 24: bad values in the query string
--- request eval
["POST /translate?to=de&temperature=x\na", "POST /translate?to=de&top_k=-3\na",
 "POST /translate?to=xx\na", "POST /translate\na",
 (map { "POST /translate?to=de&$_\na" } 'temperature=inf', 'temperature=nan',
  'temperature=0x1', 'top_p=+1', 'top_k=0x1', 'top_k=+1', 'seed=', 'temperature=',
  'temperature=1e999', 'temperature=1e300', 'temperature=0%00x', 'seed=5%00x')]
--- more_headers eval
[map { "Content-Type: text/plain" } 1 .. 16]
--- error_code eval
[(400) x 16]
--- response_body_like eval
['temperature must be a number', 'top_k must be from 0 to \d+, not -3', 'unsupported_language',
 'give \\\\"\?to=\\\\"',
 'temperature must be a number, not \\\\"inf\\\\"',
 'temperature must be a number, not \\\\"nan\\\\"',
 'temperature must be a number, not \\\\"0x1\\\\"',
 'top_p must be a number, not \\\\" 1\\\\"',
 'top_k must be an integer, not \\\\"0x1\\\\"',
 'top_k must be an integer, not \\\\" 1\\\\"',
 'seed must be an integer, not \\\\"\\\\"',
 'temperature must be a number, not \\\\"\\\\"',
 'temperature must be a number, not \\\\"1e999\\\\"',
 'temperature: 1e.300 is out of range',
 'temperature must be a number', 'seed must be an integer']



=== TEST 25: an error_page of the operator's goes first
--- config
    location = /translate { hymt_translate demo; error_page 400 = /own; }
    location = /own { return 200 "own page\n"; }
--- request
POST /translate
{}
--- error_code: 200
--- response_body
own page



=== TEST 26: buffers that are full before the body has come
--- http_config
    hymt_buffers 1;
    hymt_model demo { path $TEST_NGINX_MODEL; threads 1; max_batch 8; context 256; }
--- request
POST /translate
{"text": "a", "tgt_lang": "de"}
--- error_code: 503
--- response_headers
Retry-After: 1
--- response_body_like chomp
"code":"buffers_full"



=== TEST 27: a quote from the client can't break the answer or the log
--- request
POST /translate
{"text": "a", "tgt_lang": "\u0000\"\n\\"}
--- response_body_like chomp
"code":"unsupported_language","message":"tgt_lang \\"\?\\"\?\\\\\\" is no language
--- no_error_log
[alert]
