#pragma once

#include <string>
#include <vector>

namespace weft {

/// A target that models are compiled for.
struct TargetDescription {
  std::string name;  ///< as target_by_name takes it
  std::string text;  ///< its figures, or why it is not there
  bool is_here = false;
};

/// cpu, cuda (the GPU that is there, or why there is none), then the described GPUs, for which code
/// is made on any machine.
std::vector<TargetDescription> describe_targets();

}  // namespace weft
