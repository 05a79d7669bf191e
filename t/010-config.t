# Configuration errors: each is refused by "nginx -t" and at start, with a
# message that names the directive and the cure.

use Test::Nginx::Socket 'no_plan';

no_shuffle();
run_tests();

__DATA__

=== TEST 1: a model path alone is enough
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /translate { hymt_translate demo; }
    location = /ok { return 200 "ok\n"; }
--- request
GET /ok
--- response_body
ok



=== TEST 2: the block may come after its use
--- config
    location = /translate { hymt_translate demo; }
    location = /ok { return 200 "ok\n"; }
--- http_config
    server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1; location / { hymt_translate late; } }
    hymt_model late { path $TEST_NGINX_MODEL; }
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- request
GET /ok
--- response_body
ok



=== TEST 3: no such model
--- config
    location = /translate { hymt_translate nobody; }
--- must_die
--- error_log eval
qr/\[emerg\] .*hymt_translate "nobody" in .*there is no hymt_model of that name/



=== TEST 4: no path
--- http_config
    hymt_model demo { max_batch 4; }
--- config
--- must_die
--- error_log
hymt_model "demo" has no "path"



=== TEST 5: a missing directory
--- http_config
    hymt_model demo { path /nowhere/at/all; }
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/\[emerg\] .*hymt_model "demo" in .*nginx\.conf:\d+: .*\/nowhere\/at\/all/



=== TEST 6: a directory that is no model
--- http_config
    hymt_model demo { path html; }
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/\[emerg\] .*hymt_model "demo" in .*config\.json/



=== TEST 7: an unknown parameter
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; speed 11; }
--- config
--- must_die
--- error_log
unknown parameter "speed" in hymt_model



=== TEST 8: a number out of range
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; max_batch 0; }
--- config
--- must_die
--- error_log
"max_batch" in hymt_model must be a number from 1 to 1024, not "0"



=== TEST 9: no number at all
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; threads many; }
--- config
--- must_die
--- error_log
"threads" in hymt_model must be a number from 0 to 256, not "many"



=== TEST 10: a parameter given twice
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; queue 1; queue 2; }
--- config
--- must_die
--- error_log
"queue" in hymt_model is duplicate



=== TEST 11: a model given twice
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
--- must_die
--- error_log
duplicate hymt_model "demo", first in



=== TEST 12: an unknown family
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; family t5; }
--- config
--- must_die
--- error_log
"family" in hymt_model must be mt1, mt1.5, mt2 or auto



=== TEST 13: a backend that this build does not have
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; backend tpu; }
--- config
--- must_die
--- error_log eval
qr/\[emerg\] .*"backend" in hymt_model: .*tpu/



=== TEST 14: hymt_translate twice
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /t { hymt_translate demo; hymt_translate demo; }
--- must_die
--- error_log
"hymt_translate" directive is duplicate



=== TEST 15: an API that is not built does not exist
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /t { hymt_translate demo api=smoke; }
--- must_die
--- error_log
invalid parameter "api=smoke" of "hymt_translate"



=== TEST 16: an unknown kind of sampling
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_sampling wild;
--- config
--- must_die
--- error_log
invalid value "wild" of "hymt_sampling": it must be greedy, recommended or model



=== TEST 17: a sampling value out of range
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_sampling greedy top_p=1.5;
--- config
--- must_die
--- error_log eval
qr/\[emerg\] .*"hymt_sampling": .*top_p/



=== TEST 18: a sampling value that is none
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_sampling greedy top_p=much;
--- config
--- must_die
--- error_log
invalid parameter "top_p=much" of "hymt_sampling"



=== TEST 19: an unknown default language
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_default_target klingon;
--- config
--- must_die
--- error_log eval
qr/\[emerg\] .*"hymt_default_target": unknown language "klingon"; known are .*zh/



=== TEST 20: a default language that the model does not know
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /t { hymt_translate demo; hymt_default_target ja; }
--- must_die
--- error_log eval
qr/"hymt_default_target ja": hymt_model "demo" does not know that language; it knows .*German/



