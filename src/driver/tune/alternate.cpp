#include "driver/tune/alternate.h"

#include <algorithm>

namespace weft {

namespace {

/// After so many rounds a candidate that takes so much more is left.
constexpr int kFewRounds = 3;
constexpr double kFar = 1.25;

Status run_once(WatchedModel& model, std::vector<HostTensor>& outputs, bool counts) {
  const auto& steps = model.session.executable().steps();
  std::vector<int64_t> ns(steps.size(), 0);
  RunOptions options;
  options.step_nanoseconds = ns;
  WEFT_RETURN_IF_ERROR(model.session.run_into(model.inputs, &outputs, options));
  if (!counts) return {};
  int64_t sum = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (model.kernels.count(steps[s].name) != 0) sum += ns[s];
  }
  model.microseconds.push_back(static_cast<double>(sum) * 1e-3);
  return {};
}

}  // namespace

Status run_in_turns(WatchedModel& first, WatchedModel& second, int rounds) {
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> of_first, first.session.run(first.inputs));
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> of_second, second.session.run(second.inputs));
  for (int r = 0; r < rounds; ++r) {
    for (const bool is_first : {r % 2 == 0, r % 2 != 0}) {
      WatchedModel& model = is_first ? first : second;
      std::vector<HostTensor>& outputs = is_first ? of_first : of_second;
      // The run before was the other one's, whose weights lie in the caches: one run to warm them.
      WEFT_RETURN_IF_ERROR(run_once(model, outputs, false));
      WEFT_RETURN_IF_ERROR(run_once(model, outputs, true));
    }
    if (r + 1 == kFewRounds && *std::ranges::min_element(second.microseconds) >
                                   kFar * *std::ranges::min_element(first.microseconds))
      return {};
  }
  return {};
}

}  // namespace weft
