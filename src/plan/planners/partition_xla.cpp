#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "plan/fusion_graph.h"
#include "plan/known_groups.h"
#include "plan/planners/partitions.h"
#include "schedule/leaf/template_table.h"

namespace weft {

namespace {

using Verdict = EdgeDecision::Verdict;

/// Of one kernel: its operands and results, as XLA has it, and its expressions, for the compiler's
/// sake.
constexpr size_t kMostTensors = 64, kMostExpressions = 256;

/// XLA's rules for GPUs on a program's expressions, in its order: producers join their consumers,
/// from the last consumer to the first, then those that several read and that are still alone join
/// each of them; then kernels join all of their readers; then kernels of one shape that read a
/// tensor both, and a kernel and its reader, become one with several outputs.
class XlaFusion {
 public:
  XlaFusion(const TensorProgram& program, const Target& target, KnownGroups& known)
      : program_(program),
        target_(target),
        uses_(tensor_uses(program)),
        graph_(program),
        known_(known) {}

  Partition run() {
    for (const bool duplicates : {false, true}) {
      for (int s = static_cast<int>(program_.steps.size()); s-- > 0;) {
        const int group = graph_.group_of(s);
        if (group >= 0 && !is_call(s) && graph_.steps(group).back() == s) grow(group, duplicates);
      }
    }
    for (int s = 0; s < static_cast<int>(program_.steps.size()); ++s) merge_into_all(s);
    for (size_t t = 0; t < program_.tensors.size(); ++t) merge_siblings(static_cast<TensorId>(t));
    for (int s = 0; s < static_cast<int>(program_.steps.size()); ++s) merge_with_readers(s);
    return {graph_.groups(), edges()};
  }

 private:
  const TensorExpr& expr(int step) const {
    return program_.exprs[static_cast<size_t>(program_.steps[static_cast<size_t>(step)].index)];
  }
  /// What no fusion takes part in: opaque steps, and contractions, which are library calls.
  bool is_call(int step) const {
    return program_.steps[static_cast<size_t>(step)].opaque || expr(step).is_contraction;
  }
  bool reduces(int step) const { return !expr(step).reduce_extents.empty(); }

  /// Takes in the producers of a group, and theirs, as far as they may join: those that nobody else
  /// reads or, with `duplicates`, single expressions that others read, too.
  void grow(int group, bool duplicates) {
    std::set<int> refused;
    for (;;) {
      const std::optional<FusionGraph::Edge> edge = next_producer(group, refused);
      if (!edge) return;
      const int from = graph_.group_of(edge->producer);
      if (!duplicates && is_shared(edge->producer)) {
        refused.insert(edge->producer);
        continue;
      }
      if (Decision joins = may_join(from, edge->producer, group); !joins) {
        refused.insert(edge->producer);
        note(*edge, joins.reason());
        continue;
      }
      graph_.copy_into(group, from);
    }
  }

  /// Whether a step is stored, or read by several groups.
  bool is_shared(int step) const {
    if (program_.steps[static_cast<size_t>(step)].opaque) return false;
    const TensorId made = expr(step).output;
    return program_.tensors[static_cast<size_t>(made)].is_output ||
           graph_.readers(made).size() > 1 || read_by_opaque(made);
  }

  /// The latest step that the group reads from memory and that was not refused.
  std::optional<FusionGraph::Edge> next_producer(int group, const std::set<int>& refused) const {
    std::optional<FusionGraph::Edge> latest;
    for (const int s : graph_.steps(group)) {
      for (const FusionGraph::Edge& e : graph_.edges_into(s)) {
        if (graph_.holds(group, e.producer) || refused.contains(e.producer)) continue;
        if (!latest || e.producer > latest->producer) latest = e;
      }
    }
    return latest;
  }

