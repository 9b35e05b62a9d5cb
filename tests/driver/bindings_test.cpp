#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "assemble/lay_out_constants.h"
#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "support/cache_memory.h"
#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

HostTensor filled(Shape shape, int64_t step) {
  HostTensor t(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i)
    t.set_double(i, 0.01 * static_cast<double>((i * step) % 41) - 0.2);
  return t;
}

/// Convolutions with borders, a mean over rows, a product with weights, attention along the open
/// width: rows, vectors, reductions and strides that depend on it.
std::string reader_model() {
  return onnx::TestModel()
      .input("x", DType::kF32, {1, 3, 6, "W"})
      .initializer("k", filled({16, 3, 3, 3}, 7))
      .initializer("d", filled({16, 1, 3, 3}, 11))
      .initializer("w", filled({16, 24}, 5))
      .initializer("b", filled({24}, 3))
      .initializer("rows", onnx::i64_tensor({1}, {2}))
      .node({"Conv", {"x", "k"}, {"c"}, {onnx::ints_attr("pads", {1, 1, 1, 1})}})
      .node({"Relu", {"c"}, {"r"}})
      .node({"Conv",
             {"r", "d"},
             {"e"},
             {onnx::ints_attr("pads", {1, 1, 1, 1}), onnx::int_attr("group", 16)}})
      .node({"ReduceMean", {"e", "rows"}, {"m"}, {onnx::int_attr("keepdims", 0)}})
      .node({"Transpose", {"m"}, {"t"}, {onnx::ints_attr("perm", {0, 2, 1})}})
      .node({"MatMul", {"t", "w"}, {"p"}})
      .node({"Add", {"p", "b"}, {"q"}})
      .node({"Transpose", {"q"}, {"u"}, {onnx::ints_attr("perm", {0, 2, 1})}})
      .node({"MatMul", {"q", "u"}, {"s"}})
      .node({"Softmax", {"s"}, {"a"}, {onnx::int_attr("axis", -1)}})
      .node({"MatMul", {"a", "q"}, {"y"}})
      .output("y")
      .model();
}

class BindingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("weft_bindings_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    std::ofstream(root_ / "m.onnx", std::ios::binary) << reader_model();
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<Compilation> compile(int64_t width,
                                       const std::shared_ptr<EntryCache>& shared) const {
    CompileOptions options;
    options.shared = shared;
    return compile(width, std::move(options));
  }

  std::unique_ptr<Compilation> compile(int64_t width, bool cached = false,
                                       bool fixed = false) const {
    CompileOptions options;
    options.verify = true;
    options.fixed_sizes = fixed;
    if (cached) options.cache_dir = (root_ / "cache").string();
    return compile(width, std::move(options));
  }

  std::unique_ptr<Compilation> compile(int64_t width, CompileOptions options) const {
    options.threads = 2;
    options.import.bind["W"] = width;
    auto c = compile_model((root_ / "m.onnx").string(), options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return c.ok() ? std::move(*c) : nullptr;
  }

  /// What is compiled at one width serves the other.
  void expect_shared(int64_t width, int64_t other_width) const {
    const auto memory = std::make_shared<CacheMemory>();
    const auto first = compile(width, memory);
    ASSERT_NE(first, nullptr);
    const auto other = compile(other_width, memory);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->kernels_from_cache, other->unique_kernels);
    expect_right(*other);
  }

  /// Where the first large constant lies.
  static const std::byte* weights_of(const Compilation& c) {
    for (const HostTensor& constant : c.program.constants) {
      if (constant.bytes() >= kLaidOutFileBytes) return constant.raw();
    }
    ADD_FAILURE() << "no large constant";
    return nullptr;
  }

  static void expect_right(const Compilation& c) {
    const HostTensor x = filled(c.graph.type(c.graph.inputs[0]).shape, 17);
    const auto expected = interpret(c.graph, {x});
    ASSERT_TRUE(expected.ok());
    auto session = Session::create(c.program, 2);
    ASSERT_TRUE(session.ok()) << session.error().message;
    const auto got = (*session)->run({x});
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ((*got)[0].shape(), (*expected)[0].shape());
    for (int64_t i = 0; i < (*got)[0].size(); ++i) {
      const double e = (*expected)[0].at_double(i);
      ASSERT_NEAR((*got)[0].at_double(i), e, 1e-4 + 1e-4 * std::abs(e)) << "element " << i;
    }
  }

  fs::path root_;
};

TEST_F(BindingsTest, HaveTheSameKernelsWhereNoTileSizeChanges) {
  const auto first = compile(40);
  ASSERT_NE(first, nullptr);
  for (const int64_t width : {41, 44, 47}) {
    const auto other = compile(width);
    ASSERT_NE(other, nullptr);
    ASSERT_EQ(other->kernels.size(), first->kernels.size());
    for (size_t k = 0; k < first->kernels.size(); ++k) {
      const CompiledKernel &here = first->kernels[k], &there = other->kernels[k];
      EXPECT_EQ(kernel_digest(there.function), kernel_digest(here.function))
          << here.function.name << " at " << width;
      EXPECT_NE(there.arguments, here.arguments) << here.function.name;
    }
  }
}

TEST_F(BindingsTest, AreRightAtEveryWidth) {
  for (const int64_t width : {2, 3, 13, 40, 47, 64}) {
    const auto c = compile(width);
    ASSERT_NE(c, nullptr);
    expect_right(*c);
  }
}

