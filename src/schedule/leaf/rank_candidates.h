#pragma once

#include <optional>
#include <string>
#include <vector>

#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// What was considered for a group, in the order of the templates and of their candidates.
struct Considered {
  std::string template_name;
  std::optional<Choice> choice;  ///< none: the template does not apply, or `template_name` says all
  std::optional<double> predicted_us;
  bool chosen = false;
  std::string why_not;  ///< of those that were not chosen
};

/// Builds the best candidate of the first template that has the group: the first that fits the
/// target, or of those that meet in banks the one that does so least. The last candidate of a
/// template is taken whatever it asks for. `considered` (may be null) tells what became of each.
/// Error (kUnsupported): can_be_leaf's reason.
Result<ScheduledKernel> rank_candidates(const GroupSpace& space, const Target& target,
                                        const std::string& name,
                                        std::vector<Considered>* considered);

}  // namespace weft
