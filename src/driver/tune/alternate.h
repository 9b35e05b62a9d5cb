#pragma once

#include <set>
#include <string>
#include <vector>

#include "driver/session.h"

namespace weft {

/// A model that runs, and which of its steps are looked at.
struct WatchedModel {
  Session& session;
  const std::vector<HostTensor>& inputs;
  /// Of the kernels whose time counts.
  const std::set<std::string>& kernels;
  std::vector<double> microseconds;  ///< of these kernels together, by run
};

/// Runs both in turns, `rounds` times each; which one is first changes from round to round. Stops
/// early where the second is far behind after a few rounds.
Status run_in_turns(WatchedModel& first, WatchedModel& second, int rounds);

}  // namespace weft
