#include "expr/reductions/carry_reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/expr/expr_testing.h"
#include "tests/graph_texts.h"

namespace weft {
namespace {

using testing::HasSubstr;
using Part = CarriedProgram::Part;
using Values = std::map<TensorId, HostTensor>;

constexpr float kInf = std::numeric_limits<float>::infinity();

TensorProgram program_of(const std::string& text) {
  auto program = parse_tensor_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(*program);
}

Result<CarriedProgram> carried(const TensorProgram& program, const std::string& root,
                               int64_t splits = 1) {
  for (size_t e = 0; e < program.exprs.size(); ++e) {
    const TensorExpr& expr = program.exprs[e];
    if (program.tensors[static_cast<size_t>(expr.output)].name == root)
      return carry_reductions(program, static_cast<ExprId>(e), expr.output_rank(), splits);
  }
  return invalid_input("no " + root);
}

/// The bodies of a part, `name: body` a line.
std::string text_of(const CarriedProgram& c, Part part) {
  std::string out;
  for (size_t e = 0; e < c.program.exprs.size(); ++e) {
    if (c.parts[e] != part) continue;
    const TensorExpr& expr = c.program.exprs[e];
    const auto symbol = [&](int t) { return c.program.tensors[static_cast<size_t>(t)].name; };
    out += symbol(expr.output) + " = " +
           (expr.reduce_extents.empty() ? "" : std::string(combiner_name(expr.combiner)) + " ") +
           print(expr.body,
                 {[&](int v) {
                    return (v < expr.output_rank() ? "d" : "r") +
                           std::to_string(v < expr.output_rank() ? v : v - expr.output_rank());
                  },
                  symbol}) +
           "\n";
  }
  return out;
}

HostTensor slice(const HostTensor& of, size_t dim, int64_t begin, int64_t length) {
  Shape shape = of.shape();
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < shape.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : shape[d];
  const int64_t full = shape[dim];
  shape[dim] = length;
  HostTensor out(of.dtype(), shape);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t n = 0; n < length; ++n) {
      for (int64_t i = 0; i < inner; ++i)
        out.set_double((o * length + n) * inner + i,
                       of.at_double((o * full + begin + n) * inner + i));
    }
  }
  return out;
}

/// Runs the loop of a carried program in steps by the reference meaning of its expressions.
class Loop {
 public:
  explicit Loop(const CarriedProgram& c) : c_(c) {
    for (size_t e = 0; e < c.program.exprs.size(); ++e) {
      if (c.along[e] < 0) continue;
      visit(c.program.exprs[e].body, [&](const Scalar& s) {
        for (size_t d = 0; d < s.indices.size(); ++d) {
          if (s.indices[d].is_var() && s.indices[d].var_id() == c.along[e]) dim_[s.symbol] = d;
        }
      });
      if (c.along[e] < c.program.exprs[e].output_rank())
        dim_[c.program.exprs[e].output] = static_cast<size_t>(c.along[e]);
    }
  }

  /// Each part of the axis has a loop of its own; the last may be shorter.
  std::vector<HostTensor> run(Values values, int64_t step) {
    run_part(Part::kBefore, &values, 0, c_.extent);
    const int64_t share = (c_.extent + c_.splits - 1) / c_.splits;
    Values parts;
    for (int64_t s = 0; s < c_.splits; ++s) {
      run_steps(&values, step, s * share, std::min((s + 1) * share, c_.extent));
      for (const CarriedProgram::Carry& carry : c_.carries) {
        if (carry.parts < 0) continue;
        const TensorType& type = c_.program.tensors[static_cast<size_t>(carry.parts)].type;
        HostTensor& all = parts.try_emplace(carry.parts, type.dtype, type.shape).first->second;
        const HostTensor& own = values.at(carry.after);
        for (int64_t i = 0; i < own.size(); ++i)
          all.set_double(s * own.size() + i, own.at_double(i));
      }
    }
    for (const auto& [t, value] : parts) values.insert_or_assign(t, value);
    run_part(Part::kBehind, &values, 0, c_.extent);
    std::vector<HostTensor> out;
    for (const TensorId t : c_.program.outputs) out.push_back(values.at(t));
    return out;
  }

