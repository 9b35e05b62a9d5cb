#include "schedule/gpu/cluster_device.h"

#include <algorithm>

namespace weft {

std::optional<Target> cluster_device(const Target& target) {
  if (!target.is_gpu() || target.cluster_blocks < 2 || target.cluster_blocks > target.sm_count)
    return std::nullopt;
  Target out = target;
  const double share = static_cast<double>(target.cluster_blocks) / target.sm_count;
  out.one_cluster = true;
  out.sm_count = target.cluster_blocks;
  out.blocks_per_sm = 1;
  out.libraries.clear();
  for (double Target::* peak : {&Target::peak_gflops, &Target::peak_f16_gflops,
                                &Target::peak_bf16_gflops, &Target::peak_tf32_gflops}) {
    out.*peak *= share;
  }
  // Small working sets take what the way there takes, however many multiprocessors ask.
  double most = 0;
  for (const Target::BandwidthPoint& point : target.bandwidth)
    most = std::max(most, point.gb_per_s);
  for (Target::BandwidthPoint& point : out.bandwidth)
    point.gb_per_s = std::min(point.gb_per_s, most * share);
  return out;
}

}  // namespace weft
