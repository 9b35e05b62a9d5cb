#pragma once

#include <map>
#include <string>

namespace weft {

/// The identifiers of one kernel: letters, digits and underscores, each given out once.
class KernelNames {
 public:
  KernelNames() { given_["P"] = 1; }
  /// What tensors of a model are called may hold any character.
  static std::string identifier(const std::string& name);
  /// `base` as an identifier; with a number behind it where that is taken.
  std::string unique(const std::string& base);

 private:
  std::map<std::string, int> given_;
};

/// What stands for the name that was asked for as the `number`th, in a kernel for all groups of a
/// key.
std::string asked_name(size_t number);
inline constexpr char kAskedMark = '\x1e';

}  // namespace weft
