#include "expr/tensor_program.h"

#include <gtest/gtest.h>

#include "expr/analysis/dependence.h"
#include "expr/analysis/print_analysis.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

std::string error_of(std::string_view text) {
  const Result<TensorProgram> program = parse_tensor_program(text);
  return program.ok() ? "no error" : program.error().message;
}
std::string body_error(const std::string& body) {
  return error_of("program {\n  input x: f32[4]\n  input i: i64[2]\n  y: f32[4] = " + body +
                  "\n  output y as y\n}\n");
}

TEST(TensorProgramText, RoundTrips) {
  const std::string text = R"(program {
  origin "/layer 1/MatMul" MatMul
  origin act Tanh
  input x: f32[4,8]
  input "odd name\x0a": i64[3]
  constant w: f32[8,2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  constant s: f16[3] = splat 0.5
  a: f32[4,2] = contraction sum[8]:f32 x[d0, r0] * w[r0, d1] from 0
  b: f32[4,2] declared f32[8] layout {1,1,2}{0,1,4} = tanh(a[d0, d1]) - -1.5 * (a[d0, d1] + nan) from 0, 1
  c: f32[3] = x["odd name\x0a"[d0], 0] fill inf
  e: bool[3] = !x
  output b as b
}
)";
  EXPECT_EQ(error_of(text), "11:16: a name is expected");
  std::string good = text;
  good.replace(good.find("!x"), 2, "is_nan(c[d0]) || i64(d0) >= i64(1) && s[d0] == f16(0.25)");
  good.replace(good.find("  output"), 0,
               "  opaque v: f32[4,1], i: i64[4,1] = top_k(x) axis=1 k=1 largest=true\n"
               "  g: f32[3,2] = e[d0] ? b[\"odd name\\x0a\"[d0], d1] : b[{i[d0, 0] + i64(-1)}, 0]\n"
               "  m: f32[] = max[4, 2]:f32 a[r0, r1]\n"
               "  p: i64[4] = arg_max[8]:f32 last_on_ties x[d0, r0]\n");
  good.replace(good.find("output b as b"), 13, "output b as b\n  output g as logits");
  const Result<TensorProgram> program = parse_tensor_program(good);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(print(*program), good);
}

TEST(TensorProgramText, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(body_error("x[d0] + i[0]"), "4:27: add has operands of different types");
  EXPECT_EQ(body_error("z[d0]"), "4:16: `z` is not defined");
  EXPECT_EQ(body_error("x[d1]"), "4:17: `d1` is neither read nor called");
  EXPECT_EQ(body_error("x[d0, 0]"), "4:23: `x` has 1 axes");
  EXPECT_EQ(body_error("foo(x[d0])"), "4:25: there is no function `foo`");
  EXPECT_EQ(body_error("y[d0]"), "4:16: `y` is not defined");
  EXPECT_EQ(body_error("sum[0]:f32 x[r0]"), "4:22: a reduction's extent");
  EXPECT_EQ(body_error("exp(" + std::string(5000, '(')),
            "4:219: the expression is nested too deeply");
  EXPECT_EQ(error_of("program {\n  input x: f32[99999999999999]\n}\n"),
            "2:31: f32[99999999999999] is too large or has a negative extent");
}

TEST(TensorProgramVerifier, SaysWhatIsWrong) {
  EXPECT_EQ(body_error("x[d0 + 1]"), "7:1: y reads x at 1..4 on axis 0, outside");
  EXPECT_EQ(body_error("i64(d0) < i64(3) ? x[d0 + 1] : 0.5"), "no error");
  EXPECT_EQ(body_error("x[{i[0]}]"), "no error");
  EXPECT_EQ(body_error("f16(x[d0])"), "7:1: y is f32[4] but its body f16");
  EXPECT_EQ(body_error("sum[3]:f64 x[d0]"), "7:1: y accumulates in another type than its body's");
  EXPECT_EQ(body_error("x[i[0] * 2]"), "7:1: y: a runtime index does not stand alone on its axis");
}

TEST(TensorProgramEvaluation, SelectsTakeOneBranch) {
  const Result<TensorProgram> program = parse_tensor_program(R"(program {
    input x: f32[2]
    y: f32[4] = i64(d0) < i64(2) ? x[d0] : 7.0
    output y as y
  })");
  ASSERT_TRUE(program.ok()) << program.error().message;
  HostTensor x(DType::kF32, {2});
  x.set_double(0, 3);
  x.set_double(1, 5);
  const Result<std::vector<HostTensor>> y = evaluate(*program, {x});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].at_double(1), 5);
  EXPECT_EQ((*y)[0].at_double(3), 7);
}

