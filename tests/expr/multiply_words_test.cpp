#include "expr/products/multiply_words.h"

#include <gmock/gmock.h>

#include <random>

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/movement/widen_where_read.h"
#include "expr/products/integer_products.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// The expressions that the pass leaves, one a line; what they compute is what the interpreter
/// does, with tensors named `w` made constants before. Empty where nothing changes.
std::string rewritten(const std::string& text) {
  const Graph graph = parsed_graph(text);
  TensorProgram program = expressed(graph);
  std::mt19937 random(5);
  std::vector<HostTensor> all, inputs;
  for (const TensorId t : program.inputs) {
    const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
    HostTensor value(type.dtype, type.shape);
    for (int64_t i = 0; i < value.size(); ++i)
      value.set_int(i, static_cast<int64_t>(random() % 256) - (type.dtype == DType::kI8 ? 128 : 0));
    all.push_back(std::move(value));
  }
  const auto expected = interpret(graph, all, 1000);
  EXPECT_TRUE(expected.ok());
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor& t = program.tensors[static_cast<size_t>(program.inputs[i])];
    if (t.name != "w") {
      inputs.push_back(all[i]);
      continue;
    }
    t.kind = Tensor::Kind::kConstant;
    t.value = all[i];
  }
  std::erase_if(program.inputs, [&](TensorId t) {
    return program.tensors[static_cast<size_t>(t)].kind == Tensor::Kind::kConstant;
  });
  fold_movement(program);
  widen_where_read(program);
  remove_dead_expressions(program);
  integer_products(program, 2);
  remove_dead_expressions(program);
  const bool changed = multiply_words(program);
  expect_computes(program, inputs, *expected);
  const std::string printed = print(program);
  EXPECT_FALSE(multiply_words(program));
  EXPECT_EQ(print(program), printed);
  if (!changed) return "";
  std::string out;
  for (size_t at = 0; at < printed.size(); at = printed.find('\n', at) + 1) {
    const std::string line = printed.substr(at, printed.find('\n', at) - at);
    if (line.find(" = ") != std::string::npos && line.find(" = #") == std::string::npos &&
        line.find(" = {") == std::string::npos)
      out += line + "\n";
  }
  return out;
}

/// `xi` and `wi` of 32 bits multiplied, over a sum of 8.
constexpr const char* kProduct = R"(
  xi = convert q : i32[ROWS,8]
  wi = convert w : i32[8,COLUMNS]
  y = dot_general xi, wi, lhs_contract={1}, rhs_contract={0} : i32[ROWS,COLUMNS]
)";

std::string product(const std::string& rows, const std::string& columns) {
  std::string text = kProduct;
  for (const auto& [word, by] : {std::pair{"ROWS", rows}, std::pair{"COLUMNS", columns}}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.replace(at, std::string(word).size(), by);
  }
  return text;
}

TEST(MultiplyWords, WhatIsMadeForTheProductIsMadeInWords) {
  EXPECT_EQ(rewritten("(x: u8[3,8], w: i8[8,16]) {\n  q = max x, x : u8[3,8]" + product("3", "16") +
                      "} -> (y)"),
            "  q: i16[3,8] = i16(max(x[d0, d1], x[d0, d1]))\n"
            "  y: i32[3,16] = contraction sum[8]:i32 i32(q[d0, r0]) * i32(w[r0, d1])\n");
}

TEST(MultiplyWords, OtherReadersSeeTheBytes) {
  const std::string text = rewritten(
      "(x: u8[3,8], w: i8[8,16]) {\n  q = max x, x : u8[3,8]\n  n = add q, q : u8[3,8]\n" +
      std::string("  f = convert q : f32[3,8]") + product("3", "16") + "} -> (y, n, f)");
  EXPECT_THAT(text, HasSubstr("  n: u8[3,8] = u8(q[d0, d1]) + u8(q[d0, d1])\n"));
  EXPECT_THAT(text, HasSubstr("  f: f32[3,8] = f32(q[d0, d1])\n"));
}

TEST(MultiplyWords, WhatHasToBeThereInBytesIsCopied) {
  const std::string copied =
      "  q_words: i16[3,8] = i16(q[d0, d1])\n"
      "  y: i32[3,16] = contraction sum[8]:i32 i32(q_words[d0, r0]) * i32(w[r0, d1])\n";
  EXPECT_EQ(rewritten("(q: u8[3,8], w: i8[8,16]) {" + product("3", "16") + "} -> (y)"), copied);
  EXPECT_EQ(rewritten("(x: u8[3,8], w: i8[8,16]) {\n  q = max x, x : u8[3,8]" + product("3", "16") +
                      "} -> (y, q)"),
            "  q: u8[3,8] = max(x[d0, d1], x[d0, d1])\n" + copied);
  EXPECT_THAT(rewritten("(x: u8[3,8,5], w: i8[8,16]) {\n"
                        "  q = reduce x, axes={2}, combiner=max : u8[3,8]" +
                        product("3", "16") + "} -> (y)"),
              HasSubstr(copied));
}

TEST(MultiplyWords, ProductsOfFloatsStay) {
  EXPECT_EQ(rewritten(R"((q: f32[3,8], w: f32[8,16]) {
  y = dot_general q, w, lhs_contract={1}, rhs_contract={0} : f32[3,16]
} -> (y))"),
            "");
}

/// Both factors vary: pairs of steps lie side by side for each column.
TEST(MultiplyWords, RightFactorsThatVaryStayInBytes) {
  const std::string text = rewritten(R"((q: u8[64,16], k: i8[16,24]) {
  qi = convert q : i32[64,16]
  ki = convert k : i32[16,24]
  y = dot_general qi, ki, lhs_contract={1}, rhs_contract={0} : i32[64,24]
} -> (y))");
  EXPECT_THAT(text, HasSubstr("y_packed: i8[8,24,2] = k[d0 * 2 + d2, d1]"));
  EXPECT_THAT(text, HasSubstr("i32(q_words[d0, r0 * 2 + r1]) * i32(y_packed[r0, d1, r1])"));
}

}  // namespace
}  // namespace weft
