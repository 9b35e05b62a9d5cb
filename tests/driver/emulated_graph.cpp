#include "tests/driver/emulated_graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/cuda/nvrtc.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "simt/module.h"

namespace weft::testing {

namespace {

HostTensor values(const TensorType& type, uint64_t seed) {
  HostTensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const double unit = static_cast<double>(seed >> 33) / static_cast<double>(1ULL << 31);
    if (is_float(type.dtype)) {
      t.set_double(i, unit * 4 - 2);
    } else {
      t.set_int(i, static_cast<int64_t>(unit * 2));
    }
  }
  return t;
}

/// Null compilation after a failure, which is reported.
EmulatedRun run(const std::string& text, CompileOptions options,
                std::vector<HostTensor>* expected) {
  EmulatedRun out;
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message << text;
  if (!graph.ok()) return out;
  for (const ValueId v : graph->inputs) {
    out.inputs.push_back(values(graph->type(v), out.inputs.size() + 1));
  }
  auto right = interpret(*graph, out.inputs);
  EXPECT_TRUE(right.ok()) << right.error().message;
  options.verify = true;
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok() || !right.ok()) return out;
  const Compilation& c = **compiled;
  const std::string levels = *print_level(c, "tile-program") + *print_level(c, "code");
  EmulationOptions emulation;
  emulation.observe = [&out](const CudaKernel& kernel, const simt::Report& report) {
    out.launches.push_back({kernel, report});
  };
  auto launcher = emulate_kernels(functions_of(c), "", emulation);
  EXPECT_TRUE(launcher.ok()) << launcher.error().message << levels;
  if (!launcher.ok()) return out;
  auto session = Session::create(c.program, *launcher);
  EXPECT_TRUE(session.ok()) << session.error().message;
  if (!session.ok()) return out;
  auto got = (*session)->run(out.inputs);
  EXPECT_TRUE(got.ok()) << got.error().message << levels;
  if (!got.ok()) return out;
  out.outputs = std::move(*got);
  *expected = std::move(*right);
  out.compilation = std::move(*compiled);
  return out;
}

}  // namespace

bool can_emulate() {
  const auto probe = simt::Module::compile(
      "#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(s32* x) { x[0] = 0; }\nWF_EXPORT(k)\n",
      "k.cu");
  return probe.ok() || probe.error().code != ErrorCode::kMissingDevice;
}

Target with_sms(Target target, int32_t sm_count) {
  for (auto& point : target.bandwidth) {
    point.bytes = point.bytes * sm_count / target.sm_count;
    point.gb_per_s *= static_cast<double>(sm_count) / target.sm_count;
  }
  target.l2_bytes = target.l2_bytes * sm_count / target.sm_count;
  target.sm_count = sm_count;
  return target;
}

int64_t EmulatedRun::bytes() const {
  int64_t sum = 0;
  for (const auto* list : {&inputs, &outputs}) {
    for (const HostTensor& t : *list) sum += static_cast<int64_t>(t.bytes());
  }
  return sum;
}

int64_t EmulatedRun::sector_bytes() const {
  int64_t sectors = 0;
  for (const Launch& l : launches) {
    for (const simt::GlobalTraffic& t : {l.report.traffic.loads, l.report.traffic.stores}) {
      sectors += t.sectors - t.requests;
    }
  }
  return sectors * 32;
}

EmulatedRun run_and_compare(const std::string& graph, const Target& target, double tolerance,
                            bool fast_math, CompileOptions options) {
  options.device = target;
  options.fast_math = fast_math;
  std::vector<HostTensor> expected;
  EmulatedRun out = run(graph, std::move(options), &expected);
  bool right = true;
  for (size_t o = 0; o < out.outputs.size(); ++o) {
    int wrong = 0;
    for (int64_t i = 0; i < out.outputs[o].size() && wrong < 4; ++i) {
      const double g = out.outputs[o].at_double(i), e = expected[o].at_double(i);
      if (g == e || (std::isnan(g) && std::isnan(e))) continue;
      if (std::abs(g - e) <= tolerance * std::max(1.0, std::abs(e))) continue;
      ++wrong;
      ADD_FAILURE() << "output " << o << " element " << i << ": " << g << ", not " << e;
    }
    right &= wrong == 0;
  }
  if (!right) ADD_FAILURE() << *print_level(*out.compilation, "tile-program") << out.code();
  return out;
}

std::string own_arch(const std::string& arch) { return arch == "sm_90" ? "sm_90a" : arch; }

bool runs_on(const CudaKernel& code, const std::string& arch) {
  const bool by_groups = code.text.find("wf_group_multiply") != std::string::npos;
  return !by_groups || arch == "sm_90";
}

void expect_no_spills(const EmulatedRun& run, const std::vector<std::string>& archs) {
  const auto nvrtc = Nvrtc::load();
  if (!nvrtc.ok() || run.compilation == nullptr) return;
  for (const std::string& arch : archs) {
    for (const KernelFunction* kernel : functions_of(*run.compilation)) {
      const CudaKernel code = emit_cuda(*kernel);
      if (code.cluster > 1 && arch.starts_with("sm_8")) continue;  // have no clusters
      if (!runs_on(code, arch)) continue;
      const auto binary = nvrtc->compile(code.text, code.name + ".cu", {.arch = own_arch(arch)});
      ASSERT_TRUE(binary.ok()) << binary.error().message << code.text;
      for (const CudaKernelResources& r : binary->kernels) {
        EXPECT_EQ(r.spill_store_bytes + r.spill_load_bytes, 0)
            << arch << " " << r.registers << " registers\n"
            << *print_level(*run.compilation, "tile-program");
      }
    }
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) {
    text.replace(p, from.size(), to);
  }
  return text;
}

}  // namespace weft::testing
