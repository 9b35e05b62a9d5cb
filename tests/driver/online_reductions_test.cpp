// Reductions that depend on each other, from the plain graph to machine code: those that a chain
// carries in one loop beside the interpreter, on random data, masked rows, infinities and NaN.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// What is made of scores `t` of 2 heads, 21 queries and 75 keys, F, by rows, R, and values, Y.
struct OnlineCase {
  const char* name;
  const char* text;
  /// What the model's order of operations loses, by overflow or rounding, where scores are huge.
  bool of_any_size = true;
};

std::string graph_of(const OnlineCase& c) {
  std::string text = R"(
  (q: f32[2,21,16], k: f32[2,75,16], v: f32[2,75,24], z: f32[21,75]) {
    a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : F
    zb = broadcast z, dims={1,2} : F
    t = add a, zb : F
)";
  std::istringstream lines(text + c.text + "  } -> (y)");
  std::string out, line;
  while (std::getline(lines, line)) {
    for (const auto& [name, type] :
         {std::pair(" F", " f32[2,21,75]"), std::pair(" R", " f32[2,21]"),
          std::pair(" Y", " f32[2,21,24]")}) {
      if (line.ends_with(name)) line.replace(line.size() - 2, 2, type);
    }
    out += line + "\n";
  }
  return out;
}

constexpr OnlineCase kCases[] = {
    {"quotient_first", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"quotient_behind", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    u = dot_general e, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
    sb = broadcast s, dims={0,1} : Y
    y = div u, sb : Y
)"},
    {"reciprocal", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    one = constant 1 : f32[]
    ones = broadcast one, dims={} : R
    i = div ones, s : R
    ib = broadcast i, dims={0,1} : F
    p = mul ib, e : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"temperature_behind_the_maximum", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    c = constant 0.125 : f32[]
    cb = broadcast c, dims={} : F
    g = mul d, cb : F
    e = exp g : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"scale_of_both_sides", R"(
    m = reduce t, axes={2}, combiner=max : R
    c = constant 0.125 : f32[]
    cr = broadcast c, dims={} : R
    cb = broadcast c, dims={} : F
    mc = mul m, cr : R
    tc = mul t, cb : F
    mb = broadcast mc, dims={0,1} : F
    d = sub tc, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"minimum", R"(
    n = neg t : F
    m = reduce n, axes={2}, combiner=min : R
    mb = broadcast m, dims={0,1} : F
    d = sub mb, n : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"of_logarithms", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    l = log s : R
    lb = broadcast l, dims={0,1} : F
    g = sub d, lb : F
    p = exp g : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"of_the_logarithm_of_a_sum", R"(
    m = reduce t, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub t, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    l = log s : R
    n = add l, m : R
    nb = broadcast n, dims={0,1} : F
    g = sub t, nb : F
    p = exp g : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)",
     false},
    {"finite_maximum", R"(
    m = reduce t, axes={2}, combiner=max : R
    low = constant -inf : f32[]
    zero = constant 0 : f32[]
    lows = broadcast low, dims={} : R
    zeros = broadcast zero, dims={} : R
    is = eq m, lows : bool[2,21]
    f = select is, zeros, m : R
    fb = broadcast f, dims={0,1} : F
    d = sub t, fb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"no_maximum", R"(
    e = exp t : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
    {"weights_by_their_sum", R"(
    b = abs t : F
    s = reduce b, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div t, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)",
     false},
    {"weights_by_their_length", R"(
    b = mul t, t : F
    s = reduce b, axes={2}, combiner=sum : R
    r = rsqrt s : R
    rb = broadcast r, dims={0,1} : F
    p = mul t, rb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)",
     false},
    {"scale_of_a_quantised_row", R"(
    b = abs t : F
    m = reduce b, axes={2}, combiner=max : R
    c = constant 4 : f32[]
    cr = broadcast c, dims={} : R
    i = div m, cr : R
    ib = broadcast i, dims={0,1} : F
    p = div t, ib : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)",
     false},
    {"masked_by_indices", R"(
    i = iota axis=1 : i64[2,21,75]
    j = iota axis=2 : i64[2,21,75]
    w = le j, i : bool[2,21,75]
    low = constant -inf : f32[]
    lows = broadcast low, dims={} : F
    o = select w, t, lows : F
    m = reduce o, axes={2}, combiner=max : R
    mb = broadcast m, dims={0,1} : F
    d = sub o, mb : F
    e = exp d : F
    s = reduce e, axes={2}, combiner=sum : R
    sb = broadcast s, dims={0,1} : F
    p = div e, sb : F
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : Y
)"},
};

