#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "choice/choice.h"
#include "support/hash.h"

namespace weft {

/// One way to compose a group, measured on the target.
struct MeasuredComposition {
  Composition composition;
  double microseconds = 0;  ///< median of a launch
  int64_t samples = 0;
  std::string row;  ///< name of the row in the performance library
};

/// What a plan says of the row that decided: its name, time and samples.
std::string name_of_row(const MeasuredComposition& measured);

/// Whether a time is clearly below another: less is noise.
inline bool is_clearly_quicker(double us, double than_us) { return us < 0.98 * than_us; }

/// What was measured on one target, by the keys of groups (GroupKey::hash).
class MeasuredCompositions {
 public:
  void add(const Hash128& group, MeasuredComposition measured) {
    of_group_[group].push_back(std::move(measured));
  }
  /// Empty where nothing was.
  std::span<const MeasuredComposition> of(const Hash128& group) const {
    const auto found = of_group_.find(group);
    if (found == of_group_.end()) return {};
    return found->second;
  }

 private:
  std::map<Hash128, std::vector<MeasuredComposition>> of_group_;
};

}  // namespace weft
