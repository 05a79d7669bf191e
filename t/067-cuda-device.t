# Whatever keeps a model from a GPU, without one: the CUDA backend's host code
# with a runtime that is the test's own, which says what a machine with no
# driver, no device, too old ones, a full card or no cuBLASLt says.  "backend
# cuda" answers 503, "backend auto" computes on the CPU; log and status have the
# reason.

use strict;
use warnings;

use lib 't/lib';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Hymt::Program qw(hymt);
use Hymt::Server;
use Test::More;

my $module = $ENV{HYMT_MODULE} || 'build/ngx_http_hymt_module.so';
my $build = dirname(abs_path($module));
my $cc = $ENV{CC} || 'cc';
my ($home) = grep { -e "$_/include/cublasLt.h" }
             grep { defined } $ENV{CUDA}, '/usr/local/cuda';

plan skip_all => 'there is no cublasLt.h' if !defined $home;
plan skip_all => 'the module was built by itself' if !-e "$build/libhymt.a";
plan skip_all => 'as another user nothing can be put there' if $> != 0;
plan skip_all => 'the library is built with sanitizers'
    if $ENV{HYMT_TEST_ASAN};

my $CODE = <<'END';
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether that is what the test has asked for. */
static bool
is(const char *name)
{
    char   word[32];
    FILE  *f;

    f = fopen(CASE, "r");
    if (f == NULL || fscanf(f, "%31s", word) != 1) {
        word[0] = '\0';
    }

    if (f != NULL) {
        fclose(f);
    }

    return strcmp(word, name) == 0;
}

cudaError_t
cudaDriverGetVersion(int *v)
{
    *v = is("no-driver") ? 0 : is("old-driver") ? 11040 : 13000;

    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *v)
{
    *v = 13000;

    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *n)
{
    *n = is("none") ? 0 : is("few") ? 1 : 2;

    return is("no-driver") || is("old-driver") ? cudaErrorInsufficientDriver
           : is("no-device") ? cudaErrorNoDevice
           : is("broken") ? cudaErrorSystemDriverMismatch : cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "stand-in %d", device);
    p->major = is("old-device") ? 7 : 8;
    p->minor = 5;
    p->multiProcessorCount = 100;
    p->totalGlobalMem = (size_t) 8 << 30;

    return cudaSuccess;
}

cudaError_t
cudaMemGetInfo(size_t *left, size_t *total)
{
    *total = (size_t) 8 << 30;
    *left = is("full") ? 1 << 20 : *total;

    return cudaSuccess;
}

const char *
cudaGetErrorString(cudaError_t rc)
{
    return rc == cudaErrorSystemDriverMismatch ? "driver and library differ"
                                               : "another error";
}

const char *
cudaGetErrorName(cudaError_t rc)
{
    return rc == cudaErrorSystemDriverMismatch ? "mismatch" : "error";
}

cudaError_t
cudaMalloc(void **p, size_t n)
{
    if (n > (size_t) 8 << 30) {
        return cudaErrorMemoryAllocation;
    }

    *p = malloc(1);

    return cudaSuccess;
}

cudaError_t
cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    (void) flags;
    *p = calloc(1, n);

    return cudaSuccess;
}

/* whoever waits is to sleep: what would spin is not made */

cudaError_t
cudaSetDeviceFlags(unsigned flags)
{
    return flags == cudaDeviceScheduleBlockingSync ? cudaSuccess
                                                   : cudaErrorInvalidValue;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = NULL;

    return (flags & cudaEventBlockingSync) ? cudaSuccess
                                           : cudaErrorInvalidValue;
}

/* the loader, as gemm_lt.c sees it */

void *
no_dlopen(const char *path, int flags)
{
    (void) path;

    return is("no-lt") ? NULL : dlopen(NULL, flags);
}

char *no_dlerror(void) { return "no such file"; }

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *lt)
{
    *lt = NULL;

    return CUBLAS_STATUS_NOT_INITIALIZED;
}

uint32_t hymt_attention_rows(uint32_t group) { return 64 / group; }
END

# what was not asked for is there, and well

