#include "expr/products/part_products.h"

#include <gtest/gtest.h>

#include "expr/movement/fold_movement.h"
#include "tests/expr/expr_testing.h"
#include "tests/graph_texts.h"

namespace weft {
namespace {

/// The expressions after folding movement and parting, with lanes of two; the constants' bytes and
/// what is computed are the interpreter's.
std::string parted(const std::string& text) {
  const Graph graph = parsed_graph(text);
  TensorProgram program = expressed(graph);
  fold_movement(program);
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph.inputs) {
    HostTensor t(DType::kF32, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.mutable_data<float>()[i] = static_cast<float>((i * 7 + 3) % 11) / 4 - 1;
    inputs.push_back(std::move(t));
  }
  const auto expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  const bool changed = part_products(program, 2);
  expect_computes(program, inputs, *expected);
  expect_round_trip(program);
  std::string out;
  for (const TensorProgram::Step& s : program.steps) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(s.index)];
    out += program.tensors[static_cast<size_t>(e.output)].name + (e.is_contraction ? "* " : " ");
  }
  return changed ? out : "as it was";
}

const std::string kProduct = R"((x: f32[3,2], u: f32[3,4]) {
    w = constant {1,2,3,4,5,6,7,8} : f32[2,4]
    b = constant {9,8,7,6} : f32[4]
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[3,4]
)";
std::string half(const std::string& name, const std::string& of, int start) {
  return "    " + name + " = slice " + of + ", start={0," + std::to_string(start) +
         "}, step={1,1} : f32[3,2]\n";
}

TEST(PartProducts, WhatIsCombinedElementByElementIsMadeApart) {
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + half("g", "p", 2) + R"(
    s = sigmoid g : f32[3,2]
    y = mul f, s : f32[3,2]
  } -> (y))"),
            "p_part* p_part_1* s y ");
}

/// What is made of all columns on the way is parted, too, with what it reads beside them.
TEST(PartProducts, ArithmeticBetweenIsPartedToo) {
  EXPECT_EQ(parted(kProduct + R"(
    c = broadcast b, dims={1} : f32[3,4]
    q = add p, c : f32[3,4]
    r = add u, q : f32[3,4]
)" + half("f", "r", 0) +
                   half("g", "r", 2) + R"(
    s = tanh g : f32[3,2]
    y = sub f, s : f32[3,2]
  } -> (y))"),
            "p_part* p_part_1* q_part q_part_1 r_part r_part_1 s y ");
}

/// Three parts, two of which are used together first: a reset and an update gate, and a candidate.
TEST(PartProducts, PartsMayBeUsedTogetherBefore) {
  EXPECT_EQ(parted(R"((x: f32[3,2]) {
    w = constant {1,2,3,4,5,6,7,8,9,10,11,12} : f32[6,2]
    p = dot_general x, w, lhs_contract={1}, rhs_contract={1} : f32[3,6]
    a = slice p, start={0,0}, step={1,1} : f32[3,4]
    s = sigmoid a : f32[3,4]
)" + half("r", "s", 0) +
                   half("z", "s", 2) + half("n", "p", 4) + R"(
    m = mul r, n : f32[3,2]
    t = tanh m : f32[3,2]
    y = mul z, t : f32[3,2]
  } -> (y))"),
            "p_part* p_part_1* p_part_2* s_part s_part_1 m t y ");
}

TEST(PartProducts, OthersStayWhole) {
  const std::string sum = "    y = add f, g : f32[3,2]\n";
  // One part alone is read; parts that nothing combines; parts that a product combines.
  EXPECT_EQ(parted(kProduct + half("f", "p", 2) + "    y = tanh f : f32[3,2]\n  } -> (y)"),
            "as it was");
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + half("g", "p", 2) + R"(
    y = tanh f : f32[3,2]
    z = exp g : f32[3,2]
  } -> (y, z))"),
            "as it was");
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + half("g", "p", 2) + R"(
    y = dot_general f, g, lhs_contract={1}, rhs_contract={1} : f32[3,3]
  } -> (y))"),
            "as it was");
  // The product itself is a result; or read across.
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + half("g", "p", 2) + sum + "  } -> (y, p)"),
            "as it was");
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + R"(
    t = transpose p, permutation={1,0} : f32[4,3]
    g = slice t, start={2,0}, step={1,1} : f32[2,3]
    h = transpose f, permutation={1,0} : f32[2,3]
    y = add g, h : f32[2,3]
    z = slice t, start={0,0}, step={1,2} : f32[4,2]
  } -> (y, z))"),
            "as it was");
  // Parts that overlap are parts of single columns: too many vectors that are not full.
  EXPECT_EQ(parted(kProduct + half("f", "p", 0) + half("g", "p", 1) + sum + "  } -> (y)"),
            "as it was");
}

}  // namespace
}  // namespace weft
