#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "codegen/cpu/code_features.h"
#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"

namespace weft {
namespace {

/// A constant of bytes, a third of them at the ends.
std::string bytes(const std::string& type, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t low = type == "i8" ? -128 : 0;
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t draw = random() % 6;
    const int64_t value = draw == 0 ? low : draw == 1 ? low + 255 : low + random() % 256;
    out += fmt::format("{}{}", i == 0 ? "{" : ", ", value);
  }
  return out + "}";
}

/// Two products of dequantised factors, the first one's result quantised between them. Scales are
/// powers of two, so that float32 rounds nothing before the end.
std::string products(const std::string& type, int64_t rows, int64_t depth, int64_t columns,
                     int64_t zero) {
  const std::string m = std::to_string(rows), k = std::to_string(depth),
                    n = std::to_string(columns);
  std::string text = "(x: " + type + "[" + m + "," + k + "]) {\n";
  text += "  w = constant " + bytes("i8", depth * columns, 1) + " : i8[" + k + "," + n + "]\n";
  text += "  v = constant " + bytes("u8", columns * 5, 2) + " : u8[" + n + ",5]\n";
  const auto dequantised = [&](const std::string& of, const std::string& shape, int64_t offset,
                               const std::string& scale) {
    text += fmt::format(
        "  {0}i = convert {0} : i32{1}\n  {0}z = constant {2} : i32[]\n"
        "  {0}b = broadcast {0}z, dims={{}} : i32{1}\n  {0}s = sub {0}i, {0}b : i32{1}\n"
        "  {0}f = convert {0}s : f32{1}\n  {0}c = constant {3} : f32[]\n"
        "  {0}e = broadcast {0}c, dims={{}} : f32{1}\n  {0}d = mul {0}f, {0}e : f32{1}\n",
        of, shape, offset, scale);
  };
  dequantised("x", "[" + m + "," + k + "]", zero, "0.5");
  dequantised("w", "[" + k + "," + n + "]", 0, "0.25");
  const std::string middle = "[" + m + "," + n + "]";
  text += fmt::format(
      "  p = dot_general xd, wd, lhs_contract={{1}}, rhs_contract={{0}} : f32{0}\n"
      "  h = constant 0.0078125 : f32[]\n  hb = broadcast h, dims={{}} : f32{0}\n"
      "  q = mul p, hb : f32{0}\n  r = round_even q : f32{0}\n  t = convert r : u8{0}\n",
      middle);
  dequantised("t", middle, 255, "2");
  dequantised("v", "[" + n + ",5]", 131, "0.125");
  text += "  y = dot_general td, vd, lhs_contract={1}, rhs_contract={0} : f32[" + m + ",5]\n";
  return text + "} -> (y, t)";
}

/// A convolution whose padding is a zero point at an end, and one without.
std::string convolutions(const std::string& zero) {
  return "(x: u8[1,6,7,9]) {\n  w = constant " + bytes("i8", 10 * 6 * 9, 3) +
         " : i8[10,6,3,3]\n  u = constant " + bytes("i8", 12 * 10, 4) +
         " : i8[12,10,1,1]\n"
         "  xi = convert x : i32[1,6,7,9]\n  z = constant " +
         zero +
         R"( : i32[]
  zb = broadcast z, dims={} : i32[1,6,7,9]
  xs = sub xi, zb : i32[1,6,7,9]
  wi = convert w : i32[10,6,3,3]
  p = convolution xs, wi, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : i32[1,10,7,9]
  b = convert p : u8[1,10,7,9]
  bi = convert b : i32[1,10,7,9]
  ui = convert u : i32[12,10,1,1]
  y = convolution bi, ui, strides={2,2}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : i32[1,12,4,5]
} -> (y, p))";
}

/// Machines of each width that this one can be, with and without an instruction for bytes.
std::vector<Target> machines() {
  std::vector<Target> out;
  for (const int width : {16, 32, 64}) {
    Target target = host_cpu_target(1, width);
    if (target.vector_bytes != width) continue;
    out.push_back(portable(target));
    out.push_back(std::move(target));
  }
  return out;
}

