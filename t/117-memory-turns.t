# New engines that look for memory at the same time take turns: two models where
# there is room for one, and a second reload while the engine of the first one
# still waits, where the newest goes first.  The CUDA backend's place is taken by
# the CPU's code in a shared object of the test's own, with a card that has room
# for one engine: a lock on a file, which goes with its process.

use strict;
use warnings;

use lib 't/lib';

use Hymt::Device;
use Hymt::Http;
use Hymt::Server;
use Test::More;

my $CODE = <<'END';
#include "claim.h"
#include "device.h"

#include <fcntl.h>
#include <time.h>

/* bytes of the card, of an engine */
#define CARD  10
#define NEED  6

static struct {
    hymt_backend_t *_Atomic  b;
    int                      fd;
} taken[4];

static hymt_status_t
room(void *data, uint64_t *bytes, hymt_error_t *err)
{
    int           fd = open(DIR "/card", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct flock  lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    (void) data;

    if (fd == -1 || fcntl(fd, F_OFD_GETLK, &lock) == -1) {
        return hymt_fail(err, "the card can't be looked at");
    }

    close(fd);
    *bytes = lock.l_type == F_UNLCK ? CARD : CARD - NEED;

    return HYMT_OK;
}

/* Long after it was let to. */
static hymt_status_t
take(const hymt_backend_params_t *p, int *fd, hymt_error_t *err)
{
    int              i, turns = access(DIR "/slow", F_OK) == 0 ? 6000 : 60;
    struct flock     lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct timespec  ts = { .tv_nsec = 10000000 };

    for (i = 0; i < turns; i++) {
        if (__atomic_load_n(p->stop, __ATOMIC_RELAXED)) {
            return HYMT_ABORTED;
        }

        nanosleep(&ts, NULL);
    }

    *fd = open(DIR "/card", O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fcntl(*fd, F_OFD_SETLK, &lock) == -1) {
        close(*fd);
        close(open(DIR "/overrun", O_CREAT | O_WRONLY, 0666));

        return hymt_fail(err, "out of memory");
    }

    return HYMT_OK;
}

static hymt_status_t
create(const hymt_backend_params_t *params, const hymt_model_t *model,
    hymt_backend_t **b, hymt_error_t *err)
{
    int                     i, fd;
    uint64_t                bytes, held;
    hymt_status_t           rc;
    hymt_backend_params_t   p = *params;

    rc = hymt_claim_ask(params->claim, 3, NEED, room, NULL, &bytes, &held,
                        err);
    p.claim = NULL;

    if (rc == HYMT_AGAIN) {
        (void) hymt_fail(err, "not enough memory on the card");
    }

    if (rc == HYMT_OK) {
        rc = take(params, &fd, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_backend_cpu.create(&p, model, b, err);

    if (rc != HYMT_OK) {
        close(fd);
        return rc;
    }

    for (i = 0; taken[i].b != NULL; i++) { /* void */ }

    taken[i].fd = fd;
    taken[i].b = *b;

    return HYMT_OK;
}

static void
destroy(hymt_backend_t *b)
{
    int  i;

    hymt_backend_cpu.destroy(b);

    for (i = 0; taken[i].b != b; i++) { /* void */ }

    close(taken[i].fd);
    taken[i].b = NULL;
}

const hymt_backend_ops_t *
hymt_backend_cuda_ops(void)
{
    hymt_backend_ops_t  *ops = device_ops();

    ops->create = create;
    ops->destroy = destroy;

    return ops;
}
END

my $BLOCK = 'backend cuda; max_batch 4; context 512;';

Hymt::Device::check();

my $s = Hymt::Server->new(timeout => 60, log_level => 'notice',
    conf => Hymt::Device::conf(2, demo => $BLOCK, other => $BLOCK));

my $dir = Hymt::Device::build($s, $CODE);

my $one = $s->http_json('/demo', { text => 'Open the file.',
                                   tgt_lang => 'de' });

sub models { return @{$s->get('/status')->{json}{models}} }

# A client that waits for an engine.
sub waiting {
    my $sock = $s->open($one);

    ok($s->wait_until(10, sub {
        grep { $_ } @{$s->get('/status')->{json}{buffers}{used}}
    }), 'a client waits');

    return $sock;
}

# two models

$s->start();

ok($s->wait_until(20, sub {
    (grep { $_->{state} =~ /^(?:ready|failed)$/ } models()) == 2
}), 'two models: both come to an end');

my @states = sort map { $_->{state} } models();
my ($failed) = grep { $_->{state} eq 'failed' } models();

is_deeply(\@states, ['failed', 'ready'], 'one has the memory');
is($failed->{reason}, 'not enough memory on the card', 'the other one says so');
ok(!-e "$dir/overrun", 'and did not try to take it');

$s->write_conf(Hymt::Device::conf(2, demo => $BLOCK));
$s->signal('HUP');
ok($s->wait_until(20, sub {
    my @m = models();

    @m == 1 && $m[0]{state} eq 'ready' && $s->children() == 2
}), 'one model is ready');

my $want = $s->send($one)->{json}{translation};

# three generations

{
    my ($held, $rest) = $s->open_slow($one);

    $s->reload_short();

    my $second = waiting();

    $s->reload_short();

    my $third = waiting();
    my $from = $s->log_size();

    $s->write($held, $rest);
    is($s->read_response($held)->{json}{translation}, $want,
       'the first one answers');
    is($s->read_response($third)->{json}{translation}, $want,
       'then the third one');

    my $res = $s->read_response($second);

    is($res->{status}, 503, 'the second one has had no turn');
    ok(defined Hymt::Http::header($res, 'Retry-After'), 'ask again');
    like($res->{body}, qr/"unavailable"/, 'its engine has failed');

    is(scalar(() = substr($s->log(), $from) =~ /: ready in /g), 1,
       'one engine was ready');
    ok(!-e "$dir/overrun", 'and none took what was not there');
    ok($s->wait_until(20, sub { $s->children() == 2 }), 'the others leave');
    is($s->send($one)->{json}{translation}, $want, 'it goes on');
}

# one that loads, and is killed

{
    my ($held, $rest) = $s->open_slow($one);

    $s->reload_short();
    $s->write_file('place/slow', '');
    $s->write($held, $rest);
    is($s->read_response($held)->{json}{translation}, $want,
       'the old one answers');
    ok($s->wait_until(20, sub { $s->children() == 2 }), 'and leaves');

    my $from = $s->log_size();
    my $loads = $s->host();
    my $waits = waiting();

    # it has looked again by then

    ok(!$s->wait_log(qr/ready in/, 2, $from), 'the new one loads, slowly');
    unlink "$dir/slow";
    $s->reload_short();
    ok(!$s->wait_log(qr/ready in/, 2, $from), 'the next one waits for it');

    kill 'KILL', $loads;
    $s->allow_alerts(qr/exited on signal 9/);

    ok($s->wait_ready('/status', 10), 'until that one is killed');
    is($s->read_response($waits)->{status}, 503, 'whose client gets 503');
    is($s->send($one)->{json}{translation}, $want, 'it works');
    ok(!-e "$dir/overrun", 'none took what was not there');
}

$s->finish();
done_testing();
