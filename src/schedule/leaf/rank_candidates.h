#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "choice/measured_compositions.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// What was considered for a group, in the order of the templates and of their candidates.
struct Considered {
  std::string template_name;
  std::optional<Choice> choice;  ///< none: the template does not apply, or `template_name` says all
  std::optional<double> predicted_us;
  bool chosen = false;
  std::string why_not = {};                ///< of those that were not chosen
  std::optional<double> measured_us = {};  ///< takes the prediction's place
};

/// Builds the best candidate of the first template that has the group: the first that fits the
/// target, or of those that meet in banks the one that does so least. The last candidate of a
/// template is taken whatever it asks for. A time that was measured takes the place of what is
/// predicted: a leaf in `measured` that the target builds and that took less than that candidate
/// did, or is predicted to where it was not measured, is built in its place; where nothing is known
/// of the candidate, it stays. `considered` (may be null) tells what became of each. Error
/// (kUnsupported): can_be_leaf's reason.
Result<ScheduledKernel> rank_candidates(const GroupSpace& space, const Target& target,
                                        const std::string& name,
                                        std::span<const MeasuredComposition> measured,
                                        std::vector<Considered>* considered);

}  // namespace weft
