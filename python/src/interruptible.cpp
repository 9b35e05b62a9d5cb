#include "interruptible.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace nb = nanobind;

namespace weft_python {

namespace {

/// How long an interrupt waits to be seen.
constexpr std::chrono::milliseconds kBetweenLooks(20);

unsigned long main_thread = 0;

/// `work` on a thread of its own.
class Worker {
 public:
  explicit Worker(const std::function<void()>& work)
      : thread_([this, &work] {
          try {
            work();
          } catch (...) {
            thrown_ = std::current_exception();
          }
          const std::lock_guard lock(mutex_);
          done_ = true;
          ended_.notify_one();
        }) {}
  ~Worker() { thread_.join(); }

  bool wait() {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, kBetweenLooks, [this] { return done_; });
  }
  /// Requires that wait() said so.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace

bool on_main_thread() { return PyThread_get_thread_ident() == main_thread; }

void find_main_thread() {
  main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
}

void run_interruptibly(weft::CancellationToken& cancel, const std::function<void()>& work) {
  if (!on_main_thread()) {
    const nb::gil_scoped_release unlocked;
    work();
    return;
  }
  std::optional<nb::python_error> raised;
  {
    const nb::gil_scoped_release unlocked;
    Worker worker(work);
    while (!worker.wait()) {
      const nb::gil_scoped_acquire locked;
      if (raised || PyErr_CheckSignals() == 0) continue;
      raised.emplace();
      cancel.cancel();
    }
    if (!raised) worker.rethrow();
  }
  if (raised) throw std::move(*raised);
}

}  // namespace weft_python
