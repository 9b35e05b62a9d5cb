#include "lower/gpu/insert_block_barriers.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kernel/kernel_op.h"
#include "kernel/uniformity.h"
#include "support/check.h"

namespace weft::lowering {

namespace {

/// Shared buffers that threads have touched since the last barrier of the block, and of the
/// cluster.
struct Pending {
  std::set<int32_t> written, read;
  std::set<int32_t> copied;         ///< by copies that nobody has waited for
  std::set<int32_t> left, fetched;  ///< written and read from other blocks
  bool operator==(const Pending&) const = default;

  void clear(KernelBarrier by) {
    if (by == KernelBarrier::kWarp) return;
    written.clear();
    read.clear();
    if (by == KernelBarrier::kBlock) return;
    left.clear();
    fetched.clear();
  }
  void join(const Pending& other) {
    written.insert(other.written.begin(), other.written.end());
    read.insert(other.read.begin(), other.read.end());
    copied.insert(other.copied.begin(), other.copied.end());
    left.insert(other.left.begin(), other.left.end());
    fetched.insert(other.fetched.begin(), other.fetched.end());
  }
};

/// Barriers that a piece of the kernel has to have inside.
struct Needs {
  int block = 0, cluster = 0;
  int all() const { return block + cluster; }
  void add(const Needs& other) {
    block += other.block;
    cluster += other.cluster;
  }
};

class BlockBarriers {
 public:
  BlockBarriers(KernelFunction& kernel, const std::set<int32_t>& rotating)
      : kernel_(kernel), rotating_(rotating), uniformity_(derive_uniformity(kernel)) {}

  void run() {
    Pending pending;
    for (KernelPhase& phase : kernel_.phases) {
      pending = {};  // a barrier of the grid stands between phases
      walk(phase.body, pending, true);
    }
    if (!pending.fetched.empty()) {
      kernel_.phases.back().body.body.push_back(barrier(KernelBarrier::kCluster));
    }
  }

