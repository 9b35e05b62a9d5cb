#include "runtime/later_programs.h"

#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace weft {

namespace {

/// What is thrown becomes an error: it has no other way out of the thread.
Result<ModelPrograms> made(const MakePrograms& make, std::atomic<bool>& stop) {
  try {
    return make(stop);
  } catch (const std::bad_alloc&) {
    return invalid_input("the programs need more memory than there is");
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInternal, e.what()};
  }
}

}  // namespace

Result<std::shared_ptr<LaterPrograms>> LaterPrograms::start(MakePrograms make,
                                                            std::function<void()> ended) {
  std::shared_ptr<LaterPrograms> later(new LaterPrograms());
  try {
    later->thread_ =
        std::thread(&LaterPrograms::work, later.get(), std::move(make), std::move(ended));
  } catch (const std::system_error& e) {
    return invalid_input(std::string("no thread to compile on: ") + e.what());
  }
  return later;
}

LaterPrograms::~LaterPrograms() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void LaterPrograms::work(const MakePrograms& make, const std::function<void()>& ended) {
  Result<ModelPrograms> programs = made(make, stop_);
  {
    const std::lock_guard lock(mutex_);
    if (programs.ok()) {
      programs_ = std::move(*programs);
      ready_.store(true, std::memory_order_release);
    } else {
      error_ = programs.error();
    }
    ended_ = true;
    ended_cv_.notify_all();
  }
  if (ended) ended();
}

Status LaterPrograms::wait() const {
  std::unique_lock lock(mutex_);
  ended_cv_.wait(lock, [&] { return ended_; });
  return error_ ? Status(*error_) : Status();
}

bool LaterPrograms::has_ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::optional<Error> LaterPrograms::failure() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

namespace {

/// Told that one of several has ended.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  void ring() {
    const std::lock_guard lock(mutex);
    rung.notify_all();
  }
};

}  // namespace

Result<StartedPrograms> start_programs(MakePrograms quick, MakePrograms better) {
  const auto bell = std::make_shared<Bell>();
  const auto ring = [bell] { bell->ring(); };
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<LaterPrograms> first,
                        LaterPrograms::start(std::move(quick), ring));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<LaterPrograms> later,
                        LaterPrograms::start(std::move(better), ring));
  {
    std::unique_lock lock(bell->mutex);
    bell->rung.wait(lock, [&] {
      return first->ready() != nullptr || later->ready() != nullptr ||
             (first->has_ended() && later->has_ended());
    });
  }
  if (const ModelPrograms* ready = later->ready()) {
    first->stop();
    return StartedPrograms{*ready, nullptr, std::move(first)};
  }
  if (const ModelPrograms* ready = first->ready()) return StartedPrograms{*ready, std::move(later)};
  return *later->failure();
}

}  // namespace weft