/// Numbers between -1 and 1.
std::vector<HostTensor> random_inputs(const Graph& graph) {
  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const ValueId v : graph.inputs) {
    HostTensor& t = inputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      t.set_double(i, static_cast<double>(seed >> 33) / static_cast<double>(1ULL << 30) - 1);
    }
  }
  return inputs;
}

bool same(double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  return std::isinf(expected)
             ? got == expected
             : std::abs(got - expected) <= 2e-5 * std::max(1.0, std::abs(expected));
}

void expect_same(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& got,
                 const std::string& how) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t o = 0; o < got.size(); ++o) {
    int wrong = 0;
    for (int64_t i = 0; i < got[o].size() && wrong < 4; ++i) {
      if (same(got[o].at_double(i), expected[o].at_double(i))) continue;
      ++wrong;
      ADD_FAILURE() << how << ": output " << o << " element " << i << ": " << got[o].at_double(i)
                    << ", not " << expected[o].at_double(i);
    }
  }
}

/// A graph compiled for this machine, beside the interpreter.
class Compared {
 public:
  Compared(const std::string& text, const CompileOptions& options) {
    auto graph = parse_graph(text);
    EXPECT_TRUE(graph.ok()) << graph.error().message << text;
    if (!graph.ok()) return;
    graph_ = std::move(*graph);
    auto compiled = compile_graph(graph_, options);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    if (!compiled.ok()) return;
    compilation_ = std::move(*compiled);
    auto session = Session::create(compilation_->program, 2);
    EXPECT_TRUE(session.ok());
    if (session.ok()) session_ = std::move(*session);
  }

  bool ready() const { return session_ != nullptr; }
  const Compilation& compilation() const { return *compilation_; }
  std::string plan() const { return *print_level(*compilation_, "plan"); }

  /// On random inputs that `change` has changed.
  void run(const std::string& how, const std::function<void(std::vector<HostTensor>&)>& change) {
    std::vector<HostTensor> inputs = random_inputs(graph_);
    change(inputs);
    const auto got = session_->run(inputs);
    const auto expected = interpret(graph_, inputs);
    ASSERT_TRUE(got.ok() && expected.ok());
    expect_same(*expected, *got, how);
  }

 private:
  Graph graph_;
  std::unique_ptr<Compilation> compilation_;
  std::unique_ptr<Session> session_;
};

/// Any chain is a kernel: to this device memory bounds all.
CompileOptions as_chains() {
  CompileOptions options;
  options.planner = "chain";
  options.device = *find_target("x86-64-v3");
  options.device->peak_gflops = 1e9;
  options.verify = true;
  return options;
}

class OnlineReductions : public ::testing::TestWithParam<OnlineCase> {};

