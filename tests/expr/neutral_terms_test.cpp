// How far masks let the terms of a reduction reach.

#include "expr/reductions/neutral_terms.h"

#include <gtest/gtest.h>

#include "expr/movement/index_masks.h"
#include "expr/reductions/carry_reductions.h"
#include "tests/expr/expr_testing.h"

namespace weft {
namespace {

TensorProgram program_of(const std::string& text) {
  auto program = parse_tensor_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(*program);
}

/// Of each carry of the last expression's axis: "first <= n <= last, beyond".
std::string reaches(const std::string& mask, const std::string& last = "p[d0, r0] * v[r0, d1]") {
  const TensorProgram p = program_of(R"(program {
  input x: f32[40,64]
  input q: f32[40,8]
  input k: f32[64,8]
  input v: f32[64,4]
  input b: f32[40]
  a: f32[40,64] = contraction sum[8]:f32 q[d0, r0] * k[d1, r0]
  t: f32[40,64] = )" + mask + R"(
  m: f32[40] = max[64]:f32 t[d0, r0]
  p: f32[40,64] = exp(t[d0, d1] - m[d0])
  l: f32[40] = sum[64]:f32 p[d0, r0]
  y: f32[40,4] = contraction sum[64]:f32 )" +
                                     last + R"(
  output l as l
  output y as y
})");
  const auto c = carry_reductions(p, static_cast<ExprId>(p.exprs.size()) - 1, 2);
  if (!c.ok()) return c.error().message;
  const auto index = [](const IndexExpr& e) {
    return print(e, [](int v) { return "d" + std::to_string(v); });
  };
  std::string out;
  for (const CarriedProgram::Carry& carry : c->carries) {
    for (const IndexExpr& e : carry.reach.first) out += index(e) + " <= ";
    out += "n";
    for (const IndexExpr& e : carry.reach.last) out += " <= " + index(e);
    if (carry.reach.beyond) {
      out += " beyond " + print(carry.reach.beyond,
                                {[](int v) { return "d" + std::to_string(v); },
                                 [&](int t) { return p.tensors[static_cast<size_t>(t)].name; }});
    }
    out += carry.reach.assumed ? " if masked; " : "; ";
  }
  return out;
}

TEST(NeutralTerms, LieBeyondWhatIsCompared) {
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) ? a[d0, d1] : -inf"),
            "n <= d0; n <= d0; n <= d0 beyond v[d2, d1]; ");
  EXPECT_EQ(reaches("i64(d1) > i64(d0) ? -inf : a[d0, d1]"),
            "n <= d0; n <= d0; n <= d0 beyond v[d2, d1]; ");
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) && i64(d1) > i64(d0 - 8) ? a[d0, d1] : -inf"),
            "d0 - 7 <= n <= d0; d0 - 7 <= n <= d0; d0 - 7 <= n <= d0 beyond v[d2, d1]; ");
}

TEST(NeutralTerms, AreNoneWhereDataOrTheOtherBranchDecides) {
  const std::string none = "n; n; n; ";
  EXPECT_EQ(reaches("x[d0, d1] <= b[d0] ? a[d0, d1] : -inf"), none);
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) ? a[d0, d1] : -1000.0"), none);
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) || x[d0, d1] > 0.0 ? a[d0, d1] : -inf"), none);
  // An eighth of the keys is no bound by itself.
  EXPECT_EQ(reaches("i64(d1 * 8) <= i64(d0) ? a[d0, d1] : -inf"), none);
}

/// What is added to data may be no -inf, since the data may be infinite, and a finite number no
/// bound of it. Masks are meant so: that is assumed, and told.
TEST(NeutralTerms, AreAssumedOfMasksThatAreAddedOrFinite) {
  const std::string assumed =
      "n <= d0 if masked; n <= d0 if masked; n <= d0 beyond v[d2, d1] if masked; ";
  for (const std::string low : {"-inf", "-3.4e38", "-65504.0", "-1e9"}) {
    EXPECT_EQ(reaches("a[d0, d1] + (i64(d1) <= i64(d0) ? 0.0 : " + low + ")"), assumed) << low;
    EXPECT_EQ(reaches("a[d0, d1] - (i64(d1) > i64(d0) ? -1.0*" + low + " : 0.0)"), assumed) << low;
  }
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) ? a[d0, d1] : -1e9"), assumed);
  EXPECT_EQ(reaches("a[d0, d1] + (i64(d1) <= i64(d0) ? 0.0 : -1e4)"), "n; n; n; ");
  // What is added from memory may be another mask, as low in all of a row.
  EXPECT_EQ(reaches("a[d0, d1] + x[d0, d1] + (i64(d1) <= i64(d0) ? 0.0 : -1e9)"), "n; n; n; ");
  EXPECT_EQ(reaches("(i64(d1) <= i64(d0) ? a[d0, d1] : -3.4e38) + x[d0, d1]"), "n; n; n; ");
  // The first three rows are masked as a whole: of finite numbers these are weighted like others.
  EXPECT_EQ(reaches("i64(d1) <= i64(d0 - 3) ? a[d0, d1] : -1e9"), "n; n; n; ");
  EXPECT_EQ(reaches("i64(d1) <= i64(d0 - 3) ? a[d0, d1] : -inf"),
            "n <= d0 - 3; n <= d0 - 3; n <= d0 - 3 beyond v[d2, d1]; ");
}

