#include "expr/products/integer_products.h"

#include <gtest/gtest.h>

#include <random>

#include "expr/movement/fold_movement.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/movement/sink_movement.h"
#include "expr/movement/split_axes.h"
#include "expr/products/weight_sources.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

/// Bytes of all values, the ends among them most often.
HostTensor bytes(DType type, Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  HostTensor out(type, std::move(shape));
  const int64_t low = type == DType::kI8 ? -128 : 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    const uint32_t draw = random() % 4;
    const int64_t value = draw == 0 ? low : draw == 1 ? low + 255 : low + random() % 256;
    out.set_int(i, value);
  }
  return out;
}

/// The program of a graph whose input `w` is a constant, and its inputs.
struct Case {
  TensorProgram program;
  std::vector<HostTensor> inputs, expected;
};

Case case_of(const std::string& text) {
  Case out;
  const Graph graph = parsed_graph(text);
  out.program = expressed(graph);
  std::vector<HostTensor> all;
  for (const TensorId t : out.program.inputs) {
    const TensorType& type = out.program.tensors[static_cast<size_t>(t)].type;
    all.push_back(bytes(type.dtype, type.shape, static_cast<uint32_t>(all.size()) + 1));
  }
  auto expected = interpret(graph, all, 1000);
  EXPECT_TRUE(expected.ok()) << expected.error().message;
  if (expected.ok()) out.expected = std::move(*expected);
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor& t = out.program.tensors[static_cast<size_t>(out.program.inputs[i])];
    if (t.name != "w") {
      out.inputs.push_back(all[i]);
      continue;
    }
    t.kind = Tensor::Kind::kConstant;
    t.value = all[i];
  }
  std::erase_if(out.program.inputs, [&](TensorId t) {
    return out.program.tensors[static_cast<size_t>(t)].kind == Tensor::Kind::kConstant;
  });
  fold_movement(out.program);
  split_axes(out.program, WeightSources(out.program).tensors());
  sink_movement(out.program);
  remove_dead_expressions(out.program);
  return out;
}

/// The expressions that the pass leaves, one a line, without constants' hashes. What they compute
/// is what the interpreter does, number for number: scales are powers of two.
std::string rewritten(const std::string& text) {
  Case c = case_of(text);
  EXPECT_TRUE(integer_products(c.program));
  remove_dead_expressions(c.program);
  const Status valid = verify_tensor_program(c.program);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
  const auto got = evaluate(c.program, c.inputs);
  EXPECT_TRUE(got.ok());
  if (got.ok()) {
    for (int64_t i = 0; i < c.expected[0].size(); ++i) {
      EXPECT_EQ((*got)[0].at_double(i), c.expected[0].at_double(i)) << "element " << i;
      if (testing::Test::HasFailure()) break;
    }
  }
  const std::string before = print(c.program);
  EXPECT_FALSE(integer_products(c.program));
  EXPECT_EQ(print(c.program), before);
  std::string out;
  for (size_t at = 0; at < before.size(); at = before.find('\n', at) + 1) {
    const std::string line = before.substr(at, before.find('\n', at) - at);
    if (line.find(" = ") != std::string::npos && line.find(" = #") == std::string::npos &&
        line.find(" = {") == std::string::npos)
      out += line + "\n";
  }
  return out;
}

/// x and w as they are dequantised: (x - 7) * 0.5, w * 0.25.
constexpr const char* kDequantised = R"((x: XTYPE[3,8], w: WTYPE[8,5]) {
  xi = convert x : i32[3,8]
  xz = constant XZERO : i32[]
  xzb = broadcast xz, dims={} : i32[3,8]
  xs = sub xi, xzb : i32[3,8]
  xf = convert xs : f32[3,8]
  half = constant 0.5 : f32[]
  hb = broadcast half, dims={} : f32[3,8]
  xd = mul xf, hb : f32[3,8]
  wi = convert w : i32[8,5]
  wz = constant WZERO : i32[]
  wzb = broadcast wz, dims={} : i32[8,5]
  ws = sub wi, wzb : i32[8,5]
  wf = convert ws : f32[8,5]
  quarter = constant {0.25, 0.5, 1, 2, 4} : f32[5]
  qb = broadcast quarter, dims={1} : f32[8,5]
  wd = mul wf, qb : f32[8,5]
  y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[3,5]
} -> (y))";

