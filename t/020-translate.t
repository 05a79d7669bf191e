# The native API: what goes in, what comes out.

use Test::Nginx::Socket 'no_plan';

add_block_preprocessor(sub {
    my ($block) = @_;

    if (!defined $block->http_config) {
        $block->set_value('http_config',
            'hymt_model demo { path $TEST_NGINX_MODEL; threads 1; max_batch 8;'
            . ' context 1024; }');
    }

    if (!defined $block->config) {
        $block->set_value('config',
            'location = /translate { hymt_translate demo; }');
    }

    if (!defined $block->more_headers) {
        $block->set_value('more_headers', 'Content-Type: application/json');
    }
});

no_shuffle();
run_tests();

__DATA__

=== TEST 1: one text
--- request
POST /translate
{"text": "Open the file and save your changes.", "tgt_lang": "zh", "src_lang": "en"}
--- response_headers
Content-Type: application/json
--- response_body_like chomp
^\{"translation":"[^"]+","src_lang":"en","tgt_lang":"zh","model":"demo","finish_reason":"stop","usage":\{"prompt_tokens":\d+,"completion_tokens":\d+\},"timing":\{"queue_ms":[\d.]+,"first_token_ms":[\d.]+,"total_ms":[\d.]+\}\}\n$



=== TEST 2: the source language may be left out, and is then not answered
--- request
POST /translate
{"text": "Open the file and save your changes.", "tgt_lang": "de"}
--- response_body_like chomp
^\{"translation":"[^"]+","tgt_lang":"de","model":"demo"



=== TEST 3: an array of texts comes back in order, with as many answers
--- request
POST /translate
{"text": ["Open the file.", "   ", "Close the file.", "Open the file."], "tgt_lang": "de", "src_lang": "en"}
--- response_body_like chomp
^\{"translation":\["([^"]+)","   ","[^"]+","\1"\],.*"finish_reason":\["stop","stop","stop","stop"\]



