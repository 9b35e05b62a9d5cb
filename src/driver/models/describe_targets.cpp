#include "driver/models/describe_targets.h"

#include <fmt/format.h>

#include "driver/models/device_target.h"
#include "runtime/device_program.h"
#include "target/target.h"

namespace weft {

namespace {

TargetDescription describe_host() {
  const Target host = host_cpu_target();
  return {"cpu",
          fmt::format("{} cores, {}-byte vectors, {} registers, L1 {} KB, L2 {} KB, L3 {} MB",
                      host.threads, host.vector_bytes, host.vector_registers, host.l1_bytes >> 10,
                      host.l2_bytes >> 10, host.l3_bytes >> 20),
          true};
}

TargetDescription describe_device() {
  const auto device = open_cuda_device();
  if (!device.ok()) return {"cuda", device.error().message, false};
  const CudaDevice::Properties& p = (*device)->properties();
  const Result<Target> target = target_of_device(p);
  return {"cuda",
          fmt::format("{} ({}, {} SMs), {}", p.name, p.arch(), p.sm_count,
                      target.ok() ? "planned for with the figures of " + target->name
                                  : target.error().message),
          target.ok()};
}

}  // namespace

std::vector<TargetDescription> describe_targets() {
  std::vector<TargetDescription> list = {describe_host(), describe_device()};
  for (const std::string& name : known_targets()) {
    const Target t = *find_target(name);
    if (!t.is_gpu()) continue;
    list.push_back({name,
                    fmt::format("sm_{}, {} SMs, {} KB shared memory a block, {:.0f} GB/s",
                                t.compute_capability, t.sm_count, t.shared_bytes_per_block >> 10,
                                t.bandwidth.back().gb_per_s),
                    false});
  }
  return list;
}

}  // namespace weft
