#include "cost/latency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <span>

#include "cost/estimate.h"
#include "cost/footprint.h"
#include "cost/port_cycles.h"

namespace weft {

namespace {

/// Instructions that a core holds while older ones wait: what it finds work in.
constexpr double kWindow = 224;
/// Of an iteration of a loop, and of an item of a grid.
constexpr double kLoopInstructions = 3, kItemInstructions = 8;
/// Caches hold less than their size of what is laid out by chance.
constexpr double kUsed = 0.8;
/// Of the time in which caches move data, what instructions wait for though the core looks ahead.
constexpr double kAwaited = 0.1;
/// Of the time in which what does not bound a kernel works, what it takes longer: loops one after
/// another are bound by other things. It also tells ways apart that memory bounds alike.
constexpr double kBeside = 0.03;
/// Of that, what counts of the second cache where instructions bound: they await it already.
constexpr double kOfSecondCache = 0.3;
/// Of what stands before and behind a loop, the part that a core does not begin while the loop
/// runs.
constexpr double kApart = 0.5;
/// What a kernel takes at most that one thread calls.
constexpr double kCallUs = 0.05;

/// Of one execution of a piece of the program.
struct Work {
  double cycles = 0;   ///< that its ports take, and chains that nothing runs beside
  double latency = 0;  ///< from its begin to its end, were it alone
  double instructions = 0;
  PortWork ports;
  std::array<double, 3> missed{};  ///< bytes that come from behind each cache
  std::vector<const Footprint*> touched;
};

class Evaluation {
 public:
  Evaluation(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target)
      : program_(program),
        scopes_(scopes),
        target_(target),
        numbers_(program),
        ports_(program, scopes, numbers_, target),
        threads_(std::max(target.threads, 1)),
        core_(core_of(target)),
        caches_{kUsed * static_cast<double>(target.l1_bytes),
                kUsed * static_cast<double>(target.l2_bytes),
                kUsed * static_cast<double>(target.l3_bytes) / threads_} {}

  Latency run() {
    Latency out;
    out.start_us = std::min(target_.launch_us, kCallUs);
    std::vector<const Footprint*> touched;
    const std::span<const TileNode> nests = program_.body;
    for (size_t begin = 0, end = 0; begin < nests.size(); begin = end) {
      for (end = begin + 1; end < nests.size() && !waits_before(end);) ++end;
      add_phase(nests.subspan(begin, end - begin), &touched, &out);
    }
    std::erase_if(touched, [&](const Footprint* f) { return !is_parameter(f->symbol()); });
    const double bytes = bytes_of_all(touched, all_origins());
    out.memory_us = std::max(out.memory_us,
                             roofline_us(static_cast<int64_t>(std::min(bytes, 1e15)), 0, target_));
    const double caches = out.second_cache_us + out.third_cache_us;
    const double awaited =
        kAwaited * caches * std::min(1.0, caches / std::max(out.compute_us, 1e-9));
    const std::array terms = {out.compute_us + awaited, out.second_cache_us, out.third_cache_us,
                              out.memory_us};
    const auto most = std::ranges::max_element(terms);
    out.bound = static_cast<Latency::Bound>(most - terms.begin());
    double beside =
        out.compute_us + out.second_cache_us + out.third_cache_us + out.memory_us - *most;
    if (out.bound == Latency::Bound::kInstructions)
      beside -= (1 - kOfSecondCache) * out.second_cache_us;
    out.microseconds = out.start_us + *most + kBeside * std::max(beside, 0.0);
    return out;
  }

 private:
  bool is_parameter(TileSymbolId id) const {
    const TileSymbol::Kind kind = program_.symbols[static_cast<size_t>(id)].kind;
    return kind == TileSymbol::Kind::kInput || kind == TileSymbol::Kind::kOutput;
  }

  std::vector<TileVarId> all_origins() const {
    std::vector<TileVarId> out;
    for (size_t v = 0; v < program_.vars.size(); ++v) {
      if (program_.vars[v].kind == TileVar::Kind::kOrigin) out.push_back(static_cast<TileVarId>(v));
    }
    return out;
  }

  /// Cycles a microsecond, in each of which two multiply-adds of vectors begin.
  double cycles_per_us() const {
    return target_.peak_gflops * 1e3 / (threads_ * 4.0 * target_.lanes(4));
  }

  /// Whether all threads meet before a nest.
  bool waits_before(size_t nest) const {
    return std::ranges::any_of(scopes_.barriers, [&](const BarrierPoint& b) {
      return b.scope == Scope::kGrid && b.before.size() == 1 &&
             static_cast<size_t>(b.before[0]) == nest;
    });
  }