=== TEST 21: a timeout of nothing
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /t { hymt_translate demo; hymt_timeout 0; }
--- must_die
--- error_log
"hymt_timeout" must not be zero



=== TEST 22: an unused model is worth a warning
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /ok { return 200 "ok\n"; }
--- request
GET /ok
--- response_body
ok
--- suppress_stderr



=== TEST 23: a window out of range
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_window 0;
--- config
--- must_die
--- error_log
"hymt_window" must be from 1 to 1024, not "0"



=== TEST 24: hymt_model outside http
--- main_config
hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
--- must_die
--- error_log
"hymt_model" directive is not allowed here



=== TEST 25: a tokenizer that is missing
--- http_config
    hymt_model demo { path html/model; }
--- user_files
>>> model/config.json
{"model_type": "hunyuan_v1_dense"}
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/\[emerg\] .*hymt_model "demo" in .*html\/model/



=== TEST 26: another kind of model is refused by name
--- http_config
    hymt_model demo { path html/model; }
--- user_files
>>> model/config.json
{"model_type": "hy_v3", "architectures": ["HYV3ForCausalLM"]}
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/\[emerg\] .*hymt_model "demo" in .*hy_v3/



=== TEST 27: a prompt without a place for the text
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; prompt "Translate to {target}"; }
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/hymt_model "demo" in .*: the prompt template has no \{text\}/



=== TEST 28: less KV than one context
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; kv_tokens 64; }
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/hymt_model "demo" in .*kv_tokens/



=== TEST 29: more KV than there is memory
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; kv_tokens 999999999; }
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log eval
qr/hymt_model "demo" in .*kv_tokens/



=== TEST 30: default languages that are the same
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_default_source de;
    hymt_default_target de;
--- config
    location = /translate { hymt_translate demo; }
--- must_die
--- error_log
"hymt_default_source" and "hymt_default_target" of a location are both de



=== TEST 31: a switch that is neither on nor off
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; ignore_eos maybe; }
--- config
--- must_die
--- error_log
"ignore_eos" in hymt_model must be on or off



=== TEST 32: a priority that is none
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
    hymt_priority urgent;
--- config
--- must_die
--- error_log
invalid value "urgent"



=== TEST 33: tokens of the queue that are no number
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; queue_tokens many; }
--- config
--- must_die
--- error_log
"queue_tokens" in hymt_model must be a number from 0



=== TEST 34: no room for a body
--- http_config
    hymt_model demo { path $TEST_NGINX_MODEL; }
--- config
    location = /t { hymt_translate demo; hymt_max_body 0; }
--- must_die
--- error_log
"hymt_max_body" must not be zero



=== TEST 35: an origin with a path, which no browser sends
--- config
    hymt_cors https://a.example https://b.example/;
--- must_die
--- error_log
"https://b.example/" in "hymt_cors" is no origin



=== TEST 36: an origin with a blank
--- config
    hymt_cors "https://a.example https://b.example";
--- must_die
--- error_log
in "hymt_cors" is no origin



=== TEST 37: a watchdog that would bite at any step
--- http_config
    hymt_watchdog 1ms;
--- config
--- must_die
--- error_log
"hymt_watchdog" directive must be 0 (off), or 500ms at least



=== TEST 38: no watchdog
--- http_config
    hymt_watchdog 0;
--- config
    location = /ok { return 200 "ok\n"; }
--- request
GET /ok
--- response_body
ok



=== TEST 39: units of no byte
--- config
    hymt_unit 0;
--- must_die
--- error_log
"hymt_unit" must be from 64 to 1048576, not "0"



=== TEST 40: units of a byte
--- config
    hymt_unit 1;
--- must_die
--- error_log
"hymt_unit" must be from 64 to 1048576, not "1"



=== TEST 41: more texts than are ever taken
--- config
    hymt_max_texts 1000000;
--- must_die
--- error_log
"hymt_max_texts" must be from 1 to 100000, not "1000000"



=== TEST 42: a sampling value that is hexadecimal
--- config
    hymt_sampling greedy temperature=0x1;
--- must_die
--- error_log
invalid parameter "temperature=0x1" of "hymt_sampling"