std::string dequantised(const std::string& xtype, const std::string& xzero,
                        const std::string& wtype, const std::string& wzero) {
  std::string text = kDequantised;
  const auto replace = [&](const std::string& word, const std::string& by) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.replace(at, word.size(), by);
  };
  replace("XTYPE", xtype);
  replace("XZERO", xzero);
  replace("WTYPE", wtype);
  replace("WZERO", wzero);
  return text;
}

TEST(IntegerProducts, TakeScalesAndZeroPointsOutOfTheSum) {
  EXPECT_EQ(rewritten(dequantised("u8", "7", "i8", "0")),
            "  y_sums: i32[3,5] = contraction sum[8]:i32 i32(x[d0, r0]) * i32(w[r0, d1])\n"
            "  y: f32[3,5] = f32(y_sums[d0, d1] - y_zero[d1]) * y_scale[d1]\n");
}

TEST(IntegerProducts, MoveBytesToTheSignsThatAreMultiplied) {
  const std::string text = rewritten(dequantised("i8", "-128", "u8", "255"));
  EXPECT_NE(text.find("x_u8: u8[3,8] = u8(i32(x[d0, d1]) + i32(128))"), std::string::npos) << text;
  EXPECT_NE(text.find("i32(x_u8[d0, r0]) * i32(w_i8[r0, d1])"), std::string::npos) << text;
  EXPECT_NE(text.find("y_rows: i32[3] = sum[8]:i32 i32(x_u8[d0, r0])"), std::string::npos) << text;
}

/// Rows that heads were put together for, as attention leaves them.
TEST(IntegerProducts, WeightsGetAnAxisForEachThatTheSumWalksThemBy) {
  const std::string text = rewritten(R"((x: u8[2,3,4], w: i8[8,5]) {
  t = transpose x, permutation={1,0,2} : u8[3,2,4]
  xi = convert t : i32[3,2,4]
  xz = constant 7 : i32[]
  xb = broadcast xz, dims={} : i32[3,2,4]
  xs = sub xi, xb : i32[3,2,4]
  xf = convert xs : f32[3,2,4]
  xd = reshape xf : f32[3,8]
  wf = convert w : f32[8,5]
  quarter = constant {0.25, 0.5, 1, 2, 4} : f32[5]
  qb = broadcast quarter, dims={1} : f32[8,5]
  wd = mul wf, qb : f32[8,5]
  y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[3,5]
} -> (y))");
  EXPECT_EQ(text,
            "  y_sums: i32[3,5] = contraction sum[2, 4]:i32 i32(x[r0, d0, r1]) * "
            "i32(w_axes[r0, r1, d1])\n"
            "  y: f32[3,5] = f32(y_sums[d0, d1] - y_zero[d1]) * quarter[d1]\n");
}

/// Of two factors that vary the right one is laid out, and both are filled up to whole steps.
TEST(IntegerProducts, FactorsThatVaryArePacked) {
  const auto of = [](const std::string& k) {
    std::string text = R"((x: u8[64,KK], v: u8[KK,16]) {
  xf = convert x : f32[64,KK]
  vi = convert v : i32[KK,16]
  z = constant 3 : i32[]
  zb = broadcast z, dims={} : i32[KK,16]
  vs = sub vi, zb : i32[KK,16]
  vf = convert vs : f32[KK,16]
  y = dot_general xf, vf, lhs_contract={1}, rhs_contract={0} : f32[64,16]
} -> (y))";
    for (size_t at = text.find("KK"); at != std::string::npos; at = text.find("KK"))
      text.replace(at, 2, k);
    return rewritten(text);
  };
  EXPECT_EQ(of("20"),
            "  y_packed: i8[5,16,4] = i8(i32(v[d0 * 4 + d2, d1]) + i32(-128))\n"
            "  y_sums: i32[64,16] = contraction sum[5, 4]:i32 i32(x[d0, r0 * 4 + r1]) * "
            "i32(y_packed[r0, d1, r1])\n"
            "  y_rows: i32[64] = sum[20]:i32 i32(x[d0, r0])\n"
            "  y: f32[64,16] = f32(y_sums[d0, d1] - y_rows[d0] * i32(-125))\n");
  const std::string filled = of("18");
  EXPECT_NE(filled.find("y_rows_filled: u8[64,20] = i64(d1) < i64(18) ? x[d0, d1] : u8(0)"),
            std::string::npos)
      << filled;
  EXPECT_NE(filled.find("i32(y_rows_filled[d0, r0 * 4 + r1]) * i32(y_packed[r0, d1, r1])"),
            std::string::npos)
      << filled;
}

