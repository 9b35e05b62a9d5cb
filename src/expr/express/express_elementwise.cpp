#include "expr/express/express_node.h"

namespace weft {

TensorExpr express_elementwise(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const ScalarOp op = n.attrs<ElementwiseAttrs>().op;
  std::vector<ScalarRef> operands;
  for (size_t i = 0; i < n.node.operands.size(); ++i) operands.push_back(n.read_here(i));
  e.body = op == ScalarOp::kConvert ? scalar_convert(operands[0], n.result().dtype)
                                    : scalar_apply(op, std::move(operands), n.result().dtype);
  return e;
}

TensorExpr express_iota(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const int axis = static_cast<int>(n.attrs<IotaAttrs>().axis);
  e.body = scalar_index(IndexExpr::var(axis), n.result().dtype);
  return e;
}

}  // namespace weft
