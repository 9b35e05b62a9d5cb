#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/calibrate/calibrate.h"
#include "driver/calibrate/calibration_program.h"
#include "driver/compile_device_kernels.h"
#include "runtime/execution_context.h"
#include "runtime/load_programs.h"
#include "support/tensor.h"

namespace weft {
namespace {

constexpr int kRounds = 9;      ///< of which the median counts
constexpr int64_t kSteps = 64;  ///< of a graph that measures what one costs
constexpr int64_t kWarps = 8;   ///< of a block
/// Of a copy: a device has room for those that its second-level cache is small beside.
constexpr int64_t kMostBytes = int64_t{1} << 30;
/// Elements that a block copies at a time: a vector of four for each thread.
constexpr int64_t kItem = kWarps * 32 * 4;

/// x -> y in vectors of 16 bytes.
std::string copy_text(const Target& target, int64_t elements) {
  const int64_t items = elements / kItem;
  return fmt::format(R"(kernel "copy" {{
  gpu blocks {0} warps {1} per_sm 1 shared 0
  buffer 0 "x" input f32[{2}] align 64
  buffer 1 "y" output f32[{2}] align 64
  phase {3} (%0, %1) {{
    %2: i64 = position lane
    %3: i64 = position warp
    %4: i64 = const 32
    %5: i64 = apply mul %3, %4
    %6: i64 = apply add %5, %2
    %7: i64 = const 4
    %8: i64 = apply mul %6, %7
    %9: i64 = const 1
    %10: i64 = const {4}
    for (%11: i64 = %0 to %1 step %9) {{
      %12: i64 = apply mul %11, %10
      %13: i64 = apply add %12, %8
      %14: f32x4 = load 0[%13]
      store 1[%13], %14
    }}
  }}
}}
)",
                     std::min<int64_t>(items, int64_t{8} * target.sm_count), kWarps, elements,
                     items, kItem);
}

/// A block on every multiprocessor stores one element, `phases` times, with barriers of the grid
/// between them.
std::string touch_text(const Target& target, int64_t phases) {
  std::string text = fmt::format(
      "kernel \"touch\" {{\n  gpu blocks {0} warps 1 per_sm 1 shared 0\n"
      "  buffer 0 \"x\" input f32[64] align 64\n  buffer 1 \"y\" output f32[{1}] align 64\n",
      target.sm_count, 32 * target.sm_count);
  for (int64_t i = 0; i < phases; ++i) {
    const int64_t r = 10 * i;
    text += fmt::format(R"(  phase {0} (%{1}, %{2}) {{
    %{3}: i64 = const 32
    %{4}: i64 = apply mul %{1}, %{3}
    %{5}: i64 = position lane
    %{6}: i64 = apply add %{4}, %{5}
    %{7}: f32 = const 1
    store 1[%{6}], %{7}
  }}
)",
                        target.sm_count, r, r + 1, r + 2, r + 3, r + 4, r + 5, r + 6);
  }
  return text + "}\n";
}

