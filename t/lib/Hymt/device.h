/*
 * device.h - what devices of the tests' own share: see Device.pm.  DIR is the
 * folder by which a test tells its device what to do.
 */

#ifndef HYMT_TEST_DEVICE_H
#define HYMT_TEST_DEVICE_H

#include "backend.h"

#include <unistd.h>


const hymt_backend_ops_t *hymt_backend_cuda_ops(void);


/* The CPU's code by the name of CUDA's; the caller replaces some of it. */
static inline hymt_backend_ops_t *
device_ops(void)
{
    static hymt_backend_ops_t  ops;

    ops = hymt_backend_cpu;
    ops.name = "cuda";

    return &ops;
}


/* 8 GB, unless there is a file "none", for no device, or "full". */
static inline hymt_status_t
device_memory(int device, uint64_t *bytes, hymt_error_t *err)
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


#endif /* HYMT_TEST_DEVICE_H */
