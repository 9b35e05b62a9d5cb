#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

namespace {

/// Elements of a box that are written one by one; beyond, its digits become loops.
constexpr int64_t kMostUnrolled = 128;
/// Iterations that a loop leaves side by side, so that their loads overlap.
constexpr int64_t kSideBySide = 16;

/// The largest divisor of `extent` up to `most`.
int64_t divisor_up_to(int64_t extent, int64_t most) {
  for (int64_t d = std::min(extent, most); d > 1; --d) {
    if (extent % d == 0) return d;
  }
  return 1;
}

}  // namespace

/// Registers have no dynamic index: a digit may become a loop where neither what is read along it
/// nor what is made lies in registers.
bool Lowering::may_roll(const TileStatement& statement, TileVarId var) const {
  bool may = true;
  const auto along = [&](const std::vector<IndexExpr>& indices) {
    return std::any_of(indices.begin(), indices.end(),
                       [&](const IndexExpr& e) { return uses_var(e, var); });
  };
  for (const TileRef& t : statement.targets) {
    may &= buffer_of_[static_cast<size_t>(t.symbol)] >= 0 || !along(t.indices);
  }
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead) return;
    may &= buffer_of_[static_cast<size_t>(n.symbol)] >= 0 || !along(n.indices);
  });
  return may;
}

/// Takes digits out of the box, outermost first, until few enough points are left.
std::vector<Lowering::RolledDigit> Lowering::roll(const TileStatement& statement, bool reduced,
                                                  Box* box) const {
  std::vector<RolledDigit> out;
  if (!gpu_) return out;
  for (size_t a = 0; a < box->axes.size(); ++a) {
    Box::Axis& axis = box->axes[a];
    const bool is_reduced = std::find(statement.reduce_axes.begin(), statement.reduce_axes.end(),
                                      axis.var) != statement.reduce_axes.end();
    if (is_reduced != reduced || !may_roll(statement, axis.var)) continue;
    for (Box::RegDigit& digit : axis.digits) {
      const int64_t elements = box->points() * box->lanes;
      if (elements <= kMostUnrolled) return out;
      const int64_t others = elements / digit.extent;
      const int64_t kept =
          divisor_up_to(digit.extent, std::min(kSideBySide, kMostUnrolled / others));
      if (kept == digit.extent) continue;
      out.push_back({a, digit.extent / kept, digit.divisor * kept});
      axis.regs = axis.regs / digit.extent * kept;
      digit.extent = kept;
    }
  }
  return out;
}

/// `body` once for every iteration of the digits, which the box then has as loops.
std::vector<Reg> Lowering::emit_rolled(
    const std::vector<RolledDigit>& digits, size_t first, Box box, std::vector<Reg> carries,
    const std::function<std::vector<Reg>(const Box&, const std::vector<Reg>&)>& body) {
  if (first == digits.size()) {
    begin_evaluation(box);
    return body(box, carries);
  }
  const RolledDigit& digit = digits[first];
  std::vector<Reg> out = builder_.for_loop(
      builder_.int_constant(0), builder_.int_constant(digit.extent), 1, std::move(carries),
      [&](Reg iv, const std::vector<Reg>& in) {
        Box inner = box;
        const IndexExpr number = add_kernel_var(iv, {0, digit.extent - 1});
        inner.axes[digit.axis].loops.push_back({number.var_id(), digit.extent, digit.step});
        return emit_rolled(digits, first + 1, std::move(inner), in, body);
      });
  begin_evaluation(box);  // what was made inside is out of sight
  return out;
}

}  // namespace weft::lowering
