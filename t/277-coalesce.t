# Equal texts in flight are computed once: everybody gets all of it, whoever
# leaves.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Http;
use Hymt::Metrics;
use Hymt::Server;
use Test::More;

my $CONF = <<'END';
%%GLOBALS%%
worker_processes 3;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    log_format cache '$request_uri $hymt_cache';
    access_log logs/cache.log cache;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4; context 1024; }
    hymt_model each { path %%MODEL%%; threads 1; max_batch 4; context 1024;
                      coalesce off; }
    hymt_owner $http_x_owner;
    hymt_split none;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /each { hymt_translate each; }
        location = /status { hymt_status; }
        location = /metrics { hymt_status prometheus; }
    }
}
END

my $s = Hymt::Server->new(timeout => 60, conf => $CONF);

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $text = 'The old house at the end of the street has a red door. ' x 8;
my %one = (text => $text, src_lang => 'en', tgt_lang => 'de');

sub figure {
    my ($name, %labels) = @_;

    return Hymt::Metrics->new($s->get('/metrics')->{body})
                        ->value($name, %labels);
}

sub log_has {
    my ($n, $line) = @_;

    my $log = sub { Hymt::Process::slurp($s->dir() . '/logs/cache.log') };

    return $s->wait_until(5, sub { (() = $log->() =~ /^\Q$line\E$/mg) == $n });
}

my $alone = $s->json('/translate', \%one);

is($alone->{status}, 200, 'alone');

# many at once, over all workers

my @r = $s->send_many([map { $s->http_json('/translate', \%one) } 1 .. 40]);

is(scalar(grep { $_->{status} == 200
                 && $_->{json}{translation} eq $alone->{json}{translation} }
          @r), 40, 'forty at once: each has the translation');

my %usage = map { join(' ', %{$_->{json}{usage}}{
                                 qw(prompt_tokens completion_tokens)}) => 1 }
            @r, $alone;

is(scalar(keys %usage), 1, 'forty at once: and its usage');

ok($s->wait_until(5, sub {
    return figure('hymt_coalesced_total', model => 'demo') >= 30;
}), 'forty at once: most were not computed');

my $n = figure('hymt_coalesced_total', model => 'demo');

ok(log_has($n, '/translate COALESCED'), '$hymt_cache says which');

# drawn ones: where their seeds are equal

@r = $s->send_many([map {
    $s->http_json('/translate', { %one, temperature => 1, top_p => 1,
                                  top_k => 0, seed => $_ % 2 + 1 })
} 1 .. 20]);

my %texts = map { $_->{json}{translation} => 1 } @r;

is(scalar(keys %texts), 2, 'two seeds: two translations');
cmp_ok($s->wait_until(5, sub {
    return figure('hymt_coalesced_total', model => 'demo') >= $n + 12;
}), '>', 0, 'two seeds: most were not computed');

# owners have nothing in common

$n = figure('hymt_coalesced_total', model => 'demo');
@r = $s->send_many([map {
    $s->http_json('/translate', \%one, "X-Owner: $_")
} qw(a b c d)]);
is(scalar(grep { $_->{status} == 200 } @r), 4, 'four owners');
select(undef, undef, undef, 1.2);
is(figure('hymt_coalesced_total', model => 'demo'), $n,
   'four owners: none follows another');

# off

@r = $s->send_many([map { $s->http_json('/each', \%one) } 1 .. 8]);
is(scalar(grep { $_->{json}{translation} eq $alone->{json}{translation} } @r),
   8, 'off: the same translations');
is(figure('hymt_coalesced_total', model => 'each'), 0, 'off: all computed');

# who is computed leaves: the next goes on

for my $turn (1 .. 5) {
    my $request = $s->http_json('/translate', \%one);
    my @socks = map { $s->open() } 1 .. 4;

    $s->write($_, $request) for @socks;
    select(undef, undef, undef, 0.02 * $turn);
    close(shift @socks);

    my @left = map { $s->read_response($_) } @socks;

    is(scalar(grep { $_ && $_->{status} == 200
                     && $_->{json}{translation}
                        eq $alone->{json}{translation} } @left), 3,
       "the first leaves after $turn: the others are answered");
}

ok($s->wait_until(5, sub {
    return figure('hymt_in_flight', model => 'demo') == 0
           && figure('hymt_kv_blocks_used', model => 'demo') == 0;
}), 'nothing is left');

$s->finish();
done_testing();
