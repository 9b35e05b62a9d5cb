#pragma once

#include <string>
#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// The body of one expression made ready to be evaluated point by point: reads are resolved to
/// buffers and strides, affine indices to coefficients. The branches of a select are evaluated only
/// where they are taken.
class ElementProgram {
 public:
  /// `values` by TensorId; those that the body reads must stay.
  ElementProgram(const TensorExpr& expr, const std::vector<HostTensor>& values);

  /// The body at a point of the output and reduction axes.
  ScalarValue at(const std::vector<int64_t>& point) { return value(root_, point); }
  /// Whether some read left its tensor.
  bool went_outside() const { return outside_; }

 private:
  struct Index {
    bool affine = true;
    AffineForm form;
    IndexExpr expr;
    int runtime = -1;  ///< the operand that the index stands for
  };
  struct Node {
    const Scalar* scalar = nullptr;
    std::vector<int> operands;
    int fill = -1;
    std::vector<Index> indices;  ///< of kIndex: one
    const HostTensor* from = nullptr;
    bool is_float = false;
  };

  int add(const ScalarRef& s, const std::vector<HostTensor>& values);
  static Index prepared(const IndexExpr& index);
  static int64_t index_value(const Index& index, const std::vector<int64_t>& point);
  ScalarValue value(int node, const std::vector<int64_t>& point);
  ScalarValue apply(const Node& node, const std::vector<int64_t>& point);
  ScalarValue read(const Node& node, const std::vector<int64_t>& point);

  std::vector<Node> nodes_;
  int root_ = -1;
  bool outside_ = false;
};

}  // namespace weft
