#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/explain/explained.h"
#include "driver/explain/plan_totals.h"

namespace weft {

/// A kernel as a comparison shows it.
struct ComparedKernel {
  std::string name;
  std::string number;  ///< as in explain_json
  std::vector<std::string> ops;
  std::string built;        ///< its composition, and what it makes again
  double predicted_us = 0;  ///< in a run of the model
  int64_t bytes = 0;        ///< read and written in a run
};

/// Kernels of two plans that hold the same expressions: the smallest sets that do.
struct KernelChange {
  enum class Kind : uint8_t {
    kSame,
    kRebuilt,    ///< one kernel of the same expressions, composed otherwise
    kRegrouped,  ///< expressions are in other kernels
  };
  Kind kind = Kind::kSame;
  std::vector<ComparedKernel> was, now;
};
std::string_view kind_name(KernelChange::Kind kind);  ///< "same", "rebuilt", "regrouped"

/// One of two plans, as a whole.
struct ComparedPlan {
  std::string name;  ///< its planner, or its file
  std::string target;
  PlanTotals totals;
  int64_t arena_bytes = 0;
};

struct PlanComparison {
  ComparedPlan was, now;
  std::vector<KernelChange> changes;  ///< in the order of what is now
};

/// What became of the kernels of one plan in another, of the same model. An expression is known by
/// the tensor that it makes or, where only one of the plans has that, by the model's nodes that it
/// comes from.
PlanComparison compare_plans(const Explained& was, const Explained& now);

/// What the kernels that changed do to the whole (FusionStitching 2018, section 6.4).
struct EndToEnd {
  double fusable_ratio = 0;   ///< of the time before, that of kernels which are other ones now
  double fusion_speedup = 1;  ///< theirs
  /// 1 + FusableRatio (1 - 1 / FusionSpeedup), the paper's prediction of the speedup.
  double predicted() const { return 1 + fusable_ratio * (1 - 1 / fusion_speedup); }
};
/// Nothing where a plan has no kernels that take time, before or among those that changed.
std::optional<EndToEnd> end_to_end(const PlanComparison& comparison);

/// The comparison to read: what is the same is counted, what is not is listed.
std::string comparison_text(const PlanComparison& comparison);
/// {"was": {"name", "target", "kernels", "predicted_us", "bytes", "arena_bytes"}, "now": likewise,
///  "end_to_end": {"fusable_ratio", "fusion_speedup", "predicted"}, where something changed,
///  "changes": [{"kind", "was": [{"name", "number", "ops", "built", "predicted_us", "bytes"}],
///               "now": likewise}]}
std::string comparison_json(const PlanComparison& comparison);

}  // namespace weft
