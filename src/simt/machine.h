#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/emulator_abi.h"
#include "simt/fiber.h"
#include "simt/launch.h"
#include "simt/memory_order.h"
#include "simt/report_builder.h"
#include "simt/shadow_memory.h"
#include "simt/traffic_meter.h"
#include "simt/warp_collective.h"

namespace weft::simt {

struct Block;

/// A cp.async under way.
struct AsyncCopy {
  std::byte* shared = nullptr;
  const std::byte* global = nullptr;
  uint32_t size = 0;
  uint32_t bytes = 0;  ///< of the source; the rest is zeroed
  uint32_t site = 0;
};

struct Thread {
  void* stack_pointer = nullptr;
  simt_abi::wf_place place = {};
  Block* block = nullptr;
  size_t fiber = 0;
  uint32_t index = 0, lane = 0, warp = 0;
  uint32_t tick = 1;
  Knowledge acquired;  ///< since the block's last barrier
  Knowledge observed;  ///< by relaxed atomics, acquired by the next fence
  Knowledge released;  ///< what the last fence lets relaxed atomics hand on
  std::vector<AsyncCopy> copies;
  std::vector<size_t> groups;  ///< per committed group: copies up to its end
  /// What its warp group still reads, and from where in the text.
  std::optional<std::pair<simt_abi::wf_group, const void*>> under_way;
};

/// A collective whose lanes have not all arrived.
struct PendingCollective {
  uint32_t mask = 0, arrived = 0;
  uint32_t site = 0;
  simt_abi::wf_collective_kind kind = simt_abi::wf_collective_sync;
  LaneArguments lanes = {};
};

struct Warp {
  uint32_t live = 0, ready = 0;                        ///< lanes
  uint32_t clock = 1;                                  ///< the last tick given out
  std::array<std::array<uint32_t, 32>, 32> seen = {};  ///< by lane: Actor::seen
  std::vector<PendingCollective> pending;
  WarpLog log;
};

struct RemoteUse {
  uint32_t bar = 0;
  uint32_t site = 0;
};

struct Block {
  uint32_t index = 0;  ///< linear, in the grid
  std::array<uint32_t, 3> position = {};
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  uint32_t live = 0;
  uint32_t bar = 1;          ///< barriers passed, plus 1
  uint32_t cluster_bar = 0;  ///< those of its cluster
  uint32_t arrived = 0;
  simt_abi::wf_barrier_kind barrier_kind = simt_abi::wf_barrier_block;
  uint32_t barrier_site = 0;
  bool waiting = false;  ///< complete at a grid or cluster barrier
  uint32_t cursor = 0;   ///< warp to go on with
  std::byte* shared = nullptr;
  uint32_t phase = 0;  ///< of its shared memory
  ShadowMemory shadow;
  Knowledge known;  ///< acquired before the last barrier
  /// By other block of the cluster: the last barrier at which it used this shared memory, and
  /// where.
  std::map<uint32_t, RemoteUse> remote_uses;
  std::vector<uint32_t> acquirers;  ///< threads with something in `acquired`
};

/// A run of global memory: one buffer, or several that overlap.
struct Region {
  std::string name;
  std::byte* begin = nullptr;
  size_t bytes = 0;
  Buffer::Use use = Buffer::Use::kReadWrite;
  size_t shadow = 0;  ///< index of its table, where it may be written
};

/// What stays between launches: stacks, tables, and the numbers that tell launches apart.
struct MachineMemory {
  FiberStacks stacks;
  std::vector<ShadowMemory> shadows;
  std::vector<std::byte> arena;
  std::vector<Block> blocks;
  uint32_t phase = 0;
};

/// One launch. The callbacks of wf_machine are its members, called on the threads' own stacks.
class Machine : public simt_abi::wf_machine {
 public:
  Machine(const Module& module, Module::Kernel kernel, const LaunchShape& shape,
          const LaunchOptions& options, std::vector<Region> regions,
          std::vector<unsigned long long> arguments, MachineMemory& memory);

  /// Runs the grid; kUnsupported when the memory cannot be had.
  Result<Report> run();

 private:
  using Kind = simt_abi::wf_access_kind;

  // Memory (machine_memory.cpp)
  void check_access(const void* p, uint32_t bytes, Kind kind, const void* site);
  void check_shared(Block& owner, const std::byte* p, uint32_t bytes, AccessKind kind,
                    uint32_t site);
  void check_global(size_t region, const std::byte* p, uint32_t bytes, AccessKind kind,
                    uint32_t site);
  void locate_and_check(const std::byte* p, uint32_t bytes, AccessKind kind, uint32_t site);
  Block* owner_of_shared(const std::byte* p);
  std::optional<size_t> region_of(const std::byte* p) const;
  void report_collision(const Collision& collision, const std::string& where, bool store,
                        uint32_t site);
  void order(const void* p, Kind kind);
  Knowledge release(Thread& thread);
  void acquire(Thread& thread, const Knowledge& knowledge);
  Actor actor() const;
  void log(const std::byte* p, uint32_t bytes, int32_t buffer, bool store, uint32_t site);
  void start_copy(void* shared, const void* global, uint32_t size, uint32_t bytes,
                  const void* site);
  void finish_copies(uint32_t groups_left);
  void check_outputs();

  // Order of execution (scheduler.cpp)
  void start_block(Block& block, uint32_t index);
  Status run_wave(uint32_t first);
  bool run_ready(Block& block);
  static void enter_thread(void* machine);
  void end_thread();
  void check_remote_uses(const Block& block);
  void go_on();
  void switch_to(Thread& thread);
  void switch_to_scheduler();
  [[noreturn]] void stop();
  void reach_barrier(simt_abi::wf_barrier_kind kind, uint32_t* counter, uint32_t site);
  void complete_barrier(Block& block);
  void release_block(Block& block);
  void release_cluster(Block& block);
  void reach_group(Thread& thread, const simt_abi::wf_collective& lane);
  void end_group(Thread& thread);
  void check_group(const Thread& thread, const simt_abi::wf_group& group, const void* address);
  void reach_collective(simt_abi::wf_collective& lane);
  void complete_collective(Warp& warp, PendingCollective& pending);
  void order_warp(Warp& warp, uint32_t mask);
  void yield();
  void* map_shared(const void* p, uint32_t rank, uint32_t site);
  void report_deadlock();
  void count_logs(Block& block);

  // What is wrong (machine.cpp)
  void report(IssueKind kind, Site here, Site there, const std::string& text);
  std::string thread_name() const;
  Traffic finish_traffic() const;

  const Module& module_;
  Module::Kernel kernel_;
  LaunchShape shape_;
  LaunchOptions options_;
  std::vector<Region> regions_;
  std::vector<unsigned long long> arguments_;
  MachineMemory& memory_;

  uint32_t block_count_ = 0;
  uint32_t resident_ = 0;  ///< blocks at a time
  size_t shared_stride_ = 0;
  uint32_t first_phase_ = 0;  ///< of global memory in this launch
  uint32_t global_phase_ = 0;
  std::map<const void*, Knowledge> atomics_;

  void* scheduler_ = nullptr;  ///< its stack pointer while threads run
  Thread* current_ = nullptr;
  bool stopped_ = false;
  uint32_t waiting_blocks_ = 0;  ///< at the grid barrier
  int64_t idle_yields_ = 0;

  ReportBuilder builder_;
  TrafficMeter meter_;
  Report report_;
};

}  // namespace weft::simt
