# A device that is lost while the engine works, as NGINX sees it: the CUDA
# backend's place is taken by the CPU's code in a shared object of the test's
# own, which fails once where it is told to.  The worker leaves of its own, the
# next one opens the device anew, and who was waiting is answered.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Device;
use Hymt::Server;
use Test::More;

my $CODE = <<'END';
#include "device.h"

static hymt_status_t
launch(hymt_backend_t *b, const hymt_batch_t *batch, hymt_error_t *err)
{
    if (unlink(DIR "/launch") == 0) {
        return hymt_fail(err, "CUDA: cudaGraphLaunch() failed: lost");
    }

    return hymt_backend_cpu.launch(b, batch, err);
}

static hymt_status_t
collect(hymt_backend_t *b, uint32_t *tokens, hymt_error_t *err)
{
    if (unlink(DIR "/collect") == 0) {
        return hymt_fail(err, "CUDA: cudaEventSynchronize() failed: lost");
    }

    return hymt_backend_cpu.collect(b, tokens, err);
}

const hymt_backend_ops_t *
hymt_backend_cuda_ops(void)
{
    hymt_backend_ops_t  *ops = device_ops();

    ops->launch = launch;
    ops->collect = collect;
    ops->device_memory = device_memory;

    return ops;
}
END

Hymt::Device::check();

my $s = Hymt::Server->new(timeout => 60,
    conf => Hymt::Device::conf(3,
        demo => 'backend cuda; max_batch 8; context 512;'));

Hymt::Device::build($s, $CODE);


sub requests {
    my ($n) = @_;

    return map {
        $s->http_json('/demo', { text => "Open the file number $_ for me.",
                                 tgt_lang => 'de' })
    } 1 .. $n;
}


$s->start();
ok($s->wait_ready('/status'), 'ready');
like($s->log(), qr/backend cuda: /, 'on the device');

my @want = map { $_->{json}{translation} } $s->send_many([requests(30)]);

is(scalar(grep { defined } @want), 30, 'all are answered');

for my $call (qw(launch collect)) {
    my $pid = $s->host();

    $s->write_file("place/$call", '');

    my @all = requests(30);
    my @responses = $s->send_many(\@all);

    # what comes between the failure and the worker's end is told to come again

    my @late = grep { ($responses[$_]{status} || 0) == 503 } 0 .. $#all;

    cmp_ok(scalar(@late), '<', 30, "$call fails: not all came after that");
    is(scalar(grep { !defined Hymt::Http::header($responses[$_],
                                                 'Retry-After') } @late), 0,
       "$call fails: those are told when to come again");
    ok($s->wait_ready('/status'), "$call fails: there is an engine again");

    @responses[@late] = $s->send_many([@all[@late]]) if @late;

    is(scalar(grep { $_->{status} == 200 } @responses), 30,
       "$call fails: all are answered, by the next engine");
    is_deeply([map { $_->{json}{translation} } @responses], \@want,
              "$call fails: as without it");

    ok($s->wait_ready('/status'), "$call fails: an engine is ready");
    isnt($s->host(), $pid, "$call fails: in another process");
    like($s->log(), qr/worker process $pid exited with code 0/,
         "$call fails: the worker left of its own");
}

is(scalar($s->grep_log(qr/the engine has failed: this worker leaves/)), 2,
   'the log says so');
like($s->log(), qr/cudaGraphLaunch\(\) failed: lost/, 'and why');
like($s->log(), qr/cudaEventSynchronize\(\) failed: lost/, 'each time');


# The device does not come back

$s->write_file('place/none', '');
$s->write_file('place/launch', '');

my ($res) = $s->send_many([requests(1)]);

is($res->{status}, 503, 'gone for good: 503');
like($res->{head}, qr/^Retry-After: \d+/mi, 'to be asked again');
ok($s->wait_until(20, sub {
    ($s->model()->{reason} // '') =~ /there are 0 CUDA devices/;
}), 'the status has the reason');

$s->finish();

done_testing();
