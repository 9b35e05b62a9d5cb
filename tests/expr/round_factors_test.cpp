#include "expr/products/round_factors.h"

#include <gtest/gtest.h>

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/products/bfloat_products.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

/// Numbers of more digits than bfloat16 has.
HostTensor numbers(DType type, const Shape& shape, int64_t seed) {
  HostTensor out(type, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_double(i, static_cast<double>((i * 37 + seed) % 1009) / 512 - 0.97);
  return out;
}

struct Rounded {
  std::vector<std::string> names;  ///< of what the contractions make
  std::string exprs;               ///< a line each
};

/// What the pass makes of a graph whose inputs from number `inputs` on are constants. It computes
/// what the interpreter does of `expected`, in which the factors are rounded by conversions.
Rounded rounded(const std::string& text, size_t inputs, const std::string& expected) {
  TensorProgram program = expressed(parsed_graph(text));
  std::vector<HostTensor> values;
  const std::vector<TensorId> all = program.inputs;
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor& t = program.tensors[static_cast<size_t>(all[i])];
    values.push_back(numbers(t.type.dtype, t.type.shape, static_cast<int64_t>(i)));
    if (i < inputs) continue;
    t.kind = Tensor::Kind::kConstant;
    t.value = values.back();
  }
  program.inputs.resize(inputs);
  fold_movement(program);
  Rounded out;
  for (const TensorId t : round_factors(program))
    out.names.push_back(program.tensors[static_cast<size_t>(t)].name);
  remove_dead_expressions(program);
  EXPECT_EQ(round_factors(program), std::vector<TensorId>());
  const auto reference = interpret(parsed_graph(expected), values);
  EXPECT_TRUE(reference.ok()) << reference.error().message;
  values.resize(inputs);
  if (reference.ok()) expect_computes(program, values, *reference);
  const std::string printed = print(program);
  for (size_t at = 0; at < printed.size(); at = printed.find('\n', at) + 1) {
    const std::string line = printed.substr(at, printed.find('\n', at) - at);
    if (line.find(" = ") != std::string::npos && line.find(" = #") == std::string::npos &&
        line.find(" = {") == std::string::npos)
      out.exprs += line + "\n";
  }
  return out;
}

TEST(RoundFactors, ProducersStoreWhatContractionsAloneRead) {
  const Rounded got = rounded(R"((x: f32[3,8], w: f32[8,6], v: f32[6,5]) {
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[3,6]
    t = tanh p : f32[3,6]
    y = dot_general t, v, lhs_contract={1}, rhs_contract={0} : f32[3,5]
  } -> (y))",
                              1, R"((x: f32[3,8], w: f32[8,6], v: f32[6,5]) {
    xh = convert x : bf16[3,8]
    xr = convert xh : f32[3,8]
    wh = convert w : bf16[8,6]
    wr = convert wh : f32[8,6]
    p = dot_general xr, wr, lhs_contract={1}, rhs_contract={0} : f32[3,6]
    t = tanh p : f32[3,6]
    th = convert t : bf16[3,6]
    tr = convert th : f32[3,6]
    vh = convert v : bf16[6,5]
    vr = convert vh : f32[6,5]
    y = dot_general tr, vr, lhs_contract={1}, rhs_contract={0} : f32[3,5]
  } -> (y))");
  EXPECT_EQ(got.exprs,
            "  x_bf16: bf16[3,8] = bf16(x[d0, d1])\n"
            "  p: f32[3,6] = contraction sum[8]:f32 f32(x_bf16[d0, r0]) * f32(w_bf16[r0, d1])\n"
            "  t: bf16[3,6] = bf16(tanh(p[d0, d1]))\n"
            "  y: f32[3,5] = contraction sum[6]:f32 f32(t[d0, r0]) * f32(v_bf16[r0, d1])\n");
  EXPECT_EQ(got.names, (std::vector<std::string>{"p", "y"}));
}

