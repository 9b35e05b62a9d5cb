#include "support/float32_tensor.h"

#include "support/check.h"
#include "support/dtype.h"

namespace weft {

HostTensor float32_tensor(const HostTensor& floats) {
  if (floats.dtype() == DType::kF32) return floats;
  const bool bfloat = floats.dtype() == DType::kBF16;
  WEFT_CHECK(bfloat || floats.dtype() == DType::kF16, "no tensor of 16-bit floats");
  HostTensor out(DType::kF32, floats.shape());
  const auto* from = floats.data<uint16_t>();
  auto* to = out.mutable_data<float>();
  const int64_t size = floats.size();
  if (bfloat) {
    for (int64_t i = 0; i < size; ++i) to[i] = bfloat16_to_float(from[i]);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = half_to_float(from[i]);
  }
  return out;
}

}  // namespace weft
