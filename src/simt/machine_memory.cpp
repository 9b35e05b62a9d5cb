#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "simt/machine.h"

namespace weft::simt {
namespace {

using namespace simt_abi;

AccessKind access_kind(wf_access_kind kind) {
  switch (kind) {
    case wf_access_load:
      return AccessKind::kRead;
    case wf_access_load_ro:
      return AccessKind::kReadOnly;
    case wf_access_acquire:
      return AccessKind::kAtomicRead;
    case wf_access_store:
      return AccessKind::kWrite;
    case wf_access_relaxed:
    case wf_access_release:
    case wf_access_acq_rel:
      return AccessKind::kAtomic;
  }
  return AccessKind::kWrite;
}

bool reads(AccessKind kind) {
  return kind == AccessKind::kRead || kind == AccessKind::kReadOnly ||
         kind == AccessKind::kAtomicRead;
}

bool is_power_of_two(uint32_t n) { return (n & (n - 1)) == 0; }

constexpr std::string_view kHere = "\1";
constexpr std::string_view kThere = "\2";

}  // namespace

void Machine::check_access(const void* p, uint32_t bytes, Kind kind, const void* site) {
  const uint32_t offset = module_.offset_of(site);
  ++report_.accesses;
  locate_and_check(static_cast<const std::byte*>(p), bytes, access_kind(kind), offset);
  if (kind != wf_access_load && kind != wf_access_load_ro && kind != wf_access_acquire) {
    idle_yields_ = 0;
  }
  if (kind >= wf_access_relaxed) order(p, kind);
}

void Machine::locate_and_check(const std::byte* p, uint32_t bytes, AccessKind kind, uint32_t site) {
  const Site here = Site::code(site);
  if (is_power_of_two(bytes) && reinterpret_cast<uintptr_t>(p) % bytes != 0) {
    if (builder_.count(IssueKind::kMisaligned, here, Site::none())) {
      report(IssueKind::kMisaligned, here, Site::none(),
             fmt::format("{}: {} accesses {} bytes at an address that is no multiple of them",
                         kHere, thread_name(), bytes));
    }
    stop();
  }
  if (Block* owner = owner_of_shared(p)) {
    check_shared(*owner, p, bytes, kind, site);
    return;
  }
  const std::optional<size_t> region = region_of(p);
  if (region.has_value()) {
    check_global(*region, p, bytes, kind, site);
    return;
  }
  if (builder_.count(IssueKind::kOutOfBounds, here, Site::none())) {
    report(IssueKind::kOutOfBounds, here, Site::none(),
           fmt::format("{}: {} {} {} bytes outside every buffer", kHere, thread_name(),
                       reads(kind) ? "reads" : "writes", bytes));
  }
  stop();
}

Block* Machine::owner_of_shared(const std::byte* p) {
  Block& own = *current_->block;
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (address - reinterpret_cast<uintptr_t>(own.shared) < shared_stride_) return &own;
  const uintptr_t first = reinterpret_cast<uintptr_t>(memory_.blocks[0].shared);
  if (address - first >= shared_stride_ * resident_) return nullptr;
  return &memory_.blocks[(address - first) / shared_stride_];
}

std::optional<size_t> Machine::region_of(const std::byte* p) const {
  const auto behind = std::upper_bound(
      regions_.begin(), regions_.end(), p,
      [](const std::byte* wanted, const Region& region) { return wanted < region.begin; });
  if (behind == regions_.begin()) return std::nullopt;
  const Region& region = *(behind - 1);
  // One past the end is taken for an access beyond this buffer rather than one to no buffer.
  if (p > region.begin + region.bytes) return std::nullopt;
  return static_cast<size_t>(behind - 1 - regions_.begin());
}

Actor Machine::actor() const {
  const Block& block = *current_->block;
  Actor actor;
  actor.block = block.index;
  actor.thread = current_->index;
  actor.bar = block.bar;
  actor.cluster = shape_.cluster;
  actor.cluster_bar = block.cluster_bar;
  actor.tick = current_->tick;
  actor.seen = block.warps[current_->warp].seen[current_->lane].data();
  actor.own = &current_->acquired;
  actor.block_known = &block.known;
  return actor;
}

void Machine::log(const std::byte* p, uint32_t bytes, int32_t buffer, bool store, uint32_t site) {
  if (!options_.traffic) return;
  current_->block->warps[current_->warp].log.add({site, bytes, reinterpret_cast<uintptr_t>(p),
                                                  buffer, store,
                                                  static_cast<uint8_t>(current_->lane)});
}

void Machine::check_shared(Block& owner, const std::byte* p, uint32_t bytes, AccessKind kind,
                           uint32_t site) {
  const Site here = Site::code(site);
  const auto offset = static_cast<size_t>(p - owner.shared);
  const Block& own = *current_->block;
  const bool reachable = owner.index / shape_.cluster == own.index / shape_.cluster;
  if (offset + bytes > shape_.shared_bytes || !reachable) {
    if (builder_.count(IssueKind::kOutOfBounds, here, Site::none())) {
      report(IssueKind::kOutOfBounds, here, Site::none(),
             fmt::format("{}: {} {} bytes {} to {} of shared memory, which {}", kHere,
                         thread_name(), reads(kind) ? "reads" : "writes", offset, offset + bytes,
                         reachable ? fmt::format("has {}", shape_.shared_bytes)
                                   : "is that of another cluster"));
    }
    stop();
  }
  if (owner.live == 0 && &owner != &own) {
    if (builder_.count(IssueKind::kClusterExit, here, Site::none())) {
      report(IssueKind::kClusterExit, here, Site::none(),
             fmt::format("{}: {} accesses the shared memory of a block that has ended", kHere,
                         thread_name()));
    }
    stop();
  }
  if (&owner != &own) owner.remote_uses[own.index] = {own.bar, site};
  if (kind != AccessKind::kCopyEnd) log(p, bytes, LaneAccess::kShared, !reads(kind), site);
  if (!options_.check) return;
  const Collision collision =
      owner.shadow.access(actor(), {offset, bytes, kind, site, owner.phase, owner.phase, false});
  if (collision.kind == Collision::Kind::kNone) return;
  report_collision(collision, fmt::format("shared+{}", offset + collision.byte), !reads(kind),
                   site);
}

void Machine::check_global(size_t region_index, const std::byte* p, uint32_t bytes, AccessKind kind,
                           uint32_t site) {
  const Site here = Site::code(site);
  const Region& region = regions_[region_index];
  const auto offset = static_cast<size_t>(p - region.begin);
  if (offset + bytes > region.bytes) {
    if (builder_.count(IssueKind::kOutOfBounds, here, Site::none())) {
      report(IssueKind::kOutOfBounds, here, Site::none(),
             fmt::format("{}: {} {} bytes {} to {} of {}, which has {}", kHere, thread_name(),
                         reads(kind) ? "reads" : "writes", offset, offset + bytes, region.name,
                         region.bytes));
    }
    stop();
  }
  log(p, bytes, static_cast<int32_t>(region_index), !reads(kind), site);
  if (region.use == Buffer::Use::kRead) {
    if (reads(kind)) return;
    if (builder_.count(IssueKind::kReadOnlyWrite, here, Site::none())) {
      report(IssueKind::kReadOnlyWrite, here, Site::none(),
             fmt::format("{}: {} writes {}+{}, which it may only read", kHere, thread_name(),
                         region.name, offset));
    }
    stop();
  }
  if (!options_.check) return;
  const bool initialised = region.use == Buffer::Use::kReadWrite;
  const Collision collision = memory_.shadows[region.shadow].access(
      actor(), {offset, bytes, kind, site, first_phase_, global_phase_, initialised});
  if (collision.kind == Collision::Kind::kNone) return;
  report_collision(collision, fmt::format("{}+{}", region.name, offset + collision.byte),
                   !reads(kind), site);
}

void Machine::report_collision(const Collision& collision, const std::string& where, bool store,
                               uint32_t site) {
  const Site here = Site::code(site);
  const Access& earlier = collision.earlier;
  const std::string what =
      fmt::format("{}: {} {} {}", kHere, thread_name(), store ? "writes" : "reads", where);
  const std::string who = earlier.who == Access::Who::kThread
                              ? fmt::format("block {} thread {}", earlier.block, earlier.thread)
                          : earlier.who >= Access::Who::kCluster
                              ? "several blocks"
                              : fmt::format("block {}", earlier.block);
  IssueKind kind = IssueKind::kRace;
  Site there = Site::code(earlier.site);
  std::string text;
  switch (collision.kind) {
    case Collision::Kind::kNone:
      return;
    case Collision::Kind::kRace:
      text = fmt::format("{}; {} {} it at {} with nothing that orders the two", what, who,
                         collision.with_write ? "wrote" : "read", kThere);
      break;
    case Collision::Kind::kCopying:
      kind = IssueKind::kPendingCopy;
      text = fmt::format("{} while the copy that {} started at {} has not been waited for", what,
                         who, kThere);
      break;
    case Collision::Kind::kStale:
      kind = IssueKind::kStaleRead;
      text = fmt::format("{} as read-only memory; {} wrote it at {}", what, who, kThere);
      break;
    case Collision::Kind::kUninitialised:
      kind = IssueKind::kUninitialisedRead;
      there = Site::none();
      text = fmt::format("{}, which nothing wrote", what);
      break;
  }
  if (builder_.count(kind, here, there)) report(kind, here, there, text);
}

// An address hands on what the releases to it know: an acquire takes it. A relaxed access takes it
// at the thread's next fence, and hands on what its last fence released.
void Machine::order(const void* p, Kind kind) {
  Thread& thread = *current_;
  Knowledge& handed = atomics_[p];
  if (kind == wf_access_acquire || kind == wf_access_acq_rel) {
    acquire(thread, handed);
  } else {
    thread.observed.add(handed);
  }
  if (kind == wf_access_release) handed.clear();
  if (kind == wf_access_release || kind == wf_access_acq_rel) {
    handed.add(release(thread));
  } else if (kind == wf_access_relaxed) {
    handed.add(thread.released);
  }
}

void Machine::acquire(Thread& thread, const Knowledge& knowledge) {
  if (knowledge.empty()) return;
  if (thread.acquired.empty()) thread.block->acquirers.push_back(thread.index);
  thread.acquired.add(knowledge);
}

Knowledge Machine::release(Thread& thread) {
  Block& block = *thread.block;
  Warp& warp = block.warps[thread.warp];
  BlockKnowledge own;
  own.block = block.index;
  own.bar = block.bar;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t tick = lane == thread.lane ? thread.tick + 1 : warp.seen[thread.lane][lane];
    if (tick > 1) own.threads.push_back({thread.warp * 32 + lane, tick});
  }
  thread.tick = ++warp.clock;
  Knowledge knowledge = block.known;
  knowledge.add(thread.acquired);
  knowledge.add(own);
  return knowledge;
}

