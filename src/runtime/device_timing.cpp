#include "runtime/device_timing.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/device_walk.h"
#include "runtime/execution_context.h"

namespace weft {
namespace {

using Work = std::function<Status(CudaStream&)>;

constexpr int kRounds = 5;  ///< of which the median counts
/// Runs in one graph: as many as take about this long, so that events and starts do not count.
constexpr double kGraphMicroseconds = 400;
constexpr int kMostRuns = 20;
constexpr int64_t kFlushBytes = int64_t{512} << 20;
constexpr double kFlushMicroseconds = 150;

/// Median time of `repeats` times the work in one graph, over `repeats`.
Result<double> time_graph(CudaStream& stream, const Work& work, int repeats) {
  WEFT_ASSIGN_OR_RETURN(const CudaGraph graph, stream.capture([&](CudaStream& s) -> Status {
    for (int i = 0; i < repeats; ++i) WEFT_RETURN_IF_ERROR(work(s));
    return {};
  }));
  std::vector<double> samples;
  for (int round = 0; round < kRounds + 1; ++round) {
    WEFT_ASSIGN_OR_RETURN(const double us,
                          stream.time_us([&](CudaStream& s) { return s.launch(graph); }));
    if (round > 0) samples.push_back(us / repeats);  // the first loads the graph
  }
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

int repeats_for(double microseconds) {
  return std::clamp(static_cast<int>(kGraphMicroseconds / std::max(microseconds, 1.0)), 1,
                    kMostRuns);
}

Result<double> time_warm(CudaStream& stream, const Work& work) {
  WEFT_ASSIGN_OR_RETURN(const double once, time_graph(stream, work, 1));
  return time_graph(stream, work, repeats_for(once));
}

Result<double> time_flushed(CudaStream& stream, const Work& work, const CudaMemory& other) {
  const Work flush = [&](CudaStream& s) { return s.fill_zero(other.address(), other.bytes()); };
  const Work both = [&](CudaStream& s) {
    Status status = flush(s);
    return status.ok() ? work(s) : std::move(status);
  };
  const int repeats = repeats_for(kFlushMicroseconds) * 4;
  WEFT_ASSIGN_OR_RETURN(const double alone, time_graph(stream, flush, repeats));
  WEFT_ASSIGN_OR_RETURN(const double together, time_graph(stream, both, repeats));
  return together - alone;
}

}  // namespace

Result<DeviceTimes> time_on_device(DeviceRun& run) {
  if (!run.capturable_) return invalid_input("the program is no single graph, which is timed");
  const Program& program = run.executable_->program();
  int64_t bytes = 0;
  for (const auto* list : {&program.inputs, &program.outputs}) {
    for (const ProgramIo& io : *list) bytes += *checked_byte_size(io.dtype, io.shape);
  }
  DeviceTimes times;
  times.copied_bytes = bytes / 2;
  const auto& device = run.executable_->device()->device();
  WEFT_ASSIGN_OR_RETURN(const CudaMemory from, CudaMemory::allocate(device, times.copied_bytes));
  WEFT_ASSIGN_OR_RETURN(const CudaMemory to, CudaMemory::allocate(device, times.copied_bytes));
  WEFT_ASSIGN_OR_RETURN(const CudaMemory other, CudaMemory::allocate(device, kFlushBytes));
  const RunOptions options;
  const Work work = [&](CudaStream&) { return DeviceWalk(run, options, /*captured=*/true).walk(); };
  const Work copy = [&](CudaStream& s) {
    return s.copy_on_device(to.address(), from.address(), times.copied_bytes);
  };
  WEFT_ASSIGN_OR_RETURN(times.warm_us, time_warm(run.stream_, work));
  WEFT_ASSIGN_OR_RETURN(times.copy_warm_us, time_warm(run.stream_, copy));
  WEFT_ASSIGN_OR_RETURN(times.flushed_us, time_flushed(run.stream_, work, other));
  WEFT_ASSIGN_OR_RETURN(times.copy_flushed_us, time_flushed(run.stream_, copy, other));
  return times;
}

}  // namespace weft
