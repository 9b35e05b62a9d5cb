#pragma once

#include <map>
#include <set>
#include <vector>

#include "cost/first_iteration.h"
#include "target/target.h"
#include "tile/scope_analysis.h"

namespace weft {

/// A core's pace and pipes. Times of this folder are in cycles in which a core begins two
/// multiply-adds of its widest vectors.
struct Core {
  /// What the clock counts (latencies, dividers) is so much of them: 1/2 where vectors are cut in
  /// halves, so that it begins one in a cycle of the clock.
  double pace = 1;
  bool adds_beside = false;  ///< two pipes beside those that multiply, for all else
  /// Vectors half as wide as the widest it begins twice as many of.
  bool begins_halves = false;
};
Core core_of(const Target& target);

/// What a core's ports take of some work. Times add up by port; the busiest decides.
struct PortWork {
  double arithmetic = 0;  ///< vector instructions
  double products = 0;    ///< those of them that need one of the two pipes that multiply
  double loads = 0, stores = 0;
  double divider = 0;       ///< cycles
  double instructions = 0;  ///< all, with loops' own
  double fills = 0;  ///< cycles in which a set of the first cache takes one line after another

  PortWork& operator+=(const PortWork& other);
  PortWork operator*(double times) const;
  /// Of a core with two pipes, two loads and one store a cycle, that finishes five instructions in
  /// one of its clock.
  double cycles(const Core& core) const;
};

/// Instructions of a CPU's statements, as lowering writes them: a node of a tree once for each
/// vector and register copy that it depends on, products that are added up as one, loads by how
/// their lanes lie.
class StatementPorts {
 public:
  StatementPorts(const TileProgram& program, const ScopeAnalysis& scopes,
                 const FirstIteration& numbers, const Target& target);

  struct Cost {
    PortWork work;
    double latency = 0;  ///< cycles from the operands to the result
    /// From the carry that the statement gives its next value to that; 0 of other statements.
    double carried = 0;
  };
  /// Values that the loop `around` (may be null) does not change are made before it.
  Cost of(const TileStatement& statement, const TileLoop* around) const;

  /// What the loop's iterations store and load again because their carries, and the most values
  /// that a statement makes, are more than the registers that vectors have.
  PortWork spilled(const TileLoop& loop) const;

  /// Whether a symbol's elements are loaded and stored.
  bool in_memory(TileSymbolId symbol) const;

 private:
  class Tree;
  struct Axis {
    TileVarId var = -1;
    double registers = 1;
    int64_t lanes = 1;
  };
  std::vector<Axis> axes_of(const TileStatement& statement) const;
  int64_t offset(TileSymbolId symbol, const std::vector<IndexExpr>& indices, TileVarId var,
                 int64_t at) const;
  bool lie_apart(const Scalar& read, const Axis& axis) const;
  double stride(TileSymbolId symbol, const std::vector<IndexExpr>& indices, TileVarId var) const;
  double vectors_of(const TileStatement& statement) const;
  void note_products();
  Cost reduce(const TileStatement& statement, const std::vector<Axis>& axes) const;
  bool is_narrow(const std::vector<Axis>& axes) const;
  double cycles_across(double apart, const Axis& axis) const;
  double fills(double apart, double trips) const;
  void store(const TileStatement& statement, const std::vector<Axis>& axes, Cost* cost) const;

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  const FirstIteration& numbers_;
  const Target& target_;
  Core core_;
  std::map<const TileStatement*, size_t> number_;
  std::set<TileSymbolId> added_products_;  ///< values that are products and read by one sum alone
};

}  // namespace weft
