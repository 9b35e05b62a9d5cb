#include "runtime/region_walk.h"

#include <algorithm>
#include <chrono>

#include "runtime/buffer_address.h"
#include "runtime/host_ops.h"
#include "runtime/share.h"

#if defined(__clang__)
// Generated code carries no type information for -fsanitize=function to read.
#define WEFT_CALLS_GENERATED_CODE __attribute__((no_sanitize("function")))
#else
#define WEFT_CALLS_GENERATED_CODE
#endif

namespace weft {
namespace {

/// A region without barriers would not notice that it is to stop: loops have one this often.
constexpr int64_t kIterationsBetweenStops = 1024;

/// From this size on, several threads copy what a loop carries faster than one.
constexpr int64_t kSharedCopyBytes = int64_t{1} << 17;

WEFT_CALLS_GENERATED_CODE
void call_kernel(KernelEntry entry, void* const* buffers, const int64_t* arguments, int64_t begin,
                 int64_t end, void* scratch) {
  entry(buffers, arguments, begin, end, scratch);
}

}  // namespace

RegionWalk::RegionWalk(ExecutionContext& context, int thread)
    : executable_(*context.executable_),
      program_(context.executable_->program()),
      region_(context.region_),
      state_(context.threads_[static_cast<size_t>(thread)]),
      options_(*context.region_.options),
      table_(context.start_table_),
      max_iterations_(context.options_.max_iterations),
      launcher_(context.options_.launcher.get()),
      thread_(thread),
      threads_(context.region_.threads) {
  if (program_.loop_count == 0) return;
  std::copy(table_.begin(), table_.end(), state_.table.begin());
  std::fill(state_.iterations.begin(), state_.iterations.end(), 0);
  table_ = state_.table;
}

void RegionWalk::walk() { run_steps(executable_.root()); }

bool RegionWalk::run_steps(const std::vector<ExecutableStep>& steps) {
  for (const ExecutableStep& step : steps) {
    if (!run_step(step)) return false;
  }
  return true;
}

bool RegionWalk::run_step(const ExecutableStep& step) {
  if (!options_.step_nanoseconds.empty()) return run_timed(step);
  // With one thread nothing waits, so this is where a request to stop is seen. With more, every
  // thread has to go on to the next barrier; the first may only leave out its work until then.
  if (stop_requested() && threads_ == 1) return false;
  barrier_owed_ = barrier_owed_ || step.source->barrier_before;
  if (barrier_owed_) {
    const bool goes_on =
        step.on_first_thread ? wait_before_work_of_first_thread() : wait_before_work_of_all();
    if (!goes_on) return false;
  }
  return dispatch(step);
}

bool RegionWalk::run_timed(const ExecutableStep& step) {
  using Clock = std::chrono::steady_clock;
  if (!wait_for_all()) return false;
  const Clock::time_point start = Clock::now();
  if (!dispatch(step) || !wait_for_all()) return false;
  if (is_first()) {
    options_.step_nanoseconds[static_cast<size_t>(step.id)] +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }
  return true;
}

bool RegionWalk::dispatch(const ExecutableStep& step) {
  switch (step.source->kind) {
    case ProgramStep::Kind::kLaunch:
      return run_launch(step);
    case ProgramStep::Kind::kHost:
      return run_host(step);
    case ProgramStep::Kind::kIf:
      return run_if(step);
    case ProgramStep::Kind::kLoop:
      return run_loop(step);
  }
  return true;
}

bool RegionWalk::run_launch(const ExecutableStep& step) {
  const LaunchStep& launch = step.source->launch;
  const bool mine = !step.on_first_thread || is_first();
  const bool skipped = is_first() && region_.stop.load(std::memory_order_relaxed);
  void** buffers = state_.launch_table.data();
  if (mine) {
    for (size_t i = 0; i < launch.buffers.size(); ++i) buffers[i] = address(launch.buffers[i]);
  }
  if (launcher_ != nullptr) return run_launcher(launch);
  if (!step.on_first_thread && threads_ > 1 && program_.loop_count > 0) fetch_carries(launch);
  buffers[launch.buffers.size()] = &phase_barrier_;
  alone_ = step.on_first_thread;
  for (size_t phase = 0; phase < step.phases.size(); ++phase) {
    if (phase > 0 && !step.on_first_thread && !wait_for_all()) return false;
    const bool in_pieces =
        launch.pieces > 1 && threads_ > 1 && !step.on_first_thread && !launch.inner_barriers;
    if (in_pieces) {
      ++round_;
      if (!skipped) run_pieces(step, phase);
      // Where threads meet inside a phase, all of them enter it; a request to stop is seen there.
    } else if (mine && (!skipped || launch.inner_barriers)) {
      const Share share(launch.work_items[phase], thread_, step.on_first_thread ? 1 : threads_);
      if (share.begin < share.end || launch.inner_barriers) {
        call_kernel(step.phases[phase], buffers, launch.arguments.data(), share.begin, share.end,
                    state_.scratch);
      }
      if (stopped_inside_) return false;
    }
    worked(step.on_first_thread || launch.work_items[phase] <= 1);
  }
  return true;
}

/// The thread's own share, then what its neighbours have not begun of theirs.
void RegionWalk::run_pieces(const ExecutableStep& step, size_t phase) {
  constexpr int kMostNeighbours = 8;
  const LaunchStep& launch = step.source->launch;
  const int64_t items = launch.work_items[phase];
  for (int n = 0; n < std::min(threads_, 1 + kMostNeighbours); ++n) {
    const int owner = (thread_ + n) % threads_;
    const Share share(items, owner, threads_);
    for (;;) {
      const int piece = region_.shares.take(owner, round_, launch.pieces, n == 0);
      if (piece < 0) break;
      const Share part(share.end - share.begin, piece, launch.pieces);
      if (part.begin == part.end) continue;
      call_kernel(step.phases[phase], state_.launch_table.data(), launch.arguments.data(),
                  share.begin + part.begin, share.begin + part.end, state_.scratch);
    }
  }
}

/// What a step takes over from the one before lies in the caches of the cores that made it: a short
/// one is asked for at once, where the kernel would come to its lines one after another.
void RegionWalk::fetch_carries(const LaunchStep& launch) const {
  constexpr int64_t kMost = 4096, kLine = 64;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(launch.buffers[i])];
    const bool carried = buffer.kind == ProgramBuffer::Kind::kCarry ||
                         buffer.kind == ProgramBuffer::Kind::kStackedCarry;
    if (!carried || buffer.bytes > kMost) continue;
    const auto* data = static_cast<const std::byte*>(state_.launch_table[i]);
    for (int64_t at = 0; at < buffer.bytes; at += kLine) __builtin_prefetch(data + at);
  }
}

