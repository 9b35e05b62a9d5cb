#include "weft_cuda.h"
// y = x / sum(x) in one cooperative launch: partial sums, a grid barrier, the scaling.
WF_DEVICE float block_sum(float v, float* red) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    v += wf_shfl_xor(WF_FULL, v, d);
  }
  if (wf_lane() == 0) {
    red[wf_warp()] = v;
  }
  wf_sync_block();
  return red[0] + red[1] + red[2] + red[3];
}

WF_KERNEL(grid_reduction, 128, 1)
(const float* __restrict__ x, float* partial, float* __restrict__ y, s64 n, u32* counter) {
  WF_SHARED(shared);
  float* red = (float*)shared;
  const s64 first = (s64)wf_block_x() * 128 + wf_thread();
  const s64 step = (s64)wf_grid_x() * 128;
  float sum = 0.0f;
  for (s64 i = first; i < n; i += step) {
    sum += x[i];
  }
  sum = block_sum(sum, red);
  if (wf_thread() == 0) {
    partial[wf_block_x()] = sum;
  }
  wf_sync_grid(counter);
  float total = 0.0f;
  for (u32 i = wf_thread(); i < wf_grid_x(); i += 128) {
    total += partial[i];
  }
  total = block_sum(total, red);
  for (s64 i = first; i < n; i += step) {
    y[i] = x[i] / total;
  }
}
WF_EXPORT(grid_reduction)
