#pragma once

#include <cstddef>

#include "support/result.h"

namespace weft::simt {

/// Memory for the stacks of many fibers, mapped when more of them are asked for. Pages are given by
/// the system when they are first touched.
class FiberStacks {
 public:
  static constexpr size_t kStackBytes = size_t{64} << 10;
  static constexpr size_t kMaxFibers = size_t{1} << 17;

  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  /// Room for so many fibers, none of which is under way. kUnsupported beyond kMaxFibers or when
  /// the system gives no address space.
  Status reserve(size_t fibers);
  const std::byte* begin() const { return begin_; }
  size_t bytes() const { return kStackBytes * fibers_; }

  /// A stack pointer for weft_simt_switch_stack: the fiber starts in entry(argument), which never
  /// returns. Neighbours start at different places of their pages, or all would fight for the same
  /// sets of the cache.
  void* prepare(size_t fiber, void (*entry)(void*), void* argument);
  /// Whether fiber number `fiber` stayed within its stack since it was prepared.
  bool intact(size_t fiber) const;

 private:
  std::byte* begin_ = nullptr;
  size_t fibers_ = 0;
};

/// Saves the running fiber's stack pointer in *save and goes on with the fiber at `to`.
extern "C" void weft_simt_switch_stack(void** save, void* to);

/// Whether this machine has a stack switch.
bool has_fibers();

}  // namespace weft::simt
