#include "target/unit_peak.h"

namespace weft {

double unit_gflops(DType factors, const Target& target) {
  if (factors == DType::kF16) return target.peak_f16_gflops;
  if (factors == DType::kBF16) return target.peak_bf16_gflops;
  return target.reduced_float32 ? target.peak_tf32_gflops : target.peak_gflops;
}

bool multiplies_by_groups(DType factors, const Target& target) {
  return target.compute_capability == 90 && (factors == DType::kF16 || factors == DType::kBF16);
}

}  // namespace weft
