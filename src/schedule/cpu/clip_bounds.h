#pragma once

#include "schedule/writer/tile_builder.h"

namespace weft {

/// Appends those of a boolean: all of them hold where it does.
void add_conjuncts(const ScalarRef& s, std::vector<ScalarRef>* out);

/// A predicate `0 <= h + kh - p < H` that involves a reduction axis once and else only axes of
/// single steps becomes bounds of that axis: what it excludes contributes nothing. Holds for
/// `predicate ? x : identity`, alone or as a factor of a sum.
/// `loop` goes over the axes of the reduction `e`, whose terms are `body`.
void clip_bounds(const TileBuilder& builder, const TensorExpr& e, TileLoop* loop, ScalarRef* body);

}  // namespace weft
