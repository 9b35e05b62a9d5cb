#include "index/index_units.h"

#include <cstdlib>
#include <numeric>

namespace weft {

int64_t unit_of(const IndexExpr& e, const std::function<int64_t(int)>& unit_of_variable) {
  switch (e.op()) {
    case IndexOp::kConst:
      return std::abs(e.constant());
    case IndexOp::kVar:
      return unit_of_variable(e.var_id());
    case IndexOp::kMul:
      return unit_of(e.lhs(), unit_of_variable) * unit_of(e.rhs(), unit_of_variable);
    case IndexOp::kAdd:
    case IndexOp::kMin:
    case IndexOp::kMax:
      return std::gcd(unit_of(e.lhs(), unit_of_variable), unit_of(e.rhs(), unit_of_variable));
    case IndexOp::kFloorDiv:
    case IndexOp::kMod:
      break;
  }
  return 1;
}

}  // namespace weft