  /// Iterations of a nest's grid loops: what is shared among threads.
  double items_of(const TileNode& node) const {
    if (node.kind == TileNode::Kind::kPack) {
      double all = 0;
      for (const TilePack::Member& member : node.pack->members) all += items_of(member.body[0]);
      return all;
    }
    if (node.kind != TileNode::Kind::kLoop || node.loop->kind == TileLoop::Kind::kSeq) return 1;
    double inner = 1;
    for (const TileNode& child : node.loop->body) inner = std::max(inner, items_of(child));
    return numbers_.trips(*node.loop) * inner;
  }

  /// The part of a nest's work that the busiest of the threads does.
  double busiest_share(const TileNode& node, double items) const {
    if (node.kind == TileNode::Kind::kPack) return busiest_share(*node.pack, items);
    return std::ceil(items / threads_) / items;
  }

  /// Items of a pack's members are one list: each thread has a range of it.
  double busiest_share(const TilePack& pack, double items) const {
    double most = 0, all = 0;
    for (int thread = 0; thread < threads_; ++thread) {
      const double begin = std::floor(items * thread / threads_),
                   end = std::floor(items * (thread + 1) / threads_);
      double own = 0, first = 0;
      for (const TilePack::Member& member : pack.members) {
        const double count = std::max(items_of(member.body[0]), 1.0);
        const double met = std::min(end, first + count) - std::max(begin, first);
        own += std::max(met, 0.0) / count * cycles_of_.at(&member);
        first += count;
      }
      most = std::max(most, own);
      all += own;
    }
    return all > 0 ? most / all : 1;
  }

  double microseconds_of(const Work& work) const {
    return std::max(work.cycles, std::min(work.latency, kWindow)) / cycles_per_us();
  }

  /// Nests between two barriers: each is shared among the threads.
  void add_phase(std::span<const TileNode> nests, std::vector<const Footprint*>* touched,
                 Latency* out) {
    std::vector<Work> works;
    bool alone = true;
    for (const TileNode& node : nests) {
      const Work& work = works.emplace_back(of_node(node, nullptr));
      alone &=
          threads_ == 1 || items_of(node) <= 1 || microseconds_of(work) < least_shared_us(target_);
    }
    if (!alone) out->start_us = std::max(out->start_us, target_.launch_us) + target_.barrier_us;
    out->alone &= alone;
    for (size_t n = 0; n < nests.size(); ++n) add_nest(nests[n], works[n], alone, touched, out);
  }

  void add_nest(const TileNode& node, const Work& work, bool alone,
                std::vector<const Footprint*>* touched, Latency* out) {
    const double items = std::max(items_of(node), 1.0);
    const double busiest = alone ? 1 : busiest_share(node, items);
    const double cores = alone ? 1 : threads_;
    out->compute_us += microseconds_of(work) * busiest;
    const auto moving = [&](size_t level, int64_t behind) {
      const double rate = target_.bandwidth_gb_per_s(behind) / threads_;
      return work.missed[level] * busiest / (rate * 1e3);
    };
    out->second_cache_us += moving(0, target_.l2_bytes / 2 * threads_);
    out->third_cache_us += moving(1, target_.l3_bytes / 2);
    const double shared = std::min(1.0, 2 * cores / threads_);
    out->memory_us += work.missed[2] / (memory_rate(work.missed[2]) * shared * 1e3);
    touched->insert(touched->end(), work.touched.begin(), work.touched.end());
  }

  double memory_rate(double bytes) const {
    return target_.bandwidth_gb_per_s(static_cast<int64_t>(std::min(bytes, 1e15)));
  }

  Work of_node(const TileNode& node, const TileLoop* around) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        break;
      case TileNode::Kind::kLoop:
        return of_loop(*node.loop);
      case TileNode::Kind::kCondition:
        return of_condition(*node.condition, around);
      case TileNode::Kind::kPack: {
        Work out;
        for (const TilePack::Member& member : node.pack->members) {
          const Work w = of_body(member.body, around);
          cycles_of_[&member] = w.cycles;
          out.cycles += w.cycles;
          for (size_t c = 0; c < out.missed.size(); ++c) out.missed[c] += w.missed[c];
          out.touched.insert(out.touched.end(), w.touched.begin(), w.touched.end());
        }
        return out;
      }
    }
    return {};
  }

  /// Conditions on data guard what is seldom needed (schedule/cpu/guarded_moments).
  Work of_condition(const TileCondition& condition, const TileLoop* around) {
    bool on_data = false;
    visit(condition.condition, [&](const Scalar& s) { on_data |= s.kind == Scalar::Kind::kRead; });
    return on_data ? Work{} : of_body(condition.body, around);
  }

