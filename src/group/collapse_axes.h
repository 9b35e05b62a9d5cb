#pragma once

#include <map>
#include <vector>

#include "group/group_axes.h"
#include "group/group_key.h"

namespace weft {

/// A group cut out of its program: only its expressions and the tensors that they touch, each
/// tensor in its physical order as row-major, and axes that everything walks together made one:
/// `y[i,j] = f(x[i,j]) + b[i,j]` becomes `y[k] = f(x[k]) + b[k]`, so that a kernel sees few long
/// loops and no short inner one.
struct GroupView {
  TensorProgram program;
  Group group;                     ///< all expressions of `program`
  std::vector<TensorId> original;  ///< by tensor of `program`
};

/// The cut alone: axes stay as they are, in the order of memory. Requires and takes what
/// collapse_axes does.
GroupView cut_group(const TensorProgram& program, const Group& group,
                    const std::map<TensorId, Layout>& orders = {}, const GroupKey* key = nullptr);

/// Requires: layouts of intermediates are permutations. Establishes: the same meaning element by
/// element in physical order. `orders` are those that constants are to have, instead of their own:
/// permutations, too. With a `key` tensors are called by
/// their numbers in it.
/// `axes` (may be null) is given the common axes of the view.
GroupView collapse_axes(const TensorProgram& program, const Group& group,
                        const std::map<TensorId, Layout>& orders = {},
                        const GroupKey* key = nullptr, Result<GroupAxes>* axes = nullptr);

}  // namespace weft