  /// IsProducerConsumerFusible and the cost conditions of InstructionFusion.
  Decision may_join(int from, int producer, int group) {
    if (Decision fusible = may_be_producer(producer); !fusible) return fusible;
    if (graph_.steps(from).size() > 1)
      return Decision::forbid("a kernel of several expressions is made again by no single reader");
    if (Decision fits = fits_into(from, group); !fits) return fits;
    return may_be_made_again(producer, group);
  }

  /// Whether a group can take in another that it reads.
  Decision fits_into(int from, int group) {
    if (is_call(graph_.steps(group).back()))
      return Decision::forbid("a contraction is a library call");
    if (Decision legal = is_thread_composition(graph_.with_copy(group, from)); !legal) return legal;
    for (const int s : graph_.steps(from)) {
      const double times = evaluations(s, group);
      if (times > 1 && is_expensive(s))
        return Decision::forbid(
            fmt::format("expensive, and would be computed {:.3g} times an element", times));
    }
    return Decision::allow();
  }

  Decision may_be_producer(int step) const {
    if (program_.steps[static_cast<size_t>(step)].opaque)
      return Decision::forbid("its producer is an opaque step");
    if (is_call(step)) return Decision::forbid("a contraction is a library call");
    if (reduces(step))
      return Decision::forbid("a reduction's result is shared by more than its thread");
    return Decision::allow();
  }

  /// Values stay in their thread; reductions are last, and all of one shape.
  Decision is_thread_composition(const Group& group) {
    if (group.exprs.size() > kMostExpressions ||
        tensors_read(group).size() + group.outputs.size() > kMostTensors)
      return Decision::forbid("the kernel would be too large");
    return known_.ask("thread composition", group, [&](const GroupSpace& space) -> Decision {
      const GroupAxes& axes = space.axes();
      if (axes.levels > 1)
        return Decision::forbid("a reduction's result is shared by more than its thread");
      const auto shape = [&](int p) {
        return std::pair(space.expr(p).extents, space.expr(p).reduce_extents);
      };
      for (const int p : axes.reductions) {
        if (shape(p) != shape(axes.reductions[0]))
          return Decision::forbid("two reductions of different shapes in one kernel");
      }
      return can_be_leaf(space, target_);
    });
  }

  std::set<TensorId> tensors_read(const Group& group) const {
    std::set<TensorId> made, read;
    for (const ExprId e : group.exprs) {
      const TensorExpr& expr = program_.exprs[static_cast<size_t>(e)];
      made.insert(expr.output);
      visit(expr.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && !made.contains(s.symbol)) read.insert(s.symbol);
      });
    }
    return read;
  }

  using LoopShape = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  LoopShape shape_of(ExprId e) const {
    const TensorExpr& expr = program_.exprs[static_cast<size_t>(e)];
    return {expr.extents, expr.reduce_extents};
  }

  static double points(const TensorExpr& e) {
    double n = 1;
    for (const int64_t extent : e.extents) n *= static_cast<double>(extent);
    for (const int64_t extent : e.reduce_extents) n *= static_cast<double>(extent);
    return n;
  }

