#include "simt/traffic_meter.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace weft::simt {
namespace {

constexpr uint64_t kSectorBytes = 32;  ///< of a GPU's L2, what memory moves at least

/// An access and its number among those of its site and lane.
struct Numbered {
  uint32_t occurrence = 0;
  const LaneAccess* access = nullptr;
};

std::vector<Numbered> number_accesses(const std::vector<LaneAccess>& accesses) {
  std::vector<Numbered> numbered;
  numbered.reserve(accesses.size());
  for (const LaneAccess& access : accesses) numbered.push_back({0, &access});
  // Addresses in the log stand for the order of time.
  std::sort(numbered.begin(), numbered.end(), [](const Numbered& a, const Numbered& b) {
    return std::tie(a.access->lane, a.access->site, a.access) <
           std::tie(b.access->lane, b.access->site, b.access);
  });
  for (size_t i = 1; i < numbered.size(); ++i) {
    const LaneAccess& before = *numbered[i - 1].access;
    const LaneAccess& here = *numbered[i].access;
    const bool again = before.lane == here.lane && before.site == here.site;
    numbered[i].occurrence = again ? numbered[i - 1].occurrence + 1 : 0;
  }
  // A pointer may lead some lanes to shared and some to global memory, or to two buffers: those are
  // requests of their own.
  std::sort(numbered.begin(), numbered.end(), [](const Numbered& a, const Numbered& b) {
    return std::tie(a.access->site, a.occurrence, a.access->buffer, a.access->lane) <
           std::tie(b.access->site, b.occurrence, b.access->buffer, b.access->lane);
  });
  return numbered;
}

/// Bytes in at least one of the spans.
int64_t covered(std::vector<std::pair<uint64_t, uint64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  uint64_t bytes = 0, end = 0;
  for (const auto& [from, to] : spans) {
    if (to > end) bytes += to - std::max(from, end);
    end = std::max(end, to);
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

TrafficMeter::TrafficMeter(std::vector<Extent> buffers) : buffers_(std::move(buffers)) {
  for (const Extent& extent : buffers_) {
    const uint64_t last = (extent.address + extent.bytes + kSectorBytes - 1) / kSectorBytes;
    touched_.emplace_back(last - extent.address / kSectorBytes, uint8_t{0});
  }
  totals_.loads.resize(buffers_.size());
  totals_.stores.resize(buffers_.size());
}

void TrafficMeter::count(WarpLog& log) {
  const std::vector<Numbered> numbered = number_accesses(log.accesses_);
  std::vector<LaneAccess> request;
  for (size_t i = 0; i < numbered.size();) {
    request.clear();
    const Numbered& first = numbered[i];
    for (; i < numbered.size() && numbered[i].access->site == first.access->site &&
           numbered[i].access->buffer == first.access->buffer &&
           numbered[i].occurrence == first.occurrence;
         ++i) {
      request.push_back(*numbered[i].access);
    }
    if (request[0].buffer == LaneAccess::kShared) {
      count_shared(request);
    } else {
      count_global(request);
    }
  }
  log.accesses_.clear();
}

void TrafficMeter::count_global(const std::vector<LaneAccess>& request) {
  const auto buffer = static_cast<size_t>(request[0].buffer);
  const Extent& extent = buffers_[buffer];
  const bool store = request[0].store;
  GlobalTraffic& traffic = store ? totals_.stores[buffer] : totals_.loads[buffer];
  std::vector<uint64_t> sectors;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const LaneAccess& access : request) {
    traffic.bytes += access.bytes;
    spans.emplace_back(access.address, access.address + access.bytes);
    for (uint64_t sector = access.address / kSectorBytes;
         sector <= (access.address + access.bytes - 1) / kSectorBytes; ++sector) {
      sectors.push_back(sector);
    }
  }
  traffic.distinct += covered(std::move(spans));
  std::sort(sectors.begin(), sectors.end());
  sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
  ++traffic.requests;
  traffic.sectors += static_cast<int64_t>(sectors.size());
  for (const uint64_t sector : sectors) {
    uint8_t& touched = touched_[buffer][sector - extent.address / kSectorBytes];
    const uint8_t bit = store ? 2 : 1;
    if ((touched & bit) != 0) continue;
    touched |= bit;
    const uint64_t begin = std::max(sector * kSectorBytes, extent.address);
    const uint64_t end = std::min((sector + 1) * kSectorBytes, extent.address + extent.bytes);
    traffic.unique_bytes += static_cast<int64_t>(end - begin);
  }
}

// 32 banks of 4 bytes. Lanes with 8 or 16 bytes each go in groups of 16 or 8; lanes of a group that
// want the same word share it.
void TrafficMeter::count_shared(const std::vector<LaneAccess>& request) {
  SharedTraffic& traffic = totals_.shared[request[0].site];
  const uint32_t width = request[0].bytes;
  const uint32_t group = width <= 4 ? 32 : width <= 8 ? 16 : 8;
  ++traffic.requests;
  std::vector<uint64_t> words;
  for (size_t i = 0; i < request.size();) {
    words.clear();
    const uint32_t part = request[i].lane / group;
    for (; i < request.size() && request[i].lane / group == part; ++i) {
      const LaneAccess& access = request[i];
      traffic.bytes += access.bytes;
      for (uint64_t word = access.address / 4; word <= (access.address + access.bytes - 1) / 4;
           ++word) {
        words.push_back(word);
      }
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<int64_t, 32> banks = {};
    for (const uint64_t word : words) ++banks[word % 32];
    traffic.wavefronts += *std::max_element(banks.begin(), banks.end());
    ++traffic.ideal_wavefronts;
  }
}

}  // namespace weft::simt
