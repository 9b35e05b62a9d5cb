#include "schedule/gpu/matrix_tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "support/rounding.h"
#include "target/gpu_rates.h"
#include "tile/places.h"

namespace weft {

namespace {

constexpr int64_t kMostAccumulators = 128;  ///< registers of one thread
constexpr int64_t kMostReduced = 64;        ///< of them, where the results are reduced
constexpr int64_t kMostLoaded = 128;        ///< elements of a thread and step beside such results
constexpr int64_t kOtherRegisters = 56;     ///< fragments, addresses
constexpr int64_t kMaxUnrolled = 128;       ///< matrix instructions of a warp and iteration
constexpr double kWorthChanging = 0.999;    ///< of the time: else what was found first stays

// What follows is fitted to 370 tiles of 18 products on an H100 (bench/results/gpu-h100.md);
// in cycles where nothing else is said.
constexpr double kLoadLatency = 600;      ///< from memory
constexpr double kQueued = 0.32;          ///< of what others ask for, which a load waits for
constexpr double kIterationLatency = 42;  ///< of a step: wait and barrier
constexpr double kIterationIssue = 4, kWarpIssue = 2.5;  ///< of a step and of each of its warps
/// Of a block whose rows or columns are reduced, and of each result that a thread has of them:
/// exponentials, exchanges over lanes and warps (softmax behind a product, three sizes).
constexpr double kReducing = 1500, kReducedResult = 90;
/// The same of a tile that only reduces what it has, without an exponential: by its instructions
/// and one exchange, not fitted.
constexpr double kReducingPart = 400, kReducedPart = 6;
constexpr double kLoneWarp = 1.1;      ///< of a block: nothing runs while it waits
constexpr double kStepAlone = 0.62;    ///< of a step's resources, beside what its warps wait for
constexpr double kOverlapLoss = 0.47;  ///< of the lesser of throughput and latency
/// Of the lesser of memory and the rest: of tiles that memory bounds, those that ask for less come
/// first.
constexpr double kMemoryLoss = 0.1;
constexpr double kPartials = 1.7;  ///< over what their bytes take

// Of warp groups, fitted to 55 tiles of 5 products there (within 9 %).
constexpr double kGroupLoads = 1.11;  ///< over the rate of the second-level cache
constexpr double kShared = 0.86;      ///< of that rate, which SMs that still run have of others'
constexpr double kGroupLatency = 450, kGroupQueued = 0.53;  ///< as kLoadLatency, kQueued
constexpr double kGroupLoss = 0.16;                         ///< as kOverlapLoss

/// Of the operands' tiles that pass through shared memory in a step.
int64_t filled_elements(const MatrixProblem& p, const TilesChoice& t) {
  return ((p.left_in_place ? 0 : t.m) + (p.right_in_place ? 0 : t.n)) * t.k;
}

class Pricing {
 public:
  Pricing(const MatrixProblem& problem, const Target& target)
      : p_(problem),
        target_(target),
        clock_(static_cast<double>(target.clock_mhz) * 1e6),
        cached_bytes_(cached_bytes_a_cycle(target)),
        memory_us_(memory_us()) {}

