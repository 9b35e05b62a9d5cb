#pragma once

#include <optional>
#include <vector>

#include "group/group_axes.h"

namespace weft {

/// What follows a contraction where libraries can do it: a bias along one axis, a residual that
/// lies as the result does and a clamp at zero, each at most once, the clamp at last.
struct LibraryEpilogue {
  const Scalar* bias = nullptr;      ///< null: none
  const Scalar* residual = nullptr;  ///< null: none
  bool clamps = false;
};

/// A group as libraries see it: one contraction, its first expression, and what follows it.
class LibraryGroup {
 public:
  LibraryGroup(const TensorProgram& program, const Group& group, const GroupAxes& axes)
      : program_(program), group_(group), axes_(axes) {}

  /// Whether it is such a group with one result, products being summed up in float32.
  bool is_contraction() const;
  const TensorExpr& contraction() const { return expr(0); }
  /// What the contraction's products are of. Requires: is_contraction().
  const ScalarRef& factor(size_t side) const { return contraction().body->operands[side]; }
  /// The common axis of the contraction's own one.
  int axis_of(int own) const { return axes_.axis_of[0][static_cast<size_t>(own)]; }
  DType type_of(TensorId t) const { return program_.tensors[static_cast<size_t>(t)].type.dtype; }
  const Shape& shape_of(TensorId t) const {
    return program_.tensors[static_cast<size_t>(t)].type.shape;
  }
  TensorId result() const { return group_.outputs[0]; }
  DType result_type() const { return type_of(result()); }

  /// Elements between neighbours along a common axis; 0 where `axis` is negative or not walked, -1
  /// where the distance changes.
  int64_t stride(const Scalar& read, int axis) const;  ///< in what the contraction reads
  int64_t result_stride(int axis) const;

  /// What comes behind the contraction; nullopt where it is anything else. `feature` is the common
  /// axis of biases.
  std::optional<LibraryEpilogue> epilogue(int feature) const;

 private:
  const TensorExpr& expr(int p) const {
    return program_.exprs[static_cast<size_t>(group_.exprs[static_cast<size_t>(p)])];
  }
  int last() const { return static_cast<int>(group_.exprs.size()) - 1; }
  bool reads_previous(const ScalarRef& s, int p) const;
  const Scalar* addend(const ScalarRef& s) const;
  bool lies_along(const Scalar& read, int p, int feature) const;
  bool lies_as_result(const Scalar& read, int p) const;

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
};

/// The node under conversions to float32.
const Scalar& under_widening(const ScalarRef& s);
/// A read that begins at its tensor's first element and always stays inside it.
bool is_plain_read(const Scalar& s);

}  // namespace weft
