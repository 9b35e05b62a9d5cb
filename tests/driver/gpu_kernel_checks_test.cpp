// What is checked of the text of single kernels: no bank conflicts, each barrier, wait and commit
// missed when it is taken away, code without spills for every architecture.

#include <regex>

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/nvrtc.h"
#include "simt/launch.h"
#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

/// Products whose tiles go through each way into shared memory: copied, through registers because
/// something is computed on the way, through registers because rows are not aligned.
struct Case {
  const char* name;
  const char* text;
};
constexpr Case kProducts[] = {
    {"copied", R"(
      (a: f16[96,320], b: f16[320,80]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[96,80]
      } -> (y))"},
    {"transposed", R"(
      (a: bf16[320,96], b: bf16[80,320], c: bf16[80]) {
        p = dot_general a, b, lhs_contract={0}, rhs_contract={1} : bf16[96,80]
        d = broadcast c, dims={1} : bf16[96,80]
        y = add p, d : bf16[96,80]
      } -> (y))"},
    {"unaligned", R"(
      (a: f16[67,321], b: f16[321,45]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[67,45]
      } -> (y))"},
};

struct Launched {
  CudaKernel kernel;
  KernelFunction function;
};

Launched only_kernel(const char* text) {
  const auto c = planned(text);
  if (c == nullptr || c->kernels.size() != 1) {
    ADD_FAILURE() << "not one kernel: " << text;
    return {};
  }
  EXPECT_THAT(*print_level(*c, "tile-program"), ::testing::HasSubstr("by mma_"));
  return {emit_cuda(c->kernels[0]), c->kernels[0]};
}

/// The report of a launch on numbers of any kind; empty after a failure.
simt::Report launch(const Launched& launched, const std::string& text, bool traffic) {
  const auto module = simt::Module::compile(text, launched.kernel.name + ".cu");
  if (!module.ok()) {
    ADD_FAILURE() << module.error().message << text;
    return {};
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<simt::Buffer> buffers;
  std::vector<simt::Argument> arguments;
  for (const KernelBuffer& b : launched.function.buffers) {
    if (b.kind == KernelBuffer::Kind::kShared) continue;
    const auto bytes = static_cast<size_t>(b.elements * byte_size(b.dtype));
    storage.emplace_back(bytes + 256, std::byte{0x1c});  // a small number in every float type
    std::byte* data = storage.back().data();
    data += (256 - reinterpret_cast<uintptr_t>(data) % 256) % 256;
    const bool input = b.kind == KernelBuffer::Kind::kInput;
    buffers.push_back(
        {b.name, data, bytes, input ? simt::Buffer::Use::kRead : simt::Buffer::Use::kWrite});
    arguments.emplace_back(data);
  }
  simt::LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(launched.kernel.blocks);
  shape.threads = static_cast<uint32_t>(launched.kernel.threads);
  shape.shared_bytes = static_cast<size_t>(launched.kernel.shared_bytes);
  simt::LaunchOptions options;
  options.traffic = traffic;
  simt::Emulator emulator;
  const auto report =
      emulator.launch(**module, launched.kernel.name, shape, buffers, arguments, options);
  if (!report.ok()) {
    ADD_FAILURE() << report.error().message;
    return {};
  }
  return *report;
}

class KernelChecks : public GpuPipeline {};

TEST_F(KernelChecks, ProductsMeetNoBankTwice) {
  for (const Case& one : kProducts) {
    const Launched k = only_kernel(one.text);
    const simt::Report report = launch(k, k.kernel.text, true);
    EXPECT_TRUE(report.clean()) << one.name << simt::print(report);
    // Rows of single elements are written across banks.
    if (one.name == std::string("unaligned")) continue;
    EXPECT_TRUE(report.traffic.bank_conflicts.empty()) << one.name << simt::print(report);
    EXPECT_GT(report.traffic.shared.wavefronts, 0);
  }
}

TEST_F(KernelChecks, WhatOrdersAProductIsMissedWhenTakenAway) {
  static const std::regex ordering(
      R"re(wf_sync_block\(\);|wf_cp_wait<[0-9]+>\(\);|wf_cp_commit\(\);)re");
  for (const Case& one : kProducts) {
    const Launched k = only_kernel(one.text);
    int taken = 0;
    for (auto at = std::sregex_iterator(k.kernel.text.begin(), k.kernel.text.end(), ordering);
         at != std::sregex_iterator(); ++at, ++taken) {
      std::string text = k.kernel.text;
      text.erase(static_cast<size_t>(at->position()), static_cast<size_t>(at->length()));
      EXPECT_FALSE(launch(k, text, false).clean())
          << one.name << ": " << at->str() << " at " << at->position() << " is not missed\n"
          << k.kernel.text;
    }
    EXPECT_GE(taken, 1);
  }
}

TEST_F(KernelChecks, ProductsCompileWithoutSpills) {
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
  const std::string large = R"(
      (a: f16[4096,4096], b: f16[4096,4096]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[4096,4096]
      } -> (y))";
  std::vector<const char*> texts{large.c_str()};
  for (const Case& one : kProducts) texts.push_back(one.text);
  for (const char* text : texts) {
    const Launched k = only_kernel(text);
    for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
      const auto binary = nvrtc->compile(k.kernel.text, k.kernel.name + ".cu", {arch});
      ASSERT_TRUE(binary.ok()) << binary.error().message;
      for (const CudaKernelResources& r : binary->kernels) {
        EXPECT_EQ(r.spill_store_bytes + r.spill_load_bytes + r.stack_bytes, 0) << arch << text;
      }
    }
  }
}

}  // namespace
}  // namespace weft::testing
