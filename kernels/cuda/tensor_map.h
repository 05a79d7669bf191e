/*
 * tensor_map.h - descriptors of the copy engine: bf16 tensors of two or three
 * dimensions, swizzled in shared memory, zeros for what lies outside.
 *
 * Host memory only, any thread; kernels take a CUtensorMap by value.
 */

#ifndef HYMT_CUDA_TENSOR_MAP_H
#define HYMT_CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif


typedef struct {
    const void  *data;        /* % 16 bytes */
    uint64_t     dim[3];      /* elements, the contiguous dimension first */
    uint64_t     stride[2];   /* bytes, of the others; % 16 */
    uint32_t     box[3];
    uint32_t     n_dims;      /* 2, 3 */
    uint32_t     swizzle;     /* bytes: 64, 128 */
} hymt_tensor_box_t;


/*
 * The driver's cuTensorMapEncodeTiled(), asked for by name: nothing links
 * against it.  0, or its CUresult.
 */
int hymt_tensor_map(CUtensorMap *map, const hymt_tensor_box_t *box);


#ifdef __cplusplus
}
#endif

#endif /* HYMT_CUDA_TENSOR_MAP_H */
