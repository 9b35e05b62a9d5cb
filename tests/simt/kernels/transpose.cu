#include "weft_cuda.h"
// y[j][i] = x[i][j] through a tile of 32 x 32 in shared memory; rows of the tile are Pitch apart.
template <int Pitch>
WF_DEVICE void transpose_tile(const float* __restrict__ x, float* __restrict__ y, s64 rows,
                              s64 columns, float* tile) {
  const s64 row = (s64)wf_block_y() * 32;
  const s64 column = (s64)wf_block_x() * 32;
  for (u32 i = wf_warp(); i < 32; i += 4) {
    if (row + i < rows && column + wf_lane() < columns) {
      tile[i * Pitch + wf_lane()] = x[(row + i) * columns + column + wf_lane()];
    }
  }
  wf_sync_block();
  for (u32 i = wf_warp(); i < 32; i += 4) {
    if (column + i < columns && row + wf_lane() < rows) {
      y[(column + i) * rows + row + wf_lane()] = tile[wf_lane() * Pitch + i];
    }
  }
}

WF_KERNEL(transpose_padded, 128, 4)
(const float* __restrict__ x, float* __restrict__ y, s64 rows, s64 columns) {
  WF_SHARED(shared);
  transpose_tile<33>(x, y, rows, columns, (float*)shared);
}
WF_EXPORT(transpose_padded)

WF_KERNEL(transpose_plain, 128, 4)
(const float* __restrict__ x, float* __restrict__ y, s64 rows, s64 columns) {
  WF_SHARED(shared);
  transpose_tile<32>(x, y, rows, columns, (float*)shared);
}
WF_EXPORT(transpose_plain)
