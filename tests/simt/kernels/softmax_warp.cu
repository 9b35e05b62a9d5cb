#include "weft_cuda.h"
// Softmax of short rows (at most 128), one warp a row, four rows a block, in registers.
WF_KERNEL(softmax_warp, 128, 4)
(const float* __restrict__ x, float* __restrict__ y, s64 rows, s64 n) {
  const s64 row = (s64)wf_block_x() * 4 + wf_warp();
  if (row >= rows) {
    return;
  }
  float v[4];
  float top = -wf_inf();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const s64 i = wf_lane() + 32 * k;
    v[k] = i < n ? x[row * n + i] : -wf_inf();
    top = fmaxf(top, v[k]);
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    top = fmaxf(top, wf_shfl_xor(WF_FULL, top, d));
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    v[k] = expf(v[k] - top);
    sum += v[k];
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    sum += wf_shfl_xor(WF_FULL, sum, d);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const s64 i = wf_lane() + 32 * k;
    if (i < n) {
      y[row * n + i] = v[k] / sum;
    }
  }
}
WF_EXPORT(softmax_warp)
