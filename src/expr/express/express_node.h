#pragma once

#include <vector>

#include "expr/tensor_program.h"
#include "graph/graph.h"

namespace weft {

/// One node on its way to an expression: its attributes and types, and reads of its operands.
/// Axis i of the result is variable i; reduction axes follow.
struct ExpressedNode {
  const Graph& graph;
  const Node& node;
  const TensorProgram& program;
  /// By ValueId.
  const std::vector<TensorId>& tensor_of;

  template <typename Attrs>
  const Attrs& attrs() const {
    return std::get<Attrs>(node.attrs);
  }
  const TensorType& operand(size_t i) const { return graph.type(node.operands[i]); }
  const TensorType& result() const { return graph.type(node.results[0]); }
  int rank() const { return static_cast<int>(result().shape.size()); }

  /// operand[indices]; a constant of equal elements is its value.
  ScalarRef read(size_t i, std::vector<IndexExpr> indices,
                 std::vector<ScalarRef> runtime = {}) const;
  /// operand at the result's own coordinates.
  ScalarRef read_here(size_t i) const;
  /// The result's axes, no reduction, no body yet.
  TensorExpr start() const;
};

/// The type that sums of `type` are kept in: f32 for f16 and bf16, else the type itself.
DType accumulator_type(DType type);
/// condition ? then : other, with the parts that are decided dropped.
ScalarRef scalar_select(const ScalarRef& condition, const ScalarRef& then, const ScalarRef& other);
ScalarRef scalar_and(const ScalarRef& a, const ScalarRef& b);
/// `index` where it names an element of an axis: of an axis one wide none but 0, so that a read
/// does not hang on what its condition decides.
inline IndexExpr where_inside(const IndexExpr& index, int64_t extent) {
  return extent == 1 ? IndexExpr(0) : index;
}
ScalarRef scalar_true();

/// A reduction under construction: hands out reduction axes, none for extent 1.
class ReductionAxes {
 public:
  explicit ReductionAxes(TensorExpr& expr) : expr_(expr) {}
  /// The index along a new reduction axis.
  IndexExpr add(int64_t extent);
  /// Sets combiner, accumulator and body; a reduction over nothing is its identity, over no axis
  /// (all extents 1) its body.
  void finish(Combiner combiner, DType accumulator, const ScalarRef& body, DType result);

 private:
  TensorExpr& expr_;
  bool empty_ = false;
};

// express_elementwise.cpp
TensorExpr express_elementwise(const ExpressedNode& n);
TensorExpr express_iota(const ExpressedNode& n);
// express_movement.cpp
TensorExpr express_broadcast(const ExpressedNode& n);
TensorExpr express_reshape(const ExpressedNode& n);
TensorExpr express_transpose(const ExpressedNode& n);
TensorExpr express_slice(const ExpressedNode& n);
TensorExpr express_pad(const ExpressedNode& n);
TensorExpr express_concat(const ExpressedNode& n);
// express_gather.cpp
TensorExpr express_gather(const ExpressedNode& n);
TensorExpr express_gather_elements(const ExpressedNode& n);
TensorExpr express_gather_nd(const ExpressedNode& n);
// express_reduction.cpp
TensorExpr express_reduce(const ExpressedNode& n);
TensorExpr express_arg_reduce(const ExpressedNode& n);
TensorExpr express_reduce_window(const ExpressedNode& n);
// express_contraction.cpp
TensorExpr express_dot_general(const ExpressedNode& n);
TensorExpr express_convolution(const ExpressedNode& n);

}  // namespace weft