/// Whether the code does exactly what the interpreter does, on random bytes and those at the ends.
void expect_exact(const std::string& text) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::mt19937 random(7);
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph->inputs) {
    HostTensor t(graph->type(v).dtype, graph->type(v).shape);
    const int64_t low = t.dtype() == DType::kI8 ? -128 : 0;
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_int(i, random() % 3 == 0 ? low + 255 * static_cast<int64_t>(random() % 2)
                                     : low + static_cast<int64_t>(random() % 256));
    inputs.push_back(std::move(t));
  }
  const auto expected = interpret(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const Target& target : machines()) {
    SCOPED_TRACE(std::to_string(target.vector_bytes) + " bytes");
    CompileOptions options;
    options.verify = true;
    options.device = target;
    auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_TRUE(std::ranges::any_of((*compiled)->tensors.exprs, [](const TensorExpr& e) {
      return e.is_contraction && e.accumulator == DType::kI32;
    }));
    auto session = Session::create(std::move((*compiled)->program), 1);
    ASSERT_TRUE(session.ok()) << session.error().message;
    const auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t o = 0; o < outputs->size(); ++o) {
      for (int64_t i = 0; i < (*expected)[o].size(); ++i) {
        ASSERT_EQ((*outputs)[o].at_double(i), (*expected)[o].at_double(i))
            << "output " << o << ", element " << i;
      }
    }
  }
}

