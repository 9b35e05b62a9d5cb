#include "cost/model_gain.h"

#include "cost/estimate.h"

namespace weft {

double model_gain_us(int64_t volume, int64_t kernels, const Target& target) {
  const double saved =
      volume < 0 ? -roofline_us(-volume, 0, target) : roofline_us(volume, 0, target);
  return saved + static_cast<double>(kernels - 1) * target.start_us();
}

}  // namespace weft
