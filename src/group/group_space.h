#pragma once

#include <optional>
#include <string>
#include <vector>

#include "group/block_frame.h"
#include "group/collapse_axes.h"
#include "group/group_axes.h"
#include "group/group_key.h"
#include "group/two_ways.h"
#include "target/target.h"

namespace weft {

/// Whether the group holds a contraction and reductions of its results: how quick the product is
/// depends on the tile that these leave it.
bool reduces_behind_product(const TensorProgram& program, const Group& group);

/// What a group is, derived once (docs/architecture.md): its expressions cut out of the program,
/// each tensor in its physical order, axes that everything walks together made one, the common axes
/// of its members, and its roles. Whoever asks whether a group can be a kernel and whoever builds
/// it ask the same value.
class GroupSpace {
 public:
  /// With a key it is that of all groups of the key: tensors are called by their numbers
  /// (group/group_key.h). Error (kUnsupported): a group without common axes, with the read that
  /// prevents them.
  static Result<GroupSpace> of(const TensorProgram& program, const Group& group,
                               const Target& target, const CutOptions& options = {});
  bool is_of_key() const { return is_of_key_; }

  /// For a stage of the blocks of a larger kernel: extents are those of the boxes that `boxes` says
  /// that a block owes, by expression of `program`; the frame says where they stand. Axes stay as
  /// they are. What other expressions of `program` make is read from where the block keeps it.
  ///
  /// Requires: row-major tensors, a box of each expression. Error (kUnsupported): a group without
  /// common axes, or whose members' boxes differ along one.
  static Result<GroupSpace> of_stage(const TensorProgram& program, const Group& group,
                                     const Target& target, const BlockBoxes& boxes);

  /// Where a stage stands; nothing of a group that is a kernel.
  const std::optional<BlockFrame>& frame() const { return frame_; }

  /// The group's expressions and tensors, as kernels compute them: 16-bit floats that stay inside
  /// are float32 (group/widen_halves.h).
  const TensorProgram& program() const { return wide_ ? *wide_ : view_.program; }
  /// The same with the types that the model declares.
  const TensorProgram& declared() const { return view_.program; }
  /// All expressions of `program`.
  const Group& group() const { return view_.group; }
  const GroupAxes& axes() const { return axes_; }
  /// By tensor of `program`: what it is in the program that the group was cut out of.
  const std::vector<TensorId>& original() const { return view_.original; }

  int size() const { return static_cast<int>(view_.group.exprs.size()); }
  const TensorExpr& expr(int position) const {
    return program().exprs[static_cast<size_t>(position)];
  }
  const std::string& name_of(int position) const {
    return program().tensors[static_cast<size_t>(expr(position).output)].name;
  }
  bool is_output(int position) const;
  /// Whether the output of a member runs along a common axis (its reduction axes do not count).
  bool output_has_axis(int position, int axis) const;
  bool reduces(int position) const { return !expr(position).reduce_extents.empty(); }

  // Roles.
  /// Whether a member is a contraction of the model.
  bool has_contraction() const { return has_contraction_; }
  bool reduces_behind_product() const { return reduces_behind_product_; }
  /// The one reduction is a product of matrix and vector whose matrix is read once: there is
  /// nothing to hold in a register tile, and its rows are reduced like any others.
  bool streams_an_operand() const { return streams_an_operand_; }
  /// The one reduction reads something again along an output axis, a product or a window: it wants
  /// a register tile.
  bool wants_register_tile() const { return wants_register_tile_; }
  /// Rows and columns of one tensor, or why not.
  Decision two_ways(TwoWays* out) const;

 private:
  static GroupSpace of_view(GroupView view, GroupAxes axes, const Target& target);

  GroupView view_;
  std::optional<TensorProgram> wide_;  ///< where it differs from the view's
  GroupAxes axes_;
  std::optional<BlockFrame> frame_;
  bool is_of_key_ = false;
  bool has_contraction_ = false, reduces_behind_product_ = false, streams_an_operand_ = false,
       wants_register_tile_ = false;
};

}  // namespace weft
