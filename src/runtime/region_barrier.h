#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/event_word.h"

namespace weft {

/// Barrier of the threads of one region, on which they also agree. So that every thread takes the
/// same branch, conditions and cancellation are read there and nowhere else.
class RegionBarrier {
 public:
  /// Before the region starts, on one thread.
  void reset(int threads, const WaitPolicy& policy) {
    threads_ = threads;
    policy_ = policy;
    missing_.store(threads, std::memory_order_relaxed);
    if (!ended_early_.exchange(false, std::memory_order_relaxed)) return;
    for (Party& party : parties_) party.begin();
  }

  /// The last thread to arrive computes the value that all return.
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

  /// Whether all threads go on: none of them asks to stop. After a stop no thread comes again
  /// before the next reset.
  ///
  /// A few threads each watch the words of all others, which takes one way of a cache line from the
  /// last to arrive, where a common count takes three. Each has two words, in turns: who is one
  /// barrier ahead writes the other one, and two ahead is nobody.
  bool go_on(int thread, bool stop) {
    if (threads_ > kMostParties) {
      // Whoever is last sees what each has said before it arrived.
      if (stop) ended_early_.store(true, std::memory_order_relaxed);
      return arrive([this] { return ended_early_.load(std::memory_order_relaxed) ? 0u : 1u; }) != 0;
    }
    Party& own = parties_[thread];
    const uint32_t generation = ++own.generation;
    const size_t turn = generation % 2;
    for (int other = 0; other < threads_; ++other) {
      if (other != thread) __builtin_prefetch(&parties_[other].words[turn]);
    }
    own.words[turn].publish(2 * generation + (stop ? 1 : 0));
    // What the word held two barriers ago, when nobody asked to stop. It may wrap around.
    const uint32_t before = 2 * (generation - 2);
    for (int other = 0; other < threads_; ++other) {
      if (other == thread) continue;
      EventWord& word = parties_[other].words[turn];
      word.wait_while(before, policy_);
      stop = stop || word.value() % 2 == 1;
    }
    if (stop) ended_early_.store(true, std::memory_order_relaxed);
    return !stop;
  }

 private:
  static constexpr int kMostParties = 4;
  struct alignas(64) Party {
    EventWord words[2];       ///< twice a generation, even or odd, and one more for a stop
    uint32_t generation = 0;  ///< read by its own thread; the same for all between regions

    Party() { begin(); }
    void begin() {
      generation = 1;
      for (const uint32_t g : {0u, 1u}) words[g].publish(2 * g);
    }
  };

  alignas(64) std::atomic<int> missing_{0};
  int threads_ = 0;
  WaitPolicy policy_;
  EventWord generation_;
  uint32_t verdicts_[2] = {0, 0};
  std::atomic<bool> ended_early_{false};
  Party parties_[kMostParties];
};

}  // namespace weft
