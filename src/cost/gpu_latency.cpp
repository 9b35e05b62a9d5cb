#include "cost/gpu_latency.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "cost/estimate.h"
#include "cost/first_iteration.h"
#include "cost/warp_access.h"
#include "expr/layout.h"
#include "support/rounding.h"
#include "target/gpu_rates.h"
#include "tile/analysis/executions.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/same_blocks.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

/// Cycles until a dependent instruction of a warp may follow, a shuffle's result is there, and what
/// lies in shared and in device memory ("Dissecting the NVIDIA Volta GPU Architecture via
/// Microbenchmarking", Jia et al. 2018).
constexpr double kDependentCycles = 4, kShuffleCycles = 23, kSharedCycles = 19, kMemoryCycles = 500;
/// Of a barrier of the block.
constexpr double kBarrierCycles = 30;
/// Of an iteration of a loop: an addition, a comparison, a branch.
constexpr double kLoopInstructions = 3;

std::string_view class_of(ScalarOp op, DType type) {
  if (!is_float(type)) return "int";
  const bool special = (op >= ScalarOp::kExp && op <= ScalarOp::kErf) || op == ScalarOp::kDiv ||
                       op == ScalarOp::kPow || op == ScalarOp::kSqrt || op == ScalarOp::kRsqrt;
  if (special) return "special";
  if (type == DType::kF64) return "f64";
  return byte_size(type) == 2 ? "f16" : "f32";
}

/// Instructions of an operation: what is no instruction of the device is a few of them. `rounded`:
/// results have 16 bits, which approximations are enough for (codegen/cuda/approximations.h).
double instructions_of(std::string_view op_class, ScalarOp op, bool rounded) {
  if (op == ScalarOp::kThreefry) return 75;
  if (op_class == "int") return op == ScalarOp::kDiv || op == ScalarOp::kRem ? 8 : 1;
  if (op_class != "special") return 1;
  switch (op) {
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
      return 2;
    case ScalarOp::kDiv:
      return 4;
    case ScalarOp::kPow:
      return 20;
    case ScalarOp::kSigmoid:
      return rounded ? 3 : 8;
    default:
      return 8;
  }
}

bool is_product(const Scalar& s) {
  return s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kMul && is_float(s.type);
}

/// One instruction with the product that it adds.
bool adds_product(const Scalar& s) {
  return (s.op == ScalarOp::kAdd || s.op == ScalarOp::kSub) && is_float(s.type) &&
         std::ranges::any_of(s.operands, [](const ScalarRef& o) { return is_product(*o); });
}