 private:
  void run_steps(Values* of, int64_t step, int64_t begin, int64_t end) {
    Values& values = *of;
    for (const CarriedProgram::Carry& carry : c_.carries) {
      const TensorType& type = c_.program.tensors[static_cast<size_t>(carry.before)].type;
      HostTensor first(type.dtype, type.shape);
      const double value =
          is_float(type.dtype) ? carry.first.f : static_cast<double>(carry.first.i);
      for (int64_t i = 0; i < first.size(); ++i) first.set_double(i, value);
      values[carry.before] = values[carry.after] = first;
    }
    for (int64_t n = begin; n < end; n += step) {
      Values all = values;
      run_part(Part::kStep, &all, n, std::min(step, end - n));
      for (const CarriedProgram::Carry& carry : c_.carries)
        values[carry.before] = values[carry.after] = all.at(carry.after);
      for (const auto& [t, value] : all) {
        if (dim_.count(t) == 0) values[t] = value;
      }
      for (const CarriedProgram::Carry& carry : c_.carries)
        values[carry.before] = values[carry.after];
    }
  }

  void run_part(Part part, Values* values, int64_t begin, int64_t length) {
    TensorProgram p;
    p.tensors = c_.program.tensors;
    std::set<TensorId> made, read, positions;
    for (size_t e = 0; e < c_.program.exprs.size(); ++e) {
      if (c_.parts[e] != part) continue;
      TensorExpr expr = c_.program.exprs[e];
      if (c_.along[e] >= 0) {
        const auto v = static_cast<size_t>(c_.along[e]);
        (v < expr.extents.size() ? expr.extents[v] : expr.reduce_extents[v - expr.extents.size()]) =
            length;
      }
      visit(expr.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && made.count(s.symbol) == 0) read.insert(s.symbol);
      });
      made.insert(expr.output);
      // Of a slice they count from its begin.
      expr.body = rewrite(expr.body, nullptr, [&](const ScalarRef& of) -> ScalarRef {
        if (positions.count(of->symbol) == 0) return of;
        return scalar_apply(ScalarOp::kAdd, {of, scalar_constant(int_value(of->type, begin))},
                            of->type);
      });
      if (combiner_is_arg(expr.combiner)) positions.insert(expr.output);
      p.steps.push_back({false, static_cast<int32_t>(p.exprs.size())});
      p.exprs.push_back(std::move(expr));
    }
    if (made.empty()) return;
    for (const auto& [t, d] : dim_) p.tensors[static_cast<size_t>(t)].type.shape[d] = length;
    std::vector<HostTensor> inputs;
    for (const TensorId t : read) {
      p.inputs.push_back(t);
      p.tensors[static_cast<size_t>(t)].kind = Tensor::Kind::kInput;
      const auto cut = dim_.find(t);
      inputs.push_back(cut == dim_.end() ? values->at(t)
                                         : slice(values->at(t), cut->second, begin, length));
    }
    for (const TensorId t : made) {
      p.outputs.push_back(t);
      p.output_names.push_back(p.tensors[static_cast<size_t>(t)].name);
      p.tensors[static_cast<size_t>(t)].is_output = true;
    }
    auto results = evaluate(p, inputs);
    ASSERT_TRUE(results.ok()) << results.error().message;
    size_t i = 0;
    for (const TensorId t : made) (*values)[t] = (*results)[i++];
  }

  const CarriedProgram& c_;
  std::map<TensorId, size_t> dim_;  ///< along which a tensor is cut
};

/// The same numbers, infinities and NaN.
void expect_alike(const std::vector<HostTensor>& found, const std::vector<HostTensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t o = 0; o < found.size(); ++o) {
    for (int64_t i = 0; i < found[o].size(); ++i) {
      const double want = expected[o].at_double(i), have = found[o].at_double(i);
      if (std::isnan(want) || std::isinf(want)) {
        EXPECT_TRUE(std::isnan(want) ? std::isnan(have) : have == want)
            << "output " << o << " element " << i << ": " << have << " for " << want;
      } else {
        EXPECT_NEAR(have, want, 1e-5 * std::max(1.0, std::abs(want)))
            << "output " << o << " element " << i;
      }
    }
  }
}

