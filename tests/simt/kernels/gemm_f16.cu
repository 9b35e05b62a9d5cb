#include "weft_cuda.h"
// c = a b^T, f16 times f16 into f32 on the matrix units; k a multiple of 8. Tiles of 64 x 64 x 32,
// four warps of 32 x 32 each, three stages of cp.async. A row of a tile is four chunks of 16 bytes,
// placed so that eight rows of one chunk lie in different banks.
WF_DEVICE u32 place(u32 row, u32 chunk) { return row * 64 + (chunk ^ (row >> 1 & 3)) * 16; }

WF_DEVICE void copy_tile(u8* tile, const f16* from, s64 first, s64 rows, s64 k0, s64 k) {
#pragma unroll
  for (u32 i = wf_thread(); i < 256; i += 128) {
    const s64 row = first + i / 4;
    const s64 at = k0 + i % 4 * 8;
    const bool inside = row < rows && at < k;
    wf_cp_async_16_fill(tile + place(i / 4, i % 4), inside ? from + row * k + at : from,
                        inside ? 16 : 0);
  }
}

WF_KERNEL(gemm_f16, 128, 2)
(const f16* __restrict__ a, const f16* __restrict__ b, float* __restrict__ c, s64 m, s64 n, s64 k) {
  WF_SHARED(shared);
  const s64 row = (s64)wf_block_y() * 64;
  const s64 column = (s64)wf_block_x() * 64;
  const u32 wm = wf_warp() / 2 * 32;
  const u32 wn = wf_warp() % 2 * 32;
  const s64 steps = (k + 31) / 32;
  float sum[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sum[i][j][r] = 0.0f;
      }
    }
  }
  for (s64 stage = 0; stage < 2; ++stage) {
    if (stage < steps) {
      copy_tile(shared + stage * 8192, a, row, m, stage * 32, k);
      copy_tile(shared + stage * 8192 + 4096, b, column, n, stage * 32, k);
    }
    wf_cp_commit();
  }
  for (s64 step = 0; step < steps; ++step) {
    wf_cp_wait<1>();
    wf_sync_block();
    const s64 ahead = step + 2;
    if (ahead < steps) {
      copy_tile(shared + ahead % 3 * 8192, a, row, m, ahead * 32, k);
      copy_tile(shared + ahead % 3 * 8192 + 4096, b, column, n, ahead * 32, k);
    }
    wf_cp_commit();
    const u8* ta = shared + step % 3 * 8192;
    const u8* tb = ta + 4096;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      u32 fa[2][4];
      u32 fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wf_ldmatrix(fa[i], ta + place(wm + i * 16 + (wf_lane() & 15), q * 2 + (wf_lane() >> 4)));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        wf_ldmatrix(fb[j], tb + place(wn + j * 8 + (wf_lane() & 7), q * 2 + (wf_lane() >> 3 & 1)));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          wf_mma_f16(sum[i][j], fa[i], fb[j]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const s64 y = row + wm + i * 16 + wf_lane() / 4 + r / 2 * 8;
        const s64 x = column + wn + j * 8 + wf_lane() % 4 * 2 + r % 2;
        if (y < m && x < n) {
          c[y * n + x] = sum[i][j][r];
        }
      }
    }
  }
}
WF_EXPORT(gemm_f16)