/// Few rows read each of its elements: that is not worth laying it out.
TEST(IntegerProducts, FactorsThatVaryStayWhereFewRowsReadThem) {
  Case c = case_of(R"((x: u8[63,20], v: i8[20,16]) {
  xf = convert x : f32[63,20]
  vf = convert v : f32[20,16]
  y = dot_general xf, vf, lhs_contract={1}, rhs_contract={0} : f32[63,16]
} -> (y))");
  EXPECT_FALSE(integer_products(c.program));
}

TEST(IntegerProducts, AreExactForAllSignsAndZeroPointsAtTheEnds) {
  for (const char* x : {"u8", "i8"}) {
    for (const char* w : {"u8", "i8"}) {
      for (const char* zero : {"-128", "-1", "0", "1", "127", "255"}) {
        SCOPED_TRACE(std::string(x) + " " + w + " " + zero);
        rewritten(dequantised(x, zero, w, "0"));
        rewritten(dequantised(x, "3", w, zero));
      }
    }
  }
}

TEST(IntegerProducts, PaddingIsTheZeroPoint) {
  const std::string text = rewritten(R"((x: u8[1,4,5,5], w: i8[6,4,3,3]) {
    xi = convert x : i32[1,4,5,5]
    xz = constant 200 : i32[]
    xzb = broadcast xz, dims={} : i32[1,4,5,5]
    xs = sub xi, xzb : i32[1,4,5,5]
    wi = convert w : i32[6,4,3,3]
    y = convolution xs, wi, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : i32[1,6,5,5]
  } -> (y))");
  EXPECT_NE(text.find("? i32(x[0, r2, d2 + r0 - 1, d3 + r1 - 1]) : i32(200)) * i32(w["),
            std::string::npos)
      << text;
}

TEST(IntegerProducts, SumsThatAreTooLongAreMadeOfParts) {
  const std::string text = rewritten(R"((x: u8[1,70000], w: i8[70000,2]) {
    xd = convert x : f32[1,70000]
    wd = convert w : f32[70000,2]
    y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[1,2]
  } -> (y))");
  EXPECT_EQ(text,
            "  y_parts_sums: i32[1,2,2] = contraction sum[35000]:i32 i32(x[0, d2 * 35000 + r0]) * "
            "i32(w_axes[d2, r0, d1])\n"
            "  y_parts: f32[1,2,2] = f32(y_parts_sums[d0, d1, d2])\n"
            "  y: f32[1,2] = sum[2]:f32 y_parts[d0, d1, r0]\n");
}

TEST(IntegerProducts, LeaveWhatIsNoSumOfBytes) {
  // A scale that changes along the sum.
  const char* kBlocks = R"((x: u8[2,8], w: i8[8,3]) {
    xd = convert x : f32[2,8]
    wf = convert w : f32[8,3]
    s = constant {1, 2, 3, 4, 5, 6, 7, 8} : f32[8]
    sb = broadcast s, dims={0} : f32[8,3]
    wd = mul wf, sb : f32[8,3]
    y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[2,3]
  } -> (y))";
  // The other factor has more than 8 bits.
  const char* kWide = R"((x: i16[2,8], w: i8[8,3]) {
    xd = convert x : f32[2,8]
    wd = convert w : f32[8,3]
    y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[2,3]
  } -> (y))";
  // More products than 32 bits hold, and no parts of one length.
  const char* kPrime = R"((x: u8[1,70001], w: i8[70001,2]) {
    xd = convert x : f32[1,70001]
    wd = convert w : f32[70001,2]
    y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[1,2]
  } -> (y))";
  for (const char* text : {kBlocks, kWide, kPrime}) {
    Case c = case_of(text);
    EXPECT_FALSE(integer_products(c.program)) << text;
  }
}

}  // namespace
}  // namespace weft
