#include "driver/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cpu/compile_kernels.h"
#include "driver/calibrate/calibration_program.h"
#include "kernel/kernel_function.h"
#include "runtime/execution_context.h"
#include "runtime/program.h"
#include "support/tensor.h"

namespace weft {
namespace {

constexpr int kRounds = 9;        ///< of which the median counts
constexpr int64_t kSteps = 64;    ///< of a run that measures what starting one costs
constexpr int64_t kTurns = 4096;  ///< of the loop that measures multiply-adds
constexpr double kFusedCycles = 4, kApartCycles = 8;  ///< from one multiply-add to the next
constexpr int64_t kMostBytes = int64_t{256} << 20;    ///< of a copy

/// x -> y, `times` over, four vectors a turn; an item is a thread's share.
std::string copy_text(const Target& target, int64_t elements, int64_t times) {
  const int lanes = target.lanes(4);
  const int64_t share = elements / target.threads;
  std::string body;
  for (int i = 0; i < 4; ++i) {
    body += fmt::format(
        "%{0}: i64 = const {1}\n%{2}: i64 = apply add %9, %{0}\n%{3}: f32x{4} = load 0[%{2}]\n"
        "store 1[%{2}], %{3}\n",
        10 + 3 * i, lanes * i, 11 + 3 * i, 12 + 3 * i, lanes);
  }
  return fmt::format(R"(kernel "copy" {{
  buffer 0 "x" input f32[{0}] align 64
  buffer 1 "y" output f32[{0}] align 64
  phase {1} (%0, %1) {{
    %2: i64 = const 1
    for (%3: i64 = %0 to %1 step %2) {{
      %4: i64 = const {2}
      %5: i64 = apply mul %3, %4
      %6: i64 = const {3}
      %7: i64 = apply add %5, %4
      %22: i64 = const 0
      %23: i64 = const {5}
      for (%24: i64 = %22 to %23 step %2) {{
        for (%9: i64 = %5 to %7 step %6) {{
          {4}
        }}
      }}
    }}
  }}
}}
)",
                     elements, target.threads, share, 4 * lanes, body, times);
}

bool fuses(const Target& target) {
  return std::binary_search(target.features.begin(), target.features.end(), "fma");
}

/// Chains of multiply-adds, kTurns times; fused where the machine can.
std::string multiply_add_text(const Target& target, int chains) {
  const int lanes = target.lanes(4);
  const std::string type = fmt::format("f32x{}", lanes);
  const bool fused = fuses(target);
  std::string results, parameters, body, yields, sums;
  const auto separated = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (int i = 0; i < chains; ++i) {
    separated(results, fmt::format("%{}: {}", 100 + i, type));
    separated(parameters, fmt::format("%{}: {} = %5", 200 + i, type));
    body += fused ? fmt::format("%{}: {} = fma %{}, %6, %7\n", 300 + i, type, 200 + i)
                  : fmt::format("%{0}: {1} = apply mul %{2}, %6\n%{3}: {1} = apply add %{0}, %7\n",
                                500 + i, type, 200 + i, 300 + i);
    separated(yields, fmt::format("%{}", 300 + i));
    sums +=
        fmt::format("%{}: {} = apply add %{}, %{}\n", 400 + i, type, i == 0 ? 5 : 399 + i, 100 + i);
  }
  return fmt::format(R"(kernel "multiply_add" {{
  buffer 0 "x" input f32[64] align 64
  buffer 1 "y" output f32[{0}] align 64
  phase {1} (%0, %1) {{
    %2: i64 = const 1
    for (%3: i64 = %0 to %1 step %2) {{
      %4: i64 = const 0
      %5: {2} = load 0[%4]
      %6: {2} = const 0.999
      %7: {2} = const 0.001
      %8: i64 = const {3}
      {4} = for (%9: i64 = %4 to %8 step %2, {5}) {{
        {6}
        yield {7}
      }}
      {8}
      %10: i64 = const {9}
      %11: i64 = apply mul %3, %10
      store 1[%11], %{10}
    }}
  }}
}}
)",
                     lanes * target.threads, target.threads, type, kTurns, results, parameters,
                     body, yields, sums, lanes, 399 + chains);
}

/// Each thread stores one element; `phases` times, a barrier of all threads between them.
std::string touch_text(const Target& target, int64_t phases) {
  std::string text = fmt::format(
      "kernel \"touch\" {{\n  buffer 0 \"x\" input f32[64] align 64\n"
      "  buffer 1 \"y\" output f32[{}] align 64\n",
      16 * target.threads);
  for (int64_t i = 0; i < phases; ++i) {
    const int64_t r = 10 * i;
    text += fmt::format(R"(  phase {0} (%{1}, %{2}) {{
    %{3}: i64 = const 16
    %{4}: i64 = apply mul %{1}, %{3}
    %{5}: f32 = const 1
    store 1[%{4}], %{5}
  }}
)",
                        target.threads, r, r + 1, r + 2, r + 3, r + 4);
  }
  return text + "}\n";
}

class Calibrator {
 public:
  Calibrator(const Target& target, const CalibrationOptions& options)
      : target_(target), options_(options) {}

  Status start() {
    if (target_.threads == 1) return {};
    WEFT_ASSIGN_OR_RETURN(pool_, ThreadPool::create({.threads = target_.threads}));
    return {};
  }

