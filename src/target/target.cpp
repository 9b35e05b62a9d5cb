#include "target/target.h"

#include <cmath>

namespace weft {

double Target::bandwidth_gb_per_s(int64_t working_set) const {
  if (bandwidth.empty()) return 10;
  if (working_set <= bandwidth.front().bytes) return bandwidth.front().gb_per_s;
  for (size_t i = 1; i < bandwidth.size(); ++i) {
    const BandwidthPoint &low = bandwidth[i - 1], &high = bandwidth[i];
    if (working_set > high.bytes) continue;
    const double position =
        std::log(static_cast<double>(working_set) / static_cast<double>(low.bytes)) /
        std::log(static_cast<double>(high.bytes) / static_cast<double>(low.bytes));
    return low.gb_per_s * std::pow(high.gb_per_s / low.gb_per_s, position);
  }
  return bandwidth.back().gb_per_s;
}

}  // namespace weft
