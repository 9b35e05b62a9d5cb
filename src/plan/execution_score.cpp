#include "plan/execution_score.h"

#include <algorithm>
#include <limits>

namespace weft {

std::optional<double> ExecutionScore::measured_us(const Group& group) const {
  const auto rows = measured_->of(known_.keys().of(group).hash);
  const auto quickest = std::ranges::min_element(rows, {}, &MeasuredComposition::microseconds);
  if (quickest == rows.end()) return std::nullopt;
  return quickest->microseconds;
}

std::optional<double> ExecutionScore::gain_us(std::span<const Group> parts,
                                              const Group& merged) const {
  if (measured_ == nullptr) return std::nullopt;
  double gain = static_cast<double>(std::ssize(parts) - 1) * phi_us_;
  for (const Group& part : parts) {
    const auto us = measured_us(part);
    if (!us) return std::nullopt;
    gain += *us;
  }
  if (!known_.can_be_leaf(merged)) return -std::numeric_limits<double>::infinity();
  const auto us = measured_us(merged);
  if (!us) return std::nullopt;
  return gain - *us;
}

}  // namespace weft
