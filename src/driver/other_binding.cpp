#include "driver/other_binding.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "support/rounding.h"

namespace weft {

namespace {

/// Extents beyond this stay as they are.
constexpr int64_t kLargestExtent = int64_t{1} << 20;

/// The dimension's name in the model, or "x.0" where it has none.
std::string dimension_name(const ImportedInput& input, size_t axis) {
  const std::string& symbol = input.symbols[axis];
  return symbol.empty() ? input.name + "." + std::to_string(axis) : symbol;
}

/// Other extents for the open dimensions: for those with names, or for all where none has one.
std::map<std::string, int64_t> other_extents(const std::vector<ImportedInput>& inputs,
                                             OtherExtents which) {
  std::map<std::string, int64_t> named, nameless;
  for (const ImportedInput& input : inputs) {
    for (size_t axis = 0; axis < input.open.size(); ++axis) {
      const int64_t extent = input.type.shape[axis];
      if (!input.open[axis] || extent < 2 || extent > kLargestExtent) continue;
      (input.symbols[axis].empty() ? nameless : named)[dimension_name(input, axis)] = extent;
    }
  }
  std::map<std::string, int64_t>& extents = named.empty() ? nameless : named;
  int64_t times = 2;
  for (auto& [name, extent] : extents) {
    // At least 2, and another number than now.
    if (which == OtherExtents::kLarger || extent < 4) {
      extent *= times++;
    } else {
      extent = std::max<int64_t>(2, ceil_div(extent, times++));
    }
  }
  return std::move(extents);
}

}  // namespace

std::optional<CompileOptions> other_binding(const CompileOptions& as_first,
                                            const std::vector<ImportedInput>& inputs,
                                            OtherExtents which) {
  const std::map<std::string, int64_t> extents = other_extents(inputs, which);
  if (extents.empty()) return std::nullopt;
  CompileOptions options;
  options.planner = as_first.planner;
  options.planner_parameters = as_first.planner_parameters;
  options.plan_text = as_first.plan_text;
  options.plan_source = as_first.plan_source;
  options.threads = as_first.threads;
  options.max_vector_bytes = as_first.max_vector_bytes;
  options.fast_math = as_first.fast_math;
  options.precision = as_first.precision;
  options.unroll = as_first.unroll;
  options.fixed_sizes = true;
  options.cancel = as_first.cancel;
  for (const ImportedInput& input : inputs) {
    Shape& shape = options.import.shapes[input.name];
    shape = input.type.shape;
    for (size_t axis = 0; axis < input.open.size(); ++axis) {
      if (!input.open[axis]) continue;
      const auto other = extents.find(dimension_name(input, axis));
      if (other != extents.end()) shape[axis] = other->second;
    }
  }
  return options;
}

}  // namespace weft
