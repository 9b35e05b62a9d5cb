#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <string>
#include <system_error>

#include "target/target.h"

namespace weft {
namespace {

using std::chrono::microseconds;

constexpr int kMaxThreads = 1024;  ///< of one pool: more is a mistake

std::vector<int> cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Signals are for the threads of the program that embeds us.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

int available_cores() { return usable_threads(); }

Result<std::shared_ptr<ThreadPool>> ThreadPool::create(const Options& options) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return invalid_input("the number of threads is " + std::to_string(options.threads) +
                         ", it must be between 1 and " + std::to_string(kMaxThreads));
  }
  std::shared_ptr<ThreadPool> pool(new ThreadPool);
  WEFT_RETURN_IF_ERROR(pool->start(options));
  return pool;
}

Status ThreadPool::start(const Options& options) {
  // With fewer cores than threads, watching a word keeps the thread that will change it off its
  // core: give the core away at once.
  const bool crowded = options.threads > available_cores();
  idle_wait_ = crowded ? WaitPolicy{} : WaitPolicy{microseconds(100), microseconds(0)};
  region_wait_ = crowded ? WaitPolicy{microseconds(0), microseconds(50)}
                         : WaitPolicy{microseconds(100), microseconds(400)};
  threads_ = options.threads;
  if (options.openmp && options.threads > 1) team_ = OpenMpTeam::loaded();
  if (team_ != nullptr) return {};
  const std::vector<int> cores = cores_of_process();
  if (!crowded && !options.pin && cores.size() > 1) cores_ = cores;
  const BlockSignals blocked;
  workers_.reserve(static_cast<size_t>(options.threads));
  for (int thread = 1; thread < options.threads; ++thread) {
    try {
      workers_.emplace_back([this, thread] { work(thread); });
    } catch (const std::system_error& error) {
      return invalid_input("cannot start thread " + std::to_string(thread + 1) + " of " +
                           std::to_string(options.threads) + ": " + error.what());
    }
    if (options.pin && !cores.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cores[static_cast<size_t>(thread) % cores.size()], &set);
      pthread_setaffinity_np(workers_.back().native_handle(), sizeof set, &set);
    }
  }
  return {};
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  started_.publish(started_.value() + 1);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work(int thread) {
  uint32_t region = 0;
  for (;;) {
    started_.wait_while(region, idle_wait_);
    ++region;
    if (stop_) return;
    body_(context_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.publish(region);
  }
}

/// The system wakes a thread on its waker's core if it can. The worker would start there, wait for
/// the caller, which waits for it, and take turns with it until it is moved.
void ThreadPool::keep_off_callers_core() {
  const int core = cores_.empty() ? avoided_core_ : sched_getcpu();
  if (core == avoided_core_) return;
  avoided_core_ = core;
  cpu_set_t others;
  CPU_ZERO(&others);
  for (const int c : cores_) {
    if (c != core) CPU_SET(c, &others);
  }
  for (std::thread& worker : workers_)
    pthread_setaffinity_np(worker.native_handle(), sizeof others, &others);
}

/// Asked where workers sleep.
bool ThreadPool::runs_follow_closely() {
  constexpr int kFew = 8;
  const auto now = std::chrono::steady_clock::now();
  close_ = now - left_ < idle_wait_.spin ? close_ + 1 : 0;
  left_ = now;
  return close_ >= kFew;
}

bool ThreadPool::try_run(Body body, void* context, Sleepers sleepers) {
  if (taken_.exchange(true, std::memory_order_acquire)) return false;
  const bool sleeping = team_ != nullptr || started_.has_sleepers();  // a team does not say
  if (sleepers == Sleepers::kLeave && sleeping && !runs_follow_closely()) {
    taken_.store(false, std::memory_order_release);
    return false;
  }
  bool ran = true;
  if (team_ != nullptr) {
    ran = team_->try_run(threads_, body, context);
  } else if (workers_.empty()) {
    body(context, 0);
  } else {
    body_ = body;
    context_ = context;
    running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    const uint32_t before = started_.value();
    if (started_.has_sleepers()) keep_off_callers_core();
    started_.publish(before + 1);
    body(context, 0);
    finished_.wait_while(before, region_wait_);
  }
  taken_.store(false, std::memory_order_release);
  return ran;
}

}  // namespace weft
