# The load program and its script, on the CPU with the built-in model: rows come
# out, every answer has the tokens that were asked for.

use strict;
use warnings;

use lib 't/lib';

use Test::More;

if (!$ENV{HYMT_LONG}) {
    plan(skip_all => 'the long form measures: HYMT_LONG=1');
}

my $build = ($ENV{HYMT_MODULE} || 'build/x') =~ s{[^/]*\z}{}r || './';

if (!-x "$build/bench/http-load") {
    plan(skip_all => "$build/bench/http-load is not built: make bench");
}

my $out = do {
    local %ENV = (%ENV, BACKEND => 'cpu', CASES => 'short', EACH => 1,
                  LONG => 2, MAX_BATCH => 16, HYMT_MODULE => $ENV{HYMT_MODULE},
                  HYMT_PROGRAMS => "$build/bench", WORKERS => 2,
                  NGINX_BINARY => $ENV{TEST_NGINX_BINARY} || 'nginx',
                  PORT => $ENV{TEST_NGINX_PORT} || 1984);

    `bench/nginx-gpu.sh models/demo 2>&1`;
};

is($?, 0, 'exit status') or diag($out);
like($out, qr/^backend cpu: .*\nready after [\d.]+ s\n/, 'what runs');

for my $name ('1 client', '50 clients', '256 clients') {
    like($out, qr/^\| \Q$name\E \| [\d.]+ \|.*\| 0 \|$/m, "$name: no errors");
    like($out, qr/^\| \Q$name\E \|.*\| [1-9]\d* \([1-9]\d*\), \d+, \d+ \|/m,
         "$name: the event loop's CPU time and its floor");
}

like($out, qr/^answers +[1-9]/m, 'mixed lengths: answers');
like($out, qr/^memory MB +[\d.]+ before, [\d.]+ after, in 2 workers$/m,
     'mixed lengths: memory');
unlike($out, qr/^errors/m, 'mixed lengths: no errors');

done_testing();
