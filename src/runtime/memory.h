#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/result.h"

namespace weft {

/// Anonymous memory of the process, zero until written, aligned to a page. Sizes come from programs
/// that may be hostile, so a failure is a value; physical pages are taken as they are touched.
class Memory {
 public:
  Memory() = default;
  /// `what` names the purpose in the error. Zero bytes give a null pointer.
  static Result<Memory> allocate(int64_t bytes, const char* what);

  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace weft