  /// Seconds of one of `steps` runs of the kernel in a row.
  Result<double> measure(const std::string& text, int64_t steps, bool barriers) {
    WEFT_ASSIGN_OR_RETURN(const KernelFunction kernel, parse_kernel(text));
    WEFT_RETURN_IF_ERROR(verify_kernel(kernel));
    WEFT_ASSIGN_OR_RETURN(const GeneratedCode compiled, compile_kernels({{&kernel}}, target_, 1));
    WEFT_ASSIGN_OR_RETURN(auto executable, Executable::create(calibration_program(
                                               kernel, compiled.images[0], steps, barriers)));
    ContextOptions context_options;
    context_options.pool = pool_;
    WEFT_ASSIGN_OR_RETURN(auto context,
                          ExecutionContext::create(std::move(executable), context_options));
    HostTensor x(DType::kF32, {kernel.buffers[0].elements});
    HostTensor y(DType::kF32, {kernel.buffers[1].elements});
    std::fill_n(x.mutable_data<float>(), x.size(), 0.5F);
    const InputRef in{DType::kF32, x.shape(), x.raw()};
    const OutputRef out{DType::kF32, y.shape(), y.mutable_raw()};
    WEFT_ASSIGN_OR_RETURN(const double seconds, median_run(*context, in, out));
    return seconds / static_cast<double>(steps);
  }

 private:
  Result<double> median_run(ExecutionContext& context, const InputRef& in, const OutputRef& out) {
    using Clock = std::chrono::steady_clock;
    const auto seconds_of = [&](int64_t runs) -> Result<double> {
      const Clock::time_point start = Clock::now();
      for (int64_t i = 0; i < runs; ++i)
        WEFT_RETURN_IF_ERROR(context.run(std::span(&in, 1), std::span(&out, 1)));
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    WEFT_RETURN_IF_ERROR(seconds_of(1));  // pages, code and caches
    WEFT_ASSIGN_OR_RETURN(const double once, seconds_of(1));
    const auto runs = std::clamp<int64_t>(
        static_cast<int64_t>(options_.seconds / kRounds / std::max(once, 1e-7)), 1, 1 << 20);
    std::vector<double> rounds;
    for (int i = 0; i < kRounds; ++i) {
      WEFT_ASSIGN_OR_RETURN(const double seconds, seconds_of(runs));
      rounds.push_back(seconds / static_cast<double>(runs));
    }
    std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
    return rounds[kRounds / 2];
  }

  const Target& target_;
  CalibrationOptions options_;
  std::shared_ptr<ThreadPool> pool_;
};

/// Working sets of a copy: half and all of what each level of cache holds, then beyond.
std::vector<int64_t> copy_sizes(const Target& target, int64_t most) {
  const int64_t threads = target.threads;
  std::vector<int64_t> sizes = {target.l1_bytes * threads / 2, target.l1_bytes * threads * 3 / 4,
                                target.l2_bytes * threads / 4, target.l2_bytes * threads / 2,
                                target.l3_bytes / 4,           target.l3_bytes / 2,
                                target.l3_bytes * 2,           target.l3_bytes * 4};
  // Whole turns of the copy's loop on every thread, read and written.
  const int64_t unit = int64_t{2} * 4 * target.vector_bytes * threads;
  for (int64_t& bytes : sizes) bytes = std::max(unit, std::min(bytes, most) / unit * unit);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

Result<Target> calibrate_cpu(Target target, const CalibrationOptions& options) {
  Calibrator calibrator(target, options);
  WEFT_RETURN_IF_ERROR(calibrator.start());
  std::vector<Target::BandwidthPoint> bandwidth;
  const int64_t most = options.most_bytes > 0 ? options.most_bytes : kMostBytes;
  for (const int64_t bytes : copy_sizes(target, most)) {
    // Small copies are made many times over, so that what is measured is not the start of a run.
    const int64_t times = std::max<int64_t>(1, (int64_t{32} << 20) / bytes);
    WEFT_ASSIGN_OR_RETURN(
        const double seconds,
        calibrator.measure(copy_text(target, bytes / 8, times), 1, /*barriers=*/false));
    bandwidth.push_back({bytes, static_cast<double>(bytes * times) / seconds * 1e-9});
  }
  const int chains = target.vector_registers * 3 / 4;
  WEFT_ASSIGN_OR_RETURN(const double turns, calibrator.measure(multiply_add_text(target, chains),
                                                               16, /*barriers=*/false));
  WEFT_ASSIGN_OR_RETURN(const double chained, calibrator.measure(multiply_add_text(target, 1), 16,
                                                                 /*barriers=*/false));
  WEFT_ASSIGN_OR_RETURN(const double starts,
                        calibrator.measure(touch_text(target, 1), kSteps, /*barriers=*/false));
  WEFT_ASSIGN_OR_RETURN(const double one,
                        calibrator.measure(touch_text(target, 2), kSteps, /*barriers=*/true));
  WEFT_ASSIGN_OR_RETURN(const double many,
                        calibrator.measure(touch_text(target, 10), kSteps, /*barriers=*/true));
  target.bandwidth = std::move(bandwidth);
  target.peak_gflops = 2.0 * chains * target.lanes(4) * target.threads * kTurns / turns * 1e-9;
  // Each multiply-add of a chain awaits the one before.
  const double cycles = fuses(target) ? kFusedCycles : kApartCycles;
  target.clock_mhz = std::max(1, static_cast<int32_t>(cycles * kTurns / chained * 1e-6));
  target.launch_us = starts * 1e6;
  // A description's figures are positive.
  target.barrier_us = std::max(1e-3, (many - one) / 8 * 1e6);
  return target;
}

}  // namespace weft