TEST_P(OnlineReductions, AreCarriedInOneLoop) {
  Compared compared(graph_of(GetParam()), as_chains());
  ASSERT_TRUE(compared.ready());
  EXPECT_EQ(compared.compilation().plan.kernels.size(), 1U) << compared.plan();
  EXPECT_THAT(compared.plan(), HasSubstr("by chain("));
  compared.run("random", [](const auto&) {});
  std::vector<float> specials = {-kInf, kInf, kNan};
  if (GetParam().of_any_size) specials.insert(specials.end(), {1e30F, -3.4e38F});
  for (const float special : specials) {
    // All scores of row 0, the first half of row 1, one of row 2.
    compared.run("scores of " + std::to_string(special), [&](std::vector<HostTensor>& inputs) {
      for (int64_t j = 0; j < 75; ++j) inputs[3].set_double(j, special);
      for (int64_t j = 0; j < 40; ++j) inputs[3].set_double(75 + j, special);
      inputs[3].set_double(2 * 75 + 70, special);
    });
  }
  for (const float special : {kInf, -kInf, kNan}) {
    compared.run("a value of " + std::to_string(special), [&](std::vector<HostTensor>& inputs) {
      inputs[2].set_double(24 * 70 + 3, special);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnlineReductions, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

/// Other graphs, and whether one kernel carries what they reduce.
struct WholeCase {
  const char* name;
  bool is_chain;
  const char* text;
};

constexpr WholeCase kWholes[] = {
    // Each head of keys serves two of queries.
    {"grouped_queries", true, R"(
  (q: f32[2,2,21,16], k: f32[2,75,16], v: f32[2,75,24]) {
    t = dot_general q, k, lhs_contract={3}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,2,21,75]
    m = reduce t, axes={3}, combiner=max : f32[2,2,21]
    mb = broadcast m, dims={0,1,2} : f32[2,2,21,75]
    d = sub t, mb : f32[2,2,21,75]
    e = exp d : f32[2,2,21,75]
    s = reduce e, axes={3}, combiner=sum : f32[2,2,21]
    sb = broadcast s, dims={0,1,2} : f32[2,2,21,75]
    p = div e, sb : f32[2,2,21,75]
    y = dot_general p, v, lhs_contract={3}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,2,21,24]
  } -> (y))"},
    // Weights of experts by their scores, the experts' results summed by these.
    {"routed_experts", true, R"(
  (x: f32[21,16], g: f32[16,40], w: f32[40,24]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,40]
    m = reduce t, axes={1}, combiner=max : f32[21]
    mb = broadcast m, dims={0} : f32[21,40]
    d = sub t, mb : f32[21,40]
    e = exp d : f32[21,40]
    s = reduce e, axes={1}, combiner=sum : f32[21]
    sb = broadcast s, dims={0} : f32[21,40]
    p = div e, sb : f32[21,40]
    y = dot_general p, w, lhs_contract={1}, rhs_contract={0} : f32[21,24]
  } -> (y))"},
    // The same of the two best alone: which these are is known behind a sort.
    {"routed_to_the_best", false, R"(
  (x: f32[21,16], g: f32[16,40], w: f32[40,24]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,40]
    m = reduce t, axes={1}, combiner=max : f32[21]
    mb = broadcast m, dims={0} : f32[21,40]
    d = sub t, mb : f32[21,40]
    e = exp d : f32[21,40]
    s = reduce e, axes={1}, combiner=sum : f32[21]
    sb = broadcast s, dims={0} : f32[21,40]
    p = div e, sb : f32[21,40]
    b, i = top_k p, axis=1, k=2 : f32[21,2], i64[21,2]
    o = gather w, i, axis=0 : f32[21,2,24]
    bb = broadcast b, dims={0,1} : f32[21,2,24]
    r = mul bb, o : f32[21,2,24]
    y = reduce r, axes={1}, combiner=sum : f32[21,24]
  } -> (y))"},
    {"the_best_and_what_it_brings", true, R"(
  (x: f32[21,16], g: f32[16,40], w: f32[40,24]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,40]
    m = reduce t, axes={1}, combiner=max : f32[21]
    i = arg_reduce t, axis=1, combiner=arg_max : i64[21]
    o = gather w, i, axis=0 : f32[21,24]
    mb = broadcast m, dims={0} : f32[21,24]
    y = mul mb, o : f32[21,24]
  } -> (y, i))"},
    // Of two keys alike the last one.
    {"the_last_of_the_least", true, R"(
  (x: f32[21,16], g: f32[16,75]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,75]
    i = arg_reduce t, axis=1, combiner=arg_min, last_on_ties=true : i64[21]
  } -> (i))"},
    {"logarithm_of_a_sum", true, R"(
  (x: f32[21,16], g: f32[16,75]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,75]
    m = reduce t, axes={1}, combiner=max : f32[21]
    mb = broadcast m, dims={0} : f32[21,75]
    d = sub t, mb : f32[21,75]
    e = exp d : f32[21,75]
    s = reduce e, axes={1}, combiner=sum : f32[21]
    l = log s : f32[21]
    y = add l, m : f32[21]
  } -> (y))"},
    {"normed_rows", false, R"(
  (x: f32[21,16], g: f32[16,75], w: f32[75,24]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,75]
    s = reduce t, axes={1}, combiner=sum : f32[21]
    c = constant 75 : f32[]
    cr = broadcast c, dims={} : f32[21]
    u = div s, cr : f32[21]
    ub = broadcast u, dims={0} : f32[21,75]
    d = sub t, ub : f32[21,75]
    g2 = mul d, d : f32[21,75]
    h = reduce g2, axes={1}, combiner=sum : f32[21]
    v = div h, cr : f32[21]
    eps = constant 0.00001 : f32[]
    er = broadcast eps, dims={} : f32[21]
    f = add v, er : f32[21]
    r = rsqrt f : f32[21]
    rb = broadcast r, dims={0} : f32[21,75]
    p = mul d, rb : f32[21,75]
    y = dot_general p, w, lhs_contract={1}, rhs_contract={0} : f32[21,24]
  } -> (y))"},
    // Rounded terms are no product of two factors, so that the scale comes first.
    {"rounded_to_a_scale", false, R"(
  (x: f32[21,16], g: f32[16,75], w: f32[75,24]) {
    t = dot_general x, g, lhs_contract={1}, rhs_contract={0} : f32[21,75]
    b = abs t : f32[21,75]
    m = reduce b, axes={1}, combiner=max : f32[21]
    c = constant 127 : f32[]
    cr = broadcast c, dims={} : f32[21]
    i = div cr, m : f32[21]
    ib = broadcast i, dims={0} : f32[21,75]
    n = mul t, ib : f32[21,75]
    o = round_even n : f32[21,75]
    p = dot_general o, w, lhs_contract={1}, rhs_contract={0} : f32[21,24]
    sb = broadcast i, dims={0} : f32[21,24]
    y = div p, sb : f32[21,24]
  } -> (y))"},
};

