#include "simt/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::simt {
namespace {

std::vector<TrafficMeter::Extent> extents_of(const std::vector<Region>& regions, bool traffic) {
  std::vector<TrafficMeter::Extent> extents;
  if (!traffic) return extents;
  for (const Region& region : regions) {
    extents.push_back({reinterpret_cast<uintptr_t>(region.begin), region.bytes});
  }
  return extents;
}

void add_to(GlobalTraffic& sum, const GlobalTraffic& part) {
  sum.requests += part.requests;
  sum.bytes += part.bytes;
  sum.sectors += part.sectors;
  sum.distinct += part.distinct;
  sum.unique_bytes += part.unique_bytes;
}

void add_to(SharedTraffic& sum, const SharedTraffic& part) {
  sum.requests += part.requests;
  sum.bytes += part.bytes;
  sum.wavefronts += part.wavefronts;
  sum.ideal_wavefronts += part.ideal_wavefronts;
}

}  // namespace

Machine::Machine(const Module& module, Module::Kernel kernel, const LaunchShape& shape,
                 const LaunchOptions& options, std::vector<Region> regions,
                 std::vector<unsigned long long> arguments, MachineMemory& memory)
    : wf_machine(),
      module_(module),
      kernel_(kernel),
      shape_(shape),
      options_(options),
      regions_(std::move(regions)),
      arguments_(std::move(arguments)),
      memory_(memory),
      builder_(options.max_issues),
      meter_(extents_of(regions_, options.traffic)) {
  using namespace simt_abi;
  access = [](wf_machine* m, const void* p, u32 bytes, wf_access_kind kind, const void* site) {
    static_cast<Machine*>(m)->check_access(p, bytes, kind, site);
  };
  barrier = [](wf_machine* m, wf_barrier_kind kind, u32* counter, u32 site) {
    static_cast<Machine*>(m)->reach_barrier(kind, counter, site);
  };
  collective = [](wf_machine* m, wf_collective* lane) {
    static_cast<Machine*>(m)->reach_collective(*lane);
  };
  copy = [](wf_machine* m, void* shared, const void* global, u32 size, u32 bytes,
            const void* site) {
    static_cast<Machine*>(m)->start_copy(shared, global, size, bytes, site);
  };
  commit = [](wf_machine* m) {
    Thread& thread = *static_cast<Machine*>(m)->current_;
    thread.groups.push_back(thread.copies.size());
  };
  wait = [](wf_machine* m, u32 groups) { static_cast<Machine*>(m)->finish_copies(groups); };
  fence = [](wf_machine* m) {
    Machine& machine = *static_cast<Machine*>(m);
    Thread& thread = *machine.current_;
    machine.acquire(thread, thread.observed);
    thread.observed.clear();
    thread.released = machine.release(thread);
  };
  group_wait = [](wf_machine* m) {
    auto* machine = static_cast<Machine*>(m);
    machine->end_group(*machine->current_);
  };
  pause = [](wf_machine* m) { static_cast<Machine*>(m)->yield(); };
  map = [](wf_machine* m, const void* p, u32 rank, u32 site) {
    return static_cast<Machine*>(m)->map_shared(p, rank, site);
  };
}

Result<Report> Machine::run() {
  block_count_ = shape_.grid[0] * shape_.grid[1] * shape_.grid[2];
  resident_ = shape_.cooperative ? block_count_ : shape_.cluster;
  WEFT_RETURN_IF_ERROR(memory_.stacks.reserve(size_t{resident_} * shape_.threads));
  stacks = reinterpret_cast<const simt_abi::u8*>(memory_.stacks.begin());
  stack_bytes = memory_.stacks.bytes();
  constexpr size_t kSharedAlignment = 1024;
  shared_stride_ = (shape_.shared_bytes / kSharedAlignment + 2) * kSharedAlignment;
  memory_.arena.resize(shared_stride_ * resident_ + kSharedAlignment);
  if (memory_.blocks.size() < resident_) memory_.blocks.resize(resident_);
  auto base = reinterpret_cast<uintptr_t>(memory_.arena.data());
  base = (base + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  for (uint32_t slot = 0; slot < resident_; ++slot) {
    memory_.blocks[slot].shared = reinterpret_cast<std::byte*>(base + slot * shared_stride_);
    if (options_.check) {
      WEFT_RETURN_IF_ERROR(memory_.blocks[slot].shadow.reserve(shape_.shared_bytes));
    }
  }
  first_phase_ = global_phase_ = ++memory_.phase;

  const std::lock_guard lock(module_.launch_lock());
  module_.bind(static_cast<wf_machine*>(this));
  for (uint32_t first = 0; first < block_count_ && !stopped_; first += resident_) {
    WEFT_RETURN_IF_ERROR(run_wave(first));
  }
  report_.completed = !stopped_;
  if (options_.check && report_.completed) check_outputs();
  report_.issues = builder_.finish(module_);
  if (options_.traffic) report_.traffic = finish_traffic();
  return std::move(report_);
}

void Machine::report(IssueKind kind, Site here, Site there, const std::string& text) {
  builder_.describe(kind, here, there, text);
}

std::string Machine::thread_name() const {
  const Block& block = *current_->block;
  std::string name = fmt::format("{}", block.position[0]);
  if (shape_.grid[1] > 1 || shape_.grid[2] > 1) name += fmt::format(",{}", block.position[1]);
  if (shape_.grid[2] > 1) name += fmt::format(",{}", block.position[2]);
  return fmt::format("block {} thread {}", name, current_->index);
}

Traffic Machine::finish_traffic() const {
  const TrafficMeter::Totals& totals = meter_.totals();
  Traffic traffic;
  for (size_t i = 0; i < regions_.size(); ++i) {
    traffic.buffers.push_back({regions_[i].name, totals.loads[i], totals.stores[i]});
    add_to(traffic.loads, totals.loads[i]);
    add_to(traffic.stores, totals.stores[i]);
  }
  std::vector<uint32_t> sites;
  for (const auto& [site, shared] : totals.shared) {
    add_to(traffic.shared, shared);
    if (shared.wavefronts > shared.ideal_wavefronts) sites.push_back(site);
  }
  const std::vector<int> lines = module_.lines_of(sites);
  std::map<int, SharedTraffic> by_line;
  for (size_t i = 0; i < sites.size(); ++i) add_to(by_line[lines[i]], totals.shared.at(sites[i]));
  for (const auto& [line, shared] : by_line) traffic.bank_conflicts.push_back({line, shared});
  return traffic;
}

}  // namespace weft::simt
