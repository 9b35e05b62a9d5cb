#include "simt/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "simt/machine.h"

namespace weft::simt {
namespace {

/// More than any device has: 227 KB are those of sm_90 and sm_100.
constexpr size_t kMaxSharedBytes = size_t{227} << 10;

Status check_shape(const LaunchShape& shape) {
  const auto& grid = shape.grid;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > INT32_MAX || grid[1] > 65535 ||
      grid[2] > 65535 || uint64_t{grid[0]} * grid[1] * grid[2] > INT32_MAX) {
    return invalid_input(
        fmt::format("a grid of {} x {} x {} blocks cannot be launched", grid[0], grid[1], grid[2]));
  }
  if (shape.threads == 0 || shape.threads > 1024 || shape.threads % 32 != 0) {
    return invalid_input(fmt::format(
        "a block has {} threads; it must be a multiple of 32, at most 1024", shape.threads));
  }
  if (shape.cluster == 0 || shape.cluster > 16 || grid[0] % shape.cluster != 0) {
    return invalid_input(
        fmt::format("a cluster of {} blocks does not divide {}", shape.cluster, grid[0]));
  }
  if (shape.shared_bytes > kMaxSharedBytes) {
    return invalid_input(fmt::format("a block asks for {} bytes of shared memory; at most {}",
                                     shape.shared_bytes, kMaxSharedBytes));
  }
  return {};
}

/// Sorted by address; buffers that overlap become one that may be read and written.
std::vector<Region> regions_of(const std::vector<Buffer>& buffers) {
  std::vector<const Buffer*> sorted;
  for (const Buffer& buffer : buffers) {
    if (buffer.bytes != 0) sorted.push_back(&buffer);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Buffer* a, const Buffer* b) {
    return a->data != b->data ? a->data < b->data : a < b;
  });
  std::vector<Region> regions;
  for (const Buffer* at : sorted) {
    const Buffer& buffer = *at;
    if (!regions.empty() && buffer.data < regions.back().begin + regions.back().bytes) {
      Region& last = regions.back();
      const bool alike = last.use == buffer.use && buffer.use == Buffer::Use::kRead;
      last.use = alike ? buffer.use : Buffer::Use::kReadWrite;
      last.name += "/" + buffer.name;
      last.bytes =
          std::max(last.bytes, static_cast<size_t>(buffer.data - last.begin) + buffer.bytes);
    } else {
      regions.push_back({buffer.name, buffer.data, buffer.bytes, buffer.use, 0});
    }
  }
  return regions;
}

}  // namespace

struct Emulator::State {
  MachineMemory memory;
};

Emulator::Emulator() : state_(std::make_unique<State>()) {}
Emulator::~Emulator() = default;

Result<Report> Emulator::launch(const Module& module, const std::string& kernel,
                                const LaunchShape& shape, const std::vector<Buffer>& buffers,
                                const std::vector<Argument>& arguments,
                                const LaunchOptions& options) {
  if (!has_fibers()) return unsupported("the emulator has no thread switch for this processor");
  WEFT_RETURN_IF_ERROR(check_shape(shape));
  WEFT_ASSIGN_OR_RETURN(const Module::Kernel entry, module.kernel(kernel));
  if (entry.arity != arguments.size()) {
    return invalid_input(fmt::format("kernel '{}' takes {} arguments, not {}", kernel, entry.arity,
                                     arguments.size()));
  }
  std::vector<Region> regions = regions_of(buffers);
  MachineMemory& memory = state_->memory;
  size_t shadows = 0;
  for (Region& region : regions) {
    if (region.use == Buffer::Use::kRead || !options.check) continue;
    region.shadow = shadows++;
    if (memory.shadows.size() < shadows) memory.shadows.resize(shadows);
    WEFT_RETURN_IF_ERROR(memory.shadows[region.shadow].reserve(region.bytes));
  }
  std::vector<unsigned long long> bits;
  for (const Argument& argument : arguments) bits.push_back(argument.bits());
  Machine machine(module, entry, shape, options, std::move(regions), std::move(bits), memory);
  return machine.run();
}

}  // namespace weft::simt
