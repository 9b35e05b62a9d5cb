// Kernels of every kind of the generator, written by hand: right answers and no report, a report
// when something that orders them is taken away, and code for every architecture.

#include <cmath>
#include <regex>

#include "codegen/cuda/nvrtc.h"
#include "tests/simt/kernel_cases.h"
#include "tests/simt/kernel_fixture.h"
#include "tile/analysis/predict_traffic.h"

namespace weft::simt {
namespace {

LaunchOptions with_traffic() {
  LaunchOptions options;
  options.traffic = true;
  return options;
}

const KernelCase& case_of(const std::vector<KernelCase>& cases, const std::string& kernel) {
  for (const KernelCase& one : cases) {
    if (one.kernel == kernel) return one;
  }
  throw std::out_of_range(kernel);
}

KernelOutcome run_case(const std::string& kernel, const LaunchOptions& options) {
  const std::vector<KernelCase> cases = kernel_cases();
  const KernelCase& one = case_of(cases, kernel);
  Emulator emulator;
  const auto module = compile(read_kernel(one.file), one.file);
  return module == nullptr ? KernelOutcome{} : one.run(*module, emulator, options);
}

TEST(Kernels, OriginalsAreRightAndUnreported) {
  Emulator emulator;
  for (const KernelCase& one : kernel_cases()) {
    const auto module = compile(read_kernel(one.file), one.file);
    ASSERT_NE(module, nullptr);
    const KernelOutcome outcome = one.run(*module, emulator, with_traffic());
    EXPECT_TRUE(outcome.report.clean()) << one.kernel << "\n" << print(outcome.report);
    EXPECT_LE(outcome.error, one.tolerance) << one.kernel;
  }
}

TEST(Kernels, ReportsRepeatThemselves) {
  const Report first = run_case("gemm_f16", with_traffic()).report;
  const Report second = run_case("gemm_f16", with_traffic()).report;
  EXPECT_EQ(print(first), print(second));
  EXPECT_EQ(first.accesses, second.accesses);
}

TEST(Kernels, RunWithoutInstrumentation) {
  CompileOptions plain;
  plain.instrument = false;
  LaunchOptions options;
  options.check = false;
  Emulator emulator;
  for (const KernelCase& one : kernel_cases()) {
    const auto module = Module::compile(read_kernel(one.file), one.file, plain);
    ASSERT_TRUE(module.ok()) << module.error().message;
    const KernelOutcome outcome = one.run(**module, emulator, options);
    EXPECT_TRUE(outcome.report.clean()) << one.kernel << "\n" << print(outcome.report);
    EXPECT_LE(outcome.error, one.tolerance) << one.kernel;
  }
}

/// The text with one statement that orders memory taken away, or weakened.
struct Mutant {
  std::string file, text, what;
};
std::vector<Mutant> mutants_of(const std::string& file) {
  static const std::regex kOrdering(
      R"re(( *)(wf_sync_block\(\);|wf_sync_warp\(WF_FULL\);|wf_sync_cluster\(\);|wf_sync_grid\(counter\);|wf_cp_wait<1>\(\);|wf_cp_commit\(\);|wf_fence\(\);|wf_atomic_add_acq_rel))re");
  const std::string text = read_kernel(file);
  std::vector<Mutant> mutants;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kOrdering);
       at != std::sregex_iterator(); ++at) {
    const std::string found = (*at)[2];
    const bool atomic = found == "wf_atomic_add_acq_rel";
    Mutant mutant = {file, text, {}};
    mutant.text.replace(static_cast<size_t>(at->position(2)), found.size(),
                        atomic ? "wf_atomic_add" : "");
    const auto line = std::count(text.begin(), text.begin() + at->position(2), '\n') + 1;
    mutant.what.append(file).append(":").append(std::to_string(line)).append(": ").append(found);
    mutants.push_back(std::move(mutant));
  }
  return mutants;
}

TEST(Kernels, EveryBarrierWaitAndFenceIsMissed) {
  const std::vector<KernelCase> cases = kernel_cases();
  std::vector<std::string> files, unreported;
  for (const KernelCase& one : cases) {
    if (files.empty() || files.back() != one.file) files.push_back(one.file);
  }
  size_t total = 0;
  Emulator emulator;
  for (const std::string& file : files) {
    for (const Mutant& mutant : mutants_of(file)) {
      const auto module = compile(mutant.text, file);
      ASSERT_NE(module, nullptr);
      bool reported = false;
      for (const KernelCase& one : cases) {
        if (one.file != file) continue;
        reported |= !one.run(*module, emulator, {}).report.clean();
      }
      ++total;
      if (!reported) unreported.push_back(mutant.what);
    }
  }
  EXPECT_GE(total, 20u);
  EXPECT_THAT(unreported, ::testing::IsEmpty());
}

