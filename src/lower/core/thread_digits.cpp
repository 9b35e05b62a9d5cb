#include "lower/core/thread_digits.h"

#include "lower/core/lanes.h"

namespace weft::lowering {

int64_t level_size(const KernelWriter& w, PlaceLevel level) {
  return level == PlaceLevel::kLane ? 32 : w.program.warps;
}

Reg thread_number(KernelWriter& w, PlaceLevel level) {
  return w.builder.position(level == PlaceLevel::kLane ? KernelPosition::kLane
                                                       : KernelPosition::kWarp);
}

Reg emit_digit(KernelWriter& w, const ThreadDigit& digit) {
  Reg r = thread_number(w, digit.level);
  const int64_t size = level_size(w, digit.level);
  if (digit.stride > 1) {
    r = w.builder.apply(ScalarOp::kDiv, {r, w.builder.int_constant(digit.stride)}, DType::kI64);
  }
  if (digit.stride * digit.extent < size) {
    r = w.builder.apply(ScalarOp::kRem, {r, w.builder.int_constant(digit.extent)}, DType::kI64);
  }
  return r;
}

int thread_var(KernelWriter& w, const ThreadDigit& digit) {
  const auto it = w.vars.digits.find(digit);
  if (it != w.vars.digits.end()) return it->second;
  w.vars.all.push_back({kNoReg, {0, digit.extent - 1}, digit, -1, {}});
  return w.vars.digits[digit] = kKernelVarBase + static_cast<int>(w.vars.all.size()) - 1;
}

Reg is_first_copy(KernelWriter& w, const std::vector<ThreadDigit>& copies) {
  Reg first = kNoReg;
  for (const ThreadDigit& digit : copies) {
    // The topmost digit is zero below its stride.
    const bool top = digit.stride * digit.extent >= level_size(w, digit.level);
    const Reg here =
        top ? w.builder.apply(ScalarOp::kLt,
                              {thread_number(w, digit.level), w.builder.int_constant(digit.stride)},
                              DType::kBool)
            : w.builder.apply(ScalarOp::kEq, {emit_digit(w, digit), w.builder.int_constant(0)},
                              DType::kBool);
    first = combine_guards(w, first, here);
  }
  return first;
}

}  // namespace weft::lowering
