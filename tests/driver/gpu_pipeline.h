#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "driver/compiler.h"
#include "driver/emulated_kernels.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "simt/module.h"

/// Graphs through the whole pipeline for a GPU: planned for a described device, lowered, written as
/// CUDA, run by the emulator with its checks on, and compared with the interpreter.
namespace weft::testing {

inline HostTensor values(const TensorType& type, uint64_t seed) {
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

struct Outcome {
  std::unique_ptr<Compilation> compilation;
  std::vector<HostTensor> got, expected;
};

/// Null compilation after a failure, which is reported.
inline Outcome run(const std::string& text) {
  Outcome out;
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return out;
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph->inputs) inputs.push_back(values(graph->type(v), inputs.size() + 1));
  auto expected = interpret(*graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().message;
  CompileOptions options;
  options.device = *find_target("h100-sxm");
  options.verify = true;
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  if (!compiled.ok() || !expected.ok()) return out;
  const Compilation& c = **compiled;
  const std::string levels = *print_level(c, "tile-program") + *print_level(c, "code");
  auto launcher = emulate_kernels(c.kernels, "");
  EXPECT_TRUE(launcher.ok()) << launcher.error().message << levels;
  if (!launcher.ok()) return out;
  auto session = Session::create(c.program, *launcher);
  EXPECT_TRUE(session.ok()) << session.error().message;
  if (!session.ok()) return out;
  auto got = (*session)->run(inputs);
  EXPECT_TRUE(got.ok()) << got.error().message << levels;
  if (!got.ok()) return out;
  out.got = std::move(*got);
  out.expected = std::move(*expected);
  out.compilation = std::move(*compiled);
  return out;
}

/// Planned for the device of `run`, and no further than its kernels.
inline std::unique_ptr<Compilation> planned(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return nullptr;
  CompileOptions options;
  options.device = *find_target("h100-sxm");
  options.verify = true;
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? std::move(*compiled) : nullptr;
}

/// The compilation, for looking at; null after a failure.
inline std::unique_ptr<Compilation> expect_same(const std::string& text, double tolerance = 1e-5) {
  Outcome out = run(text);
  for (size_t o = 0; o < out.got.size(); ++o) {
    int wrong = 0;
    for (int64_t i = 0; i < out.got[o].size() && wrong < 4; ++i) {
      const double g = out.got[o].at_double(i), e = out.expected[o].at_double(i);
      if (std::abs(g - e) <= tolerance * std::max(1.0, std::abs(e))) continue;
      ++wrong;
      ADD_FAILURE() << "output " << o << " element " << i << ": " << g << ", not " << e;
    }
    if (wrong > 0) {
      ADD_FAILURE() << *print_level(*out.compilation, "tile-program")
                    << *print_level(*out.compilation, "code");
    }
  }
  return std::move(out.compilation);
}

/// Whether there is a compiler that the emulator can build texts with.
inline bool available() {
  const auto probe = simt::Module::compile(
      "#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(s32* x) { x[0] = 0; }\nWF_EXPORT(k)\n",
      "k.cu");
  return probe.ok() || probe.error().code != ErrorCode::kMissingDevice;
}

class GpuPipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
};

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) {
    text.replace(p, from.size(), to);
  }
  return text;
}

}  // namespace weft::testing