TEST(Kernels, AWrongIndexIsRefused) {
  const auto report_of = [](const std::string& kernel, const std::string& from,
                            const std::string& to) {
    const std::vector<KernelCase> cases = kernel_cases();
    const KernelCase& one = case_of(cases, kernel);
    std::string text = read_kernel(one.file);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    Emulator emulator;
    const auto module = compile(text, one.file);
    return module == nullptr ? Report{} : one.run(*module, emulator, {}).report;
  };
  EXPECT_TRUE(has_issue(report_of("softmax_warp", "v[k] = i < n ?", "v[k] = i <= n ?"),
                        IssueKind::kOutOfBounds));
  EXPECT_TRUE(has_issue(report_of("elementwise", "y[k] = gate", "y[k - 1] = gate"),
                        IssueKind::kUnwrittenOutput));
  EXPECT_TRUE(has_issue(report_of("transpose_padded", "tile[wf_lane() * Pitch + i]",
                                  "tile[wf_lane() * Pitch + i + 1]"),
                        IssueKind::kUninitialisedRead));
  EXPECT_TRUE(
      has_issue(report_of("gemm_f32", "sb[i / 64 * 68 + i % 64]", "sb[i / 64 * 68 + i % 32]"),
                IssueKind::kRace));
  EXPECT_TRUE(has_issue(report_of("gemm_f16", "ahead % 3 * 8192, a", "ahead % 2 * 8192, a"),
                        IssueKind::kPendingCopy));
}

TEST(Kernels, BankConflictsNameTheirLine) {
  const Traffic padded = run_case("transpose_padded", with_traffic()).report.traffic;
  EXPECT_EQ(padded.shared.wavefronts, padded.shared.ideal_wavefronts);
  EXPECT_TRUE(padded.bank_conflicts.empty());

  const Traffic plain = run_case("transpose_plain", with_traffic()).report.traffic;
  ASSERT_EQ(plain.bank_conflicts.size(), 1u);
  const std::string text = read_kernel("transpose.cu");
  const size_t at = text.find("= tile[wf_lane() * Pitch");
  EXPECT_EQ(plain.bank_conflicts[0].line,
            std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1);
  // Full tiles need 32 wavefronts where one would do.
  EXPECT_GT(plain.bank_conflicts[0].traffic.wavefronts,
            20 * plain.bank_conflicts[0].traffic.ideal_wavefronts);

  const Report swizzled = run_case("gemm_f16", with_traffic()).report;
  EXPECT_TRUE(swizzled.traffic.bank_conflicts.empty()) << print(swizzled);
}

TEST(Kernels, TrafficOfARowKeptOnChipIsItsSizeOnce) {
  const Traffic traffic = run_case("softmax_block", with_traffic()).report.traffic;
  const int64_t bytes = 3 * 515 * 4;
  EXPECT_EQ(traffic.loads.bytes, bytes);
  EXPECT_EQ(traffic.loads.unique_bytes, bytes);
  EXPECT_EQ(traffic.stores.bytes, bytes);
  EXPECT_EQ(traffic.stores.unique_bytes, bytes);
  // A row of 515 floats takes ceil(515 / 32) requests.
  EXPECT_EQ(traffic.loads.requests, 3 * 17);
  ASSERT_EQ(traffic.buffers.size(), 2u);
  EXPECT_EQ(traffic.buffers[0].loads.bytes + traffic.buffers[1].loads.bytes, bytes);
}

TEST(Kernels, CompileForEveryArchitectureWithoutSpills) {
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
  std::string last;
  for (const KernelCase& one : kernel_cases()) {
    if (one.file == last) continue;
    last = one.file;
    for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
      const Result<CudaBinary> binary = nvrtc->compile(read_kernel(one.file), one.file, {arch});
      ASSERT_TRUE(binary.ok()) << binary.error().message;
      for (const CudaKernelResources& kernel : binary->kernels) {
        EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes, 0) << kernel.name;
        EXPECT_EQ(kernel.stack_bytes, 0) << kernel.name;
      }
    }
  }
}

}  // namespace
}  // namespace weft::simt
