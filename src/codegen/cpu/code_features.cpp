#include "codegen/cpu/code_features.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>

namespace weft {

namespace {

constexpr std::array<std::string_view, 2> kOfBytes = {"avx512vnni", "avxvnni"};

constexpr std::string_view kOfBFloats = "avx512bf16";

bool is_of_bytes(const std::string& feature) {
  return std::ranges::find(kOfBytes, feature) != kOfBytes.end();
}

/// Types in which a block adds products up.
void collect_dots(const KernelFunction& kernel, const KernelBlock& block, std::set<DType>* types) {
  for (const KernelInstruction& in : block.body) {
    if (in.op == KernelOp::kDot) types->insert(kernel.type(in.operands[0]).dtype);
    for (const KernelBlock& region : in.regions) collect_dots(kernel, region, types);
  }
}

}  // namespace

std::vector<std::string> code_features(const Target& target) {
  static constexpr std::array<std::string_view, 20> kUsed = {
      "avx",      "avx2",       "avx512bf16", "avx512bw", "avx512cd", "avx512dq", "avx512f",
      "avx512vl", "avx512vnni", "avxvnni",    "bmi",      "bmi2",     "f16c",     "fma",
      "lzcnt",    "popcnt",     "sse3",       "sse4.1",   "sse4.2",   "ssse3"};
  std::vector<std::string> used;
  std::ranges::copy_if(target.features, std::back_inserter(used), [](const std::string& feature) {
    return std::ranges::find(kUsed, feature) != kUsed.end();
  });
  std::ranges::sort(used);
  return used;
}

std::vector<std::string> required_features(const Target& target,
                                           const std::vector<const KernelFunction*>& kernels) {
  std::vector<std::string> features = code_features(target);
  std::set<DType> dots;
  for (const KernelFunction* kernel : kernels) {
    for (const KernelPhase& phase : kernel->phases) collect_dots(*kernel, phase.body, &dots);
  }
  if (!dots.contains(DType::kI32)) std::erase_if(features, is_of_bytes);
  if (!dots.contains(DType::kF32)) std::erase(features, kOfBFloats);
  return features;
}

Target portable(Target target) {
  std::erase_if(target.features, is_of_bytes);
  std::erase(target.features, kOfBFloats);
  return target;
}

}  // namespace weft
