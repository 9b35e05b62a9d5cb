// What kernels that move more than they compute do to a GPU's memory, counted by the emulator.
//
//     gpu_rows [--target NAME] [--only TEXT] [--code]
//
// Each case is planned for the described device at its full size and run by the emulator with its
// checks on. "threads" are those of the launch in per cent of what the device holds; "load" and
// "store" are the 32-byte sectors of all requests over the fewest that the bytes asked for need;
// "traffic" is what was moved over what the case's inputs and outputs hold; "banks" is wavefronts
// over the fewest. A case of several kernels counts them together, threads of the smallest.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "driver/compiler.h"
#include "driver/models/emulated_kernels.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "row_graphs.h"

namespace {

using namespace weft;
using namespace weft_bench;

struct Case {
  std::string name;
  std::string graph;
};

std::vector<Case> all_cases() {
  return {
      {"softmax 4096x1024", softmax("f32", 4096, 1024)},
      {"softmax 64x30000", softmax("f32", 64, 30000)},
      {"softmax 2x1000000", softmax("f32", 2, 1000000)},
      {"softmax 75000x32", softmax("f32", 75000, 32)},
      {"layer norm 1700x1023", layer_norm("f32", 1700, 1023)},
      {"layer norm f16 4096x1024", layer_norm("f16", 4096, 1024)},
      {"rms norm f16 13001x512", layer_norm("f16", 13001, 512, false)},
      {"row sum 64x30000", reduction("f32", {64, 30000}, 1, "sum")},
      {"row sum 1x4000000", reduction("f32", {1, 4000000}, 1, "sum")},
      {"row sum 75000x32", reduction("f32", {75000, 32}, 1, "sum")},
      {"row argmax 16x200000", arg_max("f32", 16, 200000)},
      {"column sum 4096x1024", reduction("f32", {4096, 1024}, 0, "sum")},
      {"column sum 75000x32", reduction("f32", {75000, 32}, 0, "sum")},
      {"middle max 64x256x192", reduction("f32", {64, 256, 192}, 1, "max")},
      {"rows and columns 2048x1000", both_sums(2048, 1000)},
      {"gelu 2048x3072", gelu("f32", 2048, 3072, true)},
      {"transpose 2048x1000", transposition("f32", 1, 2048, 1000)},
      {"transpose f16 1003x515", transposition("f16", 1, 1003, 515)},
      {"transpose 48x512x64", transposition("f32", 48, 512, 64)},
  };
}

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "gpu_rows: {}\n", what);
  std::exit(1);
}

HostTensor values(const TensorType& type) {
  HostTensor t(type.dtype, type.shape);
  uint32_t state = 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    state = state * 1664525 + 1013904223;
    t.set_double(i, static_cast<double>(state >> 8) * 0x1p-22 - 2);
  }
  return t;
}

struct Sum {
  std::string launches;
  int64_t threads = INT64_MAX, load_sectors = 0, loaded = 0, store_sectors = 0, stored = 0;
  int64_t wavefronts = 0, ideal_wavefronts = 0;

  void add(const CudaKernel& kernel, const simt::Report& report) {
    launches += fmt::format("{}{}x{}", launches.empty() ? "" : ", ", kernel.blocks, kernel.threads);
    threads = std::min(threads, kernel.blocks * kernel.threads);
    load_sectors += report.traffic.loads.sectors;
    loaded += report.traffic.loads.bytes;
    store_sectors += report.traffic.stores.sectors;
    stored += report.traffic.stores.bytes;
    wavefronts += report.traffic.shared.wavefronts;
    ideal_wavefronts += report.traffic.shared.ideal_wavefronts;
  }
};

double over(int64_t a, int64_t b) {
  return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
}

std::string row_of(const Case& c, const Target& target, bool code) {
  auto graph = parse_graph(c.graph);
  if (!graph.ok()) fail(graph.error().message + "\n" + c.graph);
  CompileOptions options;
  options.device = target;
  auto compiled = compile_graph(std::move(*graph), options);
  if (!compiled.ok()) fail(c.name + ": " + compiled.error().message);
  const Compilation& made = **compiled;
  if (code) fmt::print("{}{}", *print_level(made, "tile-program"), *print_level(made, "code"));
  Sum sum;
  EmulationOptions emulation;
  emulation.observe = [&](const CudaKernel& k, const simt::Report& r) { sum.add(k, r); };
  auto launcher = emulate_kernels(functions_of(made), "", emulation);
  if (!launcher.ok()) fail(launcher.error().message);
  auto session = Session::create(made.program, *launcher);
  if (!session.ok()) fail(session.error().message);
  std::vector<HostTensor> inputs;
  int64_t bytes = 0;
  for (const ValueId v : made.graph.inputs) {
    inputs.push_back(values(made.graph.type(v)));
    bytes += inputs.back().bytes();
  }
  auto outputs = (*session)->run(inputs);
  if (!outputs.ok()) fail(c.name + ": " + outputs.error().message);
  for (const HostTensor& t : *outputs) bytes += t.bytes();
  std::string forms;
  for (const PlannedKernel& k : made.plan.kernels) {
    forms += (forms.empty() ? "" : ", ") + k.schedule.schedule_template;
  }
  const int64_t held = int64_t{target.sm_count} * target.threads_per_sm;
  return fmt::format("| {} | {} | {} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", c.name,
                     forms, sum.launches, 100.0 * over(std::min(sum.threads, held), held),
                     over(sum.load_sectors * 32, sum.loaded),
                     over(sum.store_sectors * 32, sum.stored), over(sum.loaded + sum.stored, bytes),
                     over(sum.wavefronts, sum.ideal_wavefronts));
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "h100-sxm", only;
  bool code = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--code") {
      code = true;
    } else if ((flag == "--target" || flag == "--only") && i + 1 < argc) {
      (flag == "--only" ? only : name) = argv[++i];
    } else {
      fail("usage: gpu_rows [--target NAME] [--only TEXT] [--code]");
    }
  }
  const auto target = find_target(name);
  if (!target.ok() || !target->is_gpu()) fail("no GPU is described as " + name);
  fmt::print(
      "| case | templates | blocks x threads | threads % | load | store | traffic | banks |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : all_cases()) {
    if (c.name.find(only) == std::string::npos) continue;
    fmt::print("{}", row_of(c, *target, code));
    std::fflush(stdout);
  }
  return 0;
}
