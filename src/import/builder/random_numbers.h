#pragma once

#include <array>
#include <cstdint>

#include "import/builder/graph_builder.h"

// Random numbers as functions of a seed and of the place where they stand: a counter-based
// generator has no state that one element would hand to the next, so that drawing fuses like any
// other elementwise operation (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).

namespace weft::onnx {

/// Where an operator's numbers come from. Operators of one graph have different ones, and in a
/// loop's body each iteration has.
struct RandomStream {
  ValueId key = kNoValue;  ///< a u64 scalar
  uint32_t number = 0;
};

/// Other numbers in each run (GraphBuilder::seed).
RandomStream new_stream(GraphBuilder& b);
/// `seed`: an integer of rank 0.
RandomStream new_stream(GraphBuilder& b, ValueId seed);
/// The same numbers in each run.
RandomStream seeded_stream(GraphBuilder& b, uint64_t seed);

/// In [0, 1): of as many bits as the type's fraction holds.
ValueId random_uniform(GraphBuilder& b, const RandomStream& stream, DType type, const Shape& shape);
/// In (0, 1), f32, of 23 bits.
ValueId random_inside(GraphBuilder& b, const RandomStream& stream, const Shape& shape);
/// Of mean 0 and variance 1 (Box and Muller, 1958).
ValueId random_normal(GraphBuilder& b, const RandomStream& stream, DType type, const Shape& shape);

/// The lower and the upper words, u32, of a u64.
std::array<ValueId, 2> words_of(GraphBuilder& b, ValueId x);

}  // namespace weft::onnx
