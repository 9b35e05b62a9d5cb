#include "weft_cuda.h"
// Each row of 64 back to front; each warp turns the rows of its own around in its own shared memory.
WF_KERNEL(reverse_warp, 64, 1)
(const float* __restrict__ x, float* __restrict__ y, s64 rows) {
  WF_SHARED(shared);
  float* line = (float*)shared + wf_warp() * 64;
  for (s64 row = (s64)wf_block_x() * 2 + wf_warp(); row < rows; row += (s64)wf_grid_x() * 2) {
    const vec<float, 2> v = wf_load_ro<2>(x + row * 64 + wf_lane() * 2);
    wf_store(line + wf_lane() * 2, v);
    wf_sync_warp(WF_FULL);
    y[row * 64 + wf_lane()] = line[63 - wf_lane()];
    y[row * 64 + 32 + wf_lane()] = line[31 - wf_lane()];
    wf_sync_warp(WF_FULL);
  }
}
WF_EXPORT(reverse_warp)
