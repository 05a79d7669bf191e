# The prefix cache: what prompts begin with alike is computed once, for whoever
# may share it; answers are the same as without.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Metrics;
use Hymt::Server;
use Test::More;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model warm { path %%MODEL%%; threads 1; max_batch 8; context 1024; }
    hymt_model cold { path %%MODEL%%; threads 1; max_batch 8; context 1024;
                      prefix_cache off; }
    hymt_owner $http_x_owner;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /warm { hymt_translate warm; hymt_split none; }
        location = /cold { hymt_translate cold; hymt_split none; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus vllm; }
    }
}
END

my $s = Hymt::Server->new(timeout => 60, conf => $CONF);

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $long = 'The old house at the end of the street has a red door. ' x 12;

sub ask {
    my ($uri, $end, $owner) = @_;

    my $r = $s->json($uri, { text => $long . $end, src_lang => 'en',
                             tgt_lang => 'de', max_tokens => 30 },
                     $owner ? ("X-Owner: $owner") : ());

    is($r->{status}, 200, "$uri: $end");

    return $r->{json};
}

# once the engine's figures of all that was answered are there

sub figures {
    my ($model, $lookups) = @_;

    my %f;

    $s->wait_until(10, sub {
        my $m = Hymt::Metrics->new($s->get('/metrics')->{body});

        %f = map { $_ => $m->value('hymt_prefix_cache_lookups_total',
                                   model => $model, result => $_) }
                 qw(hit miss);
        $f{tokens} = $m->value('hymt_prefix_cache_tokens_total',
                               model => $model);
        $f{evictions} = $m->value('hymt_prefix_cache_evictions_total',
                                  model => $model);
        $f{blocks} = $m->value('hymt_prefix_cache_blocks', model => $model);
        $f{vllm} = $m->value('vllm:prefix_cache_hits_total',
                             model_name => $model);

        return $f{hit} + $f{miss} >= $lookups;
    });

    return \%f;
}

my @ends = ('Nobody lives there.', 'It is for sale.', 'My aunt bought it.');
my @cold = map { ask('/cold', $_) } @ends;

my $first = ask('/warm', $ends[0]);
my $f = figures('warm', 1);

is($f->{hit}, 0, 'the first is no hit');
is($f->{miss}, 1, 'but a miss');
is($f->{tokens}, 0, 'nothing was saved');
cmp_ok($f->{blocks}, '>=', 10, 'its blocks are known');

my @again = map { ask('/warm', $_) } @ends;
$f = figures('warm', 4);

is($f->{hit}, 3, 'the next ones are hits');
cmp_ok($f->{tokens}, '>', 3 * 0.7 * $first->{usage}{prompt_tokens},
       'most of their tokens were there');
is($f->{vllm}, $f->{tokens}, 'vLLM\'s name for them');

for my $i (0 .. $#ends) {
    is($again[$i]{translation},
       $cold[$i]{translation},
       "the answer is the same: $ends[$i]");
    is_deeply($again[$i]{usage}, $cold[$i]{usage}, 'and so is its usage');
}

# owners: each his own, and nobody's is not everybody's

my $saved = $f->{tokens};

ask('/warm', $ends[0], 'a');
$f = figures('warm', 5);
is($f->{miss}, 2, 'an owner finds nothing of who has none');

ask('/warm', $ends[0], 'b');
$f = figures('warm', 6);
is($f->{miss}, 3, 'nor of another owner');
is($f->{tokens}, $saved, 'nothing was shared');

ask('/warm', $ends[1], 'a');
$f = figures('warm', 7);
is($f->{hit}, 4, 'but his own');

# many at once: one reads what they have in common

my @r = $s->send_many([map {
    $s->http_json('/warm', { text => "$long Number $_.", src_lang => 'en',
                             tgt_lang => 'fr', max_tokens => 5 })
} 1 .. 8]);

is(scalar(grep { $_->{status} == 200 } @r), 8, 'eight at once');

my $before = $f;
$f = figures('warm', 15);
is($f->{hit} - $before->{hit}, 7, 'seven found what the eighth has read');

# off

is(figures('cold', 0)->{miss}, 0, 'off: nobody looks');
is(figures('cold', 0)->{blocks}, 0, 'off: nothing is known');

my $json = $s->get('/status')->{json}{models};
my ($warm) = grep { $_->{name} eq 'warm' } @$json;

cmp_ok($warm->{prefix_cache}{tokens}, '>=', $f->{tokens},
       'hymt_status says the same');
is($warm->{kv}{blocks_used}, 0, 'blocks that are only known are not used');

$s->finish();
done_testing();
