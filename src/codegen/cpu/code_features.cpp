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
constexpr std::string_view kOfTables = "avx512vbmi";

bool is_of_bytes(const std::string& feature) {
  return std::ranges::find(kOfBytes, feature) != kOfBytes.end();
}

struct Uses {
  std::set<DType> dots;  ///< types in which products are added up
  bool byte_gathers = false;
};

void collect_uses(const KernelFunction& kernel, const KernelBlock& block, Uses* uses) {
  for (const KernelInstruction& in : block.body) {
    if (in.op == KernelOp::kDot) uses->dots.insert(kernel.type(in.operands[0]).dtype);
    uses->byte_gathers |=
        in.op == KernelOp::kGather && byte_size(kernel.type(in.results[0]).dtype) == 1;
    for (const KernelBlock& region : in.regions) collect_uses(kernel, region, uses);
  }
}

void leave_out_unused(const Uses& uses, std::vector<std::string>* features) {
  if (!uses.dots.contains(DType::kI32)) std::erase_if(*features, is_of_bytes);
  if (!uses.dots.contains(DType::kF32)) std::erase(*features, kOfBFloats);
  if (!uses.byte_gathers) std::erase(*features, kOfTables);
}

}  // namespace

std::vector<std::string> code_features(const Target& target) {
  static constexpr std::array<std::string_view, 21> kUsed = {
      "avx",        "avx2",     "avx512bf16", "avx512bw", "avx512cd", "avx512dq", "avx512f",
      "avx512vbmi", "avx512vl", "avx512vnni", "avxvnni",  "bmi",      "bmi2",     "f16c",
      "fma",        "lzcnt",    "popcnt",     "sse3",     "sse4.1",   "sse4.2",   "ssse3"};
  std::vector<std::string> used;
  std::ranges::copy_if(target.features, std::back_inserter(used), [](const std::string& feature) {
    return std::ranges::find(kUsed, feature) != kUsed.end();
  });
  std::ranges::sort(used);
  return used;
}

Target target_of_kernel(const KernelFunction& kernel, Target target) {
  Uses uses;
  for (const KernelPhase& phase : kernel.phases) collect_uses(kernel, phase.body, &uses);
  leave_out_unused(uses, &target.features);
  return target;
}

std::vector<std::string> required_features(const Target& target,
                                           const std::vector<const KernelFunction*>& kernels) {
  std::vector<std::string> features = code_features(target);
  Uses uses;
  for (const KernelFunction* kernel : kernels) {
    for (const KernelPhase& phase : kernel->phases) collect_uses(*kernel, phase.body, &uses);
  }
  leave_out_unused(uses, &features);
  return features;
}

Target portable(Target target) {
  std::erase_if(target.features, is_of_bytes);
  std::erase(target.features, kOfBFloats);
  std::erase(target.features, kOfTables);
  return target;
}

Target beyond_level(Target target) {
  const auto has = [&](std::string_view feature) {
    return std::ranges::find(target.features, feature) != target.features.end();
  };
  std::vector<std::string_view> more;
  if (has("avx512f"))
    more = {"avx512vnni", kOfBFloats, kOfTables};
  else if (has("avx2"))
    more = {"avxvnni"};
  for (const std::string_view feature : more) {
    if (!has(feature)) target.features.emplace_back(feature);
  }
  std::ranges::sort(target.features);
  return target;
}

}  // namespace weft
