#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/compiler.h"
#include "driver/models/emulated_kernels.h"
#include "driver/print_level.h"
#include "support/tensor.h"

/// Graphs through the whole pipeline for a GPU: planned for a described device, lowered, written as
/// CUDA, run by the emulator with its checks on, and compared with the interpreter.
namespace weft::testing {

/// Whether there is a compiler that the emulator can build texts with.
bool can_emulate();

/// A device like the target with fewer SMs, each with its share of the cache and of the bandwidth.
Target with_sms(Target target, int32_t sm_count);

/// What one launch did.
struct Launch {
  CudaKernel kernel;
  simt::Report report;
};

struct EmulatedRun {
  std::unique_ptr<Compilation> compilation;  ///< null after a failure, which is reported
  std::vector<HostTensor> inputs, outputs;
  std::vector<Launch> launches;

  /// Of kernel `k` of the plan.
  const ScheduledKernel& schedule(size_t k) const { return compilation->plan.kernels[k].schedule; }
  std::string code() const { return *print_level(*compilation, "code"); }
  /// Bytes of the inputs and outputs.
  int64_t bytes() const;
  /// Bytes of the sectors of all requests to global memory, without one sector of each: a request
  /// that does not start at a sector touches one more.
  int64_t sector_bytes() const;
};

/// Runs a graph, compiled for the target with `options` beside it, on made-up inputs; elements of
/// outputs that differ from the interpreter's by more than the tolerance (relative above 1) are
/// failures.
EmulatedRun run_and_compare(const std::string& graph, const Target& target, double tolerance = 1e-5,
                            bool fast_math = false, CompileOptions options = {});

/// "sm_90a" of "sm_90", whose warp groups no other architecture has; others as they are.
std::string own_arch(const std::string& arch);
/// Whether the code is for that architecture, or any.
bool runs_on(const CudaKernel& code, const std::string& arch);

/// Compiles every kernel for these where NVRTC is installed; a thread must not need more registers
/// than its launch leaves it.
void expect_no_spills(const EmulatedRun& run,
                      const std::vector<std::string>& archs = {"sm_80", "sm_90", "sm_100"});

std::string replaced(std::string text, const std::string& from, const std::string& to);

}  // namespace weft::testing
