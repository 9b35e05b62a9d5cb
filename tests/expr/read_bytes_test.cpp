#include "expr/products/read_bytes.h"

#include <gmock/gmock.h>

#include <random>

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

HostTensor random_tensor(const TensorType& type) {
  std::mt19937 random(3);
  HostTensor out(type.dtype, type.shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    if (is_float(type.dtype)) {
      out.set_double(i, static_cast<double>(random() % 512) - 256);
    } else {
      out.set_int(i, static_cast<int64_t>(random() % 256) - (type.dtype == DType::kI8 ? 128 : 0));
    }
  }
  return out;
}

/// The expressions that the pass leaves, one a line; what they compute is what the interpreter
/// does.
std::string rewritten(const std::string& text) {
  const Graph graph = parsed_graph(text);
  TensorProgram program = expressed(graph);
  std::vector<HostTensor> inputs;
  for (const TensorId t : program.inputs)
    inputs.push_back(random_tensor(program.tensors[static_cast<size_t>(t)].type));
  const auto expected = interpret(graph, inputs);
  EXPECT_TRUE(expected.ok());
  fold_movement(program);
  remove_dead_expressions(program);
  EXPECT_TRUE(read_bytes(program));
  remove_dead_expressions(program);
  expect_computes(program, inputs, *expected);
  const std::string printed = print(program);
  EXPECT_FALSE(read_bytes(program));
  EXPECT_EQ(print(program), printed);
  std::string out;
  for (size_t at = 0; at < printed.size(); at = printed.find('\n', at) + 1) {
    const std::string line = printed.substr(at, printed.find('\n', at) - at);
    if (line.find(" = ") != std::string::npos) out += line + "\n";
  }
  return out;
}

void replace(std::string* text, const std::string& word, const std::string& by) {
  for (size_t i = text->find(word); i != std::string::npos; i = text->find(word, i + by.size()))
    text->replace(i, word.size(), by);
}

/// q as float32, (q - 3) * `scale`.
std::string dequantised(const std::string& of, const std::string& shape, const std::string& scale) {
  std::string text = R"(
  Ni = convert Q : i32[S]
  Nz = constant 3 : i32[]
  Nb = broadcast Nz, dims={} : i32[S]
  Ns = sub Ni, Nb : i32[S]
  Nf = convert Ns : f32[S]
  Nc = constant SCALE : f32[]
  Ne = broadcast Nc, dims={} : f32[S]
  Nd = mul Nf, Ne : f32[S]
)";
  replace(&text, "SCALE", scale);
  replace(&text, "S]", shape + "]");
  replace(&text, "Q", of);
  replace(&text, "N", of + "_");
  return text;
}

/// f as u8, f / `scale` + 3.
std::string quantised(const std::string& of, const std::string& as, const std::string& shape,
                      const std::string& scale) {
  std::string text = R"(
  Nc = constant SCALE : f32[]
  Nb = broadcast Nc, dims={} : f32[S]
  Nq = div X, Nb : f32[S]
  Nr = round_even Nq : f32[S]
  Nz = constant 3 : f32[]
  Ny = broadcast Nz, dims={} : f32[S]
  Na = add Nr, Ny : f32[S]
  N = convert Na : u8[S]
)";
  replace(&text, "SCALE", scale);
  replace(&text, "S]", shape + "]");
  replace(&text, "X", of);
  replace(&text, "N", as);
  return text;
}

/// A depthwise window reads bytes; a product would dequantise them for each of its columns.
TEST(ReadBytes, WindowsByChannelReadBytes) {
  const auto convolved = [](int64_t groups) {
    return "(q: u8[1,4,5,6], w: f32[4," + std::to_string(4 / groups) + ",3,3]) {" +
           dequantised("q", "1,4,5,6", "0.5") +
           "  y = convolution q_d, w, strides={1,1}, low={0,0}, high={0,0}, "
           "lhs_dilations={1,1}, rhs_dilations={1,1}, groups=" +
           std::to_string(groups) + " : f32[1,4,3,4]\n} -> (y)";
  };
  const std::string by_channel = rewritten(convolved(4)), joined = rewritten(convolved(1));
  EXPECT_THAT(by_channel,
              HasSubstr("contraction sum[3, 3]:f32 f32(i32(q[0, d1, d2 + r0, d3 + r1]) - "
                        "i32(3)) * 0.5 * w[d1, 0, r0, r1]"));
  EXPECT_THAT(joined, HasSubstr("contraction sum[3, 3, 4]:f32 q_d[0, r2, d2 + r0, d3 + r1]"));
}