  /// Microseconds; negative where the tile does not fit.
  double price(const TilesChoice& t) const {
    const int64_t warps = warps_of(t), sms = target_.sm_count;
    const int64_t registers = registers_of(t);
    const int64_t resident =
        resident_blocks_per_sm(target_, warps * 32, registers, shared_bytes(p_, t));
    if (resident == 0 || registers > target_.registers_per_thread) return -1;
    const int64_t tiles = p_.batch * ceil_div(p_.m, t.m) * ceil_div(p_.n, t.n);
    const int64_t blocks = tiles * t.splits;
    if (t.splits > 1 && (blocks > sms * resident_when_padded(t) || !target_.grid_barriers)) {
      return -1;
    }
    if (reduces_parts(p_, t) && (resident_when_padded(t) == 0 || !target_.grid_barriers)) return -1;
    // Tiles of the busiest SM; a block of stages makes one after another.
    const int64_t each = p_.each ? *p_.each * tiles : ceil_div(blocks, sms);
    const int64_t together = std::min(resident, p_.each.value_or(each));
    const double products =
        t.groups ? cycles_of_groups(t, blocks, each, together) : cycles_of_warps(t, each, together);
    const double cycles =
        products + static_cast<double>(each) * epilogue_cycles(t) + reducing_cycles(t, each);
    double us = cycles / static_cast<double>(target_.clock_mhz) * (warps == 1 ? kLoneWarp : 1);
    if (p_.each) return us;
    us = std::max(us, memory_us_) + kMemoryLoss * std::min(us, memory_us_) + target_.launch_us;
    if (t.splits > 1) us += target_.barrier_us + kPartials * partials_us(t);
    if (reduces_parts(p_, t)) us += target_.barrier_us + kPartials * reduced_parts_us(t);
    return us;
  }
  /// Blocks that wait for each other are there at the same time, their rows padded against
  /// conflicts of banks (tile/analysis/scope_derivation.h) by what most need. Those that need more
  /// are left when they are built (templates.cpp).
  int64_t resident_when_padded(const TilesChoice& t) const {
    constexpr int64_t kPadding = 16;
    const int64_t padding = t.stages * (t.m + std::max(t.n, t.k)) * kPadding;
    return resident_blocks_per_sm(target_, warps_of(t) * 32, registers_of(t),
                                  shared_bytes(p_, t) + padding);
  }

