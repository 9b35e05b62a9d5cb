#pragma once

#include <cstdint>
#include <vector>

namespace weft::simt {

/// What one thread knows of the past of other blocks within a phase of the launch (between grid
/// barriers): per block, everything before its barrier number `bar`, and of barrier number `bar`
/// itself what the listed threads did before their tick.
struct BlockKnowledge {
  struct Until {
    uint32_t thread = 0;
    uint32_t tick = 0;
  };
  uint32_t block = 0;
  uint32_t bar = 0;
  std::vector<Until> threads;  ///< by thread
};

/// By block. Acquire-release atomics and cluster barriers carry it from thread to thread.
class Knowledge {
 public:
  bool empty() const { return blocks_.empty(); }
  void clear() { blocks_.clear(); }
  void add(const BlockKnowledge& block);
  void add(const Knowledge& other);
  /// Whether an access of `thread` of `block` at `bar` and `tick` lies in this past; a thread of
  /// kAnyThread asks for every thread of the block.
  static constexpr uint32_t kAnyThread = UINT32_MAX;
  bool covers(uint32_t block, uint32_t thread, uint32_t bar, uint32_t tick) const;

 private:
  std::vector<BlockKnowledge> blocks_;
};

}  // namespace weft::simt