void Machine::start_copy(void* shared, const void* global, uint32_t size, uint32_t bytes,
                         const void* site) {
  const uint32_t offset = module_.offset_of(site);
  auto* to = static_cast<std::byte*>(shared);
  const auto* from = static_cast<const std::byte*>(global);
  ++report_.accesses;
  const Block* owner = owner_of_shared(to);
  const bool aligned =
      reinterpret_cast<uintptr_t>(to) % size == 0 && reinterpret_cast<uintptr_t>(from) % size == 0;
  if (owner != current_->block || bytes > size || !aligned) {
    const IssueKind kind = aligned ? IssueKind::kUnsupportedOperation : IssueKind::kMisaligned;
    if (builder_.count(kind, Site::code(offset), Site::none())) {
      report(kind, Site::code(offset), Site::none(),
             fmt::format("{}: {} starts a copy of {} bytes that {}", kHere, thread_name(), size,
                         aligned ? "does not go to its shared memory or exceeds its size"
                                 : "is not aligned to them"));
    }
    stop();
  }
  // The bytes of a zero-filled copy are read one by one: their number need be no power of two.
  if (bytes == size) {
    locate_and_check(from, bytes, AccessKind::kRead, offset);
  } else {
    for (uint32_t i = 0; i < bytes; ++i) locate_and_check(from + i, 1, AccessKind::kRead, offset);
  }
  locate_and_check(to, size, AccessKind::kCopyStart, offset);
  current_->copies.push_back({to, from, size, bytes, offset});
}