 private:
  double steps_of(const TilesChoice& t) const {
    return static_cast<double>(depth_of_split(t, p_.k) / t.k);
  }
  /// Of the busiest SM, which makes `each` tiles, some of them together.
  double cycles_of_warps(const TilesChoice& t, int64_t each, int64_t together) const {
    const double steps = steps_of(t);
    const double issue = kIterationIssue + kWarpIssue * static_cast<double>(warps_of(t));
    const double throughput =
        static_cast<double>(each) * steps * (cycles_of_step(t, together) + issue);
    const double ahead = static_cast<double>(t.stages - 1);
    const double load = kLoadLatency + kQueued * static_cast<double>(together) * load_cycles(t);
    const double step_latency = std::max(latency_of_step(t), load / ahead);
    const double latency = static_cast<double>(ceil_div(each, together)) *
                           (kLoadLatency + steps * step_latency + epilogue_cycles(t));
    return std::max(throughput, latency) + kOverlapLoss * std::min(throughput, latency);
  }
  /// The same of warp groups. What SMs ask of the second-level cache is shared by those that still
  /// run; loads of two steps are under way; with kStagesUnderWay a product is under way beside the
  /// wait for the next one's operands (lower/gpu/staged_loops.cpp).
  double cycles_of_groups(const TilesChoice& t, int64_t blocks, int64_t each,
                          int64_t together) const {
    constexpr double kAhead = 2;
    const double steps = steps_of(t), busiest = static_cast<double>(each);
    const double evenly = static_cast<double>(blocks) / target_.sm_count;
    const double filled = static_cast<double>(filled_elements(p_, t) * p_.element_bytes);
    const double own = std::max(arithmetic_cycles(t), read_cycles(t) + filled / kBanksBytes);
    const double load = load_cycles(t) / kGroupLoads;
    const double throughput =
        steps * std::max(busiest * own, std::lerp(busiest, evenly, kShared) * load);
    const double product = std::max(arithmetic_cycles(t), read_cycles(t));
    const double step =
        kIterationLatency + product + (t.stages < kStagesUnderWay ? kStepOfGroup : 0);
    const double arrival =
        (kGroupLatency + kGroupQueued * static_cast<double>(together) * load) / kAhead;
    const double latency = static_cast<double>(ceil_div(each, together)) *
                           (kLoadLatency + steps * std::max(step, arrival) + epilogue_cycles(t));
    return std::max(throughput, latency) + kGroupLoss * std::min(throughput, latency);
  }
  /// Results and fragments; where operands pass through registers, what a thread loads in a step
  /// and three more registers for the address of each 4 bytes of it.
  int64_t registers_of(const TilesChoice& t) const {
    const int64_t threads = warps_of(t) * 32;
    int64_t out = t.m * t.n / threads + kOtherRegisters;
    if (p_.registers_on_the_way) {
      const int64_t loaded = (p_.left_in_place ? 0 : ceil_div(t.m * t.k, threads)) +
                             (p_.right_in_place ? 0 : ceil_div(t.n * t.k, threads));
      out += loaded * p_.element_bytes;
    }
    return out;
  }
  /// Of one block when `together` share the SM: the slowest of its resources.
  double cycles_of_step(const TilesChoice& t, int64_t together) const {
    // Each quarter of an SM has its own unit.
    const double quarters = std::min(1.0, static_cast<double>(warps_of(t) * together) / 4);
    const int64_t filled = filled_elements(p_, t) * p_.element_bytes;
    const double arithmetic = arithmetic_cycles(t) / quarters;
    const double shared = read_cycles(t) + static_cast<double>(filled) / kBanksBytes;
    return std::max({arithmetic, shared, load_cycles(t)});
  }
  /// Of a step's operands, which all SMs ask of the second-level cache at once.
  double load_cycles(const TilesChoice& t) const {
    const double slow = p_.registers_on_the_way ? 1.5 : 1.0;
    const int64_t filled = filled_elements(p_, t) * p_.element_bytes;
    return static_cast<double>(filled) / cached_bytes_ * slow;
  }
  /// Of one block whose warps wait for what they ask for.
  double latency_of_step(const TilesChoice& t) const {
    const auto d = [](int64_t v) { return static_cast<double>(v); };
    const int64_t warp_m = t.m / t.warps_m, warp_n = t.n / t.warps_n;
    const double results = p_.on_units ? d(warp_m / kUnitRows) * d(warp_n / kUnitColumns)
                                       : d(warp_m / core_rows(t)) * d(warp_n / core_columns(t));
    const double waits = p_.on_units
                             ? d(t.k) / d(p_.depth) * (kStepOfUnit + kInstructionOfUnit * results)
                             : d(t.k) * (kCoreDepth + kCoreResult * results);
    return kIterationLatency + waits + kStepAlone * cycles_of_step(t, 1);
  }
  double arithmetic_cycles(const TilesChoice& t) const {
    const double share = t.groups ? kGroupShare : p_.on_units ? kUnitShare : kCoreShare;
    const double flops_a_cycle = p_.gflops * 1e9 / clock_ / target_.sm_count * share;
    return 2.0 * static_cast<double>(t.m * t.n * t.k) / flops_a_cycle;
  }
  /// Of shared memory: units read fragments, cores a row of results and a column a step.
  double read_cycles(const TilesChoice& t) const {
    const int64_t warp_m = t.m / t.warps_m, warp_n = t.n / t.warps_n;
    if (p_.on_units) {
      // A group reads its columns once.
      const int64_t read =
          t.groups ? t.m + t.warps_m / kGroupWarps * t.n : warps_of(t) * (warp_m + warp_n);
      return static_cast<double>(read * t.k * p_.element_bytes) / kBanksBytes;
    }
    const double reads = kLeftRead * static_cast<double>(warp_m / core_rows(t)) +
                         kRightRead * static_cast<double>(warp_n / core_columns(t));
    return static_cast<double>(warps_of(t) * t.k) * reads *
           target_.cycles_per_instruction("shared");
  }
  /// Parts of a split depth are reduced where they are added up, once by all blocks.
  double reducing_cycles(const TilesChoice& t, int64_t each) const {
    if (p_.whole == MatrixProblem::Whole::kNeither) return 0;
    const double results =
        static_cast<double>(t.m * t.n) / static_cast<double>(warps_of(t) * 32 * t.splits);
    if (reduces_parts(p_, t))
      return static_cast<double>(each) * (kReducingPart + kReducedPart * results);
    return (t.splits > 1 ? 1.0 : static_cast<double>(each)) *
           (kReducing + kReducedResult * results);
  }
  double epilogue_cycles(const TilesChoice& t) const {
    return static_cast<double>(t.m * t.n * p_.epilogue_bytes) / cached_bytes_;
  }
  /// Everything once between memory and the chip.
  double memory_us() const {
    const auto d = [](int64_t v) { return static_cast<double>(v); };
    return bytes_us(d(p_.batch) * ((d(p_.m) + d(p_.n)) * d(p_.k) * d(p_.element_bytes) +
                                   d(p_.m) * d(p_.n) * d(p_.epilogue_bytes)));
  }
  /// Partial sums written and read again.
  double partials_us(const TilesChoice& t) const {
    const auto d = [](int64_t v) { return static_cast<double>(v); };
    return bytes_us(8 * d(t.splits) * d(p_.batch) * d(p_.m) * d(p_.n));
  }
  /// What tiles leave of their rows, written and read again.
  double reduced_parts_us(const TilesChoice& t) const {
    return bytes_us(8 * static_cast<double>(p_.batch * p_.m * ceil_div(p_.n, t.n)));
  }
  double bytes_us(double bytes) const {
    constexpr double kMost = 1e18;
    const auto working_set = static_cast<int64_t>(std::min(bytes, kMost));
    return bytes / (target_.bandwidth_gb_per_s(working_set) * 1e3);
  }

