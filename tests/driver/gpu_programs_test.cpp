// The GPU programs of tests/tile/programs as CUDA: lowered, through NVRTC, and on the emulator
// beside the tile program's evaluator.

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/cuda/nvrtc.h"
#include "driver/models/emulated_kernels.h"
#include "lower/lower.h"
#include "tests/tile/program_cases.h"
#include "tile/check/evaluate.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"

namespace weft::tile_test {
namespace {

std::vector<ProgramCase> gpu_programs() {
  std::vector<ProgramCase> out;
  for (const ProgramCase& test : program_cases()) {
    if (test.name.ends_with("_gpu")) out.push_back(test);
  }
  return out;
}

/// Memory of the kernel's buffers: parameters as given, outputs and workspaces unset.
class DeviceMemory {
 public:
  DeviceMemory(const KernelFunction& kernel, const std::map<std::string, HostTensor>& inputs) {
    for (const KernelBuffer& b : kernel.buffers) {
      if (b.kind == KernelBuffer::Kind::kShared) continue;
      names_.push_back(b.name);
      storage_.emplace_back(static_cast<size_t>(b.elements * byte_size(b.dtype)), std::byte{0x7b});
      const auto given = inputs.find(b.name);
      if (b.kind != KernelBuffer::Kind::kInput || given == inputs.end()) continue;
      const auto bytes = given->second.raw();
      std::copy(bytes, bytes + storage_.back().size(), storage_.back().begin());
    }
  }
  std::vector<void*> addresses() {
    std::vector<void*> out;
    for (auto& bytes : storage_) out.push_back(bytes.data());
    return out;
  }
  std::vector<std::span<std::byte>> spans() { return {storage_.begin(), storage_.end()}; }

  void expect(const std::map<std::string, HostTensor>& outputs, double tolerance) const {
    for (size_t b = 0; b < names_.size(); ++b) {
      const auto wanted = outputs.find(names_[b]);
      if (wanted == outputs.end()) continue;
      HostTensor got(wanted->second.dtype(), wanted->second.shape());
      std::copy(storage_[b].begin(), storage_[b].end(), got.mutable_raw());
      int wrong = 0;
      for (int64_t i = 0; i < got.size() && wrong < 4; ++i) {
        const double g = got.at_double(i), e = wanted->second.at_double(i);
        if (std::abs(g - e) <= tolerance * std::max(1.0, std::abs(e))) continue;
        ++wrong;
        ADD_FAILURE() << names_[b] << " element " << i << ": " << g << ", not " << e;
      }
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> storage_;
};

class GpuPrograms : public testing::TestWithParam<ProgramCase> {};

TEST_P(GpuPrograms, RunAsCuda) {
  const TileProgram program = small_program(GetParam());
  const auto inputs = program_inputs(program);
  const auto evaluation = evaluate_tile_program(program, inputs);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;

  const auto kernel = lower_to_kernel(program, *find_target("h100-sxm"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const Status verified = verify_kernel(*kernel);
  ASSERT_TRUE(verified.ok()) << verified.error().message << print(*kernel);

  DeviceMemory executed(*kernel, inputs);
  const Status done = execute_kernel(*kernel, executed.spans(), {});
  ASSERT_TRUE(done.ok()) << done.error().message << print(*kernel);
  executed.expect(evaluation->outputs, GetParam().tolerance);

  const auto launcher = emulate_kernels({&*kernel}, "");
  if (!launcher.ok() && launcher.error().code == ErrorCode::kMissingDevice) {
    GTEST_SKIP() << launcher.error().message;
  }
  ASSERT_TRUE(launcher.ok()) << launcher.error().message;
  DeviceMemory emulated(*kernel, inputs);
  const Status run = (*launcher)->launch(0, emulated.addresses(), {});
  ASSERT_TRUE(run.ok()) << run.error().message << emit_cuda(*kernel).text;
  emulated.expect(evaluation->outputs, GetParam().tolerance);
}

TEST_P(GpuPrograms, CompileForEachArchitecture) {
  const auto nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
  const auto program =
      parse_tile_program(read_text(program_directory() + GetParam().name + ".tile"));
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto kernel = lower_to_kernel(*program, *find_target("h100-sxm"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const CudaKernel code = emit_cuda(*kernel);
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    if (code.cluster > 1 && std::string(arch) == "sm_80") continue;  // has no clusters
    const auto binary = nvrtc->compile(code.text, code.name + ".cu", {arch});
    ASSERT_TRUE(binary.ok()) << binary.error().message;
    ASSERT_EQ(binary->kernels.size(), 1u);
    EXPECT_EQ(binary->kernels[0].spill_store_bytes, 0) << arch;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuPrograms, testing::ValuesIn(gpu_programs()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::tile_test
