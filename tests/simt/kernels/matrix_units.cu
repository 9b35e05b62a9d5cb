#include "weft_cuda.h"
// One warp, one product of each kind of matrix unit; b comes through ldmatrix transposed or plain.
WF_KERNEL(matrix_units, 32, 1)
(const f16* __restrict__ a16, const f16* __restrict__ b16, const bf16* __restrict__ abf,
 const bf16* __restrict__ bbf, const float* __restrict__ a32, const float* __restrict__ b32,
 float* __restrict__ c) {
  WF_SHARED(shared);
  const u32 lane = wf_lane();
  u32 fa[4];
  u32 fb[2];
  // a16: 16 x 16; b16: 16 x 8, row-major, so its fragment is a transposed load.
  wf_store((f16*)shared + lane * 8, wf_load_ro<8>(a16 + lane * 8));
  if (lane < 16) {
    wf_store((f16*)shared + 256 + lane * 8, wf_load_ro<8>(b16 + lane * 8));
  }
  wf_sync_warp(WF_FULL);
  wf_ldmatrix(fa, shared + (lane & 15) * 32 + (lane >> 4) * 16);
  wf_ldmatrix_trans(fb, shared + 512 + (lane & 15) * 16);
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  wf_mma_f16(d, fa, fb);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    c[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = d[r];
  }
  // abf: 16 x 16; bbf: 8 x 16, column-major; loaded by hand.
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const bf16* at = abf + (lane / 4 + r % 2 * 8) * 16 + lane % 4 * 2 + r / 2 * 8;
    fa[r] = at[0].x | (u32)at[1].x << 16;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bf16* at = bbf + lane / 4 * 16 + lane % 4 * 2 + r * 8;
    fb[r] = at[0].x | (u32)at[1].x << 16;
  }
  float e[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  wf_mma_bf16(e, fa, fb);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    c[128 + (lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = e[r];
  }
  // a32: 16 x 8; b32: 8 x 8, column-major.
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    fa[r] = wf_tf32(a32[(lane / 4 + r % 2 * 8) * 8 + lane % 4 + r / 2 * 4]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    fb[r] = wf_tf32(b32[lane / 4 * 8 + lane % 4 + r * 4]);
  }
  float f[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  wf_mma_tf32(f, fa, fb);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    c[256 + (lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = f[r];
  }
}
WF_EXPORT(matrix_units)
