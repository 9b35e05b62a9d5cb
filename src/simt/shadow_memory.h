#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simt/memory_order.h"
#include "support/result.h"

namespace weft::simt {

/// A thread at the moment of an access, as far as order goes.
struct Actor {
  uint32_t block = 0;        ///< linear index in the grid
  uint32_t thread = 0;       ///< in its block
  uint32_t bar = 0;          ///< block barriers that it has passed
  uint32_t cluster = 1;      ///< blocks of a cluster
  uint32_t cluster_bar = 0;  ///< cluster barriers that it has passed
  uint32_t tick = 0;         ///< of its warp, advanced by warp barriers and releases
  /// Per lane of its warp: accesses at an earlier tick of that lane are in its past.
  const uint32_t* seen = nullptr;
  const Knowledge* own = nullptr;          ///< acquired by the thread itself
  const Knowledge* block_known = nullptr;  ///< acquired before the block's last barrier
};

/// The last write, or the reads since it merged into one: who and when.
struct Access {
  enum class Who : uint8_t { kThread, kWarp, kBlock, kCluster, kGrid };
  uint32_t phase = 0;  ///< 0: never
  uint32_t block = 0;
  uint32_t bar = 0;  ///< kCluster: cluster barriers
  uint32_t tick = 0;
  uint32_t site = 0;
  uint32_t lanes = 0;  ///< kWarp: of the warp that `thread` belongs to
  uint16_t thread = 0;
  Who who = Who::kThread;
  bool atomic = false;
};

/// What the accesses of a launch did to one word or byte of memory.
struct Cell {
  Access write, read;
  bool copying = false;  ///< a cp.async to it is under way; `write` names it
};

/// One finding of a check: the earlier access that the new one collides with.
struct Collision {
  enum class Kind : uint8_t { kNone, kRace, kCopying, kUninitialised, kStale };
  Kind kind = Kind::kNone;
  bool with_write = false;  ///< of the earlier access
  Access earlier;
  uint32_t byte = 0;  ///< of the access, where it was found
};

enum class AccessKind : uint8_t {
  kRead,
  kReadOnly,  ///< through the read-only path
  kWrite,
  kAtomic,  ///< reads and writes
  kAtomicRead,
  kCopyStart,  ///< a cp.async that will write
  kCopyEnd,
};

/// Shadow cells of a run of memory: one per 4-byte word while accesses cover whole words, four per
/// word where they do not. Cells of older launches are told apart by their phase, so a table serves
/// again without being cleared.
class ShadowMemory {
 public:
  ShadowMemory() = default;
  ~ShadowMemory();
  ShadowMemory(ShadowMemory&& other) noexcept;
  ShadowMemory& operator=(ShadowMemory&& other) noexcept;

  /// Room for `bytes` bytes; what stood there is forgotten when it grows. kUnsupported when the
  /// system gives no memory.
  Status reserve(size_t bytes);

  /// Checks the access of `actor` to [offset, offset + bytes) against what stands in the cells and
  /// records it. Phases before `first_phase` never happened; those before `phase` are in everyone's
  /// past. `initialised`: bytes that nothing wrote may be read.
  struct Request {
    size_t offset = 0;
    uint32_t bytes = 0;
    AccessKind kind = AccessKind::kRead;
    uint32_t site = 0;
    uint32_t first_phase = 0;
    uint32_t phase = 0;
    bool initialised = false;
  };
  Collision access(const Actor& actor, const Request& request);

  /// Whether the byte was written at or after `first_phase`.
  bool written(size_t offset, uint32_t first_phase) const;

 private:
  struct Word {
    Cell cell;
    uint32_t split = 0;  ///< 1 + index of its four cells; 0 while it is whole
  };
  Word* words_ = nullptr;
  size_t count_ = 0;
  std::vector<std::array<Cell, 4>> bytes_;
  std::vector<uint32_t> free_;

  uint32_t split_word(Word& word);
};

}  // namespace weft::simt
