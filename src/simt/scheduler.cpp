#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernel/kernel_payload.h"
#include "simt/machine.h"

namespace weft::simt {
namespace {

using namespace simt_abi;

constexpr std::string_view kHere = "\1";
constexpr std::string_view kThere = "\2";

uint32_t bit_of(const Thread& thread) { return 1u << thread.lane; }

/// The lanes behind `lane`.
uint32_t lanes_after(uint32_t lane) { return lane == 31 ? 0 : ~0u << (lane + 1); }

}  // namespace

void Machine::start_block(Block& block, uint32_t index) {
  block.index = index;
  block.position = {index % shape_.grid[0], index / shape_.grid[0] % shape_.grid[1],
                    index / shape_.grid[0] / shape_.grid[1]};
  block.live = shape_.threads;
  block.bar = 1;
  block.cluster_bar = 0;
  block.arrived = 0;
  block.waiting = false;
  block.cursor = 0;
  block.phase = ++memory_.phase;
  block.known.clear();
  block.acquirers.clear();
  block.remote_uses.clear();
  std::memset(block.shared, 0xff, shape_.shared_bytes);
  block.threads.resize(shape_.threads);
  block.warps.resize(shape_.threads / 32);
  for (Warp& warp : block.warps) {
    warp.live = warp.ready = ~0u;
    warp.clock = 1;
    for (auto& row : warp.seen) row.fill(0);
    warp.pending.clear();
  }
  const auto slot = static_cast<size_t>(&block - memory_.blocks.data());
  for (uint32_t i = 0; i < shape_.threads; ++i) {
    Thread& thread = block.threads[i];
    thread.block = &block;
    thread.index = i;
    thread.lane = i % 32;
    thread.warp = i / 32;
    thread.tick = 1;
    thread.acquired.clear();
    thread.observed.clear();
    thread.released.clear();
    thread.copies.clear();
    thread.groups.clear();
    thread.place = {i,
                    {block.position[0], block.position[1], block.position[2]},
                    {shape_.grid[0], shape_.grid[1], shape_.grid[2]},
                    index % shape_.cluster,
                    shape_.cluster,
                    reinterpret_cast<u8*>(block.shared)};
    thread.fiber = slot * shape_.threads + i;
    thread.stack_pointer =
        memory_.stacks.prepare(thread.fiber, enter_thread, static_cast<void*>(this));
  }
}

Status Machine::run_wave(uint32_t first) {
  for (uint32_t slot = 0; slot < resident_; ++slot) {
    start_block(memory_.blocks[slot], first + slot);
  }
  waiting_blocks_ = 0;
  for (;;) {
    bool alive = false, ran = false;
    for (uint32_t slot = 0; slot < resident_ && !stopped_; ++slot) {
      Block& block = memory_.blocks[slot];
      alive |= block.live != 0;
      ran |= run_ready(block);
    }
    if (stopped_ || !alive) break;
    if (!ran) {
      report_deadlock();
      stopped_ = true;
      break;
    }
  }
  for (uint32_t slot = 0; slot < resident_; ++slot) count_logs(memory_.blocks[slot]);
  return {};
}

bool Machine::run_ready(Block& block) {
  const auto warps = static_cast<uint32_t>(block.warps.size());
  for (uint32_t i = 0; i < warps; ++i) {
    const uint32_t index = (block.cursor + i) % warps;
    const uint32_t ready = block.warps[index].ready;
    if (ready == 0) continue;
    Thread& thread = block.threads[index * 32 + static_cast<uint32_t>(__builtin_ctz(ready))];
    current_ = &thread;
    place = &thread.place;
    weft_simt_switch_stack(&scheduler_, thread.stack_pointer);
    return true;
  }
  return false;
}

void Machine::enter_thread(void* machine) {
  Machine& self = *static_cast<Machine*>(machine);
  self.kernel_.enter(self.arguments_.data());
  self.end_thread();
}

void Machine::end_thread() {
  Thread& thread = *current_;
  Block& block = *thread.block;
  Warp& warp = block.warps[thread.warp];
  if (!memory_.stacks.intact(thread.fiber)) {
    if (builder_.count(IssueKind::kStackOverflow, Site::none(), Site::none())) {
      report(IssueKind::kStackOverflow, Site::none(), Site::none(),
             fmt::format("{}: {} needs more than {} bytes of stack", kHere, thread_name(),
                         FiberStacks::kStackBytes));
    }
    stop();
  }
  if (!thread.copies.empty()) {
    const Site here = Site::code(thread.copies[0].site);
    if (builder_.count(IssueKind::kUnfinishedCopy, here, Site::none())) {
      report(IssueKind::kUnfinishedCopy, here, Site::none(),
             fmt::format("{}: {} ends without waiting for the copy", kHere, thread_name()));
    }
  }
  warp.live &= ~bit_of(thread);
  warp.ready &= ~bit_of(thread);
  --block.live;
  for (const PendingCollective& pending : warp.pending) {
    if ((pending.mask & bit_of(thread)) == 0) continue;
    const Site here = Site::call(pending.site);
    if (builder_.count(IssueKind::kDivergentCollective, here, Site::none())) {
      report(IssueKind::kDivergentCollective, here, Site::none(),
             fmt::format("{}: {} ends while the {} waits for its lane", kHere, thread_name(),
                         collective_name(pending.kind)));
    }
    stop();
  }
  if (block.live != 0 && block.arrived == block.live) complete_barrier(block);
  if (block.live == 0) check_remote_uses(block);
  switch_to_scheduler();
  __builtin_unreachable();
}

/// The block has ended: whatever others did with its shared memory must lie in its past, whether or
/// not they came first this time.
void Machine::check_remote_uses(const Block& block) {
  for (const auto& [other, use] : block.remote_uses) {
    if (block.known.covers(other, Knowledge::kAnyThread, use.bar, 0)) continue;
    const Site here = Site::code(use.site);
    if (builder_.count(IssueKind::kClusterExit, here, Site::none())) {
      report(
          IssueKind::kClusterExit, here, Site::none(),
          fmt::format("{}: block {} accesses the shared memory of block {}, which may have ended",
                      kHere, other, block.index));
    }
  }
}

void Machine::switch_to(Thread& thread) {
  Thread& before = *current_;
  if (&thread == &before) return;
  current_ = &thread;
  place = &thread.place;
  weft_simt_switch_stack(&before.stack_pointer, thread.stack_pointer);
}

void Machine::switch_to_scheduler() {
  weft_simt_switch_stack(&current_->stack_pointer, scheduler_);
}

void Machine::stop() {
  stopped_ = true;
  switch_to_scheduler();
  __builtin_unreachable();
}

/// Leaves the current thread, which waits, for one that can run: of its warp first.
void Machine::go_on() {
  Block& block = *current_->block;
  const auto warps = static_cast<uint32_t>(block.warps.size());
  for (uint32_t i = 0; i < warps; ++i) {
    const uint32_t index = (current_->warp + i) % warps;
    const uint32_t ready = block.warps[index].ready;
    if (ready == 0) continue;
    const uint32_t later = i == 0 ? ready & lanes_after(current_->lane) : 0;
    const uint32_t from = later != 0 ? later : ready;
    switch_to(block.threads[index * 32 + static_cast<uint32_t>(__builtin_ctz(from))]);
    return;
  }
  switch_to_scheduler();
}

void Machine::yield() {
  // Far more turns than any order of the waiting threads needs.
  const int64_t limit = 1000 + 64 * int64_t{resident_} * shape_.threads;
  if (++idle_yields_ > limit) {
    report_deadlock();
    stop();
  }
  Block& block = *current_->block;
  block.cursor = (current_->warp + 1) % static_cast<uint32_t>(block.warps.size());
  switch_to_scheduler();
}

void Machine::reach_barrier(wf_barrier_kind kind, u32* counter, u32 site) {
  Thread& thread = *current_;
  Block& block = *thread.block;
  const Site here = Site::call(site);
  if (kind == wf_barrier_grid && !shape_.cooperative) {
    if (builder_.count(IssueKind::kUnsupportedOperation, here, Site::none())) {
      report(IssueKind::kUnsupportedOperation, here, Site::none(),
             fmt::format("{}: a grid barrier in a launch that is not cooperative", kHere));
    }
    stop();
  }
  if (kind == wf_barrier_grid && thread.index == 0) {
    locate_and_check(reinterpret_cast<const std::byte*>(counter), sizeof *counter,
                     AccessKind::kAtomic, 1);
  }
  if (block.arrived == 0) {
    block.barrier_kind = kind;
    block.barrier_site = site;
  } else if (block.barrier_site != site || block.barrier_kind != kind) {
    const Site there = Site::call(block.barrier_site);
    if (builder_.count(IssueKind::kDivergentBarrier, here, there)) {
      report(IssueKind::kDivergentBarrier, here, there,
             fmt::format("{}: {} is at this barrier while others of its block are at that of {}",
                         kHere, thread_name(), kThere));
    }
    stop();
  }
  ++block.arrived;
  block.warps[thread.warp].ready &= ~bit_of(thread);
  if (block.arrived == block.live) complete_barrier(block);
  if ((block.warps[thread.warp].ready & bit_of(thread)) == 0) go_on();
}

/// All living threads of the block have arrived.
void Machine::complete_barrier(Block& block) {
  const Site here = Site::call(block.barrier_site);
  if (block.live != shape_.threads) {
    if (builder_.count(IssueKind::kDivergentBarrier, here, Site::none())) {
      report(IssueKind::kDivergentBarrier, here, Site::none(),
             fmt::format("{}: {} of the {} threads of block {} have ended before this barrier",
                         kHere, shape_.threads - block.live, shape_.threads, block.index));
    }
    stop();
  }
  ++report_.barriers;
  idle_yields_ = 0;
  if (block.barrier_kind == wf_barrier_block) {
    release_block(block);
    return;
  }
  block.waiting = true;
  if (block.barrier_kind == wf_barrier_cluster) {
    release_cluster(block);
  } else if (++waiting_blocks_ == block_count_) {
    waiting_blocks_ = 0;
    global_phase_ = ++memory_.phase;
    atomics_.clear();
    for (uint32_t slot = 0; slot < resident_; ++slot) release_block(memory_.blocks[slot]);
  }
}

void Machine::release_block(Block& block) {
  ++block.bar;
  block.arrived = 0;
  block.waiting = false;
  for (Warp& warp : block.warps) warp.ready = warp.live;
  for (const uint32_t index : block.acquirers) {
    block.known.add(block.threads[index].acquired);
    block.threads[index].acquired.clear();
  }
  block.acquirers.clear();
  count_logs(block);
}

/// The cluster goes on when each of its blocks waits; what each did before is then known to all.
void Machine::release_cluster(Block& block) {
  const auto slot = static_cast<uint32_t>(&block - memory_.blocks.data());
  const uint32_t first = slot / shape_.cluster * shape_.cluster;
  for (uint32_t i = first; i < first + shape_.cluster; ++i) {
    const Block& member = memory_.blocks[i];
    if (!member.waiting || member.barrier_kind != wf_barrier_cluster) return;
  }
  Knowledge all;
  for (uint32_t i = first; i < first + shape_.cluster; ++i) {
    Block& member = memory_.blocks[i];
    release_block(member);
    all.add(member.known);
    BlockKnowledge own;
    own.block = member.index;
    own.bar = member.bar;
    all.add(own);
  }
  for (uint32_t i = first; i < first + shape_.cluster; ++i) {
    memory_.blocks[i].known = all;
    ++memory_.blocks[i].cluster_bar;
  }
}

/// What the one before has read until now is read by then, not before.
void Machine::reach_group(Thread& thread, const wf_collective& lane) {
  check_group(thread, *lane.group, lane.address);
  end_group(thread);
  if (lane.group->under_way) thread.under_way.emplace(*lane.group, lane.address);
}

void Machine::end_group(Thread& thread) {
  if (thread.under_way) check_group(thread, thread.under_way->first, thread.under_way->second);
  thread.under_way.reset();
}

/// Each lane reads its share of the chunks of 16 bytes that its warp multiplies.
void Machine::check_group(const Thread& thread, const wf_group& g, const void* address) {
  constexpr u32 kChunk = 8;
  const auto check = [&](const void* from, u32 first, u32 count, u32 panel, bool across) {
    const u32 rows = across ? g.depth : count, begin = across ? first : 0;
    const u32 chunks = (across ? count : g.depth) / kChunk;
    for (u32 i = thread.lane; i < rows * chunks; i += 32) {
      const u32 row = i / chunks + (across ? 0 : first), at = begin + i % chunks * kChunk;
      ++report_.accesses;
      locate_and_check(static_cast<const std::byte*>(from) + element_of_panels(row, at, panel) * 2,
                       16, AccessKind::kRead, module_.offset_of(address));
    }
  };
  check(g.left, g.first_row, 16, g.left_panel, g.left_across);
  check(g.right, 0, g.columns, g.right_panel, g.right_across);
}

void Machine::reach_collective(wf_collective& lane) {
  Thread& thread = *current_;
  Warp& warp = thread.block->warps[thread.warp];
  const Site here = Site::call(lane.site);
  const auto refuse = [&](IssueKind kind, Site there, const std::string& why) {
    if (builder_.count(kind, here, there)) {
      report(
          kind, here, there,
          fmt::format("{}: {} at a {}: {}", kHere, thread_name(), collective_name(lane.kind), why));
    }
    stop();
  };
  if ((lane.mask & bit_of(thread)) == 0) {
    refuse(IssueKind::kInvalidCollective, Site::none(),
           fmt::format("its mask {:08x} leaves out its own lane", lane.mask));
  }
  if ((lane.mask & ~warp.live) != 0) {
    refuse(IssueKind::kDivergentCollective, Site::none(),
           fmt::format("its mask {:08x} names lanes that have ended", lane.mask));
  }
  if (lane.kind >= wf_collective_ldmatrix) {
    const bool wanted = thread.lane < lane.count * 8;
    if (wanted) {
      ++report_.accesses;
      locate_and_check(static_cast<const std::byte*>(lane.row), 16, AccessKind::kRead,
                       module_.offset_of(lane.address));
    }
  }
  if (lane.kind == wf_collective_group_f16 || lane.kind == wf_collective_group_bf16) {
    reach_group(thread, lane);
  }
  auto pending = std::find_if(warp.pending.begin(), warp.pending.end(),
                              [&](const auto& p) { return (p.mask & lane.mask) != 0; });
  if (pending == warp.pending.end()) {
    warp.pending.push_back({lane.mask, 0, lane.site, lane.kind, {}});
    pending = warp.pending.end() - 1;
  } else if (pending->site != lane.site || pending->mask != lane.mask) {
    refuse(IssueKind::kDivergentCollective, Site::call(pending->site),
           fmt::format("other lanes of its mask {:08x} are at {} with mask {:08x}", lane.mask,
                       kThere, pending->mask));
  }
  pending->lanes[thread.lane] = &lane;
  pending->arrived |= bit_of(thread);
  warp.ready &= ~bit_of(thread);
  if (pending->arrived == pending->mask) {
    complete_collective(warp, *pending);
  } else {
    go_on();
  }
}

void Machine::complete_collective(Warp& warp, PendingCollective& pending) {
  ++report_.collectives;
  idle_yields_ = 0;
  const PendingCollective complete = pending;
  warp.pending.erase(warp.pending.begin() + (&pending - warp.pending.data()));
  warp.ready |= complete.mask;
  const std::optional<int> wrong = compute_collective(complete.mask, complete.lanes);
  if (wrong) {
    const Site here = Site::call(complete.site);
    if (builder_.count(IssueKind::kInvalidCollective, here, Site::none())) {
      report(IssueKind::kInvalidCollective, here, Site::none(),
             fmt::format("{}: lane {} takes the value of a lane outside the mask {:08x}", kHere,
                         *wrong, complete.mask));
    }
  }
  if (complete.kind == wf_collective_sync) order_warp(warp, complete.mask);
}

/// What the lanes of the mask did, and what they had seen, is in the past of all of them.
void Machine::order_warp(Warp& warp, uint32_t mask) {
  Block& block = *current_->block;
  Thread* threads = &block.threads[current_->warp * 32];
  std::array<uint32_t, 32> seen = {};
  Knowledge acquired;
  const uint32_t tick = ++warp.clock;
  for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    for (uint32_t i = 0; i < 32; ++i) seen[i] = std::max(seen[i], warp.seen[lane][i]);
    acquired.add(threads[lane].acquired);
  }
  for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
    seen[static_cast<uint32_t>(__builtin_ctz(lanes))] = tick;
  }
  for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    warp.seen[lane] = seen;
    threads[lane].tick = tick;
    acquire(threads[lane], acquired);
  }
}