my %cases = (
    'no-driver'  => qr/there is no NVIDIA driver: libcuda\.so\.1 was not found/,
    'old-driver' => qr/driver is too old: it is for CUDA 11\.4, 13\.0 is/,
    'no-device'  => qr/there is no CUDA device: the driver is there and finds/,
    'none'       => qr/there is no CUDA device: the driver is there and finds/,
    'few'        => qr/device 1: there is 1 CUDA device, counted from 0/,
    'broken'     => qr/cudaGetDeviceCount\(\) failed: driver and library/,
    'old-device' => qr/device 1, stand-in 1, is too old: .* 7\.5, 8\.0 /,
    'full'       => qr/not enough memory on device 1, stand-in 1: \d+ MB for/,
);

my $slower = 'slower with many rows without cuBLASLt';

my %slower = (
    'no-lt'  => qr/$slower \(libcublasLt\.so\.\d+ was not found: no such file/,
    'bad-lt' => qr/$slower \(libcublasLt\.so\.\d+ has no cublasLt\w+\(\)\)/,
);


my $s = Hymt::Server->new(timeout => 60, conf => <<'END');
%%GLOBALS%%
worker_processes 2;
env HYMT_CUDA_LIBRARY=%%DIR%%/device.so;
events { worker_connections 64; }
http {
    %%GLOBALS_HTTP%%
    hymt_model cuda {
        path %%MODEL%%; backend cuda; device 1; threads 1; max_batch 4;
        context 256;
    }
    hymt_model auto {
        path %%MODEL%%; backend auto; device 1; threads 1; max_batch 4;
        context 256;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /cuda { hymt_translate cuda; }
        location = /auto { hymt_translate auto; }
        location = /status { hymt_status; }
    }
}
END

my $dir = $s->dir();

chmod 0755, $dir;


# What else the backend calls is there and does nothing: found by its name.
sub stubs {
    my ($objects, $own) = @_;
    my %there;

    for (`nm $objects $own`) {
        $there{$2} = 1 if /^[0-9a-f]+ ([TDBR]) (\w+)$/;
    }

    for (`nm $build/libhymt.a`) {
        $there{$1} = 1 if /^[0-9a-f]+ [TDBR] (\w+)$/;
    }

    my %want = map { /^ +U ((?:cuda|cublas|hymt_)\w+)$/ ? ($1 => 1) : () }
               `nm -u $objects $own`;

    return map { "long $_(void);\nlong $_(void) { return 0; }\n" }
           grep { !$there{$_} } sort keys %want;
}


sub compile {
    my ($sources, $more) = @_;

    return system("cd $dir && $cc -std=c11 -D_GNU_SOURCE -O1 -fPIC -c"
                  . ' -I' . abs_path('engine') . ' -I'
                  . abs_path('kernels/cuda') . " -isystem $home/include"
                  . " -DCASE='\"$dir/case\"'"
                  . " -DHYMT_BUILD_ID='\"" . build_id() . "\"' $more"
                  . " $sources") == 0;
}


sub build_id {
    open(my $f, '<', "$build/build-id") or die "$build/build-id: $!\n";
    chomp(my $id = <$f>);

    return $id;
}


{
    my @host = qw(backend_cuda device_cuda forward_cuda memory_cuda step_cuda
                  weights_cuda);
    my $objects = join ' ', map { "$dir/$_.o" } @host, 'gemm_lt';

    $s->write_file('own.c', $CODE);
    $s->write_file('map', '{ global: hymt_backend_cuda_ops; local: *; };');

    ok(compile(join(' ', map { abs_path("kernels/cuda/$_.c") } @host), '')
       && compile(abs_path('kernels/cuda/gemm_lt.c'),
                  '-Ddlopen=no_dlopen -Ddlerror=no_dlerror')
       && compile('own.c', ''), 'the backend and its runtime are built');

    $s->write_file('stubs.c', join '', stubs($objects, "$dir/own.o"));

    ok(compile('stubs.c', '')
       && system("$cc -shared -o $dir/device.so $objects $dir/own.o"
                 . " $dir/stubs.o $build/libhymt.a"
                 . " -Wl,--version-script=$dir/map -Wl,--no-undefined"
                 . ' -Wl,--as-needed -ljansson -lm -lpthread -ldl') == 0,
       'the shared object, too');
}


my $text = { text => 'Hello.', tgt_lang => 'de' };

sub status { return $s->get('/status')->{json} || { models => [] } }


# Both engines of another process than before have come to an end of loading.
sub settled {
    my ($before) = @_;

    return $s->wait_until(30, sub {
        my $j = status();

        return @{$j->{models}} == 2 && $j->{engine_worker}{pid} != $before
               && !grep { $_->{state} eq 'loading' } @{$j->{models}};
    });
}


# What status says of both, and the log since then.
sub change {
    my ($name) = @_;

    my $started = $s->master();
    my $before = $started ? status()->{engine_worker}{pid} : 0;
    my $from = $started ? $s->log_size() : 0;

    $s->write_file('case', "$name\n");
    $started ? $s->reload(20) : $s->start();

    ok(settled($before), "$name: both have loaded or failed");

    my %model = map { $_->{name} => $_ } @{status()->{models}};

    return (@model{qw(cuda auto)}, substr($s->log(), $from));
}


for my $name (sort keys %cases) {
    my ($cuda, $auto, $said) = change($name);
    my $res = $s->json('/cuda', $text);

    is($cuda->{state}, 'failed', "$name, cuda: failed");
    like($cuda->{reason}, $cases{$name}, "$name, cuda: the status says why");
    like($said, qr/hymt "cuda": .*$cases{$name}/, "$name, cuda: the log, too");
    is($res->{status}, 503, "$name, cuda: 503");
    like($res->{json}{error}{message},
         $cuda->{reason} =~ m{/} ? qr/has failed$/ : $cases{$name},
         "$name, cuda: with the reason, but for names of files");
    like($res->{head}, qr/^Retry-After: \d+/mi, "$name, cuda: ask again");

    $res = $s->json('/auto', $text);

    is($auto->{state}, 'ready', "$name, auto: ready");
    like($auto->{reason}, qr/^backend cpu \(auto: no CUDA: .*$cases{$name}/,
         "$name, auto: the status says why it is the CPU");
    like($said, qr/hymt "auto": .*backend cpu \(auto: .*$cases{$name}/,
         "$name, auto: the log, too");
    is($res->{status}, 200, "$name, auto: 200") or diag($res->{body});
    like($res->{json}{translation}, qr/^Hallo/, "$name, auto: translates");
}


# Less, and enough

for my $name (sort keys %slower) {
    my ($cuda, $auto, $said) = change($name);

    for my $model ($cuda, $auto) {
        my $which = "$name, $model->{name}";

        is($model->{state}, 'ready', "$which: ready");
        like($model->{reason}, qr/^backend cuda: .*$slower{$name}/,
             "$which: the status says what is missing");
        like($said, qr/hymt "$model->{name}": .*$slower{$name}/,
             "$which: the log, too");
    }
}

$s->finish();


# Errors that are asked for, six steps of self-test before them

$s->write_file('case', "no-lt\n");

my %faults = (
    'launch:9'  => qr/the launch of step 9 failed: an error was asked for/,
    'collect:9' => qr/step 9 failed: an error was asked for/,
    'alloc'     => qr/not enough memory on device 0/,
    'taken'     => qr/no device memory for \d+ MB of KV cache/,
    'often'     => qr/HYMT_CUDA_FAULT: "often" is none of alloc, taken, launch/,
);

for my $fault (sort keys %faults) {
    local $ENV{HYMT_CUDA_LIBRARY} = "$dir/device.so";
    local $ENV{HYMT_CUDA_FAULT} = $fault;

    my ($status, $out, $err) = hymt("Hello.\n", 'translate',
                                    $ENV{HYMT_MODEL} || 'models/demo',
                                    '--to', 'de', '--backend', 'cuda');

    is($status, 1, "$fault: status");
    like($err, $faults{$fault}, "$fault: is said");
}

done_testing();
