# The event loop never waits: CPU time from where a turn comes to the module to
# the return to the kernel, as the workers measure it themselves, while
# translating and while bodies of 1 MB arrive.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Process;
use Hymt::Server;
use Test::More;

my $ROUNDS = $ENV{HYMT_LONG} ? 100 : 16;

my $s = Hymt::Server->new(timeout => 120, log_level => 'notice',
                          conf => <<'END');
%%GLOBALS%%
worker_processes 2;
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 16; context 512; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; hymt_max_body 2m; }
        location = /status { hymt_status; }
    }
}
END

# All that NGINX calls of the module in a worker's loop say that a turn has come
# to it: else what they take is not counted.

my %body;

for my $file ('ngx_http_hymt_module.c', glob('http/*.c')) {
    my $text = Hymt::Process::slurp($file);

    $body{$1} = $2
        while $text =~ /^(ngx_http_hymt_\w+)(\([^;{}]*\)\n\{.*?^\})/msg;
}

my @called = grep {
    $body{$_} =~ /^\(ngx_event_t \*ev\)/ || /_call_cleanup$/
} sort keys %body;

cmp_ok(@called, '>', 10, 'handlers: they are found');
is_deeply([grep { $body{$_} !~ /ngx_http_hymt_turn_begin\(\);/ } @called], [],
          'handlers: each begins a turn');

$s->start();
ok($s->wait_ready('/status'), 'ready');

my $one = $s->http_json('/translate', { text => 'Open the file.',
                                        tgt_lang => 'de' });

# a megabyte that parses to its end before it is refused: the last text is empty

my $large = $s->http_json('/translate',
    '{"tgt_lang": "de", "text": [' . '"' . 'x' x 1000 . '",'
    . join(',', map { '"' . ('word ' x 200) . '"' } 1 .. 998) . ',""]}');

# Sends all of it and returns the turns taken meanwhile, those over 1 ms, and the
# longest so far.
sub measure {
    my ($codes) = @_;

    my $before = turns();

    for (1 .. $ROUNDS) {
        my @r = $s->send_many([($one) x 24, ($large) x 8]);

        $codes->{$_->{status} || $_->{error}}++ for @r;
    }

    my $after = turns();

    return ($after->[0] - $before->[0], $after->[1] - $before->[1],
            $after->[2]);
}

sub turns {
    my $loop = $s->get('/status')->{json}{event_loop};
    my ($all, $slow) = (0, 0);

    for my $bucket (@{$loop->{turns}}) {
        $all += $bucket->{turns};
        $slow += $bucket->{turns}
            if !defined $bucket->{up_to_us} || $bucket->{up_to_us} > 1000;
    }

    return [$all, $slow, $loop->{max_us}];
}

# Of few turns, one or two that another program's cache misses made slow are no
# verdict, nor some more on a machine that is busy all the while: the best of
# some tries counts.  Of very many, as in the long form, none of this does.

my $TRIES = $ENV{HYMT_LONG} ? 1 : 4;
my (%codes, $all, $slow, $longest, $allowed, $tries);

for (1 .. $TRIES) {
    $tries = $_;
    ($all, $slow, $longest) = measure(\%codes);
    note("$all turns, $slow over 1 ms, longest $longest us");

    $allowed = $all / 1000;
    $allowed = 4 if !$ENV{HYMT_LONG} && $allowed < 4;
    $allowed *= Hymt::Process::slowness();

    last if $slow <= $allowed;
}

is($codes{200}, 24 * $ROUNDS * $tries, 'small ones are translated');
is($codes{400}, 8 * $ROUNDS * $tries, 'bodies of 1 MB are parsed and judged');
cmp_ok($all, '>', 300, 'turns were measured');
cmp_ok($slow, '<=', $allowed, '99.9 % of the turns took at most 1 ms');

$s->finish();
done_testing();
