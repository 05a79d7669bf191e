/*
 * tensor.c - reading a weight from its file; the reading half of model.h.
 */

#include "file.h"
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>


#define HYMT_READ_CHUNK     (16 << 20)
#define HYMT_CONVERT_CHUNK  8192           /* elements, on the stack */
#define HYMT_CONVERT_BLOCK  32

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights lie in their files in little-endian order"
#endif


static hymt_status_t hymt_tensor_check(const hymt_tensor_t *t, uint64_t first,
    uint64_t n, hymt_error_t *err);
static hymt_status_t hymt_tensor_same(const hymt_tensor_t *t,
    hymt_error_t *err);
static void hymt_tensor_convert(hymt_dtype_t dtype, const uint16_t *src,
    float *dst, size_t n);
static inline uint32_t hymt_f16_to_f32(uint16_t h);


static const char *const  hymt_dtype_names[] = {
    [HYMT_F32] = "F32",
    [HYMT_F16] = "F16",
    [HYMT_BF16] = "BF16",
};


const char *
hymt_dtype_name(hymt_dtype_t dtype)
{
    return hymt_dtype_names[dtype];
}


size_t
hymt_dtype_size(hymt_dtype_t dtype)
{
    return dtype == HYMT_F32 ? 4 : 2;
}


hymt_status_t
hymt_tensor_read(const hymt_tensor_t *t, uint64_t first, uint64_t n,
    void *dst, const volatile int *stop, hymt_error_t *err)
{
    char       what[300];
    char      *p;
    uint64_t   at, left, chunk;

    if (hymt_tensor_check(t, first, n, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    snprintf(what, sizeof(what), "tensor \"%s\"", t->name);

    p = dst;
    at = t->offset + first * hymt_dtype_size(t->dtype);
    left = n * hymt_dtype_size(t->dtype);

    for ( /* void */ ; left > 0; left -= chunk, at += chunk, p += chunk) {
        if (stop != NULL && *stop) {
            return HYMT_ABORTED;
        }

        chunk = hymt_min(left, HYMT_READ_CHUNK);

        if (hymt_file_pread(t->fd, t->file, what, at, p, (size_t) chunk, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return hymt_tensor_same(t, err);
}


hymt_status_t
hymt_tensor_read_f32(const hymt_tensor_t *t, uint64_t first, uint64_t n,
    float *dst, const volatile int *stop, hymt_error_t *err)
{
    uint64_t        i, chunk;
    uint16_t        buf[HYMT_CONVERT_CHUNK];
    hymt_status_t   rc;

    if (t->dtype == HYMT_F32) {
        return hymt_tensor_read(t, first, n, dst, stop, err);
    }

    if (hymt_tensor_check(t, first, n, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < n; i += chunk) {
        chunk = hymt_min(n - i, HYMT_CONVERT_CHUNK);

        rc = hymt_tensor_read(t, first + i, chunk, buf, stop, err);
        if (rc != HYMT_OK) {
            return rc;
        }

        hymt_tensor_convert(t->dtype, buf, dst + i, (size_t) chunk);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_tensor_check(const hymt_tensor_t *t, uint64_t first, uint64_t n,
    hymt_error_t *err)
{
    uint64_t  have, end;

    have = t->bytes / hymt_dtype_size(t->dtype);

    if (hymt_add_overflow(first, n, &end) || end > have) {
        return hymt_fail(err, "%s: tensor \"%s\": elements %" PRIu64 " and %"
                         PRIu64 " after it were asked for, of %" PRIu64,
                         t->file, t->name, first, n, have);
    }

    return HYMT_OK;
}


/* After the read: what was read before a change was read before its time. */
static hymt_status_t
hymt_tensor_same(const hymt_tensor_t *t, hymt_error_t *err)
{
    uint64_t     mtime_ns;
    struct stat  st;

    if (t->mtime_ns == 0) {
        return HYMT_OK;
    }

    if (fstat(t->fd, &st) == -1) {
        return hymt_fail(err, "%s: tensor \"%s\": fstat: %s", t->file, t->name,
                         strerror(errno));
    }

    mtime_ns = (uint64_t) st.st_mtim.tv_sec * 1000000000
               + (uint64_t) st.st_mtim.tv_nsec;

    if (mtime_ns != t->mtime_ns) {
        return hymt_fail(err, "%s: tensor \"%s\", at byte %" PRIu64 ": the file"
                         " was written to after it was opened; put new weights"
                         " in place by renaming", t->file, t->name, t->offset);
    }

    return HYMT_OK;
}


/* In blocks of a fixed size, which compilers turn into vectors at -O2 too. */
static void
hymt_tensor_convert(hymt_dtype_t dtype, const uint16_t *src, float *dst,
    size_t n)
{
    size_t    i, j;
    uint32_t  u[HYMT_CONVERT_BLOCK];

    for (i = 0; i + HYMT_CONVERT_BLOCK <= n; i += HYMT_CONVERT_BLOCK) {

        if (dtype == HYMT_F16) {
            for (j = 0; j < HYMT_CONVERT_BLOCK; j++) {
                u[j] = hymt_f16_to_f32(src[i + j]);
            }

        } else {
            for (j = 0; j < HYMT_CONVERT_BLOCK; j++) {
                u[j] = (uint32_t) src[i + j] << 16;
            }
        }

        memcpy(dst + i, u, sizeof(u));
    }

    for ( /* void */ ; i < n; i++) {
        u[0] = dtype == HYMT_F16 ? hymt_f16_to_f32(src[i])
                                 : (uint32_t) src[i] << 16;
        memcpy(dst + i, u, sizeof(float));
    }
}


/*
 * The bits of the float, exact for subnormals, infinities and NaNs as well,
 * without subnormal floats on the way: a thread may have them off.
 */
static inline uint32_t
hymt_f16_to_f32(uint16_t h)
{
    float     f;
    uint32_t  u, sub;

    u = (uint32_t) (h & 0x7fff) << 13;

    /* with exponent 0: 2^-14 (1 + m / 1024) - 2^-14 */

    sub = u + (113u << 23);
    memcpy(&f, &sub, sizeof(f));
    f -= 0x1p-14f;
    memcpy(&sub, &f, sizeof(f));

    u += (h & 0x7c00) == 0x7c00 ? 224u << 23 : 112u << 23;

    return ((h & 0x7c00) == 0 ? sub : u) | (uint32_t) (h & 0x8000) << 16;
}
