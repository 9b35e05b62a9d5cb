#include "plan/grouping.h"

namespace weft {

/// One expression a kernel.
Partition partition_none(const TensorProgram& program, const Target& target) {
  return merge_greedily(program, target,
                        {[](const Group&) { return Decision::allow(); },
                         [](const Group&, const Group&, const Group&) {
                           return Decision::forbid("planner none fuses nothing");
                         }});
}

}  // namespace weft
