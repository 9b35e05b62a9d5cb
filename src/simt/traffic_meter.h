#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "simt/report.h"

namespace weft::simt {

/// One lane's access, as it is kept until its warp's accesses are put side by side.
struct LaneAccess {
  uint32_t site = 0;
  uint32_t bytes = 0;
  uint64_t address = 0;
  int32_t buffer = 0;  ///< kShared for shared memory
  bool store = false;
  uint8_t lane = 0;
  static constexpr int32_t kShared = -1;
};

/// The accesses of a warp since they were last counted.
class WarpLog {
 public:
  void add(const LaneAccess& access) { accesses_.push_back(access); }

 private:
  friend class TrafficMeter;
  std::vector<LaneAccess> accesses_;  ///< those of one lane in the order of the lane
};

/// Counts requests, sectors and wavefronts. The n-th access of a site by one lane and the n-th by
/// another belong to one request: the lanes of the emulator run one after another.
class TrafficMeter {
 public:
  /// `buffers`: first address and bytes of each.
  struct Extent {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  explicit TrafficMeter(std::vector<Extent> buffers);

  /// Counts what the log holds and empties it.
  void count(WarpLog& log);

  struct Totals {
    std::vector<GlobalTraffic> loads, stores;  ///< by buffer
    std::map<uint32_t, SharedTraffic> shared;  ///< by site
  };
  const Totals& totals() const { return totals_; }

 private:
  void count_global(const std::vector<LaneAccess>& request);
  void count_shared(const std::vector<LaneAccess>& request);

  std::vector<Extent> buffers_;
  std::vector<std::vector<uint8_t>> touched_;  ///< by buffer and sector: 1 loaded, 2 stored
  Totals totals_;
};

}  // namespace weft::simt
