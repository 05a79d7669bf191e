/* tensor_map.c - see tensor_map.h. */

#include "tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>


int
hymt_tensor_map(CUtensorMap *map, const hymt_tensor_box_t *box)
{
    void                                  *entry;
    cuuint32_t                             step[3] = { 1, 1, 1 };
    enum cudaDriverEntryPointQueryResult   found;

    static PFN_cuTensorMapEncodeTiled_v12000  encode;

    /* threads that come at once find the same */

    if (__atomic_load_n(&encode, __ATOMIC_RELAXED) == NULL) {
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                             12000, cudaEnableDefault, &found)
            != cudaSuccess || found != cudaDriverEntryPointSuccess)
        {
            return CUDA_ERROR_NOT_FOUND;
        }

        __atomic_store_n(&encode, (PFN_cuTensorMapEncodeTiled_v12000) entry,
                         __ATOMIC_RELAXED);
    }

    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, box->n_dims,
                  (void *) box->data, box->dim, box->stride, box->box, step,
                  CU_TENSOR_MAP_INTERLEAVE_NONE,
                  box->swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
