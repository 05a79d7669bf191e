/*
 * device_buffer.h - what the tests of small kernels need of a device: buffers
 * between guard bands, poisoned before use; random numbers; bf16 on the host.
 */

#ifndef HYMT_DEVICE_BUFFER_H
#define HYMT_DEVICE_BUFFER_H

#include "kernels.h"
#include "tap.h"

#include <time.h>


#define GUARD        4096
#define GUARD_BYTE   0xa5
#define POISON_BYTE  0xff    /* not a number in bf16, fp32 and double */


/* Every call of CUDA goes through this. */
#define gpu(call)                                                             \
    do {                                                                      \
        cudaError_t  gpu_rc = (call);                                         \
        if (gpu_rc != cudaSuccess) {                                          \
            printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #call,    \
                   cudaGetErrorString(gpu_rc));                               \
            exit(2);                                                          \
        }                                                                     \
    } while (0)


typedef struct {
    unsigned char  *base;
    void           *data;
    size_t          bytes;
} buffer_t;


static uint64_t  random_state;
static bool      small_shapes;   /* for tools that run everything slowly */


/* Arguments of every test: [seed [small]]. */
__attribute__((unused))
static void
random_begin(int argc, char **argv)
{
    random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    small_shapes = argc > 2 && strcmp(argv[2], "small") == 0;

    if (random_state == 0) {
        random_state = (uint64_t) time(NULL) * 1000003u;
    }

    printf("# seed %" PRIu64 "\n", random_state);
}


static inline uint32_t
random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;

    return (uint32_t) (random_state >> 32);
}


static inline uint32_t
random_below(uint32_t n)
{
    return (uint32_t) ((uint64_t) random_u32() * n >> 32);
}


/* About normal, variance 1. */
static inline float
random_normal(void)
{
    int    i;
    float  sum;

    sum = 0;

    for (i = 0; i < 6; i++) {
        sum += (float) (random_u32() >> 8) * 0x1p-24f - 0.5f;
    }

    return sum * 1.41421356f;
}


static inline uint16_t
bf16_bits(float x)
{
    uint32_t  bits;

    memcpy(&bits, &x, sizeof(bits));

    if ((bits & 0x7fffffff) > 0x7f800000) {
        return 0x7fff;
    }

    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}


static inline float
bf16_value(uint16_t x)
{
    float     value;
    uint32_t  bits;

    bits = (uint32_t) x << 16;
    memcpy(&value, &bits, sizeof(value));

    return value;
}


static inline float
bf16_round(float x)
{
    return bf16_value(bf16_bits(x));
}


__attribute__((unused))
static void
device_begin(hymt_cuda_t *dev)
{
    cudaDeviceProp  prop;

    memset(dev, 0, sizeof(*dev));

    gpu(cudaSetDevice(0));
    gpu(cudaGetDeviceProperties(&prop, 0));
    gpu(cudaStreamCreate(&dev->stream));

    dev->cc = prop.major * 10 + prop.minor;
    dev->sms = (uint32_t) prop.multiProcessorCount;
    dev->smem = (uint32_t) prop.sharedMemPerBlockOptin;
    dev->pdl = dev->cc / 10 == 9;

    printf("# %s, %u multiprocessors\n", prop.name, dev->sms);
}


__attribute__((unused))
static void
buffer_poison(buffer_t *b)
{
    gpu(cudaMemset(b->base, GUARD_BYTE, b->bytes + 2 * GUARD));
    gpu(cudaMemset(b->data, POISON_BYTE, b->bytes));
    gpu(cudaDeviceSynchronize());
}


__attribute__((unused))
static void
buffer_new(buffer_t *b, size_t bytes)
{
    b->bytes = bytes;

    gpu(cudaMalloc((void **) &b->base, bytes + 2 * GUARD));

    b->data = b->base + GUARD;
    buffer_poison(b);
}


__attribute__((unused))
static void
buffer_free(buffer_t *b)
{
    gpu(cudaFree(b->base));
    memset(b, 0, sizeof(*b));
}


__attribute__((unused))
static void
buffer_put(buffer_t *b, const void *from, size_t bytes)
{
    gpu(cudaMemcpy(b->data, from, bytes, cudaMemcpyHostToDevice));
}


__attribute__((unused))
static void
buffer_get(const buffer_t *b, void *to, size_t bytes)
{
    gpu(cudaMemcpy(to, b->data, bytes, cudaMemcpyDeviceToHost));
}


/* Whether nothing was written beside the buffer. */
__attribute__((unused))
static bool
buffer_guarded(const buffer_t *b)
{
    size_t                i;

    static unsigned char  band[2][GUARD];

    gpu(cudaMemcpy(band[0], b->base, GUARD, cudaMemcpyDeviceToHost));
    gpu(cudaMemcpy(band[1], b->base + GUARD + b->bytes, GUARD,
                   cudaMemcpyDeviceToHost));

    for (i = 0; i < 2 * GUARD; i++) {
        if (band[i / GUARD][i % GUARD] != GUARD_BYTE) {
            return false;
        }
    }

    return true;
}


#endif /* HYMT_DEVICE_BUFFER_H */
