# A reload while a card has no memory for two, with "backend auto": the new
# engine waits for it, as it does with "cuda", and only where the old one has
# left and it is still full does the CPU compute.  The CUDA backend's place is
# taken by the CPU's code in a shared object of the test's own.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Device;
use Hymt::Server;
use Test::More;

my $CODE = <<'END';
#include "backend.h"

#include <unistd.h>

static hymt_backend_ops_t  ops;

const hymt_backend_ops_t *hymt_backend_cuda_ops(void);

static hymt_status_t
memory(int device, uint64_t *bytes, hymt_error_t *err)
{
    if (access(DIR "/none", F_OK) == 0) {
        return hymt_fail(err, "device %d: there are 0 CUDA devices", device);
    }

    if (access(DIR "/full", F_OK) == 0) {
        (void) hymt_fail(err, "not enough memory on device %d", device);
        return HYMT_AGAIN;
    }

    *bytes = UINT64_C(8) << 30;

    return HYMT_OK;
}

const hymt_backend_ops_t *
hymt_backend_cuda_ops(void)
{
    ops = hymt_backend_cpu;
    ops.name = "cuda";
    ops.device_memory = memory;

    return &ops;
}
END

plan skip_all => 'limits of address space are not for sanitizers and cards'
    if $ENV{HYMT_TEST_ASAN} || $ENV{TEST_NGINX_USE_VALGRIND}
       || $ENV{HYMT_TEST_BACKEND};

my $s = Hymt::Server->new(timeout => 60, log_level => 'notice',
                          conf => <<'END');
%%GLOBALS%%
worker_processes 2;
env HYMT_CUDA_LIBRARY=%%DIR%%/device.so;
events { worker_connections 64; }
http {
    %%GLOBALS_HTTP%%
    client_body_timeout 60s;
    hymt_model demo { path %%MODEL%%; threads 1; max_batch 4;
                      kv_tokens 65536; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /translate { hymt_translate demo; }
        location = /status { hymt_status; }
    }
}
END

Hymt::Device::check();
plan skip_all => 'there is no prlimit' if system('prlimit > /dev/null 2>&1');

my $dir = Hymt::Device::build($s, $CODE);

my $one = $s->http_json('/translate', { text => 'Open the file.',
                                        tgt_lang => 'de' });

sub model { return $s->get('/status')->{json}{models}[0] }
sub host { return $s->get('/status')->{json}{engine_worker}{pid} }

sub limit {
    my ($pid, $bytes) = @_;

    return system('prlimit', '--pid', $pid, "--as=$bytes:") == 0;
}

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

    like(model()->{reason}, qr/not enough memory on device 0/, 'for a card');

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
    like(model()->{reason}, qr/auto: no CUDA: not enough memory on device 0/,
         'which the status has, too');

    unlink "$dir/full";
}

# no card and no memory; when there is memory the card is there, too

{
    $s->write_file('place/none', '');

    my ($kb) = Hymt::Process::slurp('/proc/' . host() . '/status')
               =~ /^VmSize:\s+(\d+)/m;

    ok(limit($s->master(), $kb * 1024 - 300_000_000), 'less address space');

    my ($held, $rest, $from) = reload();

    like(model()->{reason}, qr/bytes of memory/, 'for memory of the host');

    unlink "$dir/none";
    limit(host(), 'unlimited');
    limit($s->master(), 'unlimited');
    ok($s->wait_ready('/status'), 'ready when there is a card');
    like(substr($s->log(), $from), qr/ready in \S+ s: backend cuda: /,
         'nothing is left of why there was none');
    unlike(model()->{reason}, qr/no CUDA/, 'nor in the status');

    leave($held, $rest);
}

$s->finish();
done_testing();