class OnlineGraphs : public ::testing::TestWithParam<WholeCase> {};

TEST_P(OnlineGraphs, AreRightAsChainsWhereTheyAre) {
  Compared compared(GetParam().text, as_chains());
  ASSERT_TRUE(compared.ready());
  EXPECT_EQ(compared.plan().find("by chain(") != std::string::npos, GetParam().is_chain)
      << compared.plan();
  compared.run("random", [](const auto&) {});
  compared.run("equal terms", [](std::vector<HostTensor>& inputs) {
    for (int64_t i = 0; i < inputs[0].size(); ++i) inputs[0].set_double(i, 0);
  });
  for (const float special : {kInf, -kInf, kNan}) {
    compared.run("an input of " + std::to_string(special), [&](std::vector<HostTensor>& inputs) {
      inputs[0].set_double(16 * 7 + 3, special);
      inputs.back().set_double(5, special);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnlineGraphs, ::testing::ValuesIn(kWholes),
                         [](const auto& test) { return std::string(test.param.name); });

/// Attention of queries to keys. `condition` makes `c`, and `choice` of it and of scores `a` what
/// is weighted, `t`.
std::string masked(const std::string& condition, const std::string& choice = R"(
    low = constant -inf : f32[]
    lows = broadcast low, dims={} : f32[2,150,150]
    t = select c, a, lows : f32[2,150,150]
)") {
  return R"(
  (q: f32[2,150,16], k: f32[2,150,16], v: f32[2,150,24]) {
    a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,150,150]
    i = iota axis=1 : i64[2,150,150]
    j = iota axis=2 : i64[2,150,150]
)" + condition +
         choice + R"(
    m = reduce t, axes={2}, combiner=max : f32[2,150]
    mb = broadcast m, dims={0,1} : f32[2,150,150]
    d = sub t, mb : f32[2,150,150]
    e = exp d : f32[2,150,150]
    s = reduce e, axes={2}, combiner=sum : f32[2,150]
    sb = broadcast s, dims={0,1} : f32[2,150,150]
    p = div e, sb : f32[2,150,150]
    y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,150,24]
  } -> (y))";
}

/// A mask of 0 and `low`, added to the scores.
std::string added(const std::string& low) {
  return R"(
    zero = constant 0 : f32[]
    zeros = broadcast zero, dims={} : f32[2,150,150]
    low = constant )" +
         low + R"( : f32[]
    lows = broadcast low, dims={} : f32[2,150,150]
    z = select c, zeros, lows : f32[2,150,150]
    t = add a, z : f32[2,150,150]
)";
}

const std::string kCausal = masked("    c = le j, i : bool[2,150,150]");
const std::string kWindow = masked(R"(
    f = constant 20 : i64[]
    fb = broadcast f, dims={} : i64[2,150,150]
    h = sub i, fb : i64[2,150,150]
    c1 = le j, i : bool[2,150,150]
    c2 = gt j, h : bool[2,150,150]
    c = and c1, c2 : bool[2,150,150])");