  const MatrixProblem& p_;
  const Target& target_;
  double clock_;         ///< Hz
  double cached_bytes_;  ///< a cycle and SM from the second-level cache
  double memory_us_;
};

using Whole = MatrixProblem::Whole;

int64_t least_rows(const MatrixProblem& p) { return p.on_units ? kUnitRows : kCoreRows; }
int64_t least_columns(const MatrixProblem& p) { return p.on_units ? kUnitColumns : kCoreColumns; }

/// All columns of a product on cores that has few.
bool is_narrow(const MatrixProblem& p, const TilesChoice& t) {
  return !p.on_units && t.warps_n == 1 && t.n < kCoreColumns && t.n == least_core_columns(p.n);
}

/// Whether the results that are reduced together are in one block.
bool holds_whole(const MatrixProblem& p, const TilesChoice& t) {
  switch (p.whole) {
    case Whole::kNeither:
      return true;
    case Whole::kRows:
      return t.splits == 1 && t.m >= p.m;
    case Whole::kColumns:
      return t.splits == 1 ? t.n >= p.n || reduces_parts(p, t) : p.n <= 32 * kMostCombined;
  }
  return false;
}

/// Whether groups of warps can multiply it: 16 rows a warp, tiles of operands in whole panels.
bool suits_groups(const MatrixProblem& p, const TilesChoice& t) {
  const bool along = p.left_along || p.right_along;
  return p.by_groups && t.warps_n == 1 && t.warps_m % kGroupWarps == 0 &&
         t.m == t.warps_m * kUnitRows && t.n <= kGroupColumns &&
         (!along || t.k % kPanelColumns == 0) && (p.left_along || t.m % kPanelColumns == 0) &&
         (p.right_along || t.n % kPanelColumns == 0);
}

/// Whether the tile can be built: its warps have whole instructions, its steps and splits go
/// through the depth, and what must be whole is.
bool can_be_built(const MatrixProblem& p, const TilesChoice& t) {
  const bool narrow = is_narrow(p, t);
  const int64_t rows = (narrow ? core_rows(t) : least_rows(p)) * t.warps_m;
  const int64_t columns = narrow ? core_columns(t) : least_columns(p) * t.warps_n;
  if (t.m % rows != 0 || t.n % columns != 0 || t.k % p.depth != 0) return false;
  if (t.groups && !suits_groups(p, t)) return false;
  // What lies in place has no more than it has.
  if (p.left_in_place && (p.m % t.m != 0 || p.k % t.k != 0)) return false;
  if (p.right_in_place && (p.n % t.n != 0 || p.k % t.k != 0)) return false;
  return holds_whole(p, t) && ceil_div(p.k, depth_of_split(t, p.k)) == t.splits;
}

/// Whether it may be among the best.
bool sensible(const MatrixProblem& p, const TilesChoice& t) {
  if (!can_be_built(p, t)) return false;
  const int64_t results = t.m * t.n / (warps_of(t) * 32);
  const int64_t loaded = (t.m + t.n) * t.k / (warps_of(t) * 32);
  if (p.whole != Whole::kNeither && (results > kMostReduced || loaded > kMostLoaded)) return false;
  if (results > (p.on_units ? kMostAccumulators : kMostAccumulators / 2)) return false;
  const int64_t rows = p.on_units ? kUnitRows : core_rows(t),
                columns = p.on_units ? kUnitColumns : core_columns(t);
  const int64_t unrolled =
      t.m / t.warps_m / rows * (t.n / t.warps_n / columns) * (t.k / (p.on_units ? p.depth : 1));
  if (!t.groups && unrolled > kMaxUnrolled) return false;
  // More buffers than iterations, and tiles that are mostly padding, only cost memory.
  const int64_t steps = depth_of_split(t, p.k) / t.k;
  if (t.stages > std::max<int64_t>(steps, 2) || (t.k > p.depth && t.k >= 2 * p.k)) return false;
  return (t.m == 16 || t.m < 2 * p.m) && (t.n <= 16 || t.n < 2 * p.n);
}

/// Candidates along the rows or the columns; 0: what is whole, and no more.
std::vector<int64_t> extents(const MatrixProblem& p, Whole along, int64_t splits) {
  const bool whole = p.whole == along && splits == 1;
  if (whole && along == Whole::kColumns && p.in_parts) return {0, 32, 64, 128, 256};
  if (whole) return {0};
  if (along == Whole::kColumns && !p.on_units && p.n <= kCoreColumns / 2)
    return {least_core_columns(p.n)};
  // Thirds for groups alone: of 144 tiles, which 132 SMs make in two turns, there are 96 then.
  if (along == Whole::kColumns && p.by_groups) return {16, 32, 64, 96, 128, 192, 256};
  return {16, 32, 64, 128, 256};
}

/// The least extent that holds `whole` on so many warps.
int64_t fitted(int64_t whole, int64_t warps, int64_t least) {
  return round_up(ceil_div(whole, warps), least) * warps;
}

/// The quickest tile, and the next ones.
class Quickest {
 public:
  explicit Quickest(size_t most) : most_(most) {}