TEST(NeutralTerms, SayWhatFactorsThatAreNoNumbersStillAdd) {
  // A factor that the steps make may be no number anywhere: all terms are summed.
  EXPECT_EQ(reaches("i64(d1) <= i64(d0) ? a[d0, d1] : -inf", "p[d0, r0] * a[d0, r0] * v[r0, d1]"),
            "n <= d0; n <= d0; n; ");
}

TEST(IndexMasks, AreComparisonsOfIndices) {
  const auto shown = [](const std::string& what, const std::function<bool(int64_t, int64_t)>& is) {
    TensorProgram p = program_of(
        "program {\n  input k: bool[3,12,16]\n  input x: f32[3,12,16]\n  y: f32[3,12,16] = " +
        what + "\n  output y as y\n}");
    Tensor& mask = p.tensors[0];
    mask.kind = Tensor::Kind::kConstant;
    mask.value = HostTensor(DType::kBool, {3, 12, 16});
    for (int64_t i = 0; i < mask.value.size(); ++i)
      mask.value.set_int(i, is(i / 16 % 12, i % 16) ? 1 : 0);
    p.inputs.erase(p.inputs.begin());
    HostTensor x(DType::kF32, {3, 12, 16});
    for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, static_cast<double>(i % 37) + 1);
    const auto before = evaluate(p, {x});
    index_masks(p);
    const auto after = evaluate(p, {x});
    EXPECT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(difference_near(*before, *after), "");
    return print(p.exprs[0].body, {[](int v) { return "d" + std::to_string(v); },
                                   [&](int t) { return p.tensors[static_cast<size_t>(t)].name; }});
  };
  const std::string choice = "k[d0, d1, d2] ? x[d0, d1, d2] : 0.0";
  EXPECT_EQ(shown(choice, [](int64_t r, int64_t c) { return c <= r + 2; }),
            "i32(d2) <= i32(d1 + 2) ? x[d0, d1, d2] : 0.0");
  EXPECT_EQ(shown(choice, [](int64_t r, int64_t c) { return c <= r && c > r - 3; }),
            "i32(d1 - 2) <= i32(d2) && i32(d2) <= i32(d1) ? x[d0, d1, d2] : 0.0");
  EXPECT_EQ(shown(choice, [](int64_t r, int64_t c) { return c < r - 1 || c > r + 2; }),
            "not(i32(d1 - 1) <= i32(d2) && i32(d2) <= i32(d1 + 2)) ? x[d0, d1, d2] : 0.0");
  // No band: one element more.
  EXPECT_EQ(shown(choice, [](int64_t r, int64_t c) { return c <= r || (r == 1 && c == 9); }),
            choice);
}

TEST(IndexMasks, OfTwoNumbersChooseOne) {
  TensorProgram p = program_of(R"(program {
  input k: f32[12,16]
  input x: f32[12,16]
  y: f32[12,16] = x[d0, d1] + k[d0, d1]
  output y as y
})");
  Tensor& mask = p.tensors[0];
  mask.kind = Tensor::Kind::kConstant;
  mask.value = HostTensor(DType::kF32, {12, 16});
  for (int64_t i = 0; i < mask.value.size(); ++i)
    mask.value.set_double(i, i % 16 <= i / 16 ? 0 : -1e9);
  p.inputs.erase(p.inputs.begin());
  TensorProgram third = p;
  EXPECT_TRUE(index_masks(p));
  EXPECT_NE(print(p).find("x[d0, d1] + (i32(d1) <= i32(d0) ? 0.0 : -1e+09)"), std::string::npos)
      << print(p);
  third.tensors[0].value.set_double(7, -3);
  EXPECT_FALSE(index_masks(third));
  // A factor of a product is read.
  TensorProgram product = program_of(R"(program {
  input k: f32[12,16]
  input x: f32[16,4]
  y: f32[12,4] = contraction sum[16]:f32 k[d0, r0] * x[r0, d1]
  output y as y
})");
  product.tensors[0].kind = Tensor::Kind::kConstant;
  product.tensors[0].value = p.tensors[0].value;
  product.inputs.erase(product.inputs.begin());
  EXPECT_FALSE(index_masks(product));
}

TEST(IndexMasks, GoIntoWhatReadsThem) {
  TensorProgram p = program_of(R"(program {
  input x: f32[4,8]
  k: bool[4,8] = i64(d1) <= i64(d0)
  y: f32[4,8] = k[d0, d1] ? x[d0, d1] : 0.0
  output y as y
})");
  EXPECT_TRUE(index_masks(p));
  EXPECT_FALSE(index_masks(p));
  EXPECT_NE(print(p).find("y: f32[4,8] = i64(d1) <= i64(d0) ? x[d0, d1] : 0.0"), std::string::npos)
      << print(p);
}

}  // namespace
}  // namespace weft
