#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/event_word.h"

namespace weft {

/// Barrier of the threads of one region that also agrees on a value: the last thread to arrive
/// computes it, all return it. So that every thread takes the same branch, conditions and
/// cancellation are read there and nowhere else.
class RegionBarrier {
 public:
  /// Before the region starts, on one thread.
  void reset(int threads, const WaitPolicy& policy) {
    threads_ = threads;
    policy_ = policy;
    missing_.store(threads, std::memory_order_relaxed);
  }

  template <typename Decide>
  uint32_t arrive(Decide&& decide) {
    // A thread is here only after it left the generation before, so the load cannot be stale.
    const uint32_t generation = generation_.value();
    // Two slots: the next generation's writer must not meet this one's readers, and the one after
    // it cannot start before they have arrived again.
    uint32_t& slot = verdicts_[generation & 1];
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      missing_.store(threads_, std::memory_order_relaxed);
      slot = decide();
      const uint32_t verdict = slot;
      generation_.publish(generation + 1);
      return verdict;
    }
    generation_.wait_while(generation, policy_);
    return slot;
  }

 private:
  alignas(64) std::atomic<int> missing_{0};
  int threads_ = 0;
  WaitPolicy policy_;
  EventWord generation_;
  uint32_t verdicts_[2] = {0, 0};
};

}  // namespace weft