void* Machine::map_shared(const void* p, uint32_t rank, uint32_t site) {
  Block& block = *current_->block;
  const auto* at = static_cast<const std::byte*>(p);
  const bool inside = at >= block.shared && at <= block.shared + shape_.shared_bytes;
  if (rank >= shape_.cluster || !inside) {
    const Site here = Site::call(site);
    if (builder_.count(IssueKind::kOutOfBounds, here, Site::none())) {
      report(IssueKind::kOutOfBounds, here, Site::none(),
             fmt::format("{}: {} maps {} of block {} of a cluster of {}", kHere, thread_name(),
                         inside ? "shared memory" : "what is not its shared memory", rank,
                         shape_.cluster));
    }
    stop();
  }
  const auto slot = static_cast<uint32_t>(&block - memory_.blocks.data());
  const uint32_t first = slot / shape_.cluster * shape_.cluster;
  return memory_.blocks[first + rank].shared + (at - block.shared);
}

void Machine::report_deadlock() {
  for (uint32_t slot = 0; slot < resident_; ++slot) {
    const Block& block = memory_.blocks[slot];
    if (block.live == 0) continue;
    Site here = block.arrived != 0 ? Site::call(block.barrier_site) : Site::none();
    std::string text = fmt::format("{}: block {}: {} of {} threads wait at a barrier", kHere,
                                   block.index, block.arrived, block.live);
    for (size_t warp = 0; warp < block.warps.size(); ++warp) {
      for (const PendingCollective& pending : block.warps[warp].pending) {
        here = Site::call(pending.site);
        text += fmt::format("; lanes {:08x} of warp {} wait at the {} of line {} for {:08x}",
                            pending.arrived, warp, collective_name(pending.kind),
                            pending.site / 1000, pending.mask & ~pending.arrived);
      }
    }
    if (builder_.count(IssueKind::kDeadlock, here, Site::none())) {
      report(IssueKind::kDeadlock, here, Site::none(), text);
    }
    return;
  }
}

void Machine::count_logs(Block& block) {
  if (!options_.traffic) return;
  for (Warp& warp : block.warps) meter_.count(warp.log);
}

}  // namespace weft::simt
