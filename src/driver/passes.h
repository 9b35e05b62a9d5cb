#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run_passes.h"

namespace weft {

/// All passes, in their order.
std::span<const Pass> passes();

/// Those from one name to another, both included. The names are passes', in this order.
std::span<const Pass> passes_between(std::string_view first, std::string_view last);

/// The last pass that the levels need: after it, print_level has their texts. Empty where none of
/// them is a level.
std::string last_pass_of(const std::vector<std::string>& levels);

/// The first pass that makes a tensor program of the graph, and the last before it is compared with
/// the one at another binding.
inline constexpr std::string_view kFirstExpressing = "express";
inline constexpr std::string_view kLastExpressing = "lend-constants";

}  // namespace weft
