#pragma once

#include <span>
#include <string_view>

namespace weft {

/// A file of targets/ as it stood when this was built.
struct TargetText {
  std::string_view name;
  std::string_view text;
};
std::span<const TargetText> target_texts();

}  // namespace weft