void Machine::finish_copies(uint32_t groups_left) {
  Thread& thread = *current_;
  if (thread.groups.size() <= groups_left) return;
  const size_t groups = thread.groups.size() - groups_left;
  const size_t done = thread.groups[groups - 1];
  for (size_t i = 0; i < done; ++i) {
    const AsyncCopy& copy = thread.copies[i];
    locate_and_check(copy.shared, copy.size, AccessKind::kCopyEnd, copy.site);
    std::memcpy(copy.shared, copy.global, copy.bytes);
    std::memset(copy.shared + copy.bytes, 0, copy.size - copy.bytes);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<ptrdiff_t>(done));
  thread.groups.erase(thread.groups.begin(),
                      thread.groups.begin() + static_cast<ptrdiff_t>(groups));
  for (size_t& end : thread.groups) end -= done;
}

void Machine::check_outputs() {
  for (const Region& region : regions_) {
    if (region.use != Buffer::Use::kWrite) continue;
    const ShadowMemory& shadow = memory_.shadows[region.shadow];
    size_t missing = 0, first = 0;
    for (size_t i = region.bytes; i-- > 0;) {
      if (shadow.written(i, first_phase_)) continue;
      ++missing;
      first = i;
    }
    if (missing == 0) continue;
    // No line is at fault: the table's number tells one output from another.
    const Site which = {static_cast<uint32_t>(region.shadow), Site::Kind::kNone};
    if (builder_.count(IssueKind::kUnwrittenOutput, which, Site::none())) {
      report(IssueKind::kUnwrittenOutput, which, Site::none(),
             fmt::format("{}: {} of the {} bytes of {} stay unwritten, the first at {}", kHere,
                         missing, region.bytes, region.name, first));
    }
  }
}

}  // namespace weft::simt