TEST(RoundFactors, OneCopyServesAllContractionsOfWhatOthersReadToo) {
  const Rounded got = rounded(R"((x: f16[3,8], w: f32[8,8], v: f32[8,8]) {
    a = convert x : f32[3,8]
    b = exp a : f32[3,8]
    p = dot_general b, w, lhs_contract={1}, rhs_contract={0} : f32[3,8]
    q = dot_general b, v, lhs_contract={1}, rhs_contract={0} : f32[3,8]
    s = add p, q : f32[3,8]
    y = add s, b : f32[3,8]
  } -> (y))",
                              1, R"((x: f16[3,8], w: f32[8,8], v: f32[8,8]) {
    a = convert x : f32[3,8]
    b = exp a : f32[3,8]
    bh = convert b : bf16[3,8]
    br = convert bh : f32[3,8]
    wh = convert w : bf16[8,8]
    wr = convert wh : f32[8,8]
    vh = convert v : bf16[8,8]
    vr = convert vh : f32[8,8]
    p = dot_general br, wr, lhs_contract={1}, rhs_contract={0} : f32[3,8]
    q = dot_general br, vr, lhs_contract={1}, rhs_contract={0} : f32[3,8]
    s = add p, q : f32[3,8]
    y = add s, b : f32[3,8]
  } -> (y))");
  EXPECT_NE(got.exprs.find("b_bf16: bf16[3,8] = bf16(b[d0, d1])\n"), std::string::npos)
      << got.exprs;
  EXPECT_NE(got.exprs.find("f32(b_bf16[d0, r0]) * f32(v_bf16[r0, d1])"), std::string::npos)
      << got.exprs;
  EXPECT_NE(got.exprs.find("+ b[d0, d1]"), std::string::npos) << got.exprs;
}

TEST(RoundFactors, OfLargeTensorsThereIsNoCopy) {
  const Rounded got = rounded(R"((x: f32[64,4100], w: f32[4100,5]) {
    b = exp x : f32[64,4100]
    y = dot_general b, w, lhs_contract={1}, rhs_contract={0} : f32[64,5]
    z = abs b : f32[64,4100]
  } -> (y, z))",
                              1, R"((x: f32[64,4100], w: f32[4100,5]) {
    b = exp x : f32[64,4100]
    bh = convert b : bf16[64,4100]
    br = convert bh : f32[64,4100]
    wh = convert w : bf16[4100,5]
    wr = convert wh : f32[4100,5]
    y = dot_general br, wr, lhs_contract={1}, rhs_contract={0} : f32[64,5]
    z = abs br : f32[64,4100]
  } -> (y, z))");
  EXPECT_EQ(got.exprs,
            "  b: bf16[64,4100] = bf16(exp(x[d0, d1]))\n"
            "  y: f32[64,5] = contraction sum[4100]:f32 f32(b[d0, r0]) * f32(w_bf16[r0, d1])\n"
            "  z: f32[64,4100] = abs(f32(b[d0, d1]))\n");
}

TEST(RoundFactors, PaddingStaysZero) {
  const Rounded got = rounded(R"((x: f32[1,4,5,5], w: f32[6,4,3,3]) {
    y = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,6,5,5]
  } -> (y))",
                              1, R"((x: f32[1,4,5,5], w: f32[6,4,3,3]) {
    xh = convert x : bf16[1,4,5,5]
    xr = convert xh : f32[1,4,5,5]
    wh = convert w : bf16[6,4,3,3]
    wr = convert wh : f32[6,4,3,3]
    y = convolution xr, wr, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,6,5,5]
  } -> (y))");
  EXPECT_NE(got.exprs.find("? f32(x_bf16[0, r2, d2 + r0 - 1, d3 + r1 - 1]) : 0.0) * f32(w_bf16["),
            std::string::npos)
      << got.exprs;
}

TEST(RoundFactors, LeaveWhatNoPairsOfProductsAddUpTo) {
  // Two tensors; one window a channel; a single column.
  const char* kTensors = R"((x: f32[3,8], w: f32[8,6]) {
    y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[3,6]
  } -> (y))";
  EXPECT_EQ(rounded(kTensors, 2, kTensors).names, std::vector<std::string>());
  const char* kChannels = R"((x: f32[1,4,5,5], w: f32[4,1,3,3]) {
    y = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=4 : f32[1,4,5,5]
  } -> (y))";
  EXPECT_EQ(rounded(kChannels, 1, kChannels).names, std::vector<std::string>());
  const char* kColumn = R"((x: f32[3,8], w: f32[8,1]) {
    y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[3,1]
  } -> (y))";
  EXPECT_EQ(rounded(kColumn, 1, kColumn).names, std::vector<std::string>());
}

}  // namespace
}  // namespace weft
