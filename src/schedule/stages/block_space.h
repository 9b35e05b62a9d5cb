#pragma once

#include <optional>
#include <vector>

#include "expr/reductions/carry_reductions.h"
#include "group/cut_group.h"
#include "group/group_key.h"
#include "schedule/stages/demand_boxes.h"
#include "target/target.h"

namespace weft {

/// A group as blocks of stages make it: its expressions cut out of the program, each tensor in the
/// order of memory, axes one that contractions and reductions walk side by side. Unlike GroupSpace
/// it asks for no axes in common.
class BlockSpace {
 public:
  /// With a `key` tensors are called by their numbers in it.
  BlockSpace(const TensorProgram& program, const Group& group, const Target& target,
             const GroupKey* key = nullptr);
  /// `whole`, whose reductions a loop carries. Its steps hand each other the carried tensors.
  BlockSpace(const BlockSpace& whole, const CarriedProgram& carried, const Target& target);

  /// The same without these members, element-wise values, which each of their readers makes for
  /// itself (FusionStitching 2018 §5.1.2). Positions are those that are left. Nothing where a
  /// reader cannot.
  std::optional<BlockSpace> without(const std::vector<int>& members) const;
  /// Whether readers may make a member again: it is no reduction, and leaves to nobody else.
  bool may_be_made_again(int p) const;
  /// The position of a member in the group that all of this began with.
  int position(int p) const { return positions_.empty() ? p : positions_[static_cast<size_t>(p)]; }

  /// The expressions and tensors as kernels compute them: 16-bit floats that stay inside are
  /// float32.
  const TensorProgram& program() const { return wide_.program; }
  /// The same with the types that the model declares.
  const TensorProgram& declared() const { return declared_.program; }
  const Group& group() const { return wide_.group; }
  const std::vector<TensorId>& original() const { return wide_.original; }

  int size() const { return static_cast<int>(wide_.program.exprs.size()); }
  const TensorExpr& expr(int p) const { return wide_.program.exprs[static_cast<size_t>(p)]; }
  const std::string& name_of(int p) const {
    return wide_.program.tensors[static_cast<size_t>(expr(p).output)].name;
  }
  bool is_output(int p) const;
  /// By carry of the program: members and tensors here.
  struct Carry {
    int reduction = -1;    ///< the member of the whole group
    TensorId before = -1;  ///< as a step finds it
    int after = -1;        ///< the member that makes what it leaves
    TensorId parts = -1;   ///< of a split axis: what the steps of each part leave
    ScalarValue first;
    ScalarRef beyond;  ///< TermReach::beyond, of tensors here
  };
  const std::vector<Carry>& carries() const { return carries_; }
  /// Parts of the axis along which reductions are carried.
  int64_t splits() const { return splits_; }
  /// Variable of a member that runs over these parts, or -1.
  int over_parts(int p) const {
    return over_parts_.empty() ? -1 : over_parts_[static_cast<size_t>(p)];
  }
  /// Whether a step hands what a member makes to the next.
  bool is_carried(int p) const;
  /// The loop that carries, in such steps; `carried` is what this was made of.
  CarryingLoop carrying(const CarriedProgram& carried, int64_t step) const;
  /// Whether a tensor is what a step finds of a carry.
  bool is_carry(TensorId t) const;
  /// Position of the member that makes a tensor, -1 if it comes from outside.
  int producer(TensorId t) const { return producer_[static_cast<size_t>(t)]; }
  /// Positions of the members that read a member's result, ascending.
  const std::vector<int>& readers(int p) const { return readers_[static_cast<size_t>(p)]; }

 private:
  BlockSpace(GroupView view, const Target& target);
  void relate();

  GroupView declared_, wide_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> readers_;
  std::vector<Carry> carries_;
  int64_t splits_ = 1;
  std::vector<int> over_parts_;
  std::vector<int> positions_;  ///< of members, where some were left out
};

}  // namespace weft
