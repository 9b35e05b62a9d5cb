#pragma once

#include <initializer_list>
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

/// Whether numbers of elements alone allow it: a row of n elements among m rows is reduced to one
/// of m, rows are reduced to one of n. Of the union of some groups; far cheaper than the axes that
/// find_two_ways asks for.
bool may_reduce_two_ways(const TensorProgram& program, std::initializer_list<const Group*> groups);

}  // namespace weft