  void consider(const PricedTile& tile) {
    if (!best_) {
      best_ = tile;
    } else if (tile.microseconds < best_->microseconds * kWorthChanging) {
      keep_next(*best_);
      best_ = tile;
    } else {
      keep_next(tile);
    }
  }

  std::vector<PricedTile> take() {
    if (best_) next_.insert(next_.begin(), *best_);
    return std::move(next_);
  }

 private:
  void keep_next(const PricedTile& tile) {
    if (next_.size() + 1 >= most_) {
      if (next_.empty() || next_.back().microseconds <= tile.microseconds) return;
      next_.pop_back();
    }
    const auto slower =
        std::ranges::upper_bound(next_, tile.microseconds, {}, &PricedTile::microseconds);
    next_.insert(slower, tile);
  }

  size_t most_;
  std::optional<PricedTile> best_;
  std::vector<PricedTile> next_;  ///< by time
};

}  // namespace

double cached_bytes_a_cycle(const Target& target) {
  constexpr double kReadsOverCopies = 2;  // of the rate, of reads alone
  const double clock = static_cast<double>(target.clock_mhz) * 1e6;
  return kReadsOverCopies * target.bandwidth_gb_per_s(target.l2_bytes / 2) * 1e9 / clock /
         target.sm_count;
}

int64_t least_core_columns(int64_t columns) {
  return std::clamp(power_above(columns), kCoreVector, kCoreColumns);
}
int64_t core_columns(const TilesChoice& tile) {
  return std::min(tile.n / tile.warps_n, kCoreColumns);
}
int64_t core_rows(const TilesChoice& tile) {
  return kCoreRows * kCoreColumns / std::max(core_columns(tile), kCoreVector);
}

bool reduces_parts(const MatrixProblem& problem, const TilesChoice& tile) {
  return problem.in_parts && tile.splits == 1 && tile.n < problem.n;
}

int64_t blocks_at_once(const MatrixProblem& problem, const TilesChoice& tile,
                       const Target& target) {
  const int64_t tiles = problem.batch * ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n);
  const int64_t held = Pricing(problem, target).resident_when_padded(tile);
  return std::min(std::max<int64_t>(held, 1), ceil_div(tiles, target.sm_count));
}

