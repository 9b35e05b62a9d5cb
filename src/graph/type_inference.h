#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// One call of infer_types: the node in question, and the checks that the rules of all ops share.
/// The rules stand in infer_elementwise.cpp, infer_movement.cpp, infer_reductions.cpp,
/// infer_contractions.cpp and infer_control.cpp.
struct TypeInference {
  using Types = Result<std::vector<TensorType>>;

  GraphOp op;
  const Attributes& attrs;
  const std::vector<TensorType>& operands;
  const TensorType& hint;
  const std::vector<std::shared_ptr<const Graph>>& regions;

  /// "gather(f32[4], i64[2]): axis 3 is not below the rank 1"
  Error fail(const std::string& reason) const;
  /// The node's name as in the text form: an elementwise node goes by its scalar operation.
  std::string op_label() const;

  const TensorType& operand(size_t i) const { return operands[i]; }
  const Shape& shape(size_t i) const { return operands[i].shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(operands[i].shape.size()); }

  Status expect_operands(size_t count) const;
  /// 0 <= axis < rank of operand i.
  Status expect_axis(int64_t axis, size_t i) const;
  /// Each axis in range of operand i, none twice; ascending where the op demands it.
  Status expect_axes(const std::vector<int64_t>& axes, size_t i, const char* what) const;
  Status expect_length(const std::vector<int64_t>& values, int64_t length, const char* what) const;
  /// None beyond kMaxOffset.
  Status expect_offsets(const std::vector<int64_t>& values, const char* what) const;
  Status expect_indices(size_t i) const;
  /// Defined on the type, and no arg form.
  Status expect_combiner(Combiner combiner, DType type) const;

  Types elementwise() const;
  Types iota() const;
  Types broadcast() const;
  Types reshape() const;
  Types transpose() const;
  Types slice() const;
  Types pad() const;
  Types concat() const;
  Types gather() const;
  Types gather_elements() const;
  Types gather_nd() const;
  Types scatter_elements() const;
  Types scatter_nd() const;
  Types reduce() const;
  Types arg_reduce() const;
  Types reduce_window() const;
  Types cumulative() const;
  Types sort() const;
  Types top_k() const;
  Types dot_general() const;
  Types convolution() const;
  Types if_() const;
  Types while_() const;
  Types scan() const;

 private:
  Status expect_gather_shape(const Shape& result) const;
  Status expect_region(size_t index, const std::vector<TensorType>& inputs) const;
};

/// One windowed axis: extent of ((dilated x) padded, window dilated, every stride), 0 when the
/// window does not fit. nullopt on overflow, an extent below 1 in window, stride or dilations, or a
/// negative padded extent.
///     x 5, window 3, stride 2, low 1, high 1 -> 3
struct WindowAxis {
  int64_t extent = 0, window = 1, stride = 1, low = 0, high = 0, x_dilation = 1,
          window_dilation = 1;
};
std::optional<int64_t> windowed_extent(const WindowAxis& axis);

}  // namespace weft
