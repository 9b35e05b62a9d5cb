// Bytes that a model's kernels move, as the plan predicts them and as the emulator counts them.
//
//     counted_traffic MODEL TARGET PLANNER
//
// One JSON object on stdout: {"kernels", "predicted": {"unique", "requested"}, "counted":
// likewise}. Unique: distinct bytes of each tensor that a kernel reads or writes. Requested: bytes
// that warps ask for, each once in a warp's request. The emulator counts unique bytes by sectors of
// 32; a tensor that fills its last one in part counts as what it holds. Inputs are random.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "driver/compiler.h"
#include "driver/explain/explain_json.h"
#include "driver/models/device_target.h"
#include "driver/models/emulated_kernels.h"
#include "driver/models/model_inputs.h"
#include "driver/session.h"

namespace {

using namespace weft;

int fail(const Error& error) {
  fmt::print(stderr, "counted_traffic: {}\n", error.message);
  return static_cast<int>(error.code);
}

struct Bytes {
  int64_t unique = 0, requested = 0;
  nlohmann::json json() const { return {{"unique", unique}, {"requested", requested}}; }
};

Bytes predicted(const Compilation& c) {
  Bytes out;
  const auto plan = nlohmann::json::parse(explain_json(explained(c)));
  for (const auto& k : plan["kernels"]) {
    const int64_t times = k["times"];
    out.unique += times * (k["bytes_read"].get<int64_t>() + k["bytes_written"].get<int64_t>());
    out.requested += times * k["bytes_requested"].get<int64_t>();
  }
  return out;
}

/// Bytes of the buffers of each kernel, by the names of its code.
using Sizes = std::map<std::string, std::map<std::string, int64_t>>;
Sizes sizes_of(const Compilation& c) {
  Sizes out;
  for (const KernelFunction* f : functions_of(c)) {
    auto& of_kernel = out[emit_cuda(*f).name];
    for (const KernelBuffer& b : f->buffers)
      of_kernel[b.name] = std::max(of_kernel[b.name], b.elements * byte_size(b.dtype));
  }
  return out;
}

void count(const simt::Report& report, const std::map<std::string, int64_t>& sizes, Bytes* out) {
  for (const simt::BufferTraffic& b : report.traffic.buffers) {
    const auto size = sizes.find(b.name);
    if (size == sizes.end()) continue;  // the counter of a barrier
    for (const simt::GlobalTraffic& t : {b.loads, b.stores}) {
      out->requested += t.distinct;
      out->unique += std::min(t.unique_bytes, size->second);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail(invalid_input("MODEL TARGET PLANNER"));
  auto target = target_by_name(argv[2]);
  if (!target.ok()) return fail(target.error());
  CompileOptions options;
  options.planner = argv[3];
  options.device = *target;
  const auto compiled = compile_model(std::string(argv[1]), options);
  if (!compiled.ok()) return fail(compiled.error());
  const Compilation& c = **compiled;
  const Sizes sizes = sizes_of(c);
  Bytes counted;
  const auto launcher =
      emulate_kernels(functions_of(c), "", {.observe = [&](const CudaKernel& k, const auto& r) {
                        count(r, sizes.at(k.name), &counted);
                      }});
  if (!launcher.ok()) return fail(launcher.error());
  const auto session = Session::create(c.program, *launcher);
  if (!session.ok()) return fail(session.error());
  const auto inputs = program_inputs(c.imported.inputs, graph_inputs(c.graph), {});
  if (!inputs.ok()) return fail(inputs.error());
  const auto done = (*session)->run(*inputs);
  if (!done.ok()) return fail(done.error());
  const nlohmann::ordered_json out{{"kernels", c.plan.kernels.size()},
                                   {"predicted", predicted(c).json()},
                                   {"counted", counted.json()}};
  fmt::print("{}\n", out.dump());
  return 0;
}