/// A block on every multiprocessor, but for those that fill no cluster, stores one element before
/// and one after it meets its cluster `barriers` times.
std::string meet_text(const Target& target, int64_t barriers) {
  const int64_t cluster = target.cluster_blocks;
  const int64_t blocks = std::max<int64_t>(1, target.sm_count / cluster) * cluster;
  std::string text = fmt::format(R"(kernel "meet" {{
  gpu blocks {0} warps 1 per_sm 1 shared 0 cluster {1}
  buffer 0 "x" input f32[64] align 64
  buffer 1 "y" output f32[{2}] align 64
  phase {0} (%0, %1) {{
    %2: i64 = const 32
    %3: i64 = apply mul %0, %2
    %4: i64 = position lane
    %5: i64 = apply add %3, %4
    %6: f32 = const 1
    store 1[%5], %6
)",
                                 blocks, cluster, 32 * blocks);
  for (int64_t i = 0; i < barriers; ++i) text += "    barrier cluster\n";
  return text + "    store 1[%5], %6\n  }\n}\n";
}

/// Microseconds of the device for one of `steps` runs of the kernel in a row.
Result<double> measure(const Target& target, const std::string& text, int64_t steps) {
  Compilation c;
  c.target = target;
  WEFT_ASSIGN_OR_RETURN(KernelFunction kernel, parse_kernel(text));
  WEFT_RETURN_IF_ERROR(verify_kernel(kernel));
  c.kernels.emplace_back().function = std::move(kernel);
  const KernelFunction& function = c.kernels[0].function;
  WEFT_ASSIGN_OR_RETURN(const std::vector<KernelImage> images, compile_device_kernels(c, nullptr));
  Program program = calibration_program(function, images[0], steps, /*barriers=*/true);
  program.target = target.name;
  program.arch = device_arch(target);
  std::vector<Program> programs;
  programs.push_back(std::move(program));
  WEFT_ASSIGN_OR_RETURN(const ModelPrograms loaded, load_programs(std::move(programs)));
  WEFT_ASSIGN_OR_RETURN(auto context, ExecutionContext::create(loaded.front()));
  HostTensor x(DType::kF32, {function.buffers[0].elements});
  HostTensor y(DType::kF32, {function.buffers[1].elements});
  std::fill_n(x.mutable_data<float>(), x.size(), 0.5F);
  const InputRef in{DType::kF32, x.shape(), x.raw()};
  const OutputRef out{DType::kF32, y.shape(), y.mutable_raw()};
  int64_t nanoseconds = 0;
  RunOptions options;
  options.device_nanoseconds = &nanoseconds;
  std::vector<double> rounds;
  for (int i = 0; i <= kRounds; ++i) {
    WEFT_RETURN_IF_ERROR(context->run(std::span(&in, 1), std::span(&out, 1), options));
    if (i > 0) rounds.push_back(static_cast<double>(nanoseconds) * 1e-3);  // the first one warms up
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2] / static_cast<double>(steps);
}

/// Working sets of a copy: up to the second-level cache, and beyond.
std::vector<int64_t> copy_sizes(const Target& target, int64_t most) {
  constexpr int64_t kUnit = kItem * 8;
  std::vector<int64_t> sizes = {int64_t{1} << 16,    int64_t{1} << 20,    target.l2_bytes / 8,
                                target.l2_bytes / 2, target.l2_bytes * 2, target.l2_bytes * 16};
  for (int64_t& bytes : sizes) bytes = std::max(kUnit, std::min(bytes, most) / kUnit * kUnit);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

Result<Target> calibrate_gpu(Target target, const CalibrationOptions& options) {
  constexpr double kLeastUs = 1e-3;  // a description's figures are positive
  WEFT_ASSIGN_OR_RETURN(const double launch, measure(target, touch_text(target, 1), kSteps));
  WEFT_ASSIGN_OR_RETURN(const double waits, measure(target, touch_text(target, 9), kSteps));
  target.launch_us = std::max(kLeastUs, launch);  // with its end
  target.drain_us = kLeastUs;
  target.barrier_us = std::max(kLeastUs, (waits - launch) / 8);
  if (target.cluster_blocks > 1) {
    constexpr int64_t kMeetings = 128;  // of a cluster, in one launch
    WEFT_ASSIGN_OR_RETURN(const double once, measure(target, meet_text(target, 1), kSteps));
    WEFT_ASSIGN_OR_RETURN(const double often,
                          measure(target, meet_text(target, 1 + kMeetings), kSteps));
    target.cluster_barrier_us = std::max(kLeastUs, (often - once) / kMeetings);
  }
  std::vector<Target::BandwidthPoint> bandwidth;
  const int64_t most = options.most_bytes > 0 ? options.most_bytes : kMostBytes;
  for (const int64_t bytes : copy_sizes(target, most)) {
    const int64_t steps = std::clamp<int64_t>((int64_t{1} << 28) / bytes, 1, kSteps);
    WEFT_ASSIGN_OR_RETURN(const double us, measure(target, copy_text(target, bytes / 8), steps));
    const double copying = std::max(us - target.launch_us, us / 8);
    bandwidth.push_back({bytes, static_cast<double>(bytes) / copying * 1e-3});
  }
  target.bandwidth = std::move(bandwidth);
  return target;
}

}  // namespace weft
