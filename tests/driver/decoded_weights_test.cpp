#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "driver/compiler.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// `count` numbers from `low` on, `of` different ones, the ends among them most often.
std::string numbers(int64_t count, int64_t low, int64_t of, double scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t draw = random() % 4;
    const int64_t value = draw == 0 ? low : draw == 1 ? low + of - 1 : low + random() % of;
    out += i == 0 ? "{" : ", ";
    out += scale == 0 ? fmt::format("{}", value) : fmt::format("{:.8f}", value * scale);
  }
  return out + "}";
}

/// x times weights of few values, with a scale and a zero point for each block of 32 along the sum.
/// Scales are powers of two, so that float32 rounds nothing.
std::string blocked(int64_t rows, int64_t depth, int64_t columns, const std::string& type,
                    int64_t low, int64_t of) {
  const std::string n = std::to_string(columns), b = std::to_string(depth / 32);
  const std::string cut = "[" + n + "," + b + ",32]", by = "[" + n + "," + b + "]";
  return fmt::format(R"((x: f32[{0},{1}]) {{
  q = constant {2} : {3}{4}
  s = constant {5} : f32{6}
  z = constant {7} : f32{6}
  f = convert q : f32{4}
  zb = broadcast z, dims={{0,1}} : f32{4}
  d = sub f, zb : f32{4}
  sb = broadcast s, dims={{0,1}} : f32{4}
  m = mul d, sb : f32{4}
  w = reshape m : f32[{8},{1}]
  y = dot_general x, w, lhs_contract={{1}}, rhs_contract={{1}} : f32[{0},{8}]
}} -> (y))",
                     rows, depth, numbers(columns * depth, low, of, 0, 1), type, cut,
                     numbers(columns * depth / 32, 1, 4, 0.25, 2), by,
                     numbers(columns * depth / 32, 0, 16, 1, 3), columns);
}

/// Machines of each width that this one can be.
std::vector<Target> machines() {
  std::vector<Target> out;
  for (const int width : {16, 32, 64}) {
    Target target = host_cpu_target(1, width);
    if (target.vector_bytes == width) out.push_back(std::move(target));
  }
  return out;
}

HostTensor small_integers(const TensorType& type) {
  std::mt19937 random(9);
  HostTensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.mutable_data<float>()[i] = static_cast<float>(static_cast<int>(random() % 33) - 16);
  return t;
}

/// Whether the code does exactly what the interpreter does; `bytes`: of the weights in the program.
void expect_decoded(const std::string& text, int64_t bytes) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const std::vector<HostTensor> inputs = {small_integers(graph->type(graph->inputs[0]))};
  const auto expected = interpret(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const Target& target : machines()) {
    SCOPED_TRACE(std::to_string(target.vector_bytes) + " bytes");
    CompileOptions options;
    options.verify = true;
    options.device = target;
    auto compiled = compile_graph(*graph, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_EQ((*compiled)->tensors.exprs.size(), 1U);
    int64_t held = 0;
    for (const HostTensor& t : (*compiled)->program.constants)
      held += is_float(t.dtype()) ? 0 : t.bytes();
    EXPECT_GE(held, bytes);
    EXPECT_LE(held, bytes + bytes / 8);  // panels of the last columns are whole
    auto session = Session::create(std::move((*compiled)->program), 1);
    ASSERT_TRUE(session.ok()) << session.error().message;
    const auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (int64_t i = 0; i < (*expected)[0].size(); ++i)
      ASSERT_EQ((*outputs)[0].at_double(i), (*expected)[0].at_double(i)) << "element " << i;
  }
}

TEST(DecodedWeights, OfFourBitsStayPackedAndAreExact) {
  for (const int64_t rows : {1, 3, 40}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    expect_decoded(blocked(rows, 256, 128, "u8", 0, 16), 256 * 128 / 2);
    expect_decoded(blocked(rows, 256, 128, "i8", -8, 16), 256 * 128 / 2);
    if (HasFatalFailure()) return;
  }
}

TEST(DecodedWeights, OfTwoBitsStayPackedAndAreExact) {
  for (const int64_t rows : {1, 40}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    expect_decoded(blocked(rows, 256, 128, "u8", 0, 4), 256 * 128 / 4);
    expect_decoded(blocked(rows, 256, 128, "i8", -2, 4), 256 * 128 / 4);
    expect_decoded(blocked(rows, 256, 128, "i8", 5, 4), 256 * 128 / 4);
    if (HasFatalFailure()) return;
  }
}

