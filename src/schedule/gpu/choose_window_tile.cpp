#include "schedule/gpu/choose_window_tile.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "schedule/gpu/matrix_tile.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/gpu/window_factor.h"
#include "support/rounding.h"
#include "target/gpu_rates.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kMostRows = 8;     ///< of a thread
constexpr int64_t kMostColumns = 4;  ///< of a thread: a vector
constexpr int64_t kMostWarps = 4;    ///< of a block
constexpr int64_t kOtherRegisters = 32;
constexpr int64_t kMostRegisters = 200;  ///< of a thread: what is not foreseen has the others
constexpr int64_t kManyRegisters = 128;  ///< of a thread: beyond, an SM has few warps

class WindowTileChooser {
 public:
  WindowTileChooser(const GroupSpace& space, const Target& target, const ThreadTilesChoice& axes)
      : space_(space),
        axes_(space.axes()),
        target_(target),
        columns_(extent(axes.column_axis)),
        tile_(axes) {}

  void consider(const WindowFactor& window, int row_axis, std::vector<int> others);
  std::optional<ThreadTilesChoice> take() { return std::move(best_); }

 private:
  /// A tile by its numbers: rows and columns of a thread, lanes along both, and warps along the
  /// axis beside, else along the rows.
  struct Numbers {
    int64_t rows = 1, vec = 1, row_lanes = 1, column_lanes = 1, warps = 1;
  };
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  double score(const WindowFactor& window, const Numbers& n, int64_t strips, int64_t others) const;
  ThreadTilesChoice choice_of(const Numbers& n) const;
  void find_beside();
  double cycles_of_caches(const WindowFactor& window, const Numbers& n) const;

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  int64_t columns_;
  ThreadTilesChoice tile_;              ///< axes of what is considered
  std::optional<WindowFactor> beside_;  ///< the window along the axis beside
  double best_score_ = 0;
  std::optional<ThreadTilesChoice> best_;
};

/// Cycles that a warp's windows of a step take of the caches: of the first one by lines, of the
/// second one, which all SMs share, by bytes: what lanes read together, and the warps of a block,
/// is asked for once.
double WindowTileChooser::cycles_of_caches(const WindowFactor& window, const Numbers& n) const {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  constexpr int64_t kSector = 32;  ///< bytes of a request
  const int64_t columns = n.column_lanes * n.vec * byte_size(in_narrowest_type(window.moved)->type);
  const double bytes = d(window.elements(n.rows * n.row_lanes) * round_up(columns, kSector));
  const double shared = beside_ ? d(beside_->elements(n.warps)) / d(n.warps * beside_->taps) : 1;
  const double lines = d(n.row_lanes * ceil_div(columns, static_cast<int64_t>(kBanksBytes)));
  return std::max(d(window.elements(n.rows)) * lines,
                  bytes * shared / cached_bytes_a_cycle(target_));
}

/// Products a cycle of a warp's slot, as far as lanes are busy and the machine has work. A step
/// loads the window's elements, guards and converts them, and multiplies each by all taps that
/// reach it.
double WindowTileChooser::score(const WindowFactor& window, const Numbers& n, int64_t strips,
                                int64_t others) const {
  constexpr double kGuards = 2, kConversion = 0.5, kStep = 8, kWarpsOfSm = 8, kFewWarps = 0.75;
  constexpr double kIssued = 4;         ///< instructions a cycle
  constexpr double kOverlapLoss = 0.3;  ///< of the lesser of both
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const int64_t elements = window.elements(n.rows);
  const int64_t words = ceil_div(byte_size(window.moved->type), int64_t{4});
  const int64_t registers = (n.rows + elements + 2) * n.vec * words + kOtherRegisters;
  if (registers > std::min<int64_t>(kMostRegisters, target_.registers_per_thread)) return 0;
  const double converted = kConversion * d(n.vec);
  const double products = d(n.rows * window.taps * n.vec);
  const double instructions = products + d(elements) * (1 + kGuards + converted) +
                              (window.other ? d(window.taps) * (1 + converted) : 0) + kStep;
  const double asked = kIssued * cycles_of_caches(window, n);
  const double slots = std::max(instructions, asked) + kOverlapLoss * std::min(instructions, asked);
  const bool beside = tile_.beside_axis >= 0;
  const int64_t row_tiles = ceil_div(strips, n.row_lanes * (beside ? 1 : n.warps));
  const int64_t column_tiles = ceil_div(columns_, n.column_lanes * n.vec);
  const int64_t items =
      beside ? others / extent(tile_.beside_axis) * ceil_div(extent(tile_.beside_axis), n.warps)
             : others;
  const double blocks = d(items) * d(row_tiles * column_tiles);
  const double filled = d(others) * d(strips) * d(columns_) /
                        (blocks * d(n.warps * n.row_lanes * n.column_lanes * n.vec));
  const double of_sm = blocks / target_.sm_count;
  const double busy = filled * std::min(of_sm / std::ceil(of_sm), of_sm * d(n.warps) / kWarpsOfSm);
  return products / slots * busy * (registers > kManyRegisters ? kFewWarps : 1);
}

