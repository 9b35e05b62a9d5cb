#include <fmt/format.h>

#include "driver/device_target.h"
#include "runtime/device_program.h"
#include "target/target.h"
#include "tools/commands.h"

namespace weft {

namespace {

void print_device() {
  const auto device = open_cuda_device();
  if (!device.ok()) {
    fmt::print("cuda     {}\n", device.error().message);
    return;
  }
  const CudaDevice::Properties& p = (*device)->properties();
  const Result<Target> target = target_of_device(p);
  fmt::print(
      "cuda     {} ({}, {} SMs), {}\n", p.name, p.arch(), p.sm_count,
      target.ok() ? "planned for with the figures of " + target->name : target.error().message);
}

}  // namespace

void add_targets_command(CLI::App& app, Status& status) {
  CLI::App* command = app.add_subcommand("targets", "List known targets and the devices present");
  command->callback([&status] {
    const Target host = host_cpu_target();
    fmt::print("cpu      {} cores, {}-byte vectors, {} registers, L1 {} KB, L2 {} KB, L3 {} MB\n",
               host.threads, host.vector_bytes, host.vector_registers, host.l1_bytes >> 10,
               host.l2_bytes >> 10, host.l3_bytes >> 20);
    fmt::print("interp   the reference interpreter\n");
    fmt::print("simt     CUDA text on an emulator, planned with the figures of h100-sxm\n");
    print_device();
    for (const std::string& name : known_targets()) {
      const Target t = *find_target(name);
      if (!t.is_gpu()) continue;
      fmt::print(
          "{:<10} sm_{}, {} SMs, {} KB shared memory a block, {:.0f} GB/s; compile, dump, "
          "explain\n",
          name, t.compute_capability, t.sm_count, t.shared_bytes_per_block >> 10,
          t.bandwidth.back().gb_per_s);
    }
    status = {};
  });
}

}  // namespace weft
