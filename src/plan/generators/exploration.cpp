#include "plan/generators/exploration.h"

#include <algorithm>

#include "expr/analysis/dependence.h"

namespace weft {

namespace {

class Exploration {
 public:
  Exploration(const TensorProgram& program, const FusionGraph& graph,
              const ExplorationLimits& limits, CollectedPatterns& patterns)
      : program_(program),
        graph_(graph),
        limits_(limits),
        patterns_(patterns),
        readers_(static_cast<size_t>(graph.size())) {
    for (int s = 0; s < graph.size(); ++s) {
      for (const FusionGraph::Edge& e : graph.edges_into(s))
        readers_[static_cast<size_t>(e.producer)].push_back(s);
    }
  }

  void run() {
    for (int s = 0; s < graph_.size(); ++s) {
      if (!is_seed(s)) continue;
      left_ = limits_.patterns_of_seed;
      seen_.clear();
      explore({s});
    }
  }

 private:
  bool is_seed(int step) const {
    if (graph_.is_opaque(step)) return false;
    const TensorExpr& e =
        program_.exprs[static_cast<size_t>(program_.steps[static_cast<size_t>(step)].index)];
    const std::map<TensorId, int64_t> read = bytes_read_by_tensor(program_, e);
    if (read.size() > limits_.most_operands) return false;
    int64_t largest = expr_cost(program_, e).bytes_written;
    for (const auto& [t, bytes] : read) largest = std::max(largest, bytes);
    return largest >= limits_.least_bytes;
  }

  void explore(const std::vector<int>& seed) {
    std::set<int> candidates;
    for (const int s : seed) {
      for (const FusionGraph::Edge& e : graph_.edges_into(s)) candidates.insert(e.producer);
      const std::vector<int>& readers = readers_[static_cast<size_t>(s)];
      candidates.insert(readers.begin(), readers.end());
    }
    for (const int c : candidates) {
      if (left_ == 0) return;
      if (graph_.is_opaque(c) || std::ranges::binary_search(seed, c)) continue;
      std::vector<int> fused = seed;
      fused.insert(std::ranges::upper_bound(fused, c), c);
      if (!seen_.insert(fused).second || !patterns_.add(fused)) continue;
      --left_;
      explore(fused);
    }
  }

  const TensorProgram& program_;
  const FusionGraph& graph_;
  const ExplorationLimits& limits_;
  CollectedPatterns& patterns_;
  std::vector<std::vector<int>> readers_;
  size_t left_ = 0;
  std::set<std::vector<int>> seen_;
};

}  // namespace

void explore(const TensorProgram& program, const FusionGraph& graph,
             const ExplorationLimits& limits, CollectedPatterns& patterns) {
  Exploration(program, graph, limits, patterns).run();
}

}  // namespace weft
