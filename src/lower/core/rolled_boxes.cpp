#include "lower/core/rolled_boxes.h"

#include <functional>

#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"

namespace weft::lowering {

std::vector<Reg> emit_rolled(
    KernelWriter& w, const std::vector<RolledDigit>& digits, size_t first, Box box,
    std::vector<Reg> carries,
    const std::function<std::vector<Reg>(const Box&, const std::vector<Reg>&)>& body) {
  if (first == digits.size()) {
    begin_evaluation(w, box);
    return body(box, carries);
  }
  const RolledDigit& digit = digits[first];
  std::vector<Reg> out = w.builder.for_loop(
      w.builder.int_constant(0), w.builder.int_constant(digit.extent), 1, std::move(carries),
      [&](Reg iv, const std::vector<Reg>& in) {
        Box inner = box;
        const IndexExpr number = add_kernel_var(w, iv, {0, digit.extent - 1});
        inner.axes[digit.axis].loops.push_back({number.var_id(), digit.extent, digit.step});
        return emit_rolled(w, digits, first + 1, std::move(inner), in, body);
      });
  begin_evaluation(w, box);  // what was made inside is out of sight
  return out;
}

}  // namespace weft::lowering
