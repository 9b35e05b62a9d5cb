#include "weft_cuda.h"
// Softmax of long rows, one block a row, which stays in shared memory between the sweeps.
WF_DEVICE float block_max(float v, float* red) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    v = fmaxf(v, wf_shfl_xor(WF_FULL, v, d));
  }
  if (wf_lane() == 0) {
    red[wf_warp()] = v;
  }
  wf_sync_block();
  v = red[wf_lane() & 3];
  v = fmaxf(v, wf_shfl_xor(WF_FULL, v, 1));
  return fmaxf(v, wf_shfl_xor(WF_FULL, v, 2));
}
WF_DEVICE float block_sum(float v, float* red) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    v += wf_shfl_xor(WF_FULL, v, d);
  }
  if (wf_lane() == 0) {
    red[wf_warp()] = v;
  }
  wf_sync_block();
  v = red[wf_lane() & 3];
  v += wf_shfl_xor(WF_FULL, v, 1);
  return v + wf_shfl_xor(WF_FULL, v, 2);
}

WF_KERNEL(softmax_block, 128, 4)
(const float* __restrict__ x, float* __restrict__ y, s64 n) {
  WF_SHARED(shared);
  float* red = (float*)shared;
  float* row = (float*)(shared + 64);
  const float* from = x + (s64)wf_block_x() * n;
  float* to = y + (s64)wf_block_x() * n;
  float top = -wf_inf();
  for (s64 i = wf_thread(); i < n; i += 128) {
    const float v = from[i];
    row[i] = v;
    top = fmaxf(top, v);
  }
  top = block_max(top, red);
  wf_sync_block();
  float sum = 0.0f;
  for (s64 i = wf_thread(); i < n; i += 128) {
    const float v = expf(row[i] - top);
    row[i] = v;
    sum += v;
  }
  sum = block_sum(sum, red);
  // The row comes back to front, so each element was computed by another thread.
  for (s64 i = wf_thread(); i < n; i += 128) {
    to[n - 1 - i] = row[n - 1 - i] / sum;
  }
}
WF_EXPORT(softmax_block)
