#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/writer/scheduled_kernel.h"
#include "target/target.h"

namespace weft {

/// One way in which a template could build a group.
struct Candidate {
  Choice choice;
  /// By the template's own model; nothing where it predicts no time.
  std::optional<double> predicted_us;
  /// Whether others of the same kind may be better for fewer conflicts of banks, which building
  /// shows: the ranker then takes the first of these without any, else the one with the fewest.
  bool meets_banks = false;
};

/// Whether a group is one of a template's, and whether it can build it.
struct Fit {
  enum class Kind : uint8_t {
    kBuilds,
    kRefused,   ///< the group is of the template's kind, and `reason` says why it cannot be built
    kOtherKind  ///< the group is for another template
  };
  Kind kind = Kind::kOtherKind;
  std::string reason;

  static Fit builds() { return {Kind::kBuilds, {}}; }
  static Fit other_kind(std::string why) { return {Kind::kOtherKind, std::move(why)}; }
  /// Of a group of the template's kind.
  static Fit of(const Decision& decision) {
    return decision ? builds() : Fit{Kind::kRefused, decision.reason()};
  }
};

/// How groups of one kind become one kernel. The table of a target (schedule/schedule.cpp) lists
/// its templates; the first that builds a group has it.
struct Template {
  const char* name;
  const char* help;  ///< a line
  /// Asks the space alone: what it allows, `candidates` and `build` can do.
  Fit (*applies)(const GroupSpace& space, const Target& target);
  /// Those predicted best first; the last always fits the target. None: the group is left to the
  /// templates behind this one.
  std::vector<Candidate> (*candidates)(const GroupSpace& space, const Target& target);
  /// Requires: a choice of this template. Error (kInvalidInput): the choice is not one for this
  /// space, which may be that of the group at another binding of the model's dimensions.
  Result<ScheduledKernel> (*build)(const GroupSpace& space, const Choice& choice,
                                   const Target& target, const std::string& name);
  /// Whether a built candidate may run on the target; null: all may.
  Decision (*fits)(const ScheduledKernel& kernel, const Target& target) = nullptr;
  /// Whether it builds stages of blocks, too: groups in the frame of a box.
  bool builds_stages = false;
  /// Choices besides the candidates that measuring may prefer, those most worth it first; null:
  /// none. Not each of them builds.
  std::vector<Choice> (*others)(const GroupSpace& space, const Target& target) = nullptr;
  /// Whether what the first candidates take is asked of their programs (cost/gpu_latency).
  bool is_weighed = false;
};

}  // namespace weft