TEST(IntegerProducts, ComputeWhatTheInterpreterDoes) {
  for (const char* type : {"u8", "i8"}) {
    for (const int64_t rows : {1, 13, 32}) {
      for (const int64_t zero : {-128, 0, 255}) {
        SCOPED_TRACE(fmt::format("{} {} rows, zero point {}", type, rows, zero));
        expect_exact(products(type, rows, rows == 32 ? 64 : 37, rows == 32 ? 96 : 61, zero));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(IntegerProducts, PadWithZeroPoints) {
  for (const char* zero : {"0", "97", "255"}) {
    SCOPED_TRACE(zero);
    expect_exact(convolutions(zero));
    if (HasFatalFailure()) return;
  }
}

/// What attention multiplies: rows by rows, of which the sum runs along the last axis of both, or
/// by columns; dequantised with a zero point each.
std::string of_two_inputs(const std::string& left, const std::string& right, int64_t depth,
                          bool by_rows, int64_t zero) {
  const std::string x = fmt::format("[2,70,{}]", depth),
                    w = by_rows ? fmt::format("[2,33,{}]", depth) : fmt::format("[2,{},33]", depth);
  std::string text = fmt::format("(x: {}{}, w: {}{}) {{\n", left, x, right, w);
  const auto centred = [&](const char* of, const std::string& shape, int64_t offset) {
    text += fmt::format(
        "  {0}i = convert {0} : i32{1}\n  {0}z = constant {2} : i32[]\n"
        "  {0}b = broadcast {0}z, dims={{}} : i32{1}\n  {0}s = sub {0}i, {0}b : i32{1}\n"
        "  {0}f = convert {0}s : f32{1}\n",
        of, shape, offset);
  };
  centred("x", x, zero);
  centred("w", w, 131);
  return text +
         fmt::format(
             "  y = dot_general xf, wf, lhs_batch={{0}}, rhs_batch={{0}}, lhs_contract={{2}}, "
             "rhs_contract={{{}}} : f32[2,70,33]\n}} -> (y)",
             by_rows ? 2 : 1);
}

TEST(IntegerProducts, BothFactorsMayVary) {
  for (const char* left : {"u8", "i8"}) {
    for (const char* right : {"u8", "i8"}) {
      for (const int64_t depth : {64, 37}) {
        for (const bool by_rows : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", left, right, depth, by_rows));
          expect_exact(of_two_inputs(left, right, depth, by_rows, depth == 64 ? 0 : 255));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Three channels, filled up to four: with padding, strides and a zero point at an end.
std::string of_pictures(const std::string& zero) {
  return "(x: u8[1,3,9,11]) {\n  w = constant " + bytes("i8", 20 * 27, 5) +
         " : i8[20,3,3,3]\n  xi = convert x : i32[1,3,9,11]\n  z = constant " + zero +
         R"( : i32[]
  zb = broadcast z, dims={} : i32[1,3,9,11]
  xs = sub xi, zb : i32[1,3,9,11]
  wi = convert w : i32[20,3,3,3]
  y = convolution xs, wi, strides={2,2}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : i32[1,20,5,6]
} -> (y))";
}

TEST(IntegerProducts, FillChannelsUp) {
  for (const char* zero : {"0", "255"}) {
    SCOPED_TRACE(zero);
    expect_exact(of_pictures(zero));
    if (HasFatalFailure()) return;
  }
}

/// A product whose result is quantised, a chain from there to 8 bits that is a table, a residual
/// sum of two dequantised tensors, and a transpose that requantises to what there was. Scales are
/// powers of two.
constexpr const char* kChain = R"(
  pq = constant 64 : f32[]
  pb = broadcast pq, dims={} : f32[ROWS,24]
  pd = div p, pb : f32[ROWS,24]
  pr = round_even pd : f32[ROWS,24]
  po = constant 100 : f32[]
  pp = broadcast po, dims={} : f32[ROWS,24]
  pa = add pr, pp : f32[ROWS,24]
  q = convert pa : u8[ROWS,24]
  qi = convert q : i32[ROWS,24]
  qz = constant 100 : i32[]
  qb = broadcast qz, dims={} : i32[ROWS,24]
  qs = sub qi, qb : i32[ROWS,24]
  qf = convert qs : f32[ROWS,24]
  qc = constant 0.0625 : f32[]
  qe = broadcast qc, dims={} : f32[ROWS,24]
  qd = mul qf, qe : f32[ROWS,24]
  e = erf qd : f32[ROWS,24]
  s = sigmoid e : f32[ROWS,24]
  m = mul s, qd : f32[ROWS,24]
  tc = constant 0.125 : f32[]
  te = broadcast tc, dims={} : f32[ROWS,24]
  tq = div m, te : f32[ROWS,24]
  tr = round_even tq : f32[ROWS,24]
  t = convert tr : i8[ROWS,24]
  ti = convert t : f32[ROWS,24]
  td = mul ti, te : f32[ROWS,24]
  u = add td, qd : f32[ROWS,24]
  uq = div u, te : f32[ROWS,24]
  ur = round_even uq : f32[ROWS,24]
  y = convert ur : i8[ROWS,24]
  v = transpose qd, permutation={1,0} : f32[24,ROWS]
  vc = broadcast qc, dims={} : f32[24,ROWS]
  vq = div v, vc : f32[24,ROWS]
  vr = round_even vq : f32[24,ROWS]
  vz = broadcast po, dims={} : f32[24,ROWS]
  va = add vr, vz : f32[24,ROWS]
  z = convert va : u8[24,ROWS]
} -> (y, t, z))";

std::string product_and_chain(int64_t rows) {
  const std::string n = std::to_string(rows);
  std::string text = "(x: u8[" + n + ",16]) {\n  w = constant " + bytes("i8", 16 * 24, 6) +
                     " : i8[16,24]\n  xf = convert x : f32[" + n +
                     ",16]\n  wf = convert w : f32[16,24]\n"
                     "  p = dot_general xf, wf, lhs_contract={1}, rhs_contract={0} : f32[" +
                     n + ",24]" + kChain;
  for (size_t at = text.find("ROWS"); at != std::string::npos; at = text.find("ROWS"))
    text.replace(at, 4, n);
  return text;
}

TEST(IntegerProducts, QuantiseWhatFollows) {
  for (const int64_t rows : {1, 13}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    expect_exact(product_and_chain(rows));
    if (HasFatalFailure()) return;
  }
}

/// Another association of float32 is said.
TEST(IntegerProducts, SumsOfPartsAreExactAndSaid) {
  const std::string text = "(x: u8[1,70000]) {\n  w = constant " +
                           bytes("i8", int64_t{70000} * 8, 9) +
                           R"( : i8[70000,8]
  xd = convert x : f32[1,70000]
  wd = convert w : f32[70000,8]
  y = dot_general xd, wd, lhs_contract={1}, rhs_contract={0} : f32[1,8]
} -> (y))";
  expect_exact(text);
  const auto compiled = compile_graph(*parse_graph(text), {});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_THAT((*compiled)->substitutions,
              testing::Contains("y: its sum is made of parts that 32 bits hold"));
}

TEST(IntegerProducts, SayWhereADivisorWasFolded) {
  std::string text = product_and_chain(13);
  text.replace(text.find("constant 64"), 11, "constant 60");
  const auto compiled = compile_graph(*parse_graph(text), {});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_THAT((*compiled)->substitutions,
              testing::Contains(testing::HasSubstr("its divisor is folded into scales before it")));
}

}  // namespace
}  // namespace weft
