#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "group/group_axes.h"

namespace weft {

/// A group that reduces one iteration space both ways: along its rows, and across them, as the
/// gradients of a normalised layer do.
///     r[i] = sum_j f(x[i,j])      q[j] = sum_i x[i,j] * r[i]      z[j] = q[j] / n
struct TwoWays {
  enum class Part : uint8_t {
    kRow,     ///< made of a row: its elements, and what is reduced along it
    kAcross,  ///< a reduction over all rows, whose elements lie as those of a row
    kTail,    ///< made of such results
  };
  std::vector<Part> part;  ///< by position
  std::vector<int> along;  ///< axes of extent > 1 of a row, outermost first
  int across = -1;         ///< the axis that counts rows
};

/// Takes a group apart. Forbidden, with the reason: where it does not reduce both ways, where a row
/// needs what is made of all rows, or other axes than those of one row and one across occur.
Decision find_two_ways(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                       TwoWays* out);

/// By numbers of elements alone, how a group reduces: rows of `sizes.second` elements to
/// `sizes.first`, the other way round, or both.
struct ReducedSizes {
  std::pair<int64_t, int64_t> sizes;  ///< the smaller first
  bool ascending = false;             ///< `sizes.first` results of `sizes.second` elements each
  bool descending = false;

  bool both_ways() const { return (ascending && descending) || sizes.first == sizes.second; }
};

/// Nothing for a group that find_two_ways would not take apart whatever joins it: one that reduces
/// nothing, or to other sizes. Far cheaper than the axes that find_two_ways asks for.
std::optional<ReducedSizes> reduced_sizes(const TensorProgram& program, const Group& group);

}  // namespace weft