/// The first forty queries see no key at all.
const std::string kShifted = masked(R"(
    f = constant 40 : i64[]
    fb = broadcast f, dims={} : i64[2,150,150]
    h = sub i, fb : i64[2,150,150]
    c = le j, h : bool[2,150,150])");

/// A loop goes as far as a mask lets any of its rows. What is no number beyond still makes what is
/// no number: zero times it is added.
TEST(MaskedChains, GoAsFarAsTheirRowsReach) {
  for (const std::string* text : {&kCausal, &kWindow, &kShifted}) {
    Compared compared(*text, as_chains());
    ASSERT_TRUE(compared.ready());
    EXPECT_EQ(compared.compilation().plan.kernels.size(), 1U) << compared.plan();
    const std::string program = *print_level(compared.compilation(), "tile-program");
    EXPECT_THAT(program, HasSubstr("carry y_after_unreached[b0,"));
    EXPECT_THAT(program, ::testing::Not(HasSubstr("seq b2 in 150")));
    compared.run("random", [](const auto&) {});
    for (const float special : {kInf, -kInf, kNan}) {
      for (const int64_t at : {7, 80, 149}) {
        compared.run("a value", [&](std::vector<HostTensor>& inputs) {
          inputs[2].set_double(24 * at + 3, special);
        });
        compared.run("a key", [&](std::vector<HostTensor>& inputs) {
          inputs[1].set_double(16 * at + 3, special);
        });
        compared.run("a query", [&](std::vector<HostTensor>& inputs) {
          inputs[0].set_double(16 * at + 3, special);
        });
      }
    }
  }
}

/// Masks that are added to the scores, or finite, are bounds, too, and the plan says so: what they
/// hide is left out, whatever it is. What is no number where none is masked comes out as ever.
TEST(MaskedChains, GoAsFarAsAddedAndFiniteMasksLetThem) {
  const std::string causal = "    c = le j, i : bool[2,150,150]";
  std::vector<std::string> choices = {R"(
    low = constant -1e9 : f32[]
    lows = broadcast low, dims={} : f32[2,150,150]
    t = select c, a, lows : f32[2,150,150]
)"};
  for (const char* low : {"-inf", "-3.4e38", "-65504", "-1e9"}) choices.push_back(added(low));
  for (const std::string& choice : choices) {
    SCOPED_TRACE(choice);
    Compared compared(masked(causal, choice), as_chains());
    ASSERT_TRUE(compared.ready());
    EXPECT_EQ(compared.compilation().plan.kernels.size(), 1U) << compared.plan();
    EXPECT_THAT(*print_level(compared.compilation(), "tile-program"),
                HasSubstr("carry y_after_unreached[b0,"));
    EXPECT_THAT(explain_text(explained(compared.compilation())),
                HasSubstr("masked terms left out, whatever they are: m, s, y"));
    EXPECT_THAT(explain_json(explained(compared.compilation())), HasSubstr("masks_are_bounds"));
    compared.run("random", [](const auto&) {});
    for (const float special : {kInf, -kInf, kNan}) {
      for (const int64_t at : {7, 80, 149}) {
        compared.run("a value", [&](std::vector<HostTensor>& inputs) {
          inputs[2].set_double(24 * at + 3, special);
        });
      }
      // Of a row whose scores are all -inf a finite mask is no bound.
      if (!std::isnan(special) && choice != choices[1]) continue;
      compared.run("a key that all see",
                   [&](std::vector<HostTensor>& inputs) { inputs[1].set_double(3, special); });
    }
  }
  // What a mask of zeros at the first keys leaves nothing of is all there is in the first rows.
  Compared compared(masked("    f = constant 40 : i64[]\n"
                           "    fb = broadcast f, dims={} : i64[2,150,150]\n"
                           "    h = sub i, fb : i64[2,150,150]\n"
                           "    c = le j, h : bool[2,150,150]",
                           added("-1e9")),
                    as_chains());
  ASSERT_TRUE(compared.ready());
  EXPECT_THAT(*print_level(compared.compilation(), "tile-program"),
              ::testing::Not(HasSubstr("_unreached")));
  compared.run("rows without a key", [](const auto&) {});
}

