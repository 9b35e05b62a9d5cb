#include "expr/body_uses.h"

namespace weft {

bool body_uses(const ScalarRef& s, int var) {
  bool used = false;
  visit(s, [&](const Scalar& node) {
    for (const IndexExpr& i : node.indices) used = used || uses_var(i, var);
    if (node.kind == Scalar::Kind::kIndex) used = used || uses_var(node.index, var);
  });
  return used;
}

}  // namespace weft
