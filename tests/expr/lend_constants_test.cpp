#include "expr/movement/lend_constants.h"

#include <gtest/gtest.h>

#include "expr/movement/sink_constants.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

constexpr const char* kScan = R"((h0: f32[2], xs: f32[3,2]) {
  w = constant {0.5, -2} : f32[2]
  h, ys = scan h0, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2], f32[3,2]
    region (h: f32[2], x: f32[2], w: f32[2]) {
      m = mul h, w : f32[2]
      n = add m, x : f32[2]
    } -> (n, y=m)
} -> (h, ys))";

const Tensor* constant_of(const TensorProgram& program) {
  for (const Tensor& t : program.tensors) {
    if (t.kind == Tensor::Kind::kConstant) return &t;
  }
  return nullptr;
}

/// The program with its constant in the body.
TensorProgram sunk(const std::string& text) {
  TensorProgram program = expressed(parsed_graph(text));
  EXPECT_TRUE(sink_constants(program));
  return program;
}

TEST(LendConstants, GivesTheProgramTheConstantsOfALoopsBody) {
  TensorProgram program = sunk(kScan);
  const TensorProgram& body = *program.opaques[0].regions[0];
  const Tensor* inside = constant_of(body);
  ASSERT_NE(inside, nullptr);
  // What the body was made of is still there: nothing is lent twice.
  EXPECT_TRUE(lent_constant(program, *inside).has_value());
  EXPECT_FALSE(lend_constants(program));
  // Another value is.
  Tensor& changed =
      program.opaques[0].regions[0]->tensors[static_cast<size_t>(inside - body.tensors.data())];
  changed.value = HostTensor(DType::kF32, {2});
  changed.value.set_double(0, 3);
  changed.value.set_double(1, 4);
  EXPECT_FALSE(lent_constant(program, changed).has_value());
  const size_t before = program.tensors.size();
  EXPECT_TRUE(lend_constants(program));
  ASSERT_EQ(program.tensors.size(), before + 1);
  EXPECT_EQ(program.tensors.back().value.raw(), changed.value.raw());
  EXPECT_NE(program.tensors.back().name, changed.name);  // the program has one of that name
  EXPECT_EQ(lent_constant(program, changed), static_cast<TensorId>(before));
  EXPECT_FALSE(lend_constants(program));
  EXPECT_TRUE(verify_tensor_program(program).ok());
  // It survives its text, in which values are equal and not the same.
  const auto again = parse_tensor_program(print(program));
  ASSERT_TRUE(again.ok()) << again.error().message << print(program);
  EXPECT_TRUE(lent_constant(*again, changed).has_value());
}

}  // namespace
}  // namespace weft
