#include "codegen/cpu/code_features.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace weft {

namespace {

constexpr std::array<std::string_view, 2> kOfBytes = {"avx512vnni", "avxvnni"};

bool is_of_bytes(const std::string& feature) {
  return std::ranges::find(kOfBytes, feature) != kOfBytes.end();
}

bool has_dot(const KernelBlock& block) {
  return std::ranges::any_of(block.body, [](const KernelInstruction& in) {
    return in.op == KernelOp::kDot || std::ranges::any_of(in.regions, has_dot);
  });
}

}  // namespace

std::vector<std::string> code_features(const Target& target) {
  static constexpr std::array<std::string_view, 19> kUsed = {
      "avx",        "avx2",    "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl",
      "avx512vnni", "avxvnni", "bmi",      "bmi2",     "f16c",     "fma",     "lzcnt",
      "popcnt",     "sse3",    "sse4.1",   "sse4.2",   "ssse3"};
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
  const bool dots = std::ranges::any_of(kernels, [](const KernelFunction* kernel) {
    return std::ranges::any_of(kernel->phases,
                               [](const KernelPhase& phase) { return has_dot(phase.body); });
  });
  if (!dots) std::erase_if(features, is_of_bytes);
  return features;
}

Target portable(Target target) {
  std::erase_if(target.features, is_of_bytes);
  return target;
}

}  // namespace weft
