/*
 * device_cuda.c - finding and opening a device, its memory, and what errors
 * look like; see backend_cuda.h.
 */

#include "backend_cuda.h"
#include "claim.h"
#include "gemm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>


#define HYMT_CUDA_OLDEST_CC  80        /* bf16 in the tensor cores */


static hymt_status_t hymt_cuda_use(int device, struct cudaDeviceProp *prop,
    hymt_error_t *err);
static hymt_status_t hymt_cuda_found(int device, hymt_error_t *err);
static uint64_t hymt_cuda_memory_of(const struct cudaDeviceProp *prop);


hymt_status_t
hymt_cuda_check(cudaError_t rc, const char *call, hymt_error_t *err)
{
    if (rc == cudaSuccess) {
        return HYMT_OK;
    }

    /* of a call its name, of anything else all */

    (void) hymt_fail(err, "CUDA: %.*s%s failed: %s (%s)",
                     (int) strcspn(call, "("), call,
                     strchr(call, '(') != NULL ? "()" : "",
                     cudaGetErrorString(rc), cudaGetErrorName(rc));

    if (rc != cudaErrorMemoryAllocation) {
        return HYMT_ERROR;
    }

    /* it is no kernel's that is launched later */

    (void) cudaGetLastError();

    return HYMT_AGAIN;
}


hymt_status_t
hymt_cuda_device_memory(int device, uint64_t *bytes, hymt_error_t *err)
{
    hymt_status_t          rc;
    struct cudaDeviceProp  prop;

    rc = hymt_cuda_use(device, &prop, err);

    if (rc == HYMT_OK) {
        *bytes = prop.totalGlobalMem;
    }

    return rc;
}


hymt_status_t
hymt_cuda_open(hymt_backend_t *b, hymt_error_t *err)
{
    int                    low, high;
    hymt_cuda_t           *dev;
    hymt_status_t          rc;
    struct cudaDeviceProp  prop;

    dev = &b->dev;

    rc = hymt_cuda_use(b->params.device, &prop, err);

    if (rc != HYMT_OK) {
        return rc;
    }

    snprintf(b->name, sizeof(b->name), "%.60s", prop.name);
    b->place = hymt_cuda_memory_of(&prop);

    dev->device = b->params.device;
    dev->cc = prop.major * 10 + prop.minor;
    dev->sms = (uint32_t) prop.multiProcessorCount;
    dev->smem = (uint32_t) prop.sharedMemPerBlockOptin;

    /* what was not built for Hopper runs there as everywhere, from PTX */

    if (dev->cc == 90 && !hymt_gemm_sm90_built()) {
        dev->cc = HYMT_CUDA_OLDEST_CC;
    }

    /* later devices run what was built for 8.0, which does not wait in front */

    dev->pdl = dev->cc / 10 == 9 && b->switches.pdl;

    /* steps go before the copies of another engine that is loading */

    rc = hymt_cuda_try(cudaDeviceGetStreamPriorityRange(&low, &high), err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaStreamCreateWithPriority(&dev->stream,
                                                        cudaStreamNonBlocking,
                                                        high), err);
    }

    return rc;
}


/* Makes the device the calling thread's, and says what is wrong with it. */
static hymt_status_t
hymt_cuda_use(int device, struct cudaDeviceProp *prop, hymt_error_t *err)
{
    hymt_status_t  rc;

    if (hymt_cuda_found(device, err) != HYMT_OK
        || hymt_cuda_try(cudaGetDeviceProperties(prop, device), err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (prop->major * 10 + prop->minor < HYMT_CUDA_OLDEST_CC) {
        return hymt_fail(err, "CUDA device %d, %s, is too old: it has compute"
                         " capability %d.%d, 8.0 (Ampere) is needed", device,
                         prop->name, prop->major, prop->minor);
    }

    /* waiting sleeps; a thread that spins would take a core from NGINX */

    rc = hymt_cuda_try(cudaSetDevice(device), err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync),
                           err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaFree(NULL), err);
    }

    if (rc == HYMT_AGAIN) {
        (void) hymt_fail(err, "not enough memory on device %d, %s, to open it:"
                         " some hundred MB are needed for a context: free the"
                         " device", device, prop->name);
    }

    return rc;
}


static hymt_status_t
hymt_cuda_found(int device, hymt_error_t *err)
{
    int          n, driver, runtime;
    cudaError_t  rc;

    driver = 0;
    runtime = 0;
    (void) cudaDriverGetVersion(&driver);
    (void) cudaRuntimeGetVersion(&runtime);

    rc = cudaGetDeviceCount(&n);

    /* no libcuda.so.1 at all is an insufficient driver of version 0, too */

    if (driver == 0) {
        return hymt_fail(err, "there is no NVIDIA driver: libcuda.so.1 was not"
                         " found; the driver for CUDA %d.%d or later is"
                         " needed", runtime / 1000, runtime % 1000 / 10);
    }

    if (rc == cudaErrorInsufficientDriver) {
        return hymt_fail(err, "the NVIDIA driver is too old: it is for CUDA"
                         " %d.%d, %d.%d is needed", driver / 1000,
                         driver % 1000 / 10, runtime / 1000,
                         runtime % 1000 / 10);
    }

    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && n == 0)) {
        return hymt_fail(err, "there is no CUDA device: the driver is there"
                         " and finds none (CUDA_VISIBLE_DEVICES? may this user"
                         " open /dev/nvidia*?)");
    }

    if (hymt_cuda_check(rc, "cudaGetDeviceCount()", err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (device < 0 || device >= n) {
        return hymt_fail(err, "device %d: there %s %d CUDA device%s, counted"
                         " from 0", device, n == 1 ? "is" : "are", n,
                         n == 1 ? "" : "s");
    }

    return HYMT_OK;
}


/* The same for all processes, whatever they count from. */
static uint64_t
hymt_cuda_memory_of(const struct cudaDeviceProp *prop)
{
    uint64_t  half[2];

    memcpy(half, &prop->uuid, sizeof(half));
    half[0] ^= half[1];

    return half[0] > HYMT_CLAIM_HOST ? half[0] : HYMT_CLAIM_HOST + 1;
}


void *
hymt_cuda_take(hymt_cuda_arena_t *a, uint64_t count, uint64_t size)
{
    uint64_t  bytes, at;

    at = a->used;

    if (hymt_mul_overflow(count, size, &bytes)
        || hymt_add_overflow(bytes, HYMT_CUDA_ALIGN - 1, &bytes)
        || hymt_add_overflow(at, bytes / HYMT_CUDA_ALIGN * HYMT_CUDA_ALIGN,
                             &a->used))
    {
        a->overflow = true;
        return NULL;
    }

    return a->base != NULL ? a->base + at : NULL;
}


hymt_status_t
hymt_cuda_map(hymt_cuda_arena_t *a, const char *what, hymt_error_t *err)
{
    cudaError_t  rc;

    rc = cudaMalloc((void **) &a->base, a->used);

    if (rc != cudaSuccess) {
        a->base = NULL;
    }

    if (rc == cudaErrorMemoryAllocation) {
        (void) cudaGetLastError();
        (void) hymt_fail(err, "no device memory for %" PRIu64 " MB of %s",
                         a->used / 1000000, what);

        return HYMT_AGAIN;
    }

    a->size = a->used;
    a->used = 0;

    return hymt_cuda_check(rc, "cudaMalloc()", err);
}
