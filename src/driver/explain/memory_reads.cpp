#include "driver/explain/memory_reads.h"

#include <algorithm>
#include <compare>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "driver/explain/plan_totals.h"
#include "tile/analysis/predict_traffic.h"

namespace weft {

namespace {

/// A tensor of a program or of a region's, or what nests of a kernel hand each other in memory.
struct Place {
  const void* owner = nullptr;
  int32_t number = -1;
  auto operator<=>(const Place&) const = default;
};

/// What a region's input is outside of it.
struct Source {
  Place place;
  bool is_slice = false;  ///< another part of it in each iteration
};
using Sources = std::map<TensorId, Source>;

/// The tensors that were used last, as many as there is room for.
class CachedTensors {
 public:
  explicit CachedTensors(int64_t capacity) : capacity_(capacity) {}

  int64_t capacity() const { return capacity_; }
  void clear() {
    newest_first_.clear();
    at_.clear();
    held_ = 0;
  }
  bool holds(const Place& place) const { return at_.contains(place); }

  void touch(const Place& place, int64_t bytes) {
    const auto known = at_.find(place);
    if (known != at_.end()) {
      bytes = std::max(bytes, known->second->bytes);
      held_ -= known->second->bytes;
      newest_first_.erase(known->second);
      at_.erase(known);
    }
    newest_first_.push_front({place, bytes});
    at_[place] = newest_first_.begin();
    held_ += bytes;
    while (held_ > capacity_) {
      held_ -= newest_first_.back().bytes;
      at_.erase(newest_first_.back().place);
      newest_first_.pop_back();
    }
  }

 private:
  struct Entry {
    Place place;
    int64_t bytes = 0;
  };
  int64_t capacity_, held_ = 0;
  std::list<Entry> newest_first_;
  std::map<Place, std::list<Entry>::iterator> at_;
};

int64_t bytes_of(const TensorProgram& program, TensorId t) {
  const TensorType type = declared_type(program.tensors[static_cast<size_t>(t)]);
  return checked_byte_size(type.dtype, type.shape).value_or(0);
}

/// What a launch or a nest does with one tensor.
struct Use {
  int64_t read = 0, written = 0;
  bool is_slice = false;
};
using Uses = std::map<Place, Use>;

/// Of loops inside each other, how many have a second iteration looked at: each doubles the work.
constexpr int kDepthOfSecond = 4;

class MemoryReads {
 public:
  MemoryReads(const Target& target, CacheBefore before)
      : cache_(target.l2_bytes / 2), before_(before) {}

  int64_t of_plan(const FusionPlan& plan, const TensorProgram& program, const Sources& sources) {
    int64_t bytes = 0;
    for (const FusionPlan::Step& step : plan.order) {
      const auto index = static_cast<size_t>(step.index);
      if (before_ == CacheBefore::kEmpty) cache_.clear();
      bytes += step.opaque ? of_step(plan, program, index, sources)
                           : of_launch(program, plan.kernels[index], sources);
    }
    return bytes;
  }

 private:
  static Source source_of(const TensorProgram& program, TensorId t, const Sources& sources) {
    const auto it = sources.find(t);
    return it == sources.end() ? Source{{&program, t}, false} : it->second;
  }

  int64_t of_launch(const TensorProgram& program, const PlannedKernel& kernel,
                    const Sources& sources) {
    const ScheduledKernel& schedule = kernel.schedule;
    Uses whole;
    for (size_t p = 0; p < schedule.parameters.size(); ++p) {
      const TensorId t = schedule.parameters[p];
      const int64_t size = bytes_of(program, t);
      const bool is_made = std::ranges::count(kernel.group.outputs, t) != 0;
      const Source source = source_of(program, t, sources);
      Use& use = whole[source.place];
      use.is_slice |= source.is_slice;
      if (is_made) use.written = size;
      const int64_t unknown = is_made ? 0 : size;
      use.read += p < schedule.parameter_reads.size() ? schedule.parameter_reads[p] : unknown;
      use.read = std::min(use.read, size);
    }
    whole[{&kernel, -1}].written = schedule.scopes.workspace_bytes;
    int64_t room = 0;
    for (const auto& [place, use] : whole) room += std::max(use.read, use.written);
    if (room > cache_.capacity()) {
      if (auto nests = traffic_by_nest(schedule.program, schedule.scopes); nests.ok()) {
        int64_t bytes = 0;
        for (const NestTraffic& nest : *nests)
          bytes += of_uses(uses_of(program, kernel, nest, sources));
        return bytes;
      }
    }
    return of_uses(whole);
  }

