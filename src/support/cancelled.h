#pragma once

#include <atomic>
#include <exception>

namespace weft {

/// What asks long work to stop, from any thread; null: nothing does.
using CancelFlag = const std::atomic<bool>*;

inline bool is_cancelled(CancelFlag flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// Thrown deep inside work that was asked to stop, where an error would pass through what asks for
/// values alone. Caught by driver/, which makes kInterrupted of it; no other code catches it.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "the compilation was cancelled"; }
};

inline void throw_if_cancelled(CancelFlag flag) {
  if (is_cancelled(flag)) throw Cancelled();
}

}  // namespace weft
