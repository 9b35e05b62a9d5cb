#include "plan/generators/chains.h"

#include <algorithm>
#include <iterator>

namespace weft {

namespace {

/// Steps between two contractions at most: a chain is built to be weighed.
constexpr size_t kMostSteps = 32;
constexpr int kMostContractions = 4;

class ChainFinder {
 public:
  ChainFinder(const TensorProgram& program, const FusionGraph& graph)
      : program_(program), graph_(graph), uses_(tensor_uses(program)) {}

  std::vector<std::vector<int>> run() const {
    std::vector<std::vector<int>> out;
    for (int s = 0; s < graph_.size(); ++s) {
      const bool reduces = expr(s) != nullptr && !expr(s)->reduce_extents.empty();
      if (!reduces) continue;
      for (const int first : is_contraction(s) ? firsts_of(s) : contractions_before(s)) {
        std::vector<int> between = between_of(first, s);
        if (combiner_is_arg(expr(s)->combiner))
          between = with_reductions_beside(std::move(between));
        if (between.size() > kMostSteps || contractions_in(between) > kMostContractions ||
            has_opaque(between) || !graph_.is_convex(between) ||
            (!is_contraction(s) && !combiner_is_arg(expr(s)->combiner) &&
             !depends_on_a_reduction(between, s)))
          continue;
        std::vector<int> whole = with_readers(between);
        if (whole != between) add_with_makers(whole, &out);
        add_with_makers(between, &out);
      }
    }
    return out;
  }

 private:
  const TensorExpr* expr(int step) const {
    const TensorProgram::Step& s = program_.steps[static_cast<size_t>(step)];
    return s.opaque ? nullptr : &program_.exprs[static_cast<size_t>(s.index)];
  }
  bool is_contraction(int step) const {
    const TensorExpr* e = expr(step);
    return e != nullptr && e->is_contraction && !e->reduce_extents.empty();
  }

  int contractions_in(const std::vector<int>& steps) const {
    return static_cast<int>(std::ranges::count_if(steps, [&](int s) { return is_contraction(s); }));
  }

  /// With what else reduces, in the same way, what the last step reduces: the best beside its
  /// position.
  std::vector<int> with_reductions_beside(std::vector<int> steps) const {
    const int last = steps.back();
    std::vector<int> beside;
    for (const FusionGraph::Edge& edge : graph_.edges_into(last)) {
      const TensorExpr* of = expr(edge.producer);
      if (of == nullptr || std::ranges::find(steps, edge.producer) == steps.end()) continue;
      for (const int r : uses_.consumers[static_cast<size_t>(of->output)]) {
        const TensorExpr* e = expr(r);
        if (e != nullptr && !e->is_contraction && !e->reduce_extents.empty() &&
            e->reduce_extents == expr(last)->reduce_extents &&
            std::ranges::find(steps, r) == steps.end())
          beside.push_back(r);
      }
    }
    steps.insert(steps.end(), beside.begin(), beside.end());
    std::ranges::sort(steps);
    steps.erase(std::ranges::unique(steps).begin(), steps.end());
    return steps;
  }

  /// Whether a step depends on a reduction of `steps` that has as many terms.
  bool depends_on_a_reduction(const std::vector<int>& steps, int reader) const {
    return std::ranges::any_of(steps, [&](int s) {
      return s < reader && !is_contraction(s) &&
             expr(s)->reduce_extents == expr(reader)->reduce_extents;
    });
  }

  /// Where chains that end at a contraction may begin: what is met first is furthest.
  std::vector<int> firsts_of(int last) const {
    std::vector<int> out, ends{last};
    for (int length = 2; length <= kMostContractions; ++length) {
      std::vector<int> before;
      for (const int end : ends) {
        for (const int s : contractions_before(end)) before.push_back(s);
      }
      std::ranges::sort(before);
      before.erase(std::ranges::unique(before).begin(), before.end());
      std::erase_if(before, [&](int s) { return std::ranges::find(out, s) != out.end(); });
      out.insert(out.begin(), before.begin(), before.end());
      ends = std::move(before);
    }
    return out;
  }

  /// The contractions that a step reads through others that are none.
  std::vector<int> contractions_before(int step) const {
    std::vector<int> found, open{step};
    std::vector<bool> seen(static_cast<size_t>(graph_.size()), false);
    size_t met = 0;
    while (!open.empty() && met++ < kMostSteps) {
      const int s = open.back();
      open.pop_back();
      for (const FusionGraph::Edge& edge : graph_.edges_into(s)) {
        const auto producer = static_cast<size_t>(edge.producer);
        if (seen[producer] || expr(edge.producer) == nullptr) continue;
        seen[producer] = true;
        (is_contraction(edge.producer) ? found : open).push_back(edge.producer);
      }
    }
    std::ranges::sort(found);
    return found;
  }

