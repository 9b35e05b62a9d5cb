#include "weft_cuda.h"
// sum(x) in one plain launch: the block that comes last adds the partial sums of all.
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

WF_KERNEL(last_block, 128, 1)
(const float* __restrict__ x, float* partial, float* y, s64 n, u32* counter) {
  WF_SHARED(shared);
  float* red = (float*)shared;
  u32* last = (u32*)(shared + 64);
  float sum = 0.0f;
  for (s64 i = (s64)wf_block_x() * 128 + wf_thread(); i < n; i += (s64)wf_grid_x() * 128) {
    sum += x[i];
  }
  sum = block_sum(sum, red);
  if (wf_thread() == 0) {
    partial[wf_block_x()] = sum;
    *last = wf_atomic_add_acq_rel(counter, 1u) == wf_grid_x() - 1;
  }
  wf_sync_block();
  if (*last == 0) {
    return;
  }
  float total = 0.0f;
  for (u32 i = wf_thread(); i < wf_grid_x(); i += 128) {
    total += partial[i];
  }
  total = block_sum(total, red);
  if (wf_thread() == 0) {
    *y = total;
  }
}
WF_EXPORT(last_block)

// The same with fences around a relaxed counter.
WF_KERNEL(last_block_fences, 128, 1)
(const float* __restrict__ x, float* partial, float* y, s64 n, u32* counter) {
  WF_SHARED(shared);
  float* red = (float*)shared;
  u32* last = (u32*)(shared + 64);
  float sum = 0.0f;
  for (s64 i = (s64)wf_block_x() * 128 + wf_thread(); i < n; i += (s64)wf_grid_x() * 128) {
    sum += x[i];
  }
  sum = block_sum(sum, red);
  if (wf_thread() == 0) {
    partial[wf_block_x()] = sum;
    wf_fence();
    *last = wf_atomic_add(counter, 1u) == wf_grid_x() - 1;
    wf_fence();
  }
  wf_sync_block();
  if (*last == 0) {
    return;
  }
  float total = 0.0f;
  for (u32 i = wf_thread(); i < wf_grid_x(); i += 128) {
    total += partial[i];
  }
  total = block_sum(total, red);
  if (wf_thread() == 0) {
    *y = total;
  }
}
WF_EXPORT(last_block_fences)
