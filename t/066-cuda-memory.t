# Memory of a card that is gone when the CUDA backend takes it, without a card:
# its host code with a runtime that is the test's own, in which each call that
# takes memory finds none, one after the other.  The engine is to be told that
# it may wait for some, and nothing is left behind.

use strict;
use warnings;

use lib 't/lib';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Hymt::Program qw(put);
use Test::More;

my $module = $ENV{HYMT_MODULE} || 'build/ngx_http_hymt_module.so';
my $model = $ENV{HYMT_MODEL} || 'models/demo';
my $build = dirname(abs_path($module));
my $dir = tempdir(CLEANUP => 1);
my $cc = $ENV{CC} || 'cc';
my ($home) = grep { -e "$_/include/cuda_runtime_api.h" }
             grep { defined } $ENV{CUDA}, '/usr/local/cuda';

plan skip_all => 'there is no cuda_runtime_api.h' if !defined $home;
plan skip_all => 'the module was built by itself' if !-e "$build/libhymt.a";
plan skip_all => 'the library is built with sanitizers'
    if $ENV{HYMT_TEST_ASAN};

put("$dir/runtime.c", <<'END_OF_CODE');
#include "backend_cuda.h"
#include "claim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int  calls;      /* that may find no memory */
static _Atomic int  live;       /* pieces of memory, streams, events, graphs */
static int          fail_at;
static cudaError_t  fail_with;
static const char  *_Atomic failed;
static hymt_claim_t *claim;     /* of memory, or NULL */

const hymt_backend_ops_t *hymt_backend_cuda_ops(void);

static cudaError_t
take(const char *call)
{
    if (++calls == fail_at) {
        failed = call;
        return fail_with;
    }

    return cudaSuccess;
}

static cudaError_t
make(const char *call, void **p, size_t size)
{
    cudaError_t  rc;

    rc = take(call);

    if (rc == cudaSuccess) {
        *p = calloc(1, size);
        live++;
    }

    return rc;
}

static cudaError_t
end(void *p)
{
    live -= p != NULL;
    free(p);

    return cudaSuccess;
}

#define TAKE  return take(__func__)
#define MAKE(p, size)  return make(__func__, (void **) (p), (size))
#define DONE  return cudaSuccess

cudaError_t cudaMalloc(void **p, size_t n)
{
    if (n > (size_t) 8 << 30) {
        return cudaErrorMemoryAllocation;
    }

    MAKE(p, 1);
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f)
{ (void) f; MAKE(p, n); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f)
{ (void) f; MAKE(s, 1); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int p)
{ (void) f; (void) p; MAKE(s, 1); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f)
{ (void) f; MAKE(e, 1); }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g,
    unsigned long long f)
{ (void) g; (void) f; MAKE(e, 1); }
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{ (void) s; MAKE(g, 1); }

cudaError_t cudaSetDevice(int d) { (void) d; TAKE; }
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{ (void) p; (void) v; (void) n; (void) s; TAKE; }
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m)
{ (void) s; (void) m; TAKE; }
cudaError_t cudaGraphUpload(cudaGraphExec_t e, cudaStream_t s)
{ (void) e; (void) s; TAKE; }

/* NULL: makes the context */
cudaError_t cudaFree(void *p)
{ return p == NULL && live == 0 ? take(__func__) : end(p); }