  /// The mean of the loop's iterations from a dimension on: a last one that has a part of a step
  /// leaves registers of its tile empty, and may wait where whole ones do not.
  Work of_iterations(const TileLoop& loop, size_t dim) {
    if (dim == loop.dims.size() || !has_sums(loop.body)) return of_body(loop.body, &loop);
    const TileVarId offset = loop.dims[dim].offset;
    const FirstIteration::Border border = numbers_.border(loop.dims[dim]);
    if (border.others == 0 || border.whole == 0) return of_iterations(loop, dim + 1);
    const double mean = numbers_.box(offset), all = border.whole + border.others;
    numbers_.set_box(offset, static_cast<double>(loop.dims[dim].step));
    const size_t running = running_.size();
    Work out = of_iterations(loop, dim + 1);
    running_.resize(running);
    numbers_.set_box(offset, border.rest);
    Work rest = of_iterations(loop, dim + 1);
    numbers_.set_box(offset, mean);
    if (loop.carries.empty()) {
      out.cycles = awaiting(out);
      rest.cycles = awaiting(rest);
    }
    const auto weigh = [&](double* of_whole, double of_rest) {
      *of_whole = (*of_whole * border.whole + of_rest * border.others) / all;
    };
    weigh(&out.cycles, rest.cycles);
    weigh(&out.latency, rest.latency);
    weigh(&out.instructions, rest.instructions);
    out.ports = out.ports * (border.whole / all);
    out.ports += rest.ports * (border.others / all);
    for (size_t c = 0; c < out.missed.size(); ++c) weigh(&out.missed[c], rest.missed[c]);
    return out;
  }

  /// Cycles of an iteration: the next one begins while it waits, as far as the core looks ahead.
  static double awaiting(const Work& work) {
    return std::max(work.cycles, work.latency * std::min(1.0, work.instructions / kWindow));
  }

  /// Whether a body holds a loop that adds up, whose iterations await each other's results.
  static bool has_sums(const TileBody& body) {
    return std::ranges::any_of(body, [](const TileNode& node) {
      return node.kind == TileNode::Kind::kLoop && !node.loop->carries.empty();
    });
  }

  Work of_loop(const TileLoop& loop) {
    Work out = of_iterations(loop, 0);
    // From the innermost dimension on: the more of them run, the more is touched.
    for (auto dim = loop.dims.rbegin(); dim != loop.dims.rend(); ++dim) {
      const double n = numbers_.trips(dim->origin);
      const std::array<bool, 3> stays = stays_in(out, touched_bytes(out));
      running_.push_back(dim->origin);
      const double all = touched_bytes(out);
      for (size_t c = 0; c < caches_.size(); ++c)
        out.missed[c] = stays[c] ? all : out.missed[c] * n;
    }
    const double n = numbers_.trips(loop);
    const double own = loop.kind == TileLoop::Kind::kSeq ? kLoopInstructions : kItemInstructions;
    const double unroll = static_cast<double>(std::max<int64_t>(loop.dims.back().unroll, 1));
    out.instructions += own / unroll;
    const double carried = carried_cycles(loop);
    if (carried > 0) {
      out.latency = out.latency + carried * (n - 1);
      out.cycles *= n;
    } else {
      out.cycles = n * awaiting(out);
      out.latency = std::max(out.latency, out.cycles);
    }
    out.instructions *= n;
    out.ports = out.ports * n;
    return out;
  }

  /// From one value of a carry to the next.
  double carried_cycles(const TileLoop& loop) const {
    if (loop.carries.empty()) return 0;
    double most = core_.pace;
    for (const TileNode& node : loop.body) {
      if (node.kind != TileNode::Kind::kStatement) continue;
      most = std::max(most, ports_.of(node.statement, &loop).carried);
    }
    return most;
  }

  Work of_body(const TileBody& body, const TileLoop* around) {
    Work out;
    PortWork own, beside;
    double of_beside = 0;
    std::map<TileSymbolId, double> ready;
    double now = 0;
    std::array<double, 3> missed{};
    for (const TileNode& node : body) {
      if (node.kind == TileNode::Kind::kStatement) {
        own += add_statement(node.statement, around, &ready, &out);
        now = std::max(now, ready[node.statement.targets[0].symbol]);
        continue;
      }
      const Work w = of_node(node, around);
      const double near = std::min(1.0, kWindow / std::max(w.instructions, 1.0));
      beside += w.ports * near;
      of_beside += w.cycles * near;
      out.ports += w.ports;
      out.cycles += w.cycles;
      out.instructions += w.instructions;
      now += w.latency;
      for (auto& [symbol, at] : ready) at = std::max(at, now);
      for (size_t c = 0; c < missed.size(); ++c) missed[c] += w.missed[c];
      out.touched.insert(out.touched.end(), w.touched.begin(), w.touched.end());
    }
    if (around != nullptr && &around->body == &body) own += ports_.spilled(*around);
    out.cycles += cycles_beside(own, beside, of_beside);
    out.ports += own;
    out.instructions += own.instructions;
    out.latency = now;
    const double bytes = touched_bytes(out);
    const std::array<bool, 3> stays = stays_in(out, bytes);
    for (size_t c = 0; c < missed.size(); ++c)
      out.missed[c] = stays[c] ? bytes : missed[c] + own_bytes(body);
    return out;
  }

