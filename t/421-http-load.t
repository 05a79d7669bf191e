# bench/http-load: what it asks for comes from a seed it prints, closed loop or
# Poisson, every answer's tokens are counted, and an answer that is not what was
# asked for makes it fail.  How fast anything is is not looked at.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Server;
use Test::More;

my $build = ($ENV{HYMT_MODULE} || 'build/x') =~ s{[^/]*\z}{}r || './';
my $program = "$build/bench/http-load";

plan skip_all => "$program is not built: make bench" if !-x $program;
plan skip_all => 'rates need a server that keeps up'
    if $ENV{HYMT_TEST_ASAN} || $ENV{TEST_NGINX_USE_VALGRIND};

my $s = Hymt::Server->new(conf => <<'END')->start();
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    keepalive_requests 100000;
    hymt_model exact {
        path %%MODEL%%; threads 1; max_batch 8; context 256; ignore_eos on;
    }
    hymt_model free {
        path %%MODEL%%; threads 1; max_batch 8; context 256;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate exact; }
        location = /free { hymt_translate free; }
        location = /text { return 200 "text\n"; }
        location = /gone { return 404; }
        location = /status { hymt_status; }
    }
}
END

my $host = '127.0.0.1:' . $s->port();
my $model = $ENV{HYMT_MODEL} || 'models/demo';

ok($s->wait_ready('/status'), 'ready');


# Its exit status, what it said, and the figures in that.
sub load {
    my ($options) = @_;

    my $said = `$program --model $model --warm 0.2 $options $host 2>&1`;
    my $status = $? >> 8;
    my %f;

    my $n = '([\d.]+)';

    @f{qw(answers rate in out)} = $said =~ m{
        ^answers\ +$n,\ $n\ a\ second;\ tokens\ a\ second\ $n\ in,\ $n\ out$}mx;
    @f{qw(p50 p95 p99 max)} = $said =~ m{
        ^latency\ ms\ +P50\ $n\ +P95\ $n\ +P99\ $n\ +max\ $n$}mx;
    $f{first} = $1 if $said =~ /^first token +P50 ([\d.]+)/m;

    return ($status, $said, \%f);
}


# What is printed is rounded.
sub about {
    my ($got, $want, $name) = @_;

    ok(abs($got - $want) <= 0.03 * $want, $name) or diag("$got, want $want");
}


{
    my ($status, $said, $f) = load('--clients 4 --in 40 --out 8 --seconds 1.5'
                                   . ' --seed 7');

    is($status, 0, 'closed loop: status') or diag($said);
    like($said, qr/^seed 7, /m, 'its seed is printed');
    cmp_ok($f->{answers}, '>', 4, 'more answers than clients');
    unlike($said, qr/^errors/m, 'and no errors');
    cmp_ok($f->{p50}, '<=', $f->{p95}, 'percentiles go up');
    cmp_ok($f->{p95}, '<=', $f->{p99} * 1.004, 'and up');
    cmp_ok($f->{p99}, '<=', $f->{max} * 1.004, 'to the longest');
    cmp_ok($f->{in} / $f->{rate}, '>=', 20, 'prompts: at least half of 40');
    cmp_ok($f->{in} / $f->{rate}, '<=', 61, 'at most one and a half');
}

{
    my ($status, $said, $f) = load('--clients 2 --in 40 --out 6 --jitter 0'
                                   . ' --seconds 1.5 --stream');

    is($status, 0, 'even lengths, events: status') or diag($said);
    about($f->{in} / $f->{rate}, 40, 'prompts of 40 tokens');
    about($f->{out} / $f->{rate}, 6, 'outputs of 6');
    ok($f->{first} > 0 && $f->{first} <= $f->{p95} * 1.004,
       'the first token comes before the last');
}

{
    my ($status, $said, $f) = load('--rate 10 --in 40 --out 4 --seconds 3');

    # a count of 30 that is off by more than 4.5 deviations is none of chance

    is($status, 0, 'Poisson: status') or diag($said);
    cmp_ok(abs($f->{answers} - 30), '<=', 25, 'as many as asked for');
}

# idle before and after, as long together as loaded at least: Poisson as well

{
    my ($status, $said) = load('--clients 2 --in 40 --out 4 --seconds 0.5'
                               . ' --static /text --static-rate 200'
                               . ' --static-seconds 1');
    my ($before, $after) = $said =~ /idle P99 (\d+) before, (\d+) after;/;
    my ($idle, $loaded) = $said =~ / (\d+) asked idle, (\d+) loaded$/m;

    is($status, 0, 'static location: status') or diag($said);
    ok($before && $after, 'static location: both times');
    cmp_ok(abs(($idle || 0) - 400), '<=', 90, 'static location: idle, 2 s');
    cmp_ok(abs(($loaded || 0) - 400), '<=', 90, 'static location: loaded, 2 s');
}

for my $case (['/free', qr/^errors +other tokens out: [1-9]/m,
               'outputs that end by themselves'],
              ['/text', qr/^errors +other tokens out: [1-9]/m, 'no translation'],
              ['/gone', qr/^errors +4xx: [1-9]/m, '404'])
{
    my ($uri, $want, $name) = @$case;
    my ($status, $said) = load("--uri $uri --in 40 --out 60 --seconds 0.5");

    is($status, 1, "$name: status");
    like($said, $want, "$name: counted");
}

$s->finish();
done_testing();
