#include "lower/insert_block_barriers.h"

#include <algorithm>
#include <set>

#include "kernel/uniformity.h"
#include "support/check.h"

namespace weft::lowering {

namespace {

/// Shared buffers that threads have touched since the last barrier.
struct Pending {
  std::set<int32_t> written, read;
  std::set<int32_t> copied;  ///< by copies that nobody has waited for
  bool operator==(const Pending&) const = default;

  void clear() {
    written.clear();
    read.clear();
  }
  void join(const Pending& other) {
    written.insert(other.written.begin(), other.written.end());
    read.insert(other.read.begin(), other.read.end());
    copied.insert(other.copied.begin(), other.copied.end());
  }
};

class BlockBarriers {
 public:
  BlockBarriers(KernelFunction& kernel, const std::set<int32_t>& rotating)
      : kernel_(kernel), rotating_(rotating), uniformity_(derive_uniformity(kernel)) {}

  void run() {
    for (KernelPhase& phase : kernel_.phases) {
      Pending pending;  // a barrier of the grid stands between phases
      walk(phase.body, pending, true);
    }
  }

 private:
  /// What the threads of a block exchange: workspaces too, between barriers of the grid.
  bool is_shared(int32_t b) const {
    if (b < 0) return false;
    const KernelBuffer::Kind kind = kernel_.buffers[static_cast<size_t>(b)].kind;
    return kind == KernelBuffer::Kind::kShared || kind == KernelBuffer::Kind::kWorkspace;
  }
  bool overlap(int32_t a, int32_t b) const {
    const KernelBuffer &x = kernel_.buffers[static_cast<size_t>(a)],
                       &y = kernel_.buffers[static_cast<size_t>(b)];
    const auto end = [](const KernelBuffer& k) {
      return k.scratch_offset + k.elements * byte_size(k.dtype);
    };
    const bool same_memory = x.kind == KernelBuffer::Kind::kShared && y.kind == x.kind;
    return a == b || (same_memory && x.scratch_offset < end(y) && y.scratch_offset < end(x));
  }
  bool meets(int32_t b, const std::set<int32_t>& others, bool itself = true) const {
    return std::any_of(others.begin(), others.end(),
                       [&](int32_t o) { return (itself || o != b) && overlap(b, o); });
  }

  /// Whether a barrier has to stand before the instruction; notes what it does.
  bool conflicts(const KernelInstruction& in, const Pending& pending) const {
    if (!is_shared(in.buffer)) return false;
    switch (in.op) {
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kLoadMatrix:
        return meets(in.buffer, pending.written);
      case KernelOp::kStore:
      case KernelOp::kScatter:
      case KernelOp::kCopyAsync:
        return meets(in.buffer, pending.read, rotating_.count(in.buffer) == 0) ||
               meets(in.buffer, pending.written, false);
      default:
        return false;
    }
  }
  void note(const KernelInstruction& in, Pending& pending) const {
    switch (in.op) {
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kLoadMatrix:
        if (is_shared(in.buffer)) pending.read.insert(in.buffer);
        return;
      case KernelOp::kStore:
      case KernelOp::kScatter:
        if (is_shared(in.buffer)) pending.written.insert(in.buffer);
        return;
      case KernelOp::kCopyAsync:
        pending.copied.insert(in.buffer);
        return;
      case KernelOp::kWaitAsync:
        pending.written.insert(pending.copied.begin(), pending.copied.end());
        return;
      case KernelOp::kBarrier:
        if (static_cast<KernelBarrier>(in.index) != KernelBarrier::kWarp) pending.clear();
        return;
      default:
        return;
    }
  }

  bool is_uniform(const KernelInstruction& in) const {
    const size_t controls = in.op == KernelOp::kFor ? 3 : 1;
    return std::all_of(
        in.operands.begin(), in.operands.begin() + static_cast<ptrdiff_t>(controls),
        [&](Reg r) { return uniformity_[static_cast<size_t>(r)] <= Uniformity::kBlock; });
  }

  static KernelInstruction barrier() {
    KernelInstruction in;
    in.op = KernelOp::kBarrier;
    in.index = static_cast<int32_t>(KernelBarrier::kBlock);
    return in;
  }

  /// Passes a block, with `insert` putting barriers in. Returns how many it needs.
  int walk(KernelBlock& block, Pending& pending, bool insert) {
    int needed = 0;
    std::vector<KernelInstruction> body;
    body.reserve(block.body.size());
    for (KernelInstruction& in : block.body) {
      const bool before = in.regions.empty() ? conflicts(in, pending)
                          : is_uniform(in)   ? in.op == KernelOp::kFor && only_first(in, pending)
                                             : blocked(in, pending);
      if (before) {
        ++needed;
        pending.clear();
        if (insert) body.push_back(barrier());
      }
      if (!in.regions.empty()) {
        needed += pass_regions(in, pending, insert);
      } else {
        note(in, pending);
      }
      if (insert) body.push_back(std::move(in));
    }
    if (insert) block.body = std::move(body);
    return needed;
  }

  /// Whether what only some threads enter needs a barrier, which then stands before it.
  bool blocked(KernelInstruction& in, const Pending& pending) {
    return std::any_of(in.regions.begin(), in.regions.end(), [&](KernelBlock& region) {
      Pending inside = pending;
      return walk(region, inside, false) > 0;
    });
  }

  /// What iterations of a loop find pending: what is so before it, and what they leave themselves.
  Pending at_entry(KernelInstruction& in, const Pending& pending) {
    Pending entry = pending;
    for (bool grew = true; grew;) {
      Pending inside = entry, before = entry;
      walk(in.regions[0], inside, false);
      entry.join(inside);
      grew = !(entry == before);
    }
    return entry;
  }

  /// Whether a loop has a barrier for the sake of its first iteration alone: then it stands before
  /// the loop.
  bool only_first(KernelInstruction& in, const Pending& pending) {
    Pending cleared = pending;
    cleared.clear();
    if (cleared == pending) return false;
    Pending with = at_entry(in, pending), without = at_entry(in, cleared);
    return walk(in.regions[0], with, false) > walk(in.regions[0], without, false);
  }

  int pass_regions(KernelInstruction& in, Pending& pending, bool insert) {
    const bool uniform = is_uniform(in);
    int needed = 0;
    if (in.op == KernelOp::kIf) {
      Pending after;
      for (KernelBlock& region : in.regions) {
        Pending inside = pending;
        needed += walk(region, inside, insert && uniform);
        after.join(inside);
      }
      pending = after;
    } else {
      Pending inside = at_entry(in, pending);
      needed = walk(in.regions[0], inside, insert && uniform);
      pending.join(inside);
    }
    WEFT_CHECK(uniform || needed == 0,
               "shared memory is exchanged where only some threads come, in " + kernel_.name);
    return needed;
  }

  KernelFunction& kernel_;
  const std::set<int32_t>& rotating_;
  std::vector<Uniformity> uniformity_;
};

}  // namespace

void insert_block_barriers(KernelFunction& kernel, const std::set<int32_t>& rotating) {
  BlockBarriers(kernel, rotating).run();
}

}  // namespace weft::lowering