 private:
  /// What the threads of a block exchange: workspaces too, between barriers of the grid.
  bool is_shared(int32_t b) const {
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

  using Wanted = std::optional<KernelBarrier>;

  /// The barrier that has to stand before the instruction.
  Wanted conflict(const KernelInstruction& in, const Pending& pending) const {
    if (in.op == KernelOp::kGroupMultiply) {
      const auto& p = in.as<GroupMultiplyPayload>();
      const bool wanted = meets(p.left, pending.written) || meets(p.right, pending.written);
      return wanted ? Wanted(KernelBarrier::kBlock) : Wanted();
    }
    const auto buffer = buffer_of(in);
    if (!buffer || !is_shared(*buffer)) return std::nullopt;
    const auto block = [](bool wanted) {
      return wanted ? Wanted(KernelBarrier::kBlock) : Wanted();
    };
    switch (in.op) {
      case KernelOp::kLoadCluster:
        return meets(*buffer, pending.left) ? Wanted(KernelBarrier::kCluster) : Wanted();
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kLoadMatrix:
        return block(meets(*buffer, pending.written));
      case KernelOp::kStore:
      case KernelOp::kScatter:
      case KernelOp::kCopyAsync: {
        const bool itself = rotating_.count(*buffer) == 0;
        if (meets(*buffer, pending.fetched, itself)) return KernelBarrier::kCluster;
        return block(meets(*buffer, pending.read, itself) ||
                     meets(*buffer, pending.written, false));
      }
      default:
        return std::nullopt;
    }
  }
  void note(const KernelInstruction& in, Pending& pending) const {
    switch (in.op) {
      case KernelOp::kLoadCluster:
        pending.fetched.insert(in.as<LoadClusterPayload>().buffer);
        return;
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kLoadMatrix:
        if (is_shared(*buffer_of(in))) pending.read.insert(*buffer_of(in));
        return;
      case KernelOp::kGroupMultiply:
        pending.read.insert(in.as<GroupMultiplyPayload>().left);
        pending.read.insert(in.as<GroupMultiplyPayload>().right);
        return;
      case KernelOp::kStore:
      case KernelOp::kScatter:
        if (is_shared(*buffer_of(in))) note_write(*buffer_of(in), pending);
        return;
      case KernelOp::kCopyAsync:
        pending.copied.insert(in.as<CopyAsyncPayload>().to);
        return;
      case KernelOp::kWaitAsync:
        for (const int32_t b : pending.copied) note_write(b, pending);
        return;
      case KernelOp::kBarrier:
        pending.clear(in.as<BarrierPayload>().scope);
        return;
      default:
        return;
    }
  }
  void note_write(int32_t buffer, Pending& pending) const {
    pending.written.insert(buffer);
    if (kernel_.cluster > 1) pending.left.insert(buffer);
  }

  /// Whether all threads of the blocks, or clusters, that `most` names come to the same of it.
  bool is_uniform(const KernelInstruction& in, Uniformity most) const {
    const size_t controls = in.op == KernelOp::kFor ? 3 : 1;
    return std::all_of(in.operands.begin(), in.operands.begin() + static_cast<ptrdiff_t>(controls),
                       [&](Reg r) { return uniformity_[static_cast<size_t>(r)] <= most; });
  }
  bool is_uniform(const KernelInstruction& in) const { return is_uniform(in, Uniformity::kBlock); }
  bool is_uniform_in_cluster(const KernelInstruction& in) const {
    return kernel_.cluster == 1 || is_uniform(in, Uniformity::kCluster);
  }

  static KernelInstruction barrier(KernelBarrier scope) {
    return {KernelOp::kBarrier, BarrierPayload{scope}};
  }

  /// Passes a block, with `insert` putting barriers in. Returns how many it needs.
  Needs walk(KernelBlock& block, Pending& pending, bool insert) {
    Needs needed;
    std::vector<KernelInstruction> body;
    body.reserve(block.body.size());
    for (KernelInstruction& in : block.body) {
      const Wanted before =
          in.regions.empty() ? conflict(in, pending) : before_regions(in, pending);
      if (before) {
        ++(*before == KernelBarrier::kCluster ? needed.cluster : needed.block);
        pending.clear(*before);
        if (insert) body.push_back(barrier(*before));
      }
      if (!in.regions.empty()) {
        needed.add(pass_regions(in, pending, insert));
      } else {
        note(in, pending);
      }
      if (insert) body.push_back(std::move(in));
    }
    if (insert) block.body = std::move(body);
    return needed;
  }

  /// What stands before a loop or a condition: all that it needs inside where only some of the
  /// threads, or blocks of a cluster, enter it; of a loop what only its first iteration needs.
  Wanted before_regions(KernelInstruction& in, const Pending& pending) {
    if (kernel_.cluster > 1) {
      const bool wanted =
          !is_uniform_in_cluster(in)
              ? inside(in, pending).cluster > 0
              : in.op == KernelOp::kFor && only_first(in, pending, KernelBarrier::kCluster);
      if (wanted) return KernelBarrier::kCluster;
    }
    const bool wanted =
        !is_uniform(in) ? inside(in, pending).block > 0
                        : in.op == KernelOp::kFor && only_first(in, pending, KernelBarrier::kBlock);
    return wanted ? Wanted(KernelBarrier::kBlock) : Wanted();
  }

  /// The most that one region needs.
  Needs inside(KernelInstruction& in, const Pending& pending) {
    Needs most;
    for (KernelBlock& region : in.regions) {
      Pending entry = pending;
      const Needs own = walk(region, entry, false);
      most = {std::max(most.block, own.block), std::max(most.cluster, own.cluster)};
    }
    return most;
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
  bool only_first(KernelInstruction& in, const Pending& pending, KernelBarrier scope) {
    Pending cleared = pending;
    cleared.clear(scope);
    if (cleared == pending) return false;
    Pending with = at_entry(in, pending), without = at_entry(in, cleared);
    const Needs more = walk(in.regions[0], with, false), less = walk(in.regions[0], without, false);
    return scope == KernelBarrier::kCluster ? more.cluster > less.cluster : more.all() > less.all();
  }

  Needs pass_regions(KernelInstruction& in, Pending& pending, bool insert) {
    const bool uniform = is_uniform(in);
    Needs needed;
    if (in.op == KernelOp::kIf) {
      Pending after;
      for (KernelBlock& region : in.regions) {
        Pending inside = pending;
        needed.add(walk(region, inside, insert && uniform));
        after.join(inside);
      }
      pending = after;
    } else {
      Pending inside = at_entry(in, pending);
      needed = walk(in.regions[0], inside, insert && uniform);
      pending.join(inside);
    }
    WEFT_CHECK((uniform || needed.all() == 0) && (is_uniform_in_cluster(in) || needed.cluster == 0),
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