class Evaluation {
 public:
  Evaluation(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target)
      : program_(program),
        scopes_(scopes),
        target_(target),
        numbers_(program),
        block_(residency(program, scopes, target)) {
    rounded_ = std::ranges::any_of(program.symbols, [](const TileSymbol& s) {
      return s.kind == TileSymbol::Kind::kOutput && byte_size(s.type) == 2;
    });
    blocks_ = blocks_of(program.body);
    const bool repeats = std::ranges::any_of(program.body, [](const TileNode& node) {
      return node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop);
    });
    if (program.blocks.is_const()) {
      const auto stated = static_cast<double>(program.blocks.constant());
      blocks_ = repeats ? stated : std::min(blocks_, stated);
    }
    blocks_ = std::max(blocks_, 1.0);
    const double of_sm = std::clamp(static_cast<double>(block_.blocks_per_sm), 1.0,
                                    std::ceil(blocks_ / target.sm_count));
    at_once_ = of_sm * static_cast<double>(program.warps);
    waves_ = std::ceil(blocks_ / (of_sm * target.sm_count));
    for (const auto& [statement, depth] : kept_statements(structure_of(program), scopes))
      kept_.insert(statement);
  }

  /// A step of the recurrence.
  double run_step(int64_t bytes) {
    double cycles = 0;
    for (size_t n = 0; n < program_.body.size(); ++n) {
      const Path path{static_cast<int32_t>(n)};
      const TileNode& node = program_.body[n];
      if (node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop)) {
        grid_barriers_ = 0;
        cycles = of_phases(node.loop->body, path);
        break;
      }
      of_node(node, path);
    }
    const double computing = cycles / static_cast<double>(target_.clock_mhz);
    return std::max(computing, memory_us(static_cast<double>(bytes), busy_part(), target_)) +
           grid_barriers_ * (blocks_ > 1 ? meeting_us() : 0);
  }

  GpuLatency run(int64_t bytes) {
    GpuLatency out;
    out.warp_cycles = of_body(program_.body, {});
    out.waves = waves_;
    out.warps_of_sm = static_cast<int64_t>(at_once_);
    out.registers = block_.registers;
    out.shared_bytes = block_.shared_bytes;
    out.memory_us = memory_us(static_cast<double>(bytes), busy_part(), target_);
    const double computing = waves_ * out.warp_cycles / static_cast<double>(target_.clock_mhz);
    out.bound =
        computing > out.memory_us ? GpuLatency::Bound::kInstructions : GpuLatency::Bound::kMemory;
    out.microseconds = target_.start_us() + grid_barriers_ * meeting_us() +
                       std::max(computing, out.memory_us) -
                       hidden_by_barriers_us(program_, scopes_, target_);
    return out;
  }

 private:
  double meeting_us() const {
    return weft::meeting_us(program_, static_cast<int64_t>(std::ceil(blocks_)), target_);
  }

  /// Of the memory bandwidth: few blocks do not ask for all of it.
  double busy_part() const {
    const double sms = target_.sm_count;
    const double threads = blocks_ * static_cast<double>(block_.threads);
    return std::min({1.0, threads / (sms * kBusyThreads), blocks_ / sms});
  }

  /// Items of the grid loops: of the nest with the most.
  double blocks_of(const TileBody& body) const {
    double most = 1, side_by_side = 0;
    for (const TileNode& node : body) {
      if (node.kind == TileNode::Kind::kPack) {
        for (const TilePack::Member& m : node.pack->members) side_by_side += blocks_of(m.body);
      }
      if (node.kind != TileNode::Kind::kLoop) continue;
      const double trips = node.loop->kind == TileLoop::Kind::kSeq ? 1 : numbers_.trips(*node.loop);
      most = std::max(most, trips * blocks_of(node.loop->body));
    }
    return std::max(most, side_by_side);
  }

  /// Of `count` instructions of a warp that do not wait for each other: all warps of the SM share
  /// its pipes, and what comes next waits for the last.
  double cycles(std::string_view op_class, double count = 1) const {
    const double each = std::max(1.0, at_once_ * target_.cycles_per_instruction(op_class));
    return count > 0 ? std::max(kDependentCycles, count * each) : 0;
  }

  using Path = std::vector<int32_t>;

  /// Loads that stand side by side are asked for together: a body waits for memory once.
  double of_body(const TileBody& body, const Path& at) {
    double sum = 0;
    const bool outer = std::exchange(waits_, false);
    for (size_t n = 0; n < body.size(); ++n) {
      Path path = at;
      path.push_back(static_cast<int32_t>(n));
      sum += barriers_before(path) + of_node(body[n], path);
    }
    return sum + (std::exchange(waits_, outer) ? memory_cycles_ : 0);
  }

  /// Nests between two barriers have blocks of their own as far as there are any.
  double of_phases(const TileBody& nests, const Path& at) {
    const std::set<NestPath> keeping = nests_of_kept(structure_of(program_), scopes_);
    double sum = 0, in_turns = 0, longest = 0, shared = 0;
    const auto end_phase = [&] {
      sum += in_turns + std::max(longest, shared);
      in_turns = longest = shared = 0;
    };
    for (size_t n = 0; n < nests.size(); ++n) {
      Path path = at;
      path.push_back(static_cast<int32_t>(n));
      const double before = grid_barriers_;
      const double waits = barriers_before(path);
      if (grid_barriers_ > before) end_phase();
      double own = waits + of_node(nests[n], path);
      if (std::exchange(waits_, false)) own += memory_cycles_;
      if (keeping.count(path) != 0) {
        in_turns += own;
        continue;
      }
      longest = std::max(longest, own);
      const double items =
          nests[n].kind == TileNode::Kind::kLoop ? numbers_.trips(*nests[n].loop) : 1;
      shared += own * std::min(items, blocks_) / blocks_;
    }
    end_phase();
    return sum;
  }

  double barriers_before(const Path& path) {
    double sum = 0;
    for (const BarrierPoint& b : scopes_.barriers) {
      if (b.before != path) continue;
      if (b.scope == Scope::kGrid) grid_barriers_ += 1;
      if (b.scope == Scope::kBlock) sum += kBarrierCycles;
      if (b.scope == Scope::kCluster)
        sum += target_.cluster_barrier_us * static_cast<double>(target_.clock_mhz);
    }
    return sum;
  }

  double of_node(const TileNode& node, const Path& path) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        return of_statement(node.statement);
      case TileNode::Kind::kCondition:
        return of_body(node.condition->body, path);
      case TileNode::Kind::kPack: {
        double most = 0;  // blocks of their own
        for (size_t m = 0; m < node.pack->members.size(); ++m) {
          Path inside = path;
          inside.push_back(static_cast<int32_t>(m));
          most = std::max(most, of_body(node.pack->members[m].body, inside));
        }
        return most;
      }
      case TileNode::Kind::kLoop:
        break;
    }
    const TileLoop& loop = *node.loop;
    if (is_recurrence(loop)) {
      const double before = std::exchange(grid_barriers_, 0), trips = numbers_.trips(loop);
      const double once = of_phases(loop.body, path);
      grid_barriers_ = before + trips * grid_barriers_;
      return trips * once;
    }
    double kept = kept_cycles_;
    kept_cycles_ = 0;
    const double once = of_iteration(loop, path);
    std::swap(kept, kept_cycles_);
    if (loop.kind != TileLoop::Kind::kSeq) {
      // A block goes through several items one after another, and keeps what they share.
      const double turns = std::ceil(numbers_.trips(loop) / blocks_);
      return kept + once * std::max(turns, 1.0);
    }
    return kept + numbers_.trips(loop) * once + turns_of(loop) * kLoopInstructions * cycles("int");
  }

  /// Times that the loop comes back to its begin.
  double turns_of(const TileLoop& loop) const {
    double turns = numbers_.trips(loop);
    for (const TileLoop::Dim& dim : loop.dims) {
      if (dim.unroll == 0) turns /= std::max(1.0, numbers_.trips(dim.origin));
      if (dim.unroll > 1) turns /= static_cast<double>(dim.unroll);
    }
    return turns <= 1 ? 0 : turns;
  }

  /// Operands of a loop of stages were asked for `stages` - 1 steps before; iterations written side
  /// by side ask for theirs together.
  double of_iteration(const TileLoop& loop, const Path& path) {
    const double waits = memory_cycles_;
    if (loop.stages > 1) memory_cycles_ = 0;
    if (loop.kind == TileLoop::Kind::kSeq)
      memory_cycles_ *= std::max(1.0, turns_of(loop)) / std::max(1.0, numbers_.trips(loop));
    const double once = of_body(loop.body, path);
    memory_cycles_ = waits;
    if (loop.stages == 1) return once;
    return std::max(once, memory_cycles_ / static_cast<double>(loop.stages - 1));
  }

  /// Digits of the statement's place over its box that one thread goes through.
  double of_thread(const Place& place, const std::vector<TileVarId>& box, bool vectors) const {
    double n = 1;
    for (const Place::Axis& axis : place.axes) {
      if (std::ranges::find(box, axis.var) == box.end()) continue;
      for (const Place::Digit& d : axis.digits) {
        const bool counts = d.level == PlaceLevel::kReg || (vectors && d.level == PlaceLevel::kVec);
        if (counts) n *= static_cast<double>(d.extent);
      }
    }
    return n;
  }

  /// Of the box, by number: the variables that move a node's own indices.
  static uint64_t moved_by(const Scalar& node, const std::vector<TileVarId>& box) {
    uint64_t out = 0;
    for (size_t v = 0; v < box.size(); ++v) {
      const auto uses = [&](const IndexExpr& e) { return uses_var(e, static_cast<int>(box[v])); };
      const bool moves = (node.kind == Scalar::Kind::kIndex && uses(node.index)) ||
                         std::ranges::any_of(node.indices, uses);
      if (moves) out |= uint64_t{1} << v;
    }
    return out;
  }

  /// What an access of device memory asks for, line by line; where its offset is not affine, as if
  /// its lanes lay side by side.
  double memory_passes(const Place& place, const std::vector<TileVarId>& box, TileSymbolId id,
                       std::span<const IndexExpr> indices) const {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    AffineForm offset;
    bool affine = symbol.shape.size() == indices.size();
    if (affine) {
      Shape shape;
      for (const IndexExpr& extent : symbol.shape) shape.push_back(numbers_.of(extent));
      const IndexExpr at = element_offset(symbol.layout, shape, {indices.begin(), indices.end()},
                                          [](int) { return kUnbounded; });
      affine = as_affine(at, &offset);
    }
    if (!affine) return passes(place, box, indices, symbol.type);
    const WarpAccess access = warp_access(place, box, offset, byte_size(symbol.type));
    return access.instructions * access.lines;
  }

  /// What an access by these indices passes through an SM's port: of each register's digit that the
  /// indices move with one instruction, of the lanes' distinct words 128 bytes a cycle.
  double passes(const Place& place, const std::vector<TileVarId>& box,
                std::span<const IndexExpr> indices, DType type) const {
    double instructions = 1, bytes = static_cast<double>(byte_size(type));
    for (const Place::Axis& axis : place.axes) {
      const bool moves = std::ranges::any_of(
          indices, [&](const IndexExpr& e) { return uses_var(e, static_cast<int>(axis.var)); });
      if (!moves || std::ranges::find(box, axis.var) == box.end()) continue;
      for (const Place::Digit& d : axis.digits) {
        if (d.level == PlaceLevel::kReg) instructions *= static_cast<double>(d.extent);
        if (d.level == PlaceLevel::kVec || d.level == PlaceLevel::kLane)
          bytes *= static_cast<double>(d.extent);
      }
    }
    return instructions * std::max(1.0, bytes / kBanksBytes);
  }

  bool is_outside(TileSymbolId id) const {
    const TileSymbol::Kind kind = program_.symbols[static_cast<size_t>(id)].kind;
    return kind == TileSymbol::Kind::kInput || kind == TileSymbol::Kind::kOutput ||
           scopes_.symbols[static_cast<size_t>(id)].scope == Scope::kGrid;
  }
  DType type_of(TileSymbolId id) const { return program_.symbols[static_cast<size_t>(id)].type; }
  bool is_shared(TileSymbolId id) const {
    const Scope scope = scopes_.symbols[static_cast<size_t>(id)].scope;
    return scope == Scope::kBlock || scope == Scope::kCluster;
  }

  double of_statement(const TileStatement& s) {
    const Place& place = scopes_.statement_places[number_++];
    const std::vector<TileVarId> box = box_of(program_, s);
    const double elements = of_thread(place, box, true);
    double sum = 0, waits = 0;
    bool loads = false;
    const auto access = [&](TileSymbolId id, std::span<const IndexExpr> indices) {
      if (is_outside(id)) {
        sum += cycles("shared", memory_passes(place, box, id, indices));
        loads = true;
      } else if (is_shared(id)) {
        sum += cycles("shared", passes(place, box, indices, type_of(id)));
        waits = std::max(waits, kSharedCycles);
      } else if (scopes_.symbols[static_cast<size_t>(id)].scope == Scope::kWarp) {
        sum += cycles("shared", elements);
        waits = std::max(waits, kShuffleCycles);
      }
    };
    if (const auto product = unit_product(program_, s)) {
      sum += unit_cycles(*product);
    } else {
      // What does not change along a variable is computed once for all of its elements.
      std::unordered_map<const Scalar*, uint64_t> moved;
      visit(s.value, [&](const Scalar& node) {
        uint64_t own = moved_by(node, box);
        for (const ScalarRef& operand : node.operands) own |= moved[operand.get()];
        moved[&node] = own;
        if (node.kind == Scalar::Kind::kRead) access(node.symbol, node.indices);
        if (node.kind != Scalar::Kind::kApply) return;
        std::vector<TileVarId> along;
        for (size_t v = 0; v < box.size(); ++v) {
          if ((own >> v & 1) != 0) along.push_back(box[v]);
        }
        const std::string_view op_class = class_of(node.op, node.type);
        const double instructions =
            instructions_of(op_class, node.op, rounded_) - (adds_product(node) ? 1 : 0);
        sum += cycles(op_class, of_thread(place, along, true) * instructions);
      });
      if (s.combiner != TileCombiner::kNone) {
        const bool fused = s.combiner == TileCombiner::kSum && is_product(*s.value);
        sum += cycles("f32", fused ? 0 : elements) + combining(s, place);
      }
    }
    for (const TileRef& target : s.targets) {
      // Nothing waits for what is stored.
      if (is_outside(target.symbol))
        sum += cycles("shared", memory_passes(place, box, target.symbol, target.indices));
      else if (is_shared(target.symbol))
        sum += cycles("shared", passes(place, box, target.indices, type_of(target.symbol)));
    }
    if (!kept_.contains(&s)) {
      waits_ |= loads;
      return sum + waits;
    }
    kept_cycles_ += sum + waits + (loads ? kMemoryCycles : 0);
    return 0;
  }

  /// Of a product on the block's units: by their rate, by what its fragments take from shared
  /// memory, or one instruction of a warp after another.
  double unit_cycles(const UnitProduct& product) const {
    const bool halves = byte_size(product.a->type) == 2;
    const double peak = halves ? product.a->type == DType::kBF16 ? target_.peak_bf16_gflops
                                                                 : target_.peak_f16_gflops
                               : target_.peak_tf32_gflops;
    const double of_sm = std::max(peak, target_.peak_gflops) * 1e3 /
                         (target_.sm_count * static_cast<double>(target_.clock_mhz));  // a cycle
    const double depth = 4.0 * static_cast<double>(product.lane_k * product.halves_k);
    const double rows = 16.0 * static_cast<double>(product.tiles_m),
                 columns = 8.0 * static_cast<double>(product.tiles_n);
    const double results = static_cast<double>(product.tiles_m * product.tiles_n);
    const auto element = static_cast<double>(byte_size(product.a->type));
    if (product.by_group) {
      // A group reads its columns once.
      const double bytes = (rows + columns / 4) * depth * element;
      return std::max({kStepOfGroup + 2 * 4 * rows * columns * depth / of_sm,
                       at_once_ * 2 * rows * columns * depth / (of_sm * kGroupShare),
                       at_once_ * bytes / kBanksBytes});
    }
    const double bytes = (rows + columns) * depth * element;
    return std::max({kStepOfUnit + kInstructionOfUnit * results,
                     at_once_ * 2 * rows * columns * depth / (of_sm * kUnitShare),
                     at_once_ * bytes / kBanksBytes});
  }

  /// Over the lanes of a row by shuffles, then over its warps through shared memory.
  double combining(const TileStatement& s, const Place& place) const {
    double lanes = 1, warps = 1;
    for (const Place::Axis& axis : place.axes) {
      if (std::ranges::find(s.reduce_axes, axis.var) == s.reduce_axes.end()) continue;
      for (const Place::Digit& d : axis.digits) {
        if (d.level == PlaceLevel::kLane) lanes *= static_cast<double>(d.extent);
        if (d.level == PlaceLevel::kWarp) warps *= static_cast<double>(d.extent);
      }
    }
    std::vector<TileVarId> results;
    for (const TileVarId v : box_of(program_, s)) {
      if (std::ranges::find(s.reduce_axes, v) == s.reduce_axes.end()) results.push_back(v);
    }
    const double each = of_thread(place, results, true);
    double sum = std::log2(lanes) * (kShuffleCycles + each * (cycles("shared") + cycles("f32")));
    if (warps > 1) {
      sum += kBarrierCycles + kSharedCycles +
             each * (2 * cycles("shared") + (warps - 1) * cycles("f32"));
    }
    return sum;
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  const Target& target_;
  FirstIteration numbers_;
  Residency block_;
  double blocks_ = 1, at_once_ = 1, waves_ = 1, grid_barriers_ = 0;
  std::set<const TileStatement*> kept_;
  bool rounded_ = false;                  ///< results have 16 bits
  bool waits_ = false;                    ///< whether the body at hand loads from memory
  double memory_cycles_ = kMemoryCycles;  ///< that such a body waits
  double kept_cycles_ = 0;  ///< of what the loop at hand makes once for all of its items
  size_t number_ = 0;       ///< of the statement at hand in the text
};

}  // namespace