/// Whether the loop, in steps of several lengths and over parts of the axis, gives what the
/// expressions give one after another: the same numbers, infinities and NaN.
void expect_same(const std::string& text, const std::string& root,
                 const std::function<float(size_t input, int64_t element)>& value) {
  const TensorProgram program = program_of(text);
  Values values;
  std::vector<HostTensor> inputs;
  for (const TensorId t : program.inputs) {
    const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
    HostTensor tensor(type.dtype, type.shape);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_double(i, value(inputs.size(), i));
    values[t] = tensor;
    inputs.push_back(tensor);
  }
  const auto expected = evaluate(program, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const int64_t splits : {1, 2, 3, 5}) {
    const auto c = carried(program, root, splits);
    ASSERT_TRUE(c.ok()) << c.error().message;
    EXPECT_EQ(c->splits, splits);
    for (const int64_t step : {1, 3, 4, 100}) {
      SCOPED_TRACE(std::to_string(splits) + " parts in steps of " + std::to_string(step));
      expect_alike(Loop(*c).run(values, step), *expected);
    }
  }
}

float random_value(size_t input, int64_t element) {
  const auto n = static_cast<uint32_t>(element * 7919 + static_cast<int64_t>(input) * 104729 + 17);
  return static_cast<float>(n * 2654435761U >> 8) / static_cast<float>(1 << 22) - 2;
}

constexpr const char* kWeighted = R"(program {
  input x: f32[3,10]
  input v: f32[10,4]
  t: f32[3,10] = x[d0, d1] * 2.0
  m: f32[3] = max[10]:f32 t[d0, r0]
  d: f32[3,10] = t[d0, d1] - m[d0]
  e: f32[3,10] = exp(d[d0, d1])
  l: f32[3] = sum[10]:f32 e[d0, r0]
  p: f32[3,10] = e[d0, d1] / l[d0]
  y: f32[3,4] = contraction sum[10]:f32 p[d0, r0] * v[r0, d1]
  output y as y
})";

TEST(CarryReductions, DerivesWhatCorrectsAWeightedSum) {
  const auto c = carried(program_of(kWeighted), "y");
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(text_of(*c, Part::kBefore), "");
  EXPECT_EQ(text_of(*c, Part::kStep), R"(t = x[d0, d1] * 2.0
m_part = max t[d0, r0]
m_after = max(m_before[d0], m_part[d0])
m_near = m_after[d0] == -inf ? 0.0 : m_after[d0]
d = t[d0, d1] - m_near[d0]
e = exp(d[d0, d1])
l_part = sum e[d0, r0]
m_step = exp(m_before[d0] - m_near[d0])
l_after = l_before[d0] * m_step[d0] + l_part[d0]
p = e[d0, d1]
y_part = sum p[d0, r0] * v[r0, d1]
y_after = y_before[d0, d1] * m_step[d0] + y_part[d0, d1]
)");
  EXPECT_EQ(text_of(*c, Part::kBehind),
            R"(m_rest = exp((m_after[d0] == -inf ? 0.0 : m_after[d0]) - m_after[d0])
l = l_after[d0] * m_rest[d0]
y = y_after[d0, d1] * m_rest[d0] / l[d0]
)");
  EXPECT_EQ(c->extent, 10);
  EXPECT_EQ(c->carries.size(), 3U);
}

/// What parts of the axis left comes to refer to the maximum of all of them.
TEST(CarryReductions, DerivesHowPartsOfTheAxisJoin) {
  const auto c = carried(program_of(kWeighted), "y", 4);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(text_of(*c, Part::kStep), text_of(*carried(program_of(kWeighted), "y"), Part::kStep));
  EXPECT_EQ(text_of(*c, Part::kBehind), R"(m_whole = max m_parts[r0, d0]
m_join = exp(m_parts[d0, d1] - (m_whole[d1] == -inf ? 0.0 : m_whole[d1]))
l_whole = sum l_parts[r0, d0] * m_join[r0, d0]
m_rest = exp((m_whole[d0] == -inf ? 0.0 : m_whole[d0]) - m_whole[d0])
l = l_whole[d0] * m_rest[d0]
y_whole = sum y_parts[r0, d0, d1] * m_join[r0, d0]
y = y_whole[d0, d1] * m_rest[d0] / l[d0]
)");
  for (const CarriedProgram::Carry& carry : c->carries)
    EXPECT_EQ(c->program.tensors[static_cast<size_t>(carry.parts)].type.shape[0], 4);
}

