#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {

/// How long a thread waits before it sleeps: `spin` watching the word, then `yield` watching it
/// between giving the core away. Both zero: at once.
struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
};

inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A counter that threads wait on: spin, then yield, then sleep in the kernel. publish() costs one
/// store and one load while nobody sleeps.
///
/// Happens-before: what a thread did before publish() is visible after the wait() that returns.
class alignas(64) EventWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Whether a thread sleeps on it, or is about to: a hint.
  bool has_sleepers() const { return sleepers_.load(std::memory_order_relaxed) != 0; }

  /// Only one thread publishes at a time.
  void publish(uint32_t value) {
    // Sequentially consistent with the sleepers' count: either this thread sees a sleeper, or the
    // sleeper sees the new value.
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  /// Returns when the value is no longer `old`.
  void wait_while(uint32_t old, const WaitPolicy& policy) {
    if (watch(old, policy)) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (value_.load(std::memory_order_seq_cst) == old) futex(FUTEX_WAIT_PRIVATE, old);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  /// Whether the value changed before the time was up.
  bool watch(uint32_t old, const WaitPolicy& policy) const {
    using Clock = std::chrono::steady_clock;
    constexpr int kPausesPerClockRead = 32;
    if (value() != old) return true;
    if (policy.spin.count() == 0 && policy.yield.count() == 0) return false;
    const Clock::time_point start = Clock::now();
    Clock::duration waited{0};
    while (waited < policy.spin) {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (value() != old) return true;
        spin_pause();
      }
      waited = Clock::now() - start;
    }
    while (waited < policy.spin + policy.yield) {
      if (value() != old) return true;
      sched_yield();
      waited = Clock::now() - start;
    }
    return value() != old;
  }

  void futex(int operation, uint32_t argument) {
    static_assert(sizeof(value_) == sizeof(uint32_t));
    syscall(SYS_futex, &value_, operation, argument, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace weft