  /// All that depends on `first` and that `last` depends on, with both.
  std::vector<int> between_of(int first, int last) const {
    const auto size = static_cast<size_t>(last - first + 1);
    std::vector<bool> after(size, false), before(size, false);
    after[0] = before[size - 1] = true;
    const auto at = [&](int s) { return static_cast<size_t>(s - first); };
    for (int s = first + 1; s <= last; ++s) {
      for (const FusionGraph::Edge& edge : graph_.edges_into(s)) {
        if (edge.producer >= first && after[at(edge.producer)]) after[at(s)] = true;
      }
    }
    for (int s = last; s > first; --s) {
      if (!before[at(s)]) continue;
      for (const FusionGraph::Edge& edge : graph_.edges_into(s)) {
        if (edge.producer >= first) before[at(edge.producer)] = true;
      }
    }
    std::vector<int> out;
    for (int s = first; s <= last; ++s) {
      if (after[at(s)] && before[at(s)]) out.push_back(s);
    }
    return out;
  }

  /// With the element-wise readers of what the last step makes, and what these need besides of what
  /// the first one made: sums beside the last contraction.
  std::vector<int> with_readers(std::vector<int> steps) const {
    const int first = steps.front(), last = steps.back();
    const int64_t elements = elements_of(steps.back());
    std::vector<int> made{steps.back()};
    for (size_t i = 0; i < made.size(); ++i) {
      const TensorId tensor = expr(made[i])->output;
      for (const int reader : uses_.consumers[static_cast<size_t>(tensor)]) {
        const TensorExpr* e = expr(reader);
        if (e == nullptr || !e->reduce_extents.empty() || elements_of(reader) != elements ||
            std::ranges::find(steps, reader) != steps.end())
          continue;
        std::vector<int> more;
        std::ranges::set_union(steps, between_of(first, reader), std::back_inserter(more));
        if (more.size() > kMostSteps || contractions_in(more) > kMostContractions ||
            has_opaque(more) || !graph_.is_convex(more) || reduces_again(last, reader))
          continue;
        steps = std::move(more);
        made.push_back(reader);
      }
    }
    return steps;
  }

  /// The chain with what makes its operands element by element and nobody else reads, the longest
  /// first: all of that, then without what a reduction outside may take behind it, then none.
  void add_with_makers(const std::vector<int>& steps, std::vector<std::vector<int>>* out) const {
    const std::vector<int> all = with_makers(steps, true), own = with_makers(steps, false);
    if (all.size() > own.size()) out->push_back(all);
    if (own.size() > steps.size()) out->push_back(own);
    out->push_back(steps);
  }
  std::vector<int> with_makers(const std::vector<int>& steps, bool behind_reductions) const {
    std::vector<int> out = steps;
    const auto is_in = [&](int s) { return std::ranges::find(out, s) != out.end(); };
    for (size_t i = 0; i < out.size(); ++i) {
      for (const FusionGraph::Edge& edge : graph_.edges_into(out[i])) {
        const TensorExpr* e = expr(edge.producer);
        if (e == nullptr || !e->reduce_extents.empty() || is_in(edge.producer)) continue;
        if (!behind_reductions && reads_reduction(edge.producer)) continue;
        const auto& readers = uses_.consumers[static_cast<size_t>(e->output)];
        const bool leaves =
            std::ranges::find(program_.outputs, e->output) != program_.outputs.end();
        if (!leaves && std::ranges::all_of(readers, is_in)) out.push_back(edge.producer);
      }
    }
    std::ranges::sort(out);
    return out.size() <= kMostSteps && graph_.is_convex(out) ? out : steps;
  }
  bool reads_reduction(int step) const {
    return std::ranges::any_of(graph_.edges_into(step), [&](const FusionGraph::Edge& edge) {
      const TensorExpr* e = expr(edge.producer);
      return e != nullptr && !e->reduce_extents.empty();
    });
  }

  /// Whether a step reads what is reduced of what `last` makes.
  bool reduces_again(int last, int reader) const {
    return std::ranges::any_of(between_of(last, reader), [&](int s) {
      return s != last && !expr(s)->reduce_extents.empty();
    });
  }

  bool has_opaque(const std::vector<int>& steps) const {
    return std::ranges::any_of(steps, [this](int s) { return expr(s) == nullptr; });
  }

  int64_t elements_of(int step) const {
    int64_t n = 1;
    for (const int64_t extent : expr(step)->extents) n *= extent;
    return n;
  }

  const TensorProgram& program_;
  const FusionGraph& graph_;
  const TensorUses uses_;
};

}  // namespace

std::vector<std::vector<int>> chains_of(const TensorProgram& program, const FusionGraph& graph) {
  return ChainFinder(program, graph).run();
}

}  // namespace weft
