#include "weft_cuda.h"
// Sums of rows, each split over the blocks of a cluster, which read each other's shared memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
WF_KERNEL(cluster_sum, 64, 1)
(const float* __restrict__ x, float* __restrict__ y, s64 n) {
  WF_SHARED(shared);
  float* red = (float*)shared;
  const u32 ranks = wf_cluster_size();
  const s64 row = wf_block_x() / ranks;
  float sum = 0.0f;
  for (s64 i = wf_cluster_rank() * 64 + wf_thread(); i < n; i += 64 * ranks) {
    sum += x[row * n + i];
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    sum += wf_shfl_xor(WF_FULL, sum, d);
  }
  if (wf_lane() == 0) {
    red[wf_warp()] = sum;
  }
  wf_sync_cluster();
  if (wf_cluster_rank() == 0 && wf_thread() == 0) {
    float total = 0.0f;
    for (u32 r = 0; r < ranks; ++r) {
      const float* other = wf_cluster_map(red, r);
      total += other[0] + other[1];
    }
    y[row] = total;
  }
  wf_sync_cluster();
}
WF_EXPORT(cluster_sum)
#endif