  /// Reads what is not there, but of what is made itself.
  int64_t of_uses(const Uses& uses) {
    int64_t bytes = 0;
    for (const auto& [place, use] : uses) {
      if (use.written == 0 && !cache_.holds(place)) bytes += use.read;
    }
    for (const auto& [place, use] : uses) {
      if (!use.is_slice) cache_.touch(place, std::max(use.read, use.written));
    }
    return bytes;
  }

  static Uses uses_of(const TensorProgram& program, const PlannedKernel& kernel,
                      const NestTraffic& nest, const Sources& sources) {
    const TileProgram& tiles = kernel.schedule.program;
    const auto source = [&](TileSymbolId s) {
      const TileSymbolId of = tiles.symbols[static_cast<size_t>(s)].view_of;
      const TileSymbolId symbol = of >= 0 ? of : s;
      const auto at = std::ranges::find(tiles.parameters, symbol) - tiles.parameters.begin();
      if (at == std::ssize(tiles.parameters)) return Source{{&kernel, symbol}, false};
      return source_of(program, kernel.schedule.parameters[static_cast<size_t>(at)], sources);
    };
    Uses out;
    for (const auto& [symbol, bytes] : nest.read) {
      const Source from = source(symbol);
      out[from.place].read += bytes;
      out[from.place].is_slice |= from.is_slice;
    }
    for (const auto& [symbol, bytes] : nest.written) out[source(symbol).place].written += bytes;
    return out;
  }

  int64_t of_step(const FusionPlan& plan, const TensorProgram& program, size_t o,
                  const Sources& sources) {
    const OpaqueExpr& opaque = program.opaques[o];
    int64_t bytes = 0;
    if (opaque.regions.empty()) {
      for (const TensorId t : opaque.operands) {
        const Source source = source_of(program, t, sources);
        if (!cache_.holds(source.place)) bytes += bytes_of(program, t);
        if (!source.is_slice) cache_.touch(source.place, bytes_of(program, t));
      }
    }
    const RegionPlans& regions = plan.regions[o];
    const auto loop = loop_around(program, opaque);
    const int64_t runs = region_runs(program, opaque, regions, 1);
    for (size_t r = 0; r < regions.size(); ++r) {
      const TensorProgram& inside = *opaque.regions[r];
      const Sources outside =
          loop ? sources_of(program, opaque, *loop, runs_whole_loop(regions), sources) : Sources{};
      if (runs == 0) continue;
      const int64_t first = of_plan(*regions[r], inside, outside);
      bytes += first;
      // Later iterations are as the second, which finds what the first one left.
      if (runs == 1) continue;
      const bool is_told_apart = depth_ < kDepthOfSecond;
      ++depth_;
      bytes += times(runs - 1, is_told_apart ? of_plan(*regions[r], inside, outside) : first);
      --depth_;
    }
    for (const TensorId t : opaque.results)
      cache_.touch(source_of(program, t, sources).place, bytes_of(program, t));
    return bytes;
  }

  /// What the loop's body reads of what lies outside. What it carries has a place inside, but where
  /// one kernel runs all iterations.
  static Sources sources_of(const TensorProgram& program, const OpaqueExpr& opaque,
                            const RegionLoop& loop, bool whole, const Sources& sources) {
    Sources out;
    const std::vector<TensorId>& inside = opaque.regions[0]->inputs;
    for (size_t i = 0; i < std::min(inside.size(), opaque.operands.size()); ++i) {
      const auto n = static_cast<int64_t>(i);
      if (n < loop.carries && !whole) continue;
      Source source = source_of(program, opaque.operands[i], sources);
      const bool is_scanned = n >= loop.carries && n < loop.carries + loop.scanned;
      source.is_slice |= is_scanned && !whole;
      out.emplace(inside[i], source);
    }
    return out;
  }

  static int64_t times(int64_t runs, int64_t bytes) {
    int64_t all = 0;
    return __builtin_mul_overflow(runs, bytes, &all) ? bytes : all;
  }

  CachedTensors cache_;
  CacheBefore before_;
  int depth_ = 0;  ///< of loops around, of which a later iteration is looked at
};

}  // namespace

int64_t memory_reads(const FusionPlan& plan, const TensorProgram& program, const Target& target,
                     CacheBefore before) {
  return MemoryReads(target, before).of_plan(plan, program, {});
}

}  // namespace weft
