// What is checked of the text of single kernels: no bank conflicts, each barrier, wait and commit
// missed when it is taken away, code without spills for every architecture.

#include <regex>

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/nvrtc.h"
#include "simt/launch.h"
#include "tests/driver/emulated_graph.h"
#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

/// Products whose tiles go through each way into shared memory: copied, through registers because
/// something is computed on the way, through registers because rows are not aligned.
struct Case {
  const char* name;
  const char* text;
  bool fast_math = false;
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
    {"depth shared", R"(
      (a: f16[16,2048], b: f16[2048,32]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[16,32]
      } -> (y))"},
    {"tf32", R"(
      (a: f32[96,320], b: f32[80,320]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={1} : f32[96,80]
      } -> (y))",
     true},
    {"cores", R"(
      (a: f32[96,320], b: f32[320,80]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[96,80]
      } -> (y))"},
};

struct Launched {
  CudaKernel kernel;
  KernelFunction function;
};

Launched only_kernel(const Case& one) {
  const char* text = one.text;
  const auto c = planned(text, one.fast_math);
  if (c == nullptr || c->kernels.size() != 1) {
    ADD_FAILURE() << "not one kernel: " << text;
    return {};
  }
  // Every one of them loads ahead.
  EXPECT_THAT(*print_level(*c, "tile-program"), ::testing::HasSubstr("stages"));
  return {emit_cuda(c->kernels[0].function), c->kernels[0].function};
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
    const auto use = b.kind == KernelBuffer::Kind::kInput    ? simt::Buffer::Use::kRead
                     : b.kind == KernelBuffer::Kind::kOutput ? simt::Buffer::Use::kWrite
                                                             : simt::Buffer::Use::kScratch;
    buffers.push_back({b.name, data, bytes, use});
    arguments.emplace_back(data);
  }
  uint32_t barrier = 0;
  if (launched.kernel.grid_barrier) {
    buffers.push_back({"barrier", reinterpret_cast<std::byte*>(&barrier), sizeof barrier,
                       simt::Buffer::Use::kReadWrite});
    arguments.emplace_back(&barrier);
  }
  simt::LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(launched.kernel.blocks);
  shape.threads = static_cast<uint32_t>(launched.kernel.threads);
  shape.shared_bytes = static_cast<size_t>(launched.kernel.shared_bytes);
  shape.cluster = static_cast<uint32_t>(launched.kernel.cluster);
  shape.cooperative = launched.kernel.grid_barrier;
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
    const Launched k = only_kernel(one);
    const simt::Report report = launch(k, k.kernel.text, true);
    EXPECT_TRUE(report.clean()) << one.name << simt::print(report);
    // Rows of single elements are written across banks.
    if (one.name == std::string("unaligned")) continue;
    EXPECT_TRUE(report.traffic.bank_conflicts.empty()) << one.name << simt::print(report);
    EXPECT_GT(report.traffic.shared.wavefronts, 0);
  }
}

TEST_F(KernelChecks, WhatOrdersAProductIsMissedWhenTakenAway) {
  static const std::regex kOrdering(
      R"re(wf_sync_block\(\);|wf_cp_wait<[0-9]+>\(\);|wf_cp_commit\(\);|wf_sync_grid\(barrier\);)re");
  for (const Case& one : kProducts) {
    const Launched k = only_kernel(one);
    int taken = 0;
    for (auto at = std::sregex_iterator(k.kernel.text.begin(), k.kernel.text.end(), kOrdering);
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
  const char* const large = R"(
      (a: f16[4096,4096], b: f16[4096,4096]) {
        y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[4096,4096]
      } -> (y))";
  std::vector<Case> cases(std::begin(kProducts), std::end(kProducts));
  cases.push_back({"large", large});
  for (const Case& one : cases) {
    const Launched k = only_kernel(one);
    for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
      if (!runs_on(k.kernel, arch)) continue;
      const auto binary = nvrtc->compile(k.kernel.text, k.kernel.name + ".cu", {own_arch(arch)});
      ASSERT_TRUE(binary.ok()) << binary.error().message;
      for (const CudaKernelResources& r : binary->kernels) {
        EXPECT_EQ(r.spill_store_bytes + r.spill_load_bytes + r.stack_bytes, 0)
            << arch << " " << one.name;
      }
    }
  }
}

}  // namespace
}  // namespace weft::testing