std::string plan_of(const std::string& text, CompileOptions options = {}) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok());
  options.device = host_cpu_target(1);
  auto compiled = compile_graph(*graph, options);
  if (!compiled.ok()) return compiled.error().message;
  return *print_level(**compiled, "plan");
}

/// Two products with weights in blocks and a sum with what they begin from.
std::string residual() {
  std::string text = "(x: f32[1,256]) {\n";
  for (const std::string i : {"1", "2"}) {
    text += fmt::format(R"(
  q{0} = constant {1} : u8[256,8,32]
  s{0} = constant {2} : f32[256,8]
  f{0} = convert q{0} : f32[256,8,32]
  b{0} = broadcast s{0}, dims={{0,1}} : f32[256,8,32]
  m{0} = mul f{0}, b{0} : f32[256,8,32]
  w{0} = reshape m{0} : f32[256,256]
  y{0} = dot_general {3}, w{0}, lhs_contract={{1}}, rhs_contract={{1}} : f32[1,256])",
                        i, numbers(256 * 256, 0, 16, 0, 1), numbers(256 * 8, 1, 4, 0.25, 2),
                        i == "1" ? "x" : "y1");
  }
  return text + "\n  y = add y1, y2 : f32[1,256]\n} -> (y)";
}

TEST(DecodedWeights, LeaveTheAxesOfWhatTheyMultiplyWhole) {
  const std::string plan = plan_of(residual());
  const size_t first = plan.find("apart 2");
  EXPECT_NE(first, std::string::npos) << plan;
  EXPECT_NE(plan.find("apart 2", first + 1), std::string::npos) << plan;
}

TEST(DecodedWeights, OfFewRowsAreScaledBehindTheSumOfABlock) {
  const std::string few = blocked(1, 256, 128, "u8", 0, 16);
  const std::string plan = plan_of(few);
  EXPECT_THAT(plan, HasSubstr("apart 2"));
  EXPECT_THAT(plan_of(blocked(1, 256, 128, "i8", -128, 256)), HasSubstr("apart 1"));
  EXPECT_THAT(plan_of(blocked(40, 256, 128, "u8", 0, 16)), Not(HasSubstr("apart")));
  // Nothing of the product is the same along blocks.
  CompileOptions options;
  options.plan_text = plan;
  options.plan_text.replace(plan.find("apart 2"), 7, "apart 3");
  options.plan_source = "p.plan";
  EXPECT_THAT(plan_of(few, options), HasSubstr("summed up apart"));
}

/// x times numbers that a model packs in bytes itself, `bits` each.
std::string in_bytes(int64_t rows, int64_t depth, int64_t columns, int64_t bits) {
  const int64_t count = 8 / bits;
  const std::string cut = fmt::format("[{},{},{}]", columns, depth / count, count);
  std::string shifts;
  for (int64_t j = 0; j < count; ++j) shifts += fmt::format("{}{}", j == 0 ? "" : ", ", j * bits);
  return fmt::format(R"((x: f32[{0},{1}]) {{
  p = constant {2} : u8[{3},{4}]
  h = constant {{{5}}} : u8[{6}]
  m = constant {7} : u8[]
  pb = broadcast p, dims={{0,1}} : u8{8}
  hb = broadcast h, dims={{2}} : u8{8}
  mb = broadcast m, dims={{}} : u8{8}
  t = shr pb, hb : u8{8}
  q = and t, mb : u8{8}
  f = convert q : f32{8}
  w = reshape f : f32[{3},{1}]
  y = dot_general x, w, lhs_contract={{1}}, rhs_contract={{1}} : f32[{0},{3}]
}} -> (y))",
                     rows, depth, numbers(columns * depth / count, 0, 256, 0, 5), columns,
                     depth / count, shifts, count, (1 << bits) - 1, cut);
}

TEST(DecodedWeights, ThatLieInBytesArePackedAnew) {
  for (const int64_t bits : {2, 4}) {
    for (const int64_t rows : {1, 40}) {
      SCOPED_TRACE(fmt::format("{} bits, {} rows", bits, rows));
      expect_decoded(in_bytes(rows, 256, 128, bits), 256 * 128 * bits / 8);
      expect_decoded(in_bytes(rows, 40, 828, bits), 40 * 828 * bits / 8);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(DecodedWeights, OfEightBitsStayBytes) {
  for (const int64_t rows : {1, 40}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    expect_decoded(blocked(rows, 256, 128, "i8", -128, 256), 256 * 128);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weft
