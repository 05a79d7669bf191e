# A reload while a card has no memory for two, with "backend auto": the new
# engine waits for it, as it does with "cuda", and only where the old one has
# left and it is still full does the CPU compute.  The CUDA backend's place is
# taken by the CPU's code in a shared object of the test's own.

use strict;
use warnings;

use lib 't/lib';

use Hymt::AddressSpace;
use Hymt::Device;
use Hymt::Server;
use Test::More;

my $CODE = <<'END';
#include "device.h"

const hymt_backend_ops_t *
hymt_backend_cuda_ops(void)
{
    hymt_backend_ops_t  *ops = device_ops();

    ops->device_memory = device_memory;

    return ops;
}
END

Hymt::AddressSpace::check();
Hymt::Device::check();

my $s = Hymt::Server->new(timeout => 60, log_level => 'notice',
    conf => Hymt::Device::conf(2, demo => 'max_batch 4; kv_tokens 65536;'));

my $dir = Hymt::Device::build($s, $CODE);

my $one = $s->http_json('/demo', { text => 'Open the file.',
                                   tgt_lang => 'de' });

# Reloads while a client's body keeps the old workers; the new engine waits.
# That client's connection, what it has not sent, and where the log was.
sub reload {
    return ($s->open_slow($one), $s->reload_short());
}

sub leave {
    my ($held, $rest) = @_;

    $s->write($held, $rest);
    is($s->read_response($held)->{status}, 200, 'the old one goes on');
    ok($s->wait_until(20, sub { $s->children() == 2 }), 'and leaves');
}

$s->start();
ok($s->wait_ready('/status'), 'ready');
like($s->log(), qr/: backend cuda: /, 'on the device');

# there is memory when the old one has left

{
    $s->write_file('place/full', '');

    my ($held, $rest, $from) = reload();

    like($s->model()->{reason}, qr/not enough memory on device 0/, 'for a card');

    unlink "$dir/full";
    ok($s->wait_ready('/status'), 'ready when there is some');
    like(substr($s->log(), $from), qr/: backend cuda: /, 'on the card');

    leave($held, $rest);
}

# there is none

{
    $s->write_file('place/full', '');

    my ($held, $rest, $from) = reload();

    leave($held, $rest);
    ok($s->wait_ready('/status'), 'ready with a card that stays full');
    like(substr($s->log(), $from),
         qr/backend cpu \(auto: no CUDA: not enough memory on device 0\)/,
         'on the CPU, for that reason');
    like($s->model()->{reason}, qr/auto: no CUDA: not enough memory on device 0/,
         'which the status has, too');

    unlink "$dir/full";
}

# no card and no memory; when there is memory the card is there, too

{
    $s->write_file('place/none', '');

    Hymt::AddressSpace::squeeze($s);

    my ($held, $rest, $from) = reload();

    like($s->model()->{reason}, qr/bytes of memory/, 'for memory of the host');

    unlink "$dir/none";
    Hymt::AddressSpace::limit($s->host(), 'unlimited');
    Hymt::AddressSpace::limit($s->master(), 'unlimited');
    ok($s->wait_ready('/status'), 'ready when there is a card');
    like(substr($s->log(), $from), qr/ready in \S+ s: backend cuda: /,
         'nothing is left of why there was none');
    unlike($s->model()->{reason}, qr/no CUDA/, 'nor in the status');

    leave($held, $rest);
}

$s->finish();
done_testing();
