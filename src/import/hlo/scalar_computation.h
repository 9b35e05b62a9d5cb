#pragma once

#include <optional>
#include <vector>

#include "import/hlo/translator.h"

namespace weft::hlo {

// Computations on scalars that an instruction applies to arrays: reducers, comparators, `map`.

/// The computation applied to arrays of the shape `lanes`, element by element.
Leaves apply_to_lanes(InstructionContext& n, GraphBuilder& b, const HloComputation& computation,
                      const std::vector<ValueId>& arguments, const Shape& lanes);

/// The computation as a graph on arrays [lanes] of these types, pruned.
Graph scalar_graph(InstructionContext& n, const HloComputation& computation,
                   const std::vector<DType>& types, int64_t lanes = 1);

/// What a reducer of `values` values does: parameters are the values so far, then those to join.
struct Reducer {
  /// One for each value, where each is joined for itself by a combiner that weft has.
  std::vector<Combiner> combiners;
  /// Two values, of which the first decides and the second says where it stood: kArgMin, kArgMax.
  std::optional<Combiner> arg;
  bool last_on_ties = false;
};

/// Recognises a reducer by what it computes, not by how it is written: a single operation, or
/// comparisons and selections alone, which is decided by trying every order of the parameters.
Reducer recognise_reducer(InstructionContext& n, const HloComputation& computation,
                          const std::vector<DType>& types);

/// Whether the value is known to be the combiner's identity.
bool is_identity(GraphBuilder& b, ValueId v, Combiner combiner);

/// The scalar that leaves every value as it is when joined by the combiner; -0 for a float sum.
ValueId neutral_value(GraphBuilder& b, Combiner combiner, DType type);

}  // namespace weft::hlo
