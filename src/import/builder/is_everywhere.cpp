#include "import/builder/is_everywhere.h"

namespace weft::onnx {

bool is_everywhere(GraphBuilder& b, ValueId v, double number) {
  const Node* made_by = b.maker(v);
  while (made_by != nullptr && made_by->op == GraphOp::kBroadcast) {
    v = made_by->operands[0];
    made_by = b.maker(v);
  }
  if (b.size(v) != 1 || !b.is_constant(v)) return false;
  const HostTensor* value = b.constant_value(v);
  return value != nullptr && value->at_double(0) == number;
}

}  // namespace weft::onnx