  /// How often the group would compute an element of the producer (ReusesOperandElements): the most
  /// that one of its readers, or of theirs, goes through.
  double evaluations(int producer, int group) const {
    std::map<int, double> of;  // by step of the group: points at which it is evaluated
    const std::vector<int>& steps = graph_.steps(group);
    double most = 1;
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
      const double own = of[*s] = std::max(of[*s], points(expr(*s)));
      for (const FusionGraph::Edge& e : graph_.edges_into(*s)) {
        if (e.producer == producer) most = std::max(most, own / points(expr(producer)));
        if (graph_.holds(group, e.producer)) of[e.producer] = std::max(of[e.producer], own);
      }
    }
    return most;
  }

  /// IsExpensive: what takes more than a few instructions. Divisions of floats are cheap on a GPU.
  bool is_expensive(int step) const {
    bool expensive = false;
    visit(expr(step).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kApply) return;
      switch (s.op) {
        case ScalarOp::kDiv:
          expensive |= !is_float(s.type) || !target_.is_gpu();
          break;
        case ScalarOp::kRem:
        case ScalarOp::kExp:
        case ScalarOp::kLog:
        case ScalarOp::kExpm1:
        case ScalarOp::kLog1p:
        case ScalarOp::kSqrt:
        case ScalarOp::kRsqrt:
        case ScalarOp::kSin:
        case ScalarOp::kCos:
        case ScalarOp::kTan:
        case ScalarOp::kTanh:
        case ScalarOp::kSigmoid:
        case ScalarOp::kErf:
        case ScalarOp::kPow:
        case ScalarOp::kThreefry:
        case ScalarOp::kAtan2:
          expensive = true;
          break;
        default:
          break;
      }
    });
    return expensive;
  }

  /// A producer with other readers joins one of them where it joins all, so that nobody stores it,
  /// or where reading what it reads takes no more bytes than reading what it makes
  /// (ComputeGloballyUnfusible).
  Decision may_be_made_again(int producer, int group) {
    const TensorId made = expr(producer).output;
    if (!is_shared(producer) || is_unary(producer)) return Decision::allow();
    if (program_.tensors[static_cast<size_t>(made)].is_output || read_by_opaque(made))
      return Decision::forbid("it is stored all the same, and takes more bytes to make again");
    for (const int g : graph_.readers(made)) {
      if (g != group && !fits_into(graph_.group_of(producer), g))
        return Decision::forbid(
            "not all of its readers can take it, and it takes more bytes to make again");
    }
    return Decision::allow();
  }

  bool read_by_opaque(TensorId tensor) const {
    return std::ranges::any_of(uses_.consumers[static_cast<size_t>(tensor)], [&](int s) {
      return program_.steps[static_cast<size_t>(s)].opaque;
    });
  }

  /// FusionMerger: a kernel that all of its readers can take, where they then read no more bytes
  /// than it and they do apart.
  void merge_into_all(int step) {
    const int own = graph_.group_of(step);
    if (own < 0 || is_call(step) || graph_.steps(own).back() != step) return;
    const TensorId made = expr(step).output;
    const std::vector<int> readers = graph_.readers(made);
    const bool stays = program_.tensors[static_cast<size_t>(made)].is_output ||
                       read_by_opaque(made) || graph_.group(own).outputs.size() != 1;
    if (stays || readers.empty()) return;
    for (const int s : graph_.steps(own)) {
      if (reduces(s)) return;
    }
    double apart = bytes_read(graph_.group(own)) + 2 * bytes_of(made), together = 0;
    for (const int reader : readers) {
      if (!fits_into(own, reader)) return;
      apart += bytes_read(graph_.group(reader));
      together += bytes_read(graph_.with_copy(reader, own));
    }
    if (together > apart - bytes_of(made)) return;
    for (const int reader : readers) graph_.copy_into(reader, own);
  }

  double bytes_of(TensorId t) const {
    const TensorType& type = program_.tensors[static_cast<size_t>(t)].type;
    return static_cast<double>(element_count(type.shape).value_or(0)) *
           static_cast<double>(byte_size(type.dtype));
  }
  double bytes_read(const Group& group) const {
    double bytes = 0;
    for (const TensorId t : tensors_read(group)) bytes += bytes_of(t);
    return bytes;
  }

  /// Whether it reads one tensor of its size at most.
  bool is_unary(int step) const {
    int large = 0;
    std::set<TensorId> seen;
    visit(expr(step).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || !seen.insert(s.symbol).second) return;
      const Shape& shape = program_.tensors[static_cast<size_t>(s.symbol)].type.shape;
      large += static_cast<double>(element_count(shape).value_or(0)) >= points(expr(step)) ? 1 : 0;
    });
    return large <= 1;
  }

  /// Of what a kernel's threads go through: its reductions' shape, else its results'.
  LoopShape loop_shape(int group) const {
    const std::vector<int>& steps = graph_.steps(group);
    for (const int s : steps) {
      if (reduces(s)) return shape_of(program_.steps[static_cast<size_t>(s)].index);
    }
    return shape_of(program_.steps[static_cast<size_t>(steps.back())].index);
  }
  /// The same number of elements for each thread, reduced or not.
  bool same_loops(int a, int b) const {
    const auto all = [](const LoopShape& shape) {
      std::vector<int64_t> extents = shape.first;
      extents.insert(extents.end(), shape.second.begin(), shape.second.end());
      std::ranges::sort(extents);
      return extents;
    };
    return all(loop_shape(a)) == all(loop_shape(b));
  }

  bool may_share_kernel(int a, int b) {
    return !is_call(graph_.steps(a).back()) && !is_call(graph_.steps(b).back()) &&
           same_loops(a, b) && is_thread_composition(graph_.merged(a, b)) &&
           graph_.is_convex(std::array{a, b});
  }

  /// Sibling fusion: kernels that read a tensor both, no scalar, and hand each other nothing
  /// (IsProfitableOperand).
  void merge_siblings(TensorId tensor) {
    const Shape& shape = program_.tensors[static_cast<size_t>(tensor)].type.shape;
    if (element_count(shape).value_or(0) <= 1) return;
    std::vector<int> groups = graph_.readers(tensor);
    for (size_t i = 0; i < groups.size(); ++i) {
      for (size_t k = i + 1; k < groups.size(); ++k) {
        if (!may_share_kernel(groups[i], groups[k])) continue;
        groups[i] = graph_.merge(groups[i], groups[k]);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(k--));
      }
    }
  }

  /// Producer and consumer in one kernel that stores what the producer makes, too.
  void merge_with_readers(int step) {
    if (graph_.group_of(step) < 0 || is_call(step)) return;
    for (const int reader : graph_.readers(expr(step).output)) {
      const int own = graph_.group_of(step);
      if (reader != own && !graph_.holds(reader, step) && may_share_kernel(own, reader))
        graph_.merge(own, reader);
    }
  }

  void note(const FusionGraph::Edge& edge, std::string reason) {
    refusals_.try_emplace({edge.producer, edge.consumer}, std::move(reason));
  }

  /// What became of every edge.
  std::vector<EdgeDecision> edges() const {
    std::vector<EdgeDecision> out;
    for (int s = 0; s < static_cast<int>(program_.steps.size()); ++s) {
      for (const FusionGraph::Edge& e : graph_.edges_into(s)) out.push_back(decided(e));
    }
    return out;
  }

  EdgeDecision decided(const FusionGraph::Edge& e) const {
    EdgeDecision out{e.producer, e.consumer, e.tensor, Verdict::kFused, {}};
    const bool together = std::ranges::all_of(graph_.holders(e.consumer),
                                              [&](int g) { return graph_.holds(g, e.producer); });
    const size_t made = graph_.holders(e.producer).size();
    if (together) {
      out.reason = made == 1
                       ? "saves a round trip through memory"
                       : fmt::format("made by {} kernels, which read no copy from memory", made);
      return out;
    }
    const auto refusal = refusals_.find({e.producer, e.consumer});
    out.verdict = Verdict::kIllegal;
    out.reason = refusal != refusals_.end() ? refusal->second
                 : is_call(e.consumer)      ? "a contraction is a library call"
                                            : "a kernel between them keeps them apart";
    return out;
  }

  const TensorProgram& program_;
  const Target& target_;
  TensorUses uses_;
  FusionGraph graph_;
  KnownGroups& known_;
  std::map<std::pair<int, int>, std::string> refusals_;  ///< by producer and consumer
};

}  // namespace

/// Thread composition only, the baseline of the papers (FusionStitching 2019 §2.1), by the rules of
/// XLA's instruction fusion and multi-output fusion.
Result<Partition> partition_xla(const PlanningTask& task) {
  return XlaFusion(task.program, task.target, task.known).run();
}

}  // namespace weft