TEST_F(BindingsTest, TakeAllKernelsFromTheCache) {
  const auto first = compile(40, true);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->kernels_from_cache, 0);
  const auto other = compile(45, true);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->kernels_from_cache, other->unique_kernels);
  expect_right(*other);
}

TEST_F(BindingsTest, ShareKernelsInMemory) {
  const auto memory = std::make_shared<CacheMemory>();
  const auto first = compile(40, memory);
  ASSERT_NE(first, nullptr);
  const auto other = compile(45, memory);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->kernels_from_cache, other->unique_kernels);
  expect_right(*other);
}

/// Two layers that differ in a number are one kernel, and so they are at another width.
TEST_F(BindingsTest, LayersWithNumbersOfTheirOwnShareCode) {
  std::ofstream(root_ / "m.onnx", std::ios::binary)
      << onnx::TestModel()
             .input("x", DType::kF32, {1, "W", 64})
             .initializer("w", filled({64, 64}, 5))
             .initializer("v", filled({64, 64}, 7))
             .initializer("three", onnx::f32_tensor({}, {0.3F}))
             .initializer("seven", onnx::f32_tensor({}, {0.7F}))
             .node({"MatMul", {"x", "w"}, {"p"}})
             .node({"Sub", {"p", "three"}, {"a"}})
             .node({"Tanh", {"a"}, {"t"}})
             .node({"MatMul", {"t", "v"}, {"q"}})
             .node({"Sub", {"q", "seven"}, {"b"}})
             .node({"Tanh", {"b"}, {"y"}})
             .output("y")
             .model();
  const auto memory = std::make_shared<CacheMemory>();
  for (const int64_t width : {40, 45}) {
    const auto c = compile(width, memory);
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->kernels.size(), 2U);
    EXPECT_EQ(c->unique_kernels, 1);
    EXPECT_EQ(c->kernels[0].literals, 1U);
    EXPECT_NE(c->kernels[0].arguments, c->kernels[1].arguments);
    EXPECT_EQ(c->kernels_from_cache, width == 40 ? 0 : 1);
    expect_right(*c);
  }
}

/// Rows of an embedding that are known are computed at once up to 64 KiB: of 42 positions, not of
/// twice as many. Such a length is compared with a smaller one.
TEST_F(BindingsTest, AreOpenWhereALargerOneIsAnotherProgram) {
  std::ofstream(root_ / "m.onnx", std::ios::binary)
      << onnx::TestModel()
             .input("x", DType::kF32, {1, "W", 384})
             .initializer("types", filled({2, 384}, 7))
             .initializer("w", filled({384, 64}, 5))
             .node({"Shape", {"x"}, {"s"}, {onnx::int_attr("end", 2)}})
             .node({"ConstantOfShape", {"s"}, {"z"}, {}})
             .node({"Cast", {"z"}, {"zeros"}, {onnx::int_attr("to", 7)}})
             .node({"Gather", {"types", "zeros"}, {"t"}})
             .node({"Add", {"x", "t"}, {"a"}})
             .node({"MatMul", {"a", "w"}, {"y"}})
             .output("y")
             .model();
  const auto memory = std::make_shared<CacheMemory>();
  const auto first = compile(38, memory);
  ASSERT_NE(first, nullptr);
  for (const CompiledKernel& kernel : first->kernels) EXPECT_FALSE(kernel.arguments.empty());
  const auto other = compile(40, memory);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->kernels_from_cache, other->unique_kernels);
  expect_right(*other);
  EXPECT_EQ(weights_of(*other), weights_of(*first));  // one in memory
}

/// A copy of an input comes before the other expressions, whose numbers stay those of the other
/// binding.
TEST_F(BindingsTest, AreOpenBehindACopyOfAnInput) {
  std::ofstream(root_ / "m.onnx", std::ios::binary)
      << onnx::TestModel()
             .input("x", DType::kF32, {"W", 32, 12, 12})
             .initializer("w", filled({32, 32, 5, 5}, 7))
             .node({"Conv", {"x", "w"}, {"c"}, {onnx::ints_attr("pads", {2, 2, 2, 2})}})
             .node({"Tanh", {"c"}, {"t"}})
             .node({"Conv", {"t", "w"}, {"y"}, {onnx::ints_attr("pads", {2, 2, 2, 2})}})
             .output("y")
             .model();
  expect_shared(8, 9);
}

/// Windows that are filtered minimally need more room between kernels; the plan without merged
/// products, which is asked for then, leaves the other binding as it was.
TEST_F(BindingsTest, AreOpenWhereAPlanIsMadeTwice) {
  std::ofstream(root_ / "m.onnx", std::ios::binary)
      << onnx::TestModel()
             .input("x", DType::kF32, {"W", 32, 32, 32})
             .initializer("w", filled({32, 32, 3, 3}, 7))
             .node({"Conv", {"x", "w"}, {"c"}, {onnx::ints_attr("pads", {1, 1, 1, 1})}})
             .node({"Relu", {"c"}, {"r"}})
             .node({"Conv", {"r", "w"}, {"y"}, {onnx::ints_attr("pads", {1, 1, 1, 1})}})
             .output("y")
             .model();
  expect_shared(4, 5);
}

TEST_F(BindingsTest, FixedSizesAreConstants) {
  const auto fixed = compile(40, false, true);
  ASSERT_NE(fixed, nullptr);
  for (const CompiledKernel& kernel : fixed->kernels) EXPECT_TRUE(kernel.arguments.empty());
  expect_right(*fixed);
}

}  // namespace
}  // namespace weft