ThreadTilesChoice WindowTileChooser::choice_of(const Numbers& n) const {
  ThreadTilesChoice out = tile_;
  const auto add = [](std::vector<Place::Digit>* digits, PlaceLevel level, int64_t extent) {
    if (extent > 1) digits->push_back({level, extent});
  };
  if (tile_.beside_axis < 0) add(&out.row_digits, PlaceLevel::kWarp, n.warps);
  add(&out.row_digits, PlaceLevel::kLane, n.row_lanes);
  out.row_digits.push_back({PlaceLevel::kReg, n.rows});
  add(&out.column_digits, PlaceLevel::kLane, n.column_lanes);
  out.column_digits.push_back({PlaceLevel::kVec, n.vec});
  out.warps = n.warps;
  out.beside_warps = tile_.beside_axis >= 0 ? n.warps : 1;
  if (out.beside_warps == 1) out.beside_axis = -1;
  out.window = true;
  return out;
}

/// An axis besides the rows along which windows overlap, too: neighbours along it that one block
/// makes read most of their elements from the SM's own cache.
void WindowTileChooser::find_beside() {
  tile_.beside_axis = -1;
  beside_.reset();
  for (const int a : tile_.others) {
    const std::optional<WindowFactor> window = window_along(space_, a, tile_.inner);
    if (!window || (beside_ && window->taps <= beside_->taps)) continue;
    tile_.beside_axis = a;
    beside_ = window;
  }
}

void WindowTileChooser::consider(const WindowFactor& window, int row_axis,
                                 std::vector<int> others) {
  tile_.row_axis = row_axis;
  tile_.others = std::move(others);
  find_beside();
  int64_t items = 1;
  for (const int a : tile_.others) items *= extent(a);
  const int64_t widest = std::min(kMostColumns, access_elements(columns_, 4, false));
  for (int64_t rows = kMostRows; rows > 1; --rows) {
    if (extent(row_axis) % rows != 0) continue;
    const int64_t strips = extent(row_axis) / rows;
    for (int64_t vec = widest; vec >= 1; vec /= 2) {
      for (int64_t lanes = 32; lanes >= 1; lanes /= 2) {
        for (int64_t warps = 1; warps <= kMostWarps; warps *= 2) {
          const Numbers n{rows, vec, 32 / lanes, lanes, warps};
          const double value = score(window, n, strips, items);
          if (value <= best_score_) continue;
          best_score_ = value;
          best_ = choice_of(n);
        }
      }
    }
  }
}

}  // namespace

std::optional<ThreadTilesChoice> choose_window_tile(const GroupSpace& space, const Target& target,
                                                    const ThreadTilesChoice& axes) {
  if (space.frame() || axes.column_axis < 0) return std::nullopt;
  std::vector<int> outputs = axes.others;
  if (axes.row_axis >= 0) outputs.push_back(axes.row_axis);
  std::ranges::sort(outputs);
  WindowTileChooser chooser(space, target, axes);
  for (const int row : outputs) {
    const std::optional<WindowFactor> window = window_along(space, row, axes.inner);
    if (!window || !runs_along(space, window->moved, axes.column_axis)) continue;
    std::vector<int> others = outputs;
    std::erase(others, row);
    chooser.consider(*window, row, std::move(others));
  }
  return chooser.take();
}

}  // namespace weft