TEST(CarryReductions, IsRightOnRandomData) { expect_same(kWeighted, "y", random_value); }

TEST(CarryReductions, IsRightWhereRowsAreMasked) {
  // Row 0: nothing is left; row 1: nothing of the first seven, then far below zero; row 2: all.
  const auto value = [](size_t input, int64_t element) {
    if (input != 0) return random_value(input, element);
    const int64_t row = element / 10, column = element % 10;
    if (row == 0 || (row == 1 && column < 7)) return -kInf;
    return random_value(input, element) - (row == 1 ? 300.0F : 0.0F);
  };
  expect_same(kWeighted, "y", value);
}

TEST(CarryReductions, IsRightWhereValuesAreInfiniteOrNoNumbers) {
  const auto value = [](size_t input, int64_t element) {
    if (input == 0 && element == 4) return kInf;
    if (input == 0 && element == 15) return std::numeric_limits<float>::quiet_NaN();
    if (input == 1 && element == 9) return kInf;
    return random_value(input, element);
  };
  expect_same(kWeighted, "y", value);
}

TEST(CarryReductions, HoldsLogSumExp) {
  expect_same(R"(program {
  input x: f32[3,10]
  t: f32[3,10] = x[d0, d1] * 2.0
  m: f32[3] = max[10]:f32 t[d0, r0]
  l: f32[3] = sum[10]:f32 exp(t[d0, r0] - m[d0])
  y: f32[3] = log(l[d0]) + m[d0]
  output y as y
})",
              "l", [](size_t input, int64_t element) {
                return element < 10 ? -kInf : random_value(input, element) * 40;
              });
}

/// Of equals the first, or the last, over all parts; NaN is the best.
TEST(CarryReductions, HoldsPositions) {
  for (const char* how : {"arg_max[11]:f32", "arg_min[11]:f32", "arg_max[11]:f32 last_on_ties",
                          "arg_min[11]:f32 last_on_ties"}) {
    SCOPED_TRACE(how);
    const std::string text = std::string(R"(program {
  input x: f32[5,11]
  t: f32[5,11] = x[d0, d1] * 2.0
  i: i64[5] = )") + how + R"( t[d0, r0]
  output i as i
})";
    // Row 0: few values; 1: all alike; 2: infinities of both kinds; 3: NaN, twice; 4: random.
    expect_same(text, "i", [](size_t input, int64_t element) {
      const int64_t row = element / 11, column = element % 11;
      if (row == 0) return static_cast<float>(column * 7 % 3);
      if (row == 1) return -kInf;
      if (row == 2 && column % 3 == 0) return column % 2 == 0 ? kInf : -kInf;
      if (row == 3 && column % 5 == 3) return std::numeric_limits<float>::quiet_NaN();
      return random_value(input, element);
    });
  }
}

TEST(CarryReductions, HoldsASumWhoseQuotientComesBehindIt) {
  expect_same(R"(program {
  input x: f32[3,10]
  input v: f32[10,4]
  t: f32[3,10] = x[d0, d1] * 2.0
  m: f32[3] = max[10]:f32 t[d0, r0] * 0.5
  e: f32[3,10] = exp(t[d0, d1] * 0.5 - m[d0])
  l: f32[3] = sum[10]:f32 e[d0, r0]
  u: f32[3,4] = contraction sum[10]:f32 e[d0, r0] * v[r0, d1]
  y: f32[3,4] = u[d0, d1] / l[d0]
  output y as y
})",
              "u", random_value);
}

TEST(CarryReductions, HoldsATemperatureBehindTheMaximum) {
  expect_same(R"(program {
  input x: f32[3,10]
  t: f32[3,10] = x[d0, d1] * 2.0
  m: f32[3] = max[10]:f32 t[d0, r0]
  l: f32[3] = sum[10]:f32 exp((t[d0, r0] - m[d0]) * 3.0)
  output l as l
})",
              "l", random_value);
}

TEST(CarryReductions, HoldsAMinimum) {
  expect_same(R"(program {
  input x: f32[3,10]
  t: f32[3,10] = x[d0, d1] * 2.0
  m: f32[3] = min[10]:f32 t[d0, r0]
  l: f32[3] = sum[10]:f32 exp(m[d0] - t[d0, r0])
  output l as l
})",
              "l", random_value);
}