uint32_t RegionWalk::wait_inside_phase(void* walk) {
  auto& self = *static_cast<RegionWalk*>(walk);
  if (self.alone_ || self.wait_for_all()) return 1;
  self.stopped_inside_ = true;
  return 0;
}

/// The whole kernel at once, by the one thread of such a run.
bool RegionWalk::run_launcher(const LaunchStep& launch) {
  Status done = launcher_->launch(
      launch.kernel, {state_.launch_table.data(), launch.buffers.size()}, launch.arguments);
  if (done.ok()) return true;
  region_.launch_error = done.take_error();
  return false;
}

bool RegionWalk::run_host(const ExecutableStep& step) {
  const HostStep& host = step.source->host;
  const auto describe = [&](const std::vector<int32_t>& from, std::vector<HostOperand>& to) {
    to.clear();
    for (int32_t b : from) {
      const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(b)];
      to.push_back({buffer.dtype, &buffer.shape, static_cast<std::byte*>(address(b))});
    }
  };
  const bool mine = !step.on_first_thread || is_first();
  const bool skipped = is_first() && region_.stop.load(std::memory_order_relaxed);
  if (mine) {
    describe(host.operands, state_.host_operands);
    describe(host.results, state_.host_results);
  }
  const HostPart part = step.on_first_thread ? HostPart() : HostPart{thread_, threads_};
  for (int phase = 0; phase < host_step_phases(host); ++phase) {
    if (phase > 0 && !step.on_first_thread && !wait_for_all()) return false;
    if (mine && !skipped) {
      run_host_phase(host, phase, state_.host_operands, state_.host_results, part, state_.scratch);
    }
    worked(step.on_first_thread);
  }
  return true;
}

bool RegionWalk::run_if(const ExecutableStep& step) {
  const uint32_t condition = agree_on(step.source->if_step->condition);
  if (condition == kStop) return false;
  return run_steps(condition == kTrue ? step.body : step.otherwise);
}

