#include "kernel/shorten_exponentials.h"

#include <algorithm>

namespace weft {

namespace {

int shorten(const KernelFunction& kernel, KernelBlock& block) {
  int shortened = 0;
  for (KernelInstruction& in : block.body) {
    for (KernelBlock& region : in.regions) shortened += shorten(kernel, region);
    if (in.op != KernelOp::kApply) continue;
    auto& apply = in.as<ApplyPayload>();
    if (apply.op != ScalarOp::kExp || apply.exponent_nonpositive) continue;
    const KernelType type = kernel.type(in.results[0]);
    if (type.dtype != DType::kF32 || type.lanes < 4) continue;
    apply.exponent_nonpositive = true;
    ++shortened;
  }
  return shortened;
}

}  // namespace

int shorten_exponentials(KernelFunction& kernel, const Target& target) {
  const auto& features = target.features;
  for (const char* needed : {"avx512f", "avx512dq", "avx512vl"}) {
    if (std::find(features.begin(), features.end(), needed) == features.end()) return 0;
  }
  int shortened = 0;
  for (KernelPhase& phase : kernel.phases) shortened += shorten(kernel, phase.body);
  return shortened;
}

}  // namespace weft