cudaError_t cudaFreeHost(void *p) { return end(p); }
cudaError_t cudaStreamDestroy(cudaStream_t s) { return end(s); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { return end(e); }
cudaError_t cudaGraphDestroy(cudaGraph_t g) { return end(g); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { return end(e); }

cudaError_t cudaSetDeviceFlags(unsigned f) { (void) f; DONE; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *l, int *h)
{ *l = 0; *h = -1; DONE; }
cudaError_t cudaDriverGetVersion(int *v) { *v = 13000; DONE; }
cudaError_t cudaRuntimeGetVersion(int *v) { *v = 13000; DONE; }
cudaError_t cudaGetDeviceCount(int *n) { *n = 1; DONE; }
cudaError_t cudaGetLastError(void) { DONE; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{ (void) e; (void) s; DONE; }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { (void) e; DONE; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{ (void) e; (void) s; DONE; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{ (void) a; (void) b; *ms = 0; DONE; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { (void) s; DONE; }
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n,
    enum cudaMemcpyKind k, cudaStream_t t)
{ (void) d; (void) s; (void) n; (void) k; (void) t; DONE; }
cudaError_t cudaMemcpy2DAsync(void *d, size_t dp, const void *s, size_t sp,
    size_t w, size_t h, enum cudaMemcpyKind k, cudaStream_t t)
{ (void) d; (void) dp; (void) s; (void) sp; (void) w; (void) h; (void) k;
  (void) t; DONE; }
cudaError_t cudaMemGetInfo(size_t *f, size_t *t)
{ *f = *t = (size_t) 8 << 30; DONE; }
const char *cudaGetErrorString(cudaError_t rc)
{ return rc == cudaErrorMemoryAllocation ? "out of memory" : "unknown"; }
const char *cudaGetErrorName(cudaError_t rc)
{ return rc == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                         : "cudaErrorUnknown"; }
#undef cudaGetDeviceProperties
cudaError_t DEVICE_PROPERTIES(struct cudaDeviceProp *p, int d)
{
    (void) d;
    memset(p, 0, sizeof(*p));
    strcpy(p->name, "stand-in");
    memcpy(&p->uuid, "0123456789abcdef", 16);
    p->major = 9;
    p->multiProcessorCount = 132;
    p->totalGlobalMem = (size_t) 8 << 30;
    DONE;
}

/* kernels and products */

uint32_t hymt_attention_rows(uint32_t group) { return 64 / group; }
bool hymt_gemm_sm90_built(void) { return true; }
size_t hymt_sampler_scratch(uint32_t a, uint32_t b) { return a + b; }
int hymt_gemm_create(const hymt_cuda_t *d, const hymt_gemm_shape_t *s,
    hymt_gemm_t **g, char *err, size_t cap)
{ (void) d; (void) s; (void) err; (void) cap; *g = NULL; return 0; }
void hymt_gemm_free(hymt_gemm_t *g) { (void) g; }
void hymt_gemm_describe(const hymt_gemm_t *g, char *t, size_t cap)
{ (void) g; snprintf(t, cap, "none"); }
cudaError_t hymt_gemm_run(const hymt_gemm_t *g, uint32_t m, cudaStream_t s)
{ (void) g; (void) m; (void) s; DONE; }
int hymt_lt_open(hymt_cuda_t *d, char *err, size_t cap)
{ (void) d; (void) err; (void) cap; return -1; }
void hymt_lt_close(hymt_cuda_t *d) { (void) d; }

#define KERNEL(name, args)                                                    \
    cudaError_t name(const hymt_cuda_t *d, const args *a, cudaStream_t s)     \
    { (void) d; (void) a; (void) s; DONE; }

KERNEL(hymt_cuda_add_norm, hymt_norm_args_t)
KERNEL(hymt_cuda_attention_decode, hymt_attention_args_t)
KERNEL(hymt_cuda_attention_prefill, hymt_attention_args_t)
KERNEL(hymt_cuda_embed, hymt_embed_args_t)
KERNEL(hymt_cuda_rope_append, hymt_rope_args_t)
KERNEL(hymt_cuda_sample, hymt_sample_args_t)


static hymt_status_t
create(int at, cudaError_t with, hymt_error_t *err)
{
    hymt_model_t           *model;
    hymt_status_t           rc;
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    const hymt_backend_ops_t  *ops = hymt_backend_cuda_ops();

    if (hymt_model_open(MODEL, &model, err) != HYMT_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }

    memset(&p, 0, sizeof(p));
    p.max_batch = 4;
    p.max_rows = 32;
    p.context = 256;
    p.n_blocks = 64;
    p.claim = claim;

    calls = 0;
    failed = "none";
    fail_at = at;
    fail_with = with;
    err->text[0] = '\0';

    rc = ops->create(&p, model, &b, err);

    fail_at = 0;

    if (rc == HYMT_OK) {
        ops->destroy(b);
    }

    hymt_model_close(model);

    return rc;
}

static hymt_status_t
all_free(void *data, uint64_t *bytes, hymt_error_t *err)
{
    (void) data;
    (void) err;
    *bytes = UINT64_MAX;

    return HYMT_OK;
}

/* Beside another engine that loads, there or elsewhere. */
static void
turns(void)
{
    uint64_t       place, free_bytes, held;
    hymt_claim_t   mine, other;
    hymt_error_t   err;
    hymt_status_t  rc;

    static hymt_claims_t  claims;

    hymt_claim_init(&mine, &claims, 1);
    hymt_claim_init(&other, &claims, 1);
    claim = &mine;

    rc = create(0, cudaSuccess, &err);
    place = claims.entry[mine.own].place;
    printf("turns %d, %d MB to spare\n", rc,
           (int) (claims.entry[mine.own].bytes >> 20));
    hymt_claim_drop(&mine);

    (void) hymt_claim_ask(&other, HYMT_CLAIM_HOST, (uint64_t) 8 << 30, all_free,
                          NULL, &free_bytes, &held, &err);
    rc = create(0, cudaSuccess, &err);
    printf("turns %d, elsewhere\n", rc);
    hymt_claim_drop(&mine);

    (void) hymt_claim_ask(&other, place, (uint64_t) 8 << 30, all_free, NULL,
                          &free_bytes, &held, &err);
    rc = create(0, cudaSuccess, &err);
    printf("turns %d, %d, busy %d: %s\n", rc, place > HYMT_CLAIM_HOST,
           mine.busy, err.text);
    hymt_claim_drop(&mine);
    claim = NULL;
}

int
main(void)
{
    int            i;
    uint64_t       bytes;
    hymt_error_t   err;
    hymt_status_t  rc;

    fail_at = 0;
    rc = hymt_backend_cuda_ops()->device_memory(0, &bytes, &err);
    printf("open %d 0 cudaNone\n", rc);

    for (i = 1; i <= 2; i++) {
        calls = 0;
        fail_at = i;
        fail_with = cudaErrorMemoryAllocation;
        rc = hymt_backend_cuda_ops()->device_memory(0, &bytes, &err);
        printf("open %d %d %s: %s\n", rc, live, failed, err.text);
    }

    for (i = 1; (rc = create(i, cudaErrorMemoryAllocation, &err)) != HYMT_OK
                && i < 10000; i++)
    {
        printf("full %d %d %s: %s\n", rc, live, failed, err.text);
    }

    printf("last %d %d %s: %s\n", rc, live, failed, err.text);

    for (i = 1; (rc = create(i, cudaErrorUnknown, &err)) != HYMT_OK
                && i < 10000; i++)
    {
        printf("lost %d %d %s: %s\n", rc, live, failed, err.text);
    }

    turns();

    setenv("HYMT_CUDA_FAULT", "taken", 1);
    rc = create(0, cudaSuccess, &err);
    printf("taken %d %d: %s\n", rc, live, err.text);

    return 0;
}
END_OF_CODE

my @sources = map { "kernels/cuda/$_.c" }
              qw(backend_cuda device_cuda forward_cuda memory_cuda step_cuda
                 weights_cuda);

is(system("$cc -std=c11 -D_GNU_SOURCE -O1 -g -Iengine -Ikernels/cuda"
          . " -isystem $home/include -DMODEL='\"$model\"'"
          . " -DDEVICE_PROPERTIES=" . properties()
          . " -o $dir/runtime $dir/runtime.c @sources $build/libhymt.a"
          . ' -Wl,--as-needed -ljansson -lm -lpthread'),
   0, 'the backend with a runtime of the test\'s own is built');


# The symbol that is called, which is another one with CUDA 12.
sub properties {
    my $code = "#include <cuda_runtime_api.h>\nname cudaGetDeviceProperties\n";

    put("$dir/name.c", $code);

    my ($name) = `$cc -E -P -isystem $home/include $dir/name.c` =~ /^name (\w+)/m;

    return $name;
}


my ($OK, $ERROR, $AGAIN) = (0, -1, -2);
my @lines = split /\n/, `HYMT_CUDA_LT=off timeout 60 $dir/runtime`;

is($?, 0, 'it ends');

my @open = grep { /^open/ } @lines;
my @full = grep { /^full/ } @lines;
my @lost = grep { /^lost/ } @lines;

is(shift @open, "open $OK 0 cudaNone", 'the device opens');
is(scalar(@open), 2, 'but with no room for a context');

for (@open) {
    like($_, qr/^open $AGAIN 0 .*not enough memory on device 0, stand-in/,
         'which may be waited for');
}

cmp_ok(scalar(@full), '>', 30, 'more than thirty calls take memory');
is_deeply([grep { !/^full $AGAIN / } @full], [],
          'each that finds none may be waited for');
is_deeply([grep { !/^full \S+ 0 / } @full], [], 'and leaves nothing behind');
is_deeply([grep { !/memory/ } @full], [], 'and says that it is memory');

for my $call (qw(cudaMalloc cudaHostAlloc cudaStreamCreateWithFlags cudaFree
                 cudaStreamCreateWithPriority cudaEventCreateWithFlags
                 cudaGraphInstantiate))
{
    ok(scalar(grep { /^full \S+ \S+ $call:/ } @full), "$call() is one of them");
}

like((grep { /^last/ } @lines)[0], qr/^last $OK 0 none/, 'then it is made, and gone');

is(scalar(@lost), scalar(@full), 'other errors of the same calls');
is_deeply([grep { !/^lost $ERROR 0 / } @lost], [], 'are errors');

my @turns = grep { /^turns/ } @lines;

like($turns[0], qr/^turns $OK, (?:25[6-9]|2[6-9]\d) MB to spare$/,
     'what has been taken is not held as well');
is($turns[1], "turns $OK, elsewhere", 'an engine that loads elsewhere');
like($turns[2], qr/^turns $AGAIN, 1, busy 1: .* MB of them for engines that load/,
     'or on the same card is in its way');

like($lines[-1], qr/^taken $AGAIN 0: no device memory for \d+ MB of KV cache/,
     'HYMT_CUDA_FAULT=taken: memory that fitted is gone');

done_testing();