int64_t depth_of_split(const TilesChoice& tile, int64_t depth) {
  return ceil_div(ceil_div(depth, tile.splits), tile.k) * tile.k;
}

int64_t shared_bytes(const MatrixProblem& problem, const TilesChoice& tile) {
  return tile.stages * filled_elements(problem, tile) * problem.element_bytes;
}

namespace {

/// Calls `consider` with each tile that is worth a price and fits the target, and its price, until
/// it says that it has enough.
template <typename Consider>
void for_each_tile(const MatrixProblem& problem, const Target& target, const Consider& consider) {
  if (problem.gflops <= 0) return;
  const Pricing pricing(problem, target);
  const auto has_enough = [&](const TilesChoice& t) {
    if (!sensible(problem, t)) return false;
    const double microseconds = pricing.price(t);
    return microseconds >= 0 && consider(PricedTile{t, microseconds});
  };
  for (const int64_t splits : {1, 2, 4, 8, 16}) {
    if (splits > 1 && problem.each) return;
    const std::vector<int64_t> rows = extents(problem, Whole::kRows, splits);
    const std::vector<int64_t> columns = extents(problem, Whole::kColumns, splits);
    for (const int64_t m : rows) {
      for (const int64_t n : columns) {
        for (const int64_t deep : {1, 2, 4}) {
          for (const int64_t warps : {1, 2, 4, 8}) {
            for (int64_t warps_m = 1; warps_m <= warps; warps_m *= 2) {
              const int64_t warps_n = warps / warps_m;
              const int64_t tile_m = m > 0 ? m : fitted(problem.m, warps_m, least_rows(problem));
              const int64_t tile_n = n > 0 ? n : fitted(problem.n, warps_n, least_columns(problem));
              // Of what is predicted alike, the first: a few buffers hide what is not predicted.
              for (const int64_t stages : {4, 3, 5, 2}) {
                const int64_t k = deep * problem.depth;
                const bool thirds = n > 0 && !std::has_single_bit(static_cast<uint64_t>(n));
                if (!thirds && has_enough({tile_m, tile_n, k, warps_m, warps_n, stages, splits}))
                  return;
                if (!problem.by_groups || warps_n != 1) continue;
                if (has_enough({tile_m, tile_n, k, warps_m, 1, stages, splits, true})) return;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<PricedTile> quickest_tiles(const MatrixProblem& problem, const Target& target,
                                       size_t most) {
  Quickest quickest(most);
  for_each_tile(problem, target, [&](const PricedTile& tile) {
    quickest.consider(tile);
    return false;
  });
  return quickest.take();
}

bool has_tile(const MatrixProblem& problem, const Target& target) {
  bool found = false;
  for_each_tile(problem, target, [&](const PricedTile&) { return found = true; });
  return found;
}

Result<double> tile_microseconds(const MatrixProblem& problem, const TilesChoice& tile,
                                 const Target& target) {
  constexpr int64_t kMostStages = 16, kMostExtent = 1 << 16;
  const auto between = [](int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
  };
  const auto warps = [&](int64_t n) {
    return between(n, 1, 32) && std::has_single_bit(static_cast<uint64_t>(n));
  };
  const bool numbers = between(tile.m, 1, kMostExtent) && between(tile.n, 1, kMostExtent) &&
                       between(tile.k, 1, kMostExtent) && warps(tile.warps_m) &&
                       warps(tile.warps_n) && warps(warps_of(tile)) &&
                       between(tile.stages, 2, kMostStages) && between(tile.splits, 1, problem.k);
  const auto refuse = [&](const char* why) {
    return invalid_input(
        fmt::format("a tile of {}x{}x{} by {}x{} warps in {} stages, {} splits, {}", tile.m, tile.n,
                    tile.k, tile.warps_m, tile.warps_n, tile.stages, tile.splits, why));
  };
  if (problem.gflops <= 0 || !numbers || !can_be_built(problem, tile)) {
    return refuse("is none for this product");
  }
  const double microseconds = Pricing(problem, target).price(tile);
  if (microseconds < 0) return refuse("does not fit the target");
  return microseconds;
}

}  // namespace weft