double hidden_by_barriers_us(const TileProgram& program, const ScopeAnalysis& scopes,
                             const Target& target) {
  if (program.cpu || !has_loop_ahead(program.body)) return 0;
  const TileStructure structure = structure_of(program);
  const FirstIteration numbers(program);
  const auto blocks = static_cast<double>(program.blocks.constant());
  // Bytes that reach an SM from the cache in a microsecond.
  const double rate = target.bandwidth_gb_per_s(target.l2_bytes / 2) * 1e3 / target.sm_count;
  struct Phase {
    size_t nests = 0;  ///< that load ahead
    double us = 0;     ///< that each of them saves at least
  };
  std::map<int32_t, Phase> phases;
  double out = 0;
  for (const LoopAhead& loop : loops_ahead(structure, scopes, /*marked=*/true)) {
    const TileNode& nest = program.body[static_cast<size_t>(loop.path[0])];
    const double items = numbers.trips(*nest.loop);
    const double of_sm = std::ceil(std::min(items, blocks) / target.sm_count);
    const double copies = of_sm * static_cast<double>(loop.bytes) / rate;
    const double waits = loop.all ? kMemoryCycles / static_cast<double>(target.clock_mhz) : 0;
    const double own = std::min(copies + waits, target.barrier_us);
    Phase& phase = phases.try_emplace(loop.phase, Phase{0, own}).first->second;
    phase.us = std::min(phase.us, own);
    if (++phase.nests == loop.nests) out += phase.us;
  }
  return out;
}

double meeting_us(const TileProgram& program, int64_t blocks, const Target& target) {
  if (program.one_cluster) return target.cluster_barrier_us;
  return target.meeting_us(ceil_div(blocks, target.sm_count));
}

std::string_view bound_name(GpuLatency::Bound bound) {
  return bound == GpuLatency::Bound::kInstructions ? "instructions" : "memory";
}

double step_latency_us(const TileProgram& program, const ScopeAnalysis& scopes, int64_t bytes,
                       const Target& target) {
  return Evaluation(program, scopes, target).run_step(bytes);
}

GpuLatency gpu_latency(const TileProgram& program, const ScopeAnalysis& scopes, int64_t bytes,
                       const Target& target) {
  return Evaluation(program, scopes, target).run(bytes);
}

}  // namespace weft
