// Random numbers through the whole pipeline: drawn where they are read, and on every target the
// interpreter's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/session.h"
#include "import/builder/prune_graph.h"
#include "import/builder/random_numbers.h"
#include "interp/interpreter.h"
#include "io/onnx_case.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

/// A dropout, and noise of both distributions: of x, f32[rows, columns], and a seed.
Graph noisy(int64_t rows, int64_t columns) {
  onnx::GraphBuilder b;
  const Shape shape = {rows, columns};
  const ValueId x = b.input({DType::kF32, shape}, "x");
  const ValueId kept =
      b.binary(ScalarOp::kLt, random_uniform(b, onnx::new_stream(b), DType::kF32, shape), 0.8);
  const ValueId dropped = b.select(kept, b.mul(x, 1.25), b.full_like(x, 0));
  const ValueId noise = random_normal(b, onnx::new_stream(b), DType::kF32, shape);
  const ValueId wide = random_normal(b, onnx::new_stream(b), DType::kF64, shape);
  b.graph().add_output(b.add(dropped, b.mul(noise, 0.1)), "y");
  b.graph().add_output(kept, "mask");
  b.graph().add_output(b.reduce_mean(wide, {1}, false), "means");
  return onnx::prune_graph(b.graph(), b.value_names());
}

TEST(RandomNumbers, AreDrawnInTheKernelThatReadsThem) {
  CompileOptions options;
  options.threads = 2;
  const auto c = compile_graph(noisy(200, 1000), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_LE((*c)->plan.kernels.size(), 2U);
  EXPECT_LT((*c)->program.arena_bytes, 200 * 1000 * 4);
}

TEST(RandomNumbers, AreTheInterpretersOnEveryTarget) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {7, 33}, {90, 300}}) {
    const Graph graph = noisy(rows, columns);
    if (can_emulate())
      run_and_compare(print(graph, {.max_inline_elements = 1 << 20}),
                      with_sms(*find_target("a100-40gb"), 8));
    HostTensor x(DType::kF32, {rows, columns}), seed(DType::kU64, {});
    for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, static_cast<double>(i % 17));
    seed.set_int(0, 0x123456789ABCDEF);
    const auto expected = interpret(graph, {x, seed});
    ASSERT_TRUE(expected.ok());
    CompileOptions options;
    options.threads = 2;
    const auto c = compile_graph(graph, options);
    ASSERT_TRUE(c.ok()) << c.error().message;
    const auto session = Session::create((*c)->program, 2);
    ASSERT_TRUE(session.ok());
    const auto outputs = (*session)->run({x, seed});
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Status same = compare_tensors((*outputs)[i], (*expected)[i], {1e-5, 1e-5});
      EXPECT_TRUE(same.ok()) << same.error().message;
    }
  }
}

}  // namespace
}  // namespace weft::testing
