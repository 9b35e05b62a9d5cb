#include "schedule/stages/stage_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "expr/analysis/dependence.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/requested_bytes.h"
#include "support/rounding.h"
#include "tile/check/fits.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr double kSchedulers = 4;       ///< of an SM, an instruction a cycle each
constexpr double kSharedBytes = 128;    ///< of shared memory a cycle
constexpr double kMemoryLatency = 700;  ///< cycles until what is not on the SM is there
constexpr double kSharedLatency = 60;   ///< from one thread to another, with the barrier between
constexpr double kShuffleLatency = 25;  ///< from one lane to another, with what is combined
constexpr double kResultLatency = 4;    ///< until the next instruction may use a result

/// What one block does in a stage.
struct StageWork {
  double instructions = 0;  ///< of each warp
  double waiting = 0;       ///< cycles in which it does nothing else
  double outside = 0;       ///< bytes that move between the SM and the caches
  double kept = 0;          ///< bytes of block memory
  double handed = 0;        ///< bytes from stage to stage in registers
};

double bytes_of(const TensorProgram& program, TensorId t) {
  const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
  return static_cast<double>(checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX));
}

void add_bytes(const GroupSpace& stage, const std::vector<bool>& in_warps, StageWork* work) {
  const TensorProgram& program = stage.program();
  const auto add = [&](TensorId t, double bytes) {
    const auto n = static_cast<size_t>(t);
    (!stage.frame()->kept[n] ? work->outside : in_warps[n] ? work->handed : work->kept) += bytes;
  };
  std::map<TensorId, int64_t> read;
  for (int p = 0; p < stage.size(); ++p) {
    for (const auto& [t, bytes] : bytes_read_by_tensor(program, stage.expr(p))) {
      if (stage.axes().producer(t) < 0) read[t] = std::max(read[t], bytes);
    }
    if (stage.is_output(p)) add(stage.expr(p).output, bytes_of(program, stage.expr(p).output));
  }
  for (const auto& [t, bytes] : read) add(t, static_cast<double>(bytes));
}

int64_t digits_on(const std::vector<Place::Digit>& digits, bool threads) {
  int64_t n = 1;
  for (const Place::Digit& d : digits) {
    const bool of_threads = d.level == PlaceLevel::kWarp || d.level == PlaceLevel::kLane;
    if (of_threads == threads) n *= d.extent;
  }
  return n;
}

/// Tiles of results one after another, each through the depth.
void add_thread_tiles(const GroupSpace& stage, const ThreadTilesChoice& c, StageWork* work) {
  constexpr double kSteps = 8;  // of the depth, between two fills of shared tiles
  const auto extent = [&](int axis) {
    return axis < 0 ? 1 : stage.axes().axes[static_cast<size_t>(axis)].extent;
  };
  double tiles =
      static_cast<double>(ceil_div(extent(c.row_axis), digits_extent(c.row_digits)) *
                          ceil_div(extent(c.column_axis), digits_extent(c.column_digits)));
  for (const int a : c.others) tiles *= static_cast<double>(extent(a));
  double depth = 1;
  for (const int a : c.inner) depth *= static_cast<double>(extent(a));
  const auto rows = static_cast<double>(digits_on(c.row_digits, false)),
             columns = static_cast<double>(digits_on(c.column_digits, false));
  work->instructions += tiles * depth * (rows * columns + rows + columns);
  const double latency = work->outside > 0 ? kMemoryLatency : kSharedLatency;
  work->waiting += tiles * (c.shared ? std::ceil(depth / kSteps) * (latency + kSharedLatency)
                                     : depth * latency / kSteps + latency);
}

/// What is reduced goes over the lanes of a row step by step, then from warp to warp.
void add_rows(const GroupSpace& stage, const RowsChoice& c, StageWork* work) {
  const auto turns = static_cast<double>(boxes_of(c, stage.axes()));
  const auto reductions = static_cast<double>(stage.axes().reductions.size());
  double lanes = 1, warps = 1;
  for (const int a : c.row) {
    for (const Place::Digit& d : digits_along(c.digits, a)) {
      if (d.level == PlaceLevel::kLane) lanes *= static_cast<double>(d.extent);
      if (d.level == PlaceLevel::kWarp) warps *= static_cast<double>(d.extent);
    }
  }
  const double reduction = std::log2(lanes) * kShuffleLatency + (warps > 1 ? kSharedLatency : 0);
  const bool by_shuffles = work->kept == 0 && work->handed > 0;
  work->waiting +=
      turns * ((work->outside > 0 ? kMemoryLatency : 0) +
               (by_shuffles ? kShuffleLatency : kSharedLatency) + reductions * reduction);
}

/// Threads that have elements of their own; others hold copies, or nothing.
double busy_threads(const RowsChoice& c) {
  int64_t lanes = 1, warps = 1;
  for (const auto& [axis, digits] : c.digits) {
    for (const Place::Digit& d : digits) {
      if (d.level == PlaceLevel::kLane) lanes *= d.extent;
      if (d.level == PlaceLevel::kWarp) warps *= d.extent;
    }
  }
  return static_cast<double>(lanes * warps);
}

}  // namespace

double stage_us(const GroupSpace& stage, const ScheduledKernel& kernel, const Target& sm,
                const std::vector<bool>& in_warps) {
  const Choice& choice = kernel.composition.choice;
  if (std::holds_alternative<TilesChoice>(choice) && kernel.predicted_us)
    return *kernel.predicted_us;
  StageWork work;
  add_bytes(stage, in_warps, &work);
  const auto warps = static_cast<double>(kernel.program.warps);
  if (const auto* tiles = std::get_if<ThreadTilesChoice>(&choice)) {
    add_thread_tiles(stage, *tiles, &work);
  } else {
    double flops = 0;
    for (int p = 0; p < stage.size(); ++p) flops += static_cast<double>(flops_of(stage.expr(p)));
    const auto* rows = std::get_if<RowsChoice>(&choice);
    work.instructions = flops / (rows != nullptr ? busy_threads(*rows) : 32 * warps);
    if (rows != nullptr) add_rows(stage, *rows, &work);
  }
  const double clock = static_cast<double>(sm.clock_mhz);
  const double cached = sm.bandwidth_gb_per_s(sm.l2_bytes / 2) * 1e3 / clock;  // bytes a cycle
  const auto each = static_cast<double>(stage.frame()->each);
  const int64_t resident = residency(kernel.program, kernel.scopes, sm).blocks_per_sm;
  const double together = std::clamp(static_cast<double>(resident), 1.0, each);
  const double moving = work.outside / cached + work.kept / kSharedBytes;
  const double throughput = each * (work.instructions * warps / kSchedulers + moving);
  const double latency =
      std::ceil(each / together) * (work.waiting + work.instructions * kResultLatency + moving);
  return std::max(throughput, latency) / clock;
}

}  // namespace weft