TEST(ReadBytes, DequantisesForEachReader) {
  EXPECT_EQ(rewritten("(q: u8[4,6], x: f32[4,6]) {" + dequantised("q", "4,6", "0.5") + R"(
  y = exp q_d : f32[4,6]
  u = add q_d, x : f32[4,6]
  s = reduce q_d, axes={1}, combiner=max : f32[4]
} -> (y, u, s))"),
            R"(  y: f32[4,6] = exp(f32(i32(q[d0, d1]) - i32(3)) * 0.5)
  u: f32[4,6] = f32(i32(q[d0, d1]) - i32(3)) * 0.5 + x[d0, d1]
  s: f32[4] = max[6]:f32 f32(i32(q[d0, r0]) - i32(3)) * 0.5
)");
}

TEST(ReadBytes, GathersBytesOfATable) {
  EXPECT_EQ(rewritten("(q: i8[50,6], i: i64[4]) {" + dequantised("q", "50,6", "0.5") + R"(
  y = gather q_d, i, axis=0 : f32[4,6]
  z = exp y : f32[4,6]
} -> (z))"),
            "  z: f32[4,6] = exp(f32(i32(q[i[d0], d1]) - i32(3)) * 0.5)\n");
}

TEST(ReadBytes, KnowsBytesThatBecomeThemselves) {
  const std::string before = "(q: u8[4,6]) {" + dequantised("q", "4,6", "0.3") +
                             "  t = transpose q_d, permutation={1,0} : f32[6,4]\n";
  EXPECT_EQ(rewritten(before + quantised("t", "p", "6,4", "0.3") + "} -> (p)"),
            "  p: u8[6,4] = q[d1, d0]\n");
  EXPECT_THAT(rewritten(before + quantised("t", "p", "6,4", "0.29") + "} -> (p)"),
              testing::HasSubstr("/ 0.29"));
}

/// A chain of expensive operations from 8 bits to 8 bits, with others on the way, is one look-up.
TEST(ReadBytes, LooksLongChainsUp) {
  for (const std::string type : {"u8", "i8"}) {
    const std::string text = "(q: " + type + "[4,6]) {" + dequantised("q", "4,6", "0.125") +
                             "  s = sigmoid q_d : f32[4,6]\n" +
                             quantised("s", "p", "4,6", "0.00390625") +
                             dequantised("p", "4,6", "0.00390625") +
                             "  m = mul q_d, p_d : f32[4,6]\n  t = tanh m : f32[4,6]\n" +
                             quantised("t", "y", "4,6", "0.0078125") + "} -> (y)";
    EXPECT_THAT(rewritten(text), testing::HasSubstr("  y: u8[4,6] = y_table[{i32(q[d0, d1])"));
  }
}

/// Links of the chain may lie in other shapes than its first one.
TEST(ReadBytes, LooksChainsUpAcrossShapes) {
  const std::string text = "(q: u8[6,4]) {" + dequantised("q", "6,4", "0.125") +
                           "  r = reshape q_d : f32[1,6,4]\n  s = sigmoid r : f32[1,6,4]\n" +
                           quantised("s", "p", "1,6,4", "0.00390625") +
                           dequantised("p", "1,6,4", "0.00390625") +
                           "  m = mul r, p_d : f32[1,6,4]\n  t = tanh m : f32[1,6,4]\n" +
                           quantised("t", "y", "1,6,4", "0.0078125") + "} -> (y)";
  EXPECT_THAT(rewritten(text), testing::HasSubstr("  y: u8[1,6,4] = y_table[{i32(q[d1, d2])"));
}

TEST(ReadBytes, LeavesContractionsOfFloats) {
  EXPECT_THAT(rewritten("(q: u8[4,6], x: f32[6,4]) {" + dequantised("q", "4,6", "0.5") + R"(
  y = dot_general q_d, x, lhs_contract={1}, rhs_contract={0} : f32[4,4]
} -> (y))"),
              testing::EndsWith("sum[6]:f32 q_d[d0, r0] * x[r0, d1]\n"));
}

}  // namespace
}  // namespace weft