/// A plan's text says nothing of masks: the loop's bounds follow from the program again.
TEST(MaskedChains, AreBuiltFromAPlanAsTheyWereComposed) {
  const Compared first(kWindow, as_chains());
  ASSERT_TRUE(first.ready());
  CompileOptions given = as_chains();
  given.planner = {};
  given.plan_text = first.plan();
  given.plan_source = "p.plan";
  const Compared second(kWindow, given);
  ASSERT_TRUE(second.ready());
  EXPECT_EQ(*print_level(second.compilation(), "tile-program"),
            *print_level(first.compilation(), "tile-program"));
}

/// Rows that no cache of a core holds are walked once: a maximum and what depends on it are
/// carried.
TEST(OnlineRows, AreWalkedOnce) {
  CompileOptions options;
  options.device = *find_target("x86-64-v3");
  options.device->l2_bytes = 16 << 10;
  options.device->l3_bytes = 64 << 10;
  options.verify = true;
  const std::string text = R"(
  (x: f32[21,9001]) {
    m = reduce x, axes={1}, combiner=max : f32[21]
    mb = broadcast m, dims={0} : f32[21,9001]
    d = sub x, mb : f32[21,9001]
    e = exp d : f32[21,9001]
    s = reduce e, axes={1}, combiner=sum : f32[21]
    l = log s : f32[21]
    y = add l, m : f32[21]
  } -> (y))";
  Compared compared(text, options);
  ASSERT_TRUE(compared.ready());
  EXPECT_EQ(compared.compilation().plan.kernels.size(), 1U);
  EXPECT_THAT(compared.plan(), HasSubstr("by chain("));
  EXPECT_THAT(*print_level(compared.compilation(), "tile-program"),
              ::testing::ContainsRegex("carry m_after.*, s_after"));
  compared.run("random", [](const auto&) {});
  for (const float special : {kInf, -kInf, kNan, 1e30F}) {
    compared.run("one of " + std::to_string(special), [&](std::vector<HostTensor>& inputs) {
      inputs[0].set_double(9001 * 3 + 4000, special);
    });
    compared.run("all of " + std::to_string(special), [&](std::vector<HostTensor>& inputs) {
      for (int64_t i = 0; i < 9001; ++i) inputs[0].set_double(9001 * 3 + i, special);
    });
  }
}

TEST(MaskedChains, AreRightOnGpus) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  CompileOptions options;
  options.planner = "chain";
  for (const std::string* text : {&kCausal, &kWindow}) {
    const EmulatedRun run = run_and_compare(*text, *find_target("a100-40gb"), 1e-4, false, options);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_EQ(run.launches.size(), 1U);
  }
}

/// A sum of quotients made as a quotient of sums may overflow where the former does not.
TEST(OnlineReductionsInPlans, SayWhatIsScaledBehindTheLoop) {
  const Compared compared(graph_of(kCases[0]), as_chains());
  ASSERT_TRUE(compared.ready());
  EXPECT_THAT(explain_text(explained(compared.compilation())),
              HasSubstr("sums before they are scaled: y by s"));
  EXPECT_THAT(explain_json(explained(compared.compilation())), HasSubstr("scaled_behind"));
  // How the loops of the built program stand: rows over blocks, steps in them, the depth inside.
  EXPECT_THAT(explain_text(explained(compared.compilation())), HasSubstr("loops over tiles: mnk"));
  EXPECT_THAT(explain_json(explained(compared.compilation())), HasSubstr("\"tiling\": \"mnk\""));
}

/// The same derivation gives a GPU's kernels what they carry.
TEST(OnlineReductionsOnGpus, AreCarriedInOneLoop) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler for the emulator";
  std::vector<std::pair<std::string, std::string>> graphs;
  for (const char* name : {"quotient_behind", "of_logarithms", "finite_maximum"})
    graphs.emplace_back(
        name, graph_of(*std::ranges::find(kCases, std::string_view(name), &OnlineCase::name)));
  graphs.emplace_back(
      "logarithm_of_a_sum",
      std::ranges::find(kWholes, std::string_view("logarithm_of_a_sum"), &WholeCase::name)->text);
  for (const auto& [name, text] : graphs) {
    CompileOptions options;
    options.planner = "chain";
    const EmulatedRun run = run_and_compare(text, *find_target("a100-40gb"), 1e-4, false, options);
    ASSERT_NE(run.compilation, nullptr);
    EXPECT_THAT(*print_level(*run.compilation, "plan"), HasSubstr("by chain(")) << name;
    EXPECT_EQ(run.launches.size(), 1U) << name;
  }
}

}  // namespace
}  // namespace weft::testing
