#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/shape_dispatch.h"
#include "support/result.h"

namespace weft {

/// Makes the programs of a model; gives up with kInterrupted once `stop` is true, and may set it.
using MakePrograms = std::function<Result<ModelPrograms>(std::atomic<bool>& stop)>;

/// Programs of a model that a thread of its own makes, while others run.
class LaterPrograms {
 public:
  /// Begins to make them; `ended` is called on their thread when they are ready or have failed.
  /// kInvalidInput where the system has no thread for it.
  static Result<std::shared_ptr<LaterPrograms>> start(MakePrograms make,
                                                      std::function<void()> ended = nullptr);
  /// Stops what is left, and waits for that.
  ~LaterPrograms();
  LaterPrograms(const LaterPrograms&) = delete;
  LaterPrograms& operator=(const LaterPrograms&) = delete;

  /// From any thread; what is made already stays.
  void stop() { stop_.store(true, std::memory_order_relaxed); }
  /// The programs, once they are there; null before, and after a failure. Takes no lock.
  const ModelPrograms* ready() const {
    return ready_.load(std::memory_order_acquire) ? &programs_ : nullptr;
  }
  /// Becomes true with them: what stops runs of others.
  const std::atomic<bool>& ready_flag() const { return ready_; }
  /// Waits until they are there. Error: why there are none.
  Status wait() const;
  /// Whether they are there, or will not be.
  bool has_ended() const;
  /// Why there will be none; nothing while they are being made.
  std::optional<Error> failure() const;

 private:
  LaterPrograms() = default;
  void work(const MakePrograms& make, const std::function<void()>& ended);

  std::atomic<bool> stop_{false}, ready_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_cv_;
  bool ended_ = false;  ///< under the mutex, as the next
  std::optional<Error> error_;
  ModelPrograms programs_;  ///< written once, before ready_
  std::thread thread_;
};

/// Programs that run at once, and better ones on their way.
struct StartedPrograms {
  ModelPrograms first;
  std::shared_ptr<LaterPrograms> later;  ///< null: `first` are the better ones already
  /// Those that are given up and may not have ended yet: whoever drops them waits for it.
  std::shared_ptr<LaterPrograms> given_up = nullptr;
};

/// Makes both at the same time and returns with what is ready first; the quick ones are given up
/// when the better ones are there before them. Where the better ones cannot be made, the quick ones
/// run, and `later` says why. Error: neither can be made, why not the better ones.
Result<StartedPrograms> start_programs(MakePrograms quick, MakePrograms better);

}  // namespace weft