TEST(CarryReductions, PostponesQuotientsProductsAndShifts) {
  expect_same(R"(program {
  input x: f32[3,10]
  input v: f32[10,4]
  t: f32[3,10] = x[d0, d1] * 2.0
  a: f32[3] = max[10]:f32 abs(t[d0, r0])
  q: f32[3,10] = t[d0, d1] / (a[d0] + 0.125)
  y: f32[3,4] = contraction sum[10]:f32 q[d0, r0] * v[r0, d1]
  output y as y
})",
              "y", random_value);
  expect_same(R"(program {
  input x: f32[3,10]
  t: f32[3,10] = x[d0, d1] * 2.0
  s: f32[3] = sum[10]:f32 t[d0, r0]
  w: f32[3] = max[10]:f32 t[d0, r0] * 2.0 - s[d0]
  output w as w
})",
              "w", random_value);
}

TEST(CarryReductions, SaysWhatCannotBeTakenOut) {
  const auto why = [](const std::string& body, const std::string& first = "max[10]:f32 t[d0, r0]") {
    const auto c = carried(
        program_of(
            "program {\n  input x: f32[3,10]\n  t: f32[3,10] = x[d0, d1] * 2.0\n  m: f32[3] = " +
            first + "\n  l: f32[3] = sum[10]:f32 " + body + "\n  output l as l\n}"),
        "l");
    return c.ok() ? "carried" : c.error().message;
  };
  EXPECT_THAT(why("exp(t[d0, r0] - m[d0])"), "carried");
  EXPECT_THAT(why("t[d0, r0] - m[d0]"), HasSubstr("stands in 'sub'"));
  EXPECT_THAT(why("exp(t[d0, r0] * m[d0])"), HasSubstr("stands in 'mul'"));
  EXPECT_THAT(why("exp(t[d0, r0] + m[d0])"), HasSubstr("which it is no bound of"));
  EXPECT_THAT(why("exp(t[d0, r0] * 2.0 - m[d0])"), HasSubstr("beside something"));
  EXPECT_THAT(why("exp(t[d0, r0] - m[d0])", "sum[10]:f32 t[d0, r0]"),
              HasSubstr("which it is no bound of"));
  EXPECT_THAT(why("exp(t[d0, r0] - m[d0]) * m[d0]"), HasSubstr("carried in two ways"));
}

TEST(CarryReductions, RefusesAStepThatReadsWhatIsReducedBehindTheLoop) {
  const auto c = carried(program_of(R"(program {
  input x: f32[10,4]
  a: f32[10,4] = x[d0, d1] * 2.0
  s: f32[4] = sum[10]:f32 a[r0, d0]
  q: f32[] = sum[4]:f32 s[r0]
  u: f32[] = sum[10]:f32 a[r0, 0] * rsqrt(q[])
  output u as u
})"),
                         "u");
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.error().message, HasSubstr("u reads q, for which nothing stands in a step"));
}

TEST(CarryReductions, RefusesAnAxisThatIsMetTwice) {
  const auto c = carried(program_of(R"(program {
  input t: f32[10,10]
  a: f32[10,10] = t[d0, d1] * 2.0
  b: f32[10] = sum[10]:f32 a[r0, d0] - a[d0, r0]
  output b as b
})"),
                         "b");
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.error().message, HasSubstr("twice"));
}

/// A sum over rows and columns has no one maximum of a column to take out.
TEST(CarryReductions, RefusesWhatDiffersAlongAnotherAxisOfTheSum) {
  const auto over = [](const std::string& sum) {
    const auto c = carried(program_of(R"(program {
  input x: f32[10,6]
  input w: f32[10,6]
  m: f32[6] = max[10]:f32 x[r0, d0]
  )" + sum + "\n  output l as l\n}"),
                           "l");
    return c.ok() ? "carried" : c.error().message;
  };
  EXPECT_EQ(over("l: f32[6] = sum[10]:f32 w[r0, d0] * exp(x[r0, d0] - m[d0])"), "carried");
  EXPECT_THAT(over("l: f32[] = sum[10, 6]:f32 w[r0, r1] * exp(x[r0, r1] - m[r1])"),
              HasSubstr("l: "));
}

}  // namespace
}  // namespace weft