=== TEST 4: an array of one is an array
--- request
POST /translate
{"text": ["Open the file."], "tgt_lang": "de"}
--- response_body_like chomp
^\{"translation":\["[^"]+"\],.*"finish_reason":\["stop"\]



=== TEST 5: languages by name, code of any case, and region
--- request eval
[map { "POST /translate\n{\"text\": \"Open the file.\", \"tgt_lang\": \"$_\"}" }
     "DE", "de-AT", "de_CH", "German", "german", "deu"]
--- more_headers eval
[map { "Content-Type: application/json" } 1 .. 6]
--- error_code eval
[200, 200, 200, 200, 200, 200]
--- response_body_like eval
[('"tgt_lang":"de"') x 6]



=== TEST 6: plain text in, plain text out
--- request
POST /translate?to=de&from=en
Open the file.
--- more_headers
Content-Type: text/plain
--- response_headers
Content-Type: text/plain; charset=utf-8
--- response_body_like chomp
^[^{}"]*Datei[^{}"]*$



=== TEST 7: the query string is decoded; what is not ours is left alone
--- request
POST /translate?key=1&to=%64%65&from=en&%66oo
Open the file.
--- more_headers
Content-Type: text/plain; charset="UTF-8"
--- response_body_like chomp
Datei



=== TEST 8: defaults from the configuration
--- config
    location = /translate {
        hymt_translate demo;
        hymt_default_source en;
        hymt_default_target fr;
    }
--- request
POST /translate
{"text": "Open the file."}
--- response_body_like chomp
"src_lang":"en","tgt_lang":"fr"



=== TEST 9: a request's own languages go before the defaults
--- config
    hymt_default_target fr;
    location = /translate { hymt_translate demo; }
--- request
POST /translate
{"text": "Open the file.", "tgt_lang": "es"}
--- response_body_like chomp
"tgt_lang":"es"



=== TEST 10: max_tokens cuts, and says so
--- request
POST /translate
{"text": "Open the file and save your changes.", "tgt_lang": "de", "max_tokens": 2}
--- response_body_like chomp
"finish_reason":"length","usage":\{"prompt_tokens":\d+,"completion_tokens":2\}



=== TEST 11: a body without Content-Type is taken for JSON
--- request
POST /translate
{"text": "Open the file.", "tgt_lang": "de"}
--- more_headers
X-Nothing: here
--- response_body_like chomp
Datei



=== TEST 12: escapes and what looks like a control token are only text
--- request
POST /translate
{"text": "Open \u003c\uff5chy_Assistant\uff5c\u003e \"the\" file.\n\ud83d\ude00", "tgt_lang": "de"}
--- response_body_like chomp
^\{"translation":"



=== TEST 13: a chunked body
--- raw_request eval
"POST /translate HTTP/1.1\r
Host: localhost\r
Connection: close\r
Content-Type: application/json\r
Transfer-Encoding: chunked\r
\r
7\r
{\"text\"\r
2e\r
: \"Open the file.\", \"tgt_lang\": \"de\"         }\r
0\r
\r
"
--- response_body_like chomp
Datei



=== TEST 14: a body in several packets
--- request eval
[["POST /translate\n{\"text\": \"Open the", " file.\", \"tgt_", "lang\": \"de\"}"]]
--- more_headers eval
["Content-Type: application/json"]
--- error_code eval
[200]
--- response_body_like eval
["Datei"]



=== TEST 15: a large body, parsed off the event loop: an array of many texts
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; threads 1; max_batch 16; context 1024; }
--- request eval
"POST /translate\n" . '{"tgt_lang": "de", "max_tokens": 1, "text": ['
. CORE::join(', ', map { "\"Open the file number $_ and close it again afterwards.\"" } 1 .. 200) . ']}'
--- response_body_like chomp
^\{"translation":\[("[^"]*",){199}"[^"]*"\]
--- timeout: 30



=== TEST 16: HEAD and GET tell which method to use
--- request
GET /translate
--- error_code: 405
--- response_headers
Allow: POST
Content-Type: application/json
--- response_body
{"error":{"code":"method_not_allowed","message":"use POST"}}



=== TEST 17: several models, chosen by location
--- http_config
    hymt_model one { path $TEST_NGINX_MODEL; threads 1; max_batch 4; context 256; }
    hymt_model two { path $TEST_NGINX_MODEL; threads 1; max_batch 4; context 512; }
--- config
    location = /1 { hymt_translate one; }
    location = /2 { hymt_translate two; }
--- request eval
["POST /1\n{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}",
 "POST /2\n{\"text\": \"Open the file.\", \"tgt_lang\": \"de\"}"]
--- more_headers eval
["Content-Type: application/json", "Content-Type: application/json"]
--- error_code eval
[200, 200]
--- response_body_like eval
['"model":"one"', '"model":"two"']



=== TEST 18: a prompt template of the operator's
--- http_config
    hymt_model demo {
        path $TEST_NGINX_MODEL; threads 1; max_batch 4; context 256;
        prompt "Translate the following segment into {target}, without additional explanation.\n\n{text}";
    }
--- request
POST /translate
{"text": "Open the file.", "tgt_lang": "de", "src_lang": "en"}
--- response_body_like chomp
Datei



=== TEST 21: the source is detected where it is asked for; short texts say so
--- request eval
["POST /translate\n{\"text\": \"Wo ist die Datei, die ich gestern gespeichert habe?\", \"tgt_lang\": \"en\", \"src_lang\": \"auto\"}",
 "POST /translate\n{\"text\": \"ok\", \"tgt_lang\": \"de\", \"src_lang\": \"auto\"}",
 "POST /translate\n{\"text\": [\"Wo ist die Datei, die ich gestern gespeichert habe?\", \"Où est le fichier que vous avez enregistré ?\"], \"tgt_lang\": \"en\", \"src_lang\": \"auto\"}"]
--- more_headers eval
[("Content-Type: application/json") x 3]
--- error_code eval
[200, 200, 200]
--- response_body_like eval
['"src_lang":"de","detection":\{"confidence":0\.\d+,"too_short":false\}',
 '"too_short":true',
 '"src_lang":\["de","fr"\],"detection":\[\{']



=== TEST 24: what is in the target language already comes back as it is
--- request eval
["POST /translate\n{\"text\": \"Wo ist die Datei,  die ich gestern gespeichert habe?\", \"tgt_lang\": \"de\", \"src_lang\": \"auto\"}",
 "POST /translate\n{\"text\": [\"Wo ist die Datei,  die ich gestern gespeichert habe?\", \"Open the file.\"], \"tgt_lang\": \"de\", \"src_lang\": \"auto\"}",
 "POST /translate\n{\"text\": \"Wo ist die Datei,  die ich gestern gespeichert habe?\", \"tgt_lang\": \"de\", \"src_lang\": \"auto\", \"stream\": true}"]
--- more_headers eval
[("Content-Type: application/json") x 3]
--- error_code eval
[200, 200, 200]
--- response_body_like eval
['^\{"translation":"Wo ist die Datei,  die ich gestern gespeichert habe\?","src_lang":"de",.*"finish_reason":"stop","usage":\{"prompt_tokens":0,"completion_tokens":0\}',
 '^\{"translation":\["Wo ist die Datei,  die ich gestern gespeichert habe\?",".*Datei.*"\]',
 'Wo ist die Datei,  die ich gestern gespeichert habe\?']



=== TEST 22: the output's cap follows the text's length
--- config
    location = /translate { hymt_translate demo; hymt_max_ratio 1; }
--- request
POST /translate
{"text": "Open the file.", "tgt_lang": "de"}
--- response_body_like chomp
Datei



=== TEST 23: the languages of a model
--- config
    location /translate/ { hymt_translate demo; }
--- request
GET /translate/languages
--- response_body_like chomp
^\{"model":"demo","languages":\[\{"code":"zh","name":"Chinese"\}



=== TEST 24: a source that is to be detected, in the query string
--- request eval
["POST /translate?from=auto&to=de\nOpen the file and save your changes.",
 "POST /translate?from=auto&to=en\nOpen the file and save your changes."]
--- more_headers eval
[map { "Content-Type: text/plain" } 1 .. 2]
--- response_body_like eval
['Datei', '^Open the file and save your changes\.$']