bool RegionWalk::run_loop(const ExecutableStep& step) {
  const LoopStep& loop = *step.source->loop_step;
  enter_iteration(loop.loop, 0);
  for (const LoopStep::Carry& carry : loop.carries) {
    if (carry.initial < 0) continue;
    const int64_t bytes = program_.buffers[static_cast<size_t>(carry.carry)].bytes;
    if (!copy_carry(carry.initial, carry.carry, bytes)) return false;
  }
  int64_t iteration = 0;
  if (!run_iterations(step, iteration)) return false;
  enter_iteration(loop.loop, iteration);
  for (const LoopStep::Carry& carry : loop.carries) {
    if (carry.result < 0) continue;
    const int64_t bytes = program_.buffers[static_cast<size_t>(carry.carry)].bytes;
    if (!copy_carry(carry.carry, carry.result, bytes)) return false;
  }
  return true;
}

bool RegionWalk::run_iterations(const ExecutableStep& step, int64_t& iteration) {
  const LoopStep& loop = *step.source->loop_step;
  const bool is_while = loop.condition >= 0;
  for (; is_while || iteration < loop.trips; ++iteration) {
    enter_iteration(loop.loop, iteration);
    barrier_owed_ = true;
    if (is_while) {
      if (!run_steps(step.condition)) return false;
      const uint32_t condition = agree_on(loop.condition);
      if (condition == kStop) return false;
      if (condition == kFalse) return true;
      if (iteration >= max_iterations_) {  // every thread counts alike
        if (is_first()) {
          region_.too_many_iterations = true;
          region_.endless_step = step.id;
        }
        return false;
      }
    }
    if (iteration % kIterationsBetweenStops == kIterationsBetweenStops - 1 && !wait_for_all()) {
      return false;
    }
    if (!run_steps(step.body)) return false;
  }
  barrier_owed_ = true;
  return true;
}

/// Sticky, so that a request withdrawn too early cannot make a stopped run look complete.
bool RegionWalk::stop_requested() {
  if (region_.stop.load(std::memory_order_relaxed)) return true;
  if (options_.cancel == nullptr || !options_.cancel->load(std::memory_order_relaxed)) return false;
  region_.stop.store(true, std::memory_order_relaxed);
  return true;
}

bool RegionWalk::wait_for_all() {
  barrier_owed_ = false;
  unsynced_ = Unsynced::kNobody;
  if (threads_ == 1) return !stop_requested();
  return region_.barrier.go_on(thread_, stop_requested());
}

bool RegionWalk::wait_before_work_of_first_thread() {
  return unsynced_ != Unsynced::kAnyThread || wait_for_all();
}

bool RegionWalk::wait_before_work_of_all() {
  return unsynced_ == Unsynced::kNobody || wait_for_all();
}

uint32_t RegionWalk::agree_on(int32_t condition) {
  const auto read = [&]() -> uint32_t {
    if (stop_requested()) return kStop;
    return *static_cast<const uint8_t*>(address(condition)) != 0 ? kTrue : kFalse;
  };
  unsynced_ = Unsynced::kNobody;
  barrier_owed_ = false;
  return threads_ == 1 ? read() : region_.barrier.arrive(read);
}

void RegionWalk::enter_iteration(int32_t loop, int64_t iteration) {
  state_.iterations[static_cast<size_t>(loop)] = iteration;
  const LoopFacts& facts = executable_.loops();
  for (int32_t b : facts.moving[static_cast<size_t>(loop)]) {
    table_[static_cast<size_t>(b)] = moving_address(program_.buffers[static_cast<size_t>(b)],
                                                    facts.trips, state_.iterations, table_);
  }
}

/// Waits for the writers of `from`, and for all who may still read `to`.
bool RegionWalk::copy_carry(int32_t from, int32_t to, int64_t bytes) {
  if (address(from) == address(to) || bytes == 0) return true;
  const bool shared = bytes >= kSharedCopyBytes;
  if (!(shared ? wait_before_work_of_all() : wait_before_work_of_first_thread())) return false;
  copy_share(from, to, bytes, shared);
  return true;
}

/// This thread's part of a copy: all of it on the first, or whole cache lines.
void RegionWalk::copy_share(int32_t from, int32_t to, int64_t bytes, bool shared) {
  const auto* source = static_cast<const std::byte*>(address(from));
  auto* target = static_cast<std::byte*>(address(to));
  if (shared || is_first()) {
    copy_part(source, target, bytes, shared ? HostPart{thread_, threads_} : HostPart());
  }
  worked(/*first_thread_only=*/!shared);
}

void RegionWalk::worked(bool first_thread_only) {
  const Unsynced now = first_thread_only ? Unsynced::kFirstThread : Unsynced::kAnyThread;
  unsynced_ = std::max(unsynced_, now);
}

}  // namespace weft
