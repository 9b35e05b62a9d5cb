#include "weft_cuda.h"
// y = x * sigmoid(x) + b, four at a time and a scalar tail.
WF_DEVICE float gate(float x, float b) { return fmaf(x, 1.0f / (1.0f + expf(-x)), b); }

WF_KERNEL(elementwise, 128, 4)
(const float* __restrict__ x, const float* __restrict__ b, float* __restrict__ y, s64 n) {
  const s64 i = ((s64)wf_block_x() * 128 + wf_thread()) * 4;
  if (i + 4 <= n) {
    const vec<float, 4> u = wf_load_ro<4>(x + i);
    const vec<float, 4> v = wf_load_ro<4>(b + i);
    vec<float, 4> r;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      r[k] = gate(u[k], v[k]);
    }
    wf_store(y + i, r);
  } else {
    for (s64 k = i; k < n; ++k) {
      y[k] = gate(x[k], b[k]);
    }
  }
}
WF_EXPORT(elementwise)
