#include "assemble/share_steps.h"

#include <algorithm>
#include <set>

namespace weft {

namespace {

/// Of a line that comes from another core's cache, one after another: measured on a Zen 4.
constexpr double kLineUs = 0.005, kLine = 64;

}  // namespace

void share_steps(std::span<const ProgramBuffer> buffers, std::span<const StepWork> works,
                 std::span<StepAccess> steps) {
  std::set<int32_t> made_by_all;
  for (size_t s = 0; s < steps.size(); ++s) {
    const StepWork& work = works[s];
    StepAccess& step = steps[s];
    if (step.serial && work.can_share) {
      double bytes = 0;
      for (const int32_t b : std::set<int32_t>(step.reads.begin(), step.reads.end())) {
        if (made_by_all.contains(b))
          bytes +=
              std::min(work.read_bytes, static_cast<double>(buffers[static_cast<size_t>(b)].bytes));
      }
      step.serial = work.alone_us + bytes / kLine * kLineUs < work.shared_us;
    }
    for (const int32_t b : step.writes) {
      if (step.serial) {
        made_by_all.erase(b);
      } else {
        made_by_all.insert(b);
      }
    }
  }
}

}  // namespace weft
