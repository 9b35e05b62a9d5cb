#include "weft_cuda.h"
// c = a b, row-major f32 of any size: tiles of 64 x 64 x 16, 4 x 4 results a thread.
WF_KERNEL(gemm_f32, 256, 2)
(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, s64 m, s64 n,
 s64 k) {
  WF_SHARED(shared);
  float* sa = (float*)shared;
  float* sb = sa + 16 * 68;
  const s64 row = (s64)wf_block_y() * 64;
  const s64 column = (s64)wf_block_x() * 64;
  const u32 ty = wf_thread() / 16;
  const u32 tx = wf_thread() % 16;
  float sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sum[i][j] = 0.0f;
    }
  }
  for (s64 k0 = 0; k0 < k; k0 += 16) {
    for (u32 i = wf_thread(); i < 1024; i += 256) {
      const s64 r = row + i / 16;
      const s64 q = k0 + i % 16;
      sa[i % 16 * 68 + i / 16] = r < m && q < k ? a[r * k + q] : 0.0f;
    }
    for (u32 i = wf_thread(); i < 1024; i += 256) {
      const s64 q = k0 + i / 64;
      const s64 s = column + i % 64;
      sb[i / 64 * 68 + i % 64] = q < k && s < n ? b[q * n + s] : 0.0f;
    }
    wf_sync_block();
#pragma unroll
    for (int q = 0; q < 16; ++q) {
      const vec<float, 4> u = wf_load<4>(sa + q * 68 + ty * 4);
      const vec<float, 4> v = wf_load<4>(sb + q * 68 + tx * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
        }
      }
    }
    wf_sync_block();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const s64 r = row + ty * 4 + i;
      const s64 s = column + tx * 4 + j;
      if (r < m && s < n) {
        c[r * n + s] = sum[i][j];
      }
    }
  }
}
WF_EXPORT(gemm_f32)