  /// What statements add to the loops beside them, of which a core sees `beside`, that take it so
  /// many cycles, at the same time: ports that those leave idle are theirs.
  double cycles_beside(PortWork own, const PortWork& beside, double cycles) const {
    const double alone = own.cycles(core_);
    own += beside;
    const double more = std::clamp(own.cycles(core_) - cycles, 0.0, alone);
    return kApart * alone + (1 - kApart) * more;
  }

  /// Of the statements that stand in a body.
  double own_bytes(const TileBody& body) {
    std::vector<const Footprint*> own;
    for (const TileNode& node : body) {
      if (node.kind == TileNode::Kind::kStatement) append(node.statement, &own);
    }
    return bytes_of_all(own, running_);
  }

  PortWork add_statement(const TileStatement& s, const TileLoop* around,
                         std::map<TileSymbolId, double>* ready, Work* out) {
    const StatementPorts::Cost cost = ports_.of(s, around);
    double begin = 0;
    visit(s.value, [&](const Scalar& node) {
      if (node.kind != Scalar::Kind::kRead) return;
      if (const auto at = ready->find(node.symbol); at != ready->end())
        begin = std::max(begin, at->second);
    });
    double& end = (*ready)[s.targets[0].symbol];
    end = std::max(end, begin + cost.latency);
    append(s, &out->touched);
    return cost.work;
  }

  void append(const TileStatement& s, std::vector<const Footprint*>* to) {
    auto [known, is_new] = footprints_.try_emplace(&s);
    std::vector<const Footprint*>& own = known->second;
    if (is_new) {
      const auto add = [&](TileSymbolId symbol, const std::vector<IndexExpr>& indices,
                           const Scalar* read) {
        if (symbol < 0 || !ports_.in_memory(symbol)) return;
        own.push_back(&all_.emplace_back(program_, scopes_, numbers_, symbol, indices, read));
      };
      visit(s.value, [&](const Scalar& node) {
        if (node.kind == Scalar::Kind::kRead) add(node.symbol, node.indices, &node);
      });
      for (const TileRef& t : s.targets) add(t.symbol, t.indices, nullptr);
    }
    to->insert(to->end(), own.begin(), own.end());
  }

  double touched_bytes(const Work& work) const { return bytes_of_all(work.touched, running_); }

  /// Whether each cache keeps what is touched, so many bytes. The third one's sets are not found by
  /// addresses alone, and what the first one loses is near.
  std::array<bool, 3> stays_in(const Work& work, double bytes) const {
    std::array<bool, 3> out{};
    for (size_t c = 0; c < out.size(); ++c) out[c] = bytes <= caches_[c];
    if (out[1] && !out[0])
      out[1] = bytes + crowded_bytes_of_all(work.touched, running_, target_.l2_bytes) <= caches_[1];
    return out;
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  const Target& target_;
  FirstIteration numbers_;
  StatementPorts ports_;
  int threads_;
  Core core_;
  std::array<double, 3> caches_;
  std::deque<Footprint> all_;
  std::map<const TileStatement*, std::vector<const Footprint*>> footprints_;
  std::map<const TilePack::Member*, double> cycles_of_;
  /// Origins of the loops that were gone through: those inside of what is looked at.
  std::vector<TileVarId> running_;
};

}  // namespace

std::string_view bound_name(Latency::Bound bound) {
  switch (bound) {
    case Latency::Bound::kInstructions:
      return "instructions";
    case Latency::Bound::kSecondCache:
      return "second cache";
    case Latency::Bound::kThirdCache:
      return "third cache";
    case Latency::Bound::kMemory:
      return "memory";
  }
  return "";
}

Latency cpu_latency(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target) {
  return Evaluation(program, scopes, target).run();
}

double least_shared_us(const Target& target) {
  // As long as a barrier takes what other cores made, line by line.
  constexpr double kWithLines = 2;
  const double threads = std::max(target.threads, 2);
  return kWithLines * target.barrier_us * threads / (threads - 1);
}

}  // namespace weft
