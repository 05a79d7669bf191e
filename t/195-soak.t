# bench/soak, briefly: faults in a random order under load of all kinds; one
# hour by "bench/soak --seconds 3600".  HYMT_SEED=N repeats an order.

use strict;
use warnings;

use Test::More;

plan skip_all => 'a soak under valgrind takes too long'
    if $ENV{TEST_NGINX_USE_VALGRIND};

my @args = ('--seconds', $ENV{HYMT_LONG} ? 300 : 20,
            '--round', $ENV{HYMT_LONG} ? 20 : 7);

push @args, '--seed', $ENV{HYMT_SEED} if $ENV{HYMT_SEED};

open my $soak, '-|', 'bench/soak', @args or die "bench/soak: $!\n";
my @lines = <$soak>;
close $soak;

my $rc = $?;

chomp @lines;
note($_) for @lines;

is(join("\n", grep { /^BROKEN/ } @lines), '', 'what has to hold holds');
is($rc, 0, 'exit status');
like($lines[-2] // '', qr/\b[1-9]\d* right\b/, 'requests were answered');
is(scalar(grep { /^round \d+/ } @lines) > 1, 1, 'in rounds');

like(scalar(`bench/soak --help`), qr/^usage: bench\/soak/, '--help');
is($? >> 8, 0, '--help: exit status');

done_testing();
