// Graphs through the whole pipeline for a GPU: planned for a described device, lowered, written as
// CUDA, run by the emulator with its checks on, and compared with the interpreter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "driver/compiler.h"
#include "driver/emulated_kernels.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "simt/module.h"

namespace weft {
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

struct Outcome {
  std::unique_ptr<Compilation> compilation;
  std::vector<HostTensor> got, expected;
};

/// Null compilation after a failure, which is reported.
Outcome run(const std::string& text) {
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

/// The compilation, for looking at; null after a failure.
std::unique_ptr<Compilation> expect_same(const std::string& text, double tolerance = 1e-5) {
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
bool available() {
  const auto probe = simt::Module::compile(
      "#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(s32* x) { x[0] = 0; }\nWF_EXPORT(k)\n",
      "k.cu");
  return probe.ok() || probe.error().code != ErrorCode::kMissingDevice;
}

class GpuPipeline : public testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) {
    text.replace(p, from.size(), to);
  }
  return text;
}

TEST_F(GpuPipeline, ElementwiseChainIsOneKernelOfVectors) {
  for (const char* shape : {"7,33", "4,256", "1001"}) {
    const auto c = expect_same(replaced(R"(
      (x: f32[S], z: f32[S]) {
        a = exp x : f32[S]
        b = mul a, z : f32[S]
        y = tanh b : f32[S]
      } -> (y))",
                                        "S", shape));
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->kernels.size(), 1u);
    EXPECT_THAT(*print_level(*c, "code"), testing::HasSubstr("wf_load_ro<4>"));
  }
}

TEST_F(GpuPipeline, SoftmaxOfAnyLengthIsOneKernel) {
  // A few lanes a row, a warp, several warps, and sweeps.
  for (const char* shape : {"37,5", "9,32", "5,100", "3,1000", "2,9001", "1,70000"}) {
    const std::string rows = std::string(shape).substr(0, std::string(shape).find(','));
    const auto c = expect_same(replaced(replaced(R"(
      (x: f32[S]) {
        m = reduce x, axes={1}, combiner=max : f32[R]
        mb = broadcast m, dims={0} : f32[S]
        d = sub x, mb : f32[S]
        e = exp d : f32[S]
        s = reduce e, axes={1}, combiner=sum : f32[R]
        sb = broadcast s, dims={0} : f32[S]
        y = div e, sb : f32[S]
      } -> (y))",
                                                 "S", shape),
                                        "R", rows));
    ASSERT_NE(c, nullptr) << shape;
    EXPECT_EQ(c->kernels.size(), 1u);
  }
}

TEST_F(GpuPipeline, ColumnsAreReducedAcrossWarps) {
  for (const char* rows : {"7", "300"}) {
    expect_same(replaced(R"(
      (x: f32[R,70]) {
        s = reduce x, axes={0}, combiner=sum : f32[70]
        y = exp s : f32[70]
      } -> (y))",
                         "R", rows),
                1e-4);
  }
}

TEST_F(GpuPipeline, ProductsWithAllTails) {
  for (const char* sizes : {"64 48 32", "37 45 21", "5 3 100", "1 50 64", "70 1 19"}) {
    std::string m, n, k;
    std::istringstream(sizes) >> m >> n >> k;
    std::string text = R"(
      (a: f32[M,K], b: f32[K,N], c: f32[N]) {
        p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[M,N]
        d = broadcast c, dims={1} : f32[M,N]
        q = add p, d : f32[M,N]
        y = tanh q : f32[M,N]
      } -> (y))";
    text = replaced(replaced(replaced(text, "M", m), "N", n), "K", k);
    expect_same(text, 1e-4);
  }
}

}  // namespace
}  // namespace weft
