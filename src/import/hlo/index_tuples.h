#pragma once

#include <optional>
#include <vector>

#include "import/hlo/translator.h"

namespace weft::hlo {

/// How a gather or a scatter finds its places in the array: its dimension numbers, one meaning for
/// both.
///
/// Each point of the index batch names a window of the array. Along a *looked up* axis the window's
/// start comes from data or from the point's own position; along all others it takes [0, size).
struct Addressing {
  Shape array;                     ///< extents
  std::vector<int64_t> size;       ///< of the window, by axis
  std::vector<bool> dropped;       ///< by axis: absent from the slices (collapsed or inserted)
  std::vector<int64_t> component;  ///< by axis: which component of the indices, or -1
  std::vector<int64_t> paired;  ///< by axis: the axis of the index batch it runs along with, or -1
  ValueId indices = kNoValue;   ///< [batch…, component], i32 or i64
  Shape batch;

  /// Whether the places along an axis differ from its coordinates in the slice.
  bool is_looked_up(size_t axis) const {
    return paired[axis] >= 0 || (component[axis] >= 0 && size[axis] < array[axis]);
  }
  int64_t last_start(size_t axis) const { return array[axis] - size[axis]; }
};

/// Names of the attributes, which differ.
struct AddressingNames {
  std::string_view dropped, mapped, array_batch, index_batch;
};

/// Reads the attributes; `size` is by axis of the array.
Addressing read_addressing(InstructionContext& n, ValueId indices, const AddressingNames& names,
                           const Shape& array, std::vector<int64_t> size);

/// The start along a looked-up axis for each point of the batch.
ValueId starts_of(GraphBuilder& b, const Addressing& a, size_t axis);

/// Places as tuples for gather_nd and scatter_nd, [batch…, window…, axes.size()]: a window axis for
/// each of `axes` whose windows are larger than 1. `starts` are by entry of `axes`.
ValueId index_tuples(GraphBuilder& b, const Addressing& a, const std::vector<size_t>& axes,
                     const std::vector<ValueId>& starts);

}  // namespace weft::hlo
