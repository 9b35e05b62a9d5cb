#include "lower/core/box.h"

namespace weft::lowering {

int Box::find(int var) const {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].var == var) return static_cast<int>(a);
  }
  return -1;
}

int64_t Box::Axis::start(int64_t copy) const {
  int64_t element = 0;
  for (size_t d = digits.size(); d-- > 0;) {
    element += copy % digits[d].extent * digits[d].divisor;
    copy /= digits[d].extent;
  }
  return element;
}

int64_t Box::Axis::thread_reach() const {
  int64_t reach = 0;
  for (const auto& [digit, step] : threads) reach += (digit.extent - 1) * step;
  for (const LoopDigit& loop : loops) reach += (loop.extent - 1) * loop.step;
  return reach;
}

int64_t Box::points() const {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.regs;
  return n;
}

}  // namespace weft::lowering