TEST(Dependence, ClassesCostAndReuse) {
  const Result<TensorProgram> parsed = parse_tensor_program(R"(program {
    input x: f32[64,32]
    input w: f32[32,16]
    input b: f32[16]
    a: f32[64,16] = contraction sum[32]:f32 x[d0, r0] * w[r0, d1]
    y: f32[64,16] = exp(a[d0, d1] + b[d1])
    z: f32[32,8] = x[d1 * 2, d0]
    output y as y
    output z as z
  })");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const TensorExpr &a = parsed->exprs[0], &y = parsed->exprs[1], &z = parsed->exprs[2];
  EXPECT_EQ(dependence_class(a, 0), DependenceClass::kOneToMany);
  EXPECT_EQ(dependence_class(y, a.output), DependenceClass::kOneToOne);
  const ExprCost cost = expr_cost(*parsed, a);
  EXPECT_EQ(cost.flops, 2 * 64 * 32 * 16);
  EXPECT_EQ(cost.bytes_read, 4 * (64 * 32 + 32 * 16));
  EXPECT_EQ(cost.bytes_written, 4 * 64 * 16);
  EXPECT_GT(cost.intensity(), 3);
  EXPECT_LT(expr_cost(*parsed, y).intensity(), 3);
  EXPECT_EQ(flops_at_peak(a), cost.flops);
  EXPECT_EQ(flops_at_peak(y), 2 * (15 + 1) * 64 * 16);
  EXPECT_EQ(distinct_elements(*parsed, z, *z.body), 8 * 32);
  const std::vector<ReuseSet> reuse = reuse_sets(*parsed);
  ASSERT_EQ(reuse.size(), 1u);
  EXPECT_EQ(reuse[0].tensor, 0);
  EXPECT_EQ(reuse[0].readers, (std::vector<int32_t>{0, 2}));
  const std::vector<LiveRange> live = live_ranges(*parsed);
  EXPECT_EQ(live[static_cast<size_t>(a.output)].last, 1);
  EXPECT_EQ(live[static_cast<size_t>(y.output)].last, 3);
}

TEST(Analysis, SaysClassesIntensitiesReuseAndLiveRanges) {
  const Result<TensorProgram> parsed = parse_tensor_program(R"(program {
    input x: f32[64,32]
    input w: f32[32,16]
    input v: f32[32,16]
    m: f32[64] = max[32]:f32 x[d0, r0]
    d: f32[64,32] = x[d0, d1] - m[d0]
    p: f32[64,16] = contraction sum[32]:f32 d[d0, r0] * w[r0, d1]
    q: f32[64,16] = contraction sum[32]:f32 d[d0, r0] * v[r0, d1]
    y: f32[64,16] = p[d0, d1] + q[d0, d1]
    output y as y
  })");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print_analysis(*parsed), R"(0 m: memory, 1.0 an element; x many
1 d: memory, 0.5 an element; x one, m one
2 p: compute, 18.3 an element; d many, w many
3 q: compute, 18.3 an element; d many, v many
4 y: memory, 0.3 an element; p one, q one
reuse x: 0, 1 temporal
reuse d: 2, 3 spatial
live x: 0 to 1
live w: 0 to 2
live v: 0 to 3
live m: 0 to 1
live d: 1 to 3
live p: 2 to 4
live q: 3 to 4
live y: 4 to 5
)");
  EXPECT_NE(print_analysis(*parsed, 20).find("2 p: memory"), std::string::npos);
}

TEST(Layouts, OffsetsFollowThePhysicalOrder) {
  const RangeOf range = [](int id) {
    return Interval{0, std::vector<int64_t>{1, 7, 4, 5}[static_cast<size_t>(id)]};
  };
  const std::vector<IndexExpr> d = {IndexExpr::var(0), IndexExpr::var(1), IndexExpr::var(2),
                                    IndexExpr::var(3)};
  const Shape shape = {2, 8, 5, 6};
  const Layout last = permuted_layout(shape, {0, 2, 3, 1});
  EXPECT_EQ(print(element_offset(last, shape, d, range)), "v0 * 240 + v1 + v2 * 48 + v3 * 8");
  EXPECT_EQ(print(element_offset({}, shape, d, range)), "v0 * 240 + v1 * 30 + v2 * 6 + v3");
  EXPECT_TRUE(permuted_layout(shape, {0, 1, 2, 3}).is_row_major());
  // Panels of 4 columns of [2, 6]: the last is half empty.
  const Layout panels{{{1, 4, 2}, {0, 1, 2}, {1, 1, 4}}};
  EXPECT_EQ(physical_size(panels, {2, 6}), 16);
  EXPECT_EQ(print(as_index_map(panels, {2, 6})),
            "(d0, d1) -> (d1 floordiv 4, d0, d1 mod 4), d0 in [0, 1], d1 in [0, 5]");
}

}  // namespace
}  // namespace weft
