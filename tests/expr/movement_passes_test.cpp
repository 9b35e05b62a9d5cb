#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expr/movement/assign_layouts.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/sink_movement.h"
#include "expr/movement/split_axes.h"
#include "expr/movement/widen_where_read.h"
#include "expr/products/merge_products.h"
#include "tests/expr/after_passes.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

bool split(TensorProgram& program) { return split_axes(program); }
bool fold(TensorProgram& program) { return fold_movement(program); }
bool fold_and_join(TensorProgram& program) {
  return fold_movement(program, {.joins_pieces = true});
}

/// Rows and columns that come round (a shifted window), before a product.
constexpr const char* kRoll = R"((x: f32[6,5,4], w: f32[4,3]) {
    a = slice x, start={2,0,0}, step={1,1,1} : f32[4,5,4]
    b = slice x, start={0,0,0}, step={1,1,1} : f32[2,5,4]
    c = concat a, b, axis=0 : f32[6,5,4]
    d = slice c, start={0,4,0}, step={1,1,1} : f32[6,1,4]
    e = slice c, start={0,0,0}, step={1,1,1} : f32[6,4,4]
    f = concat d, e, axis=1 : f32[6,5,4]
    y = dot_general f, w, lhs_contract={2}, rhs_contract={0} : f32[6,5,3]
  } -> (y))";

TEST(FoldMovement, PiecesAroundAnEndAreOneReadForAProduct) {
  EXPECT_EQ(after(kRoll, {fold_and_join}),
            "y: f32[6,5,3] = contraction sum[4]:f32 x[(d0 + 2) mod 6, (d1 + 4) mod 5, r0] * "
            "w[r0, d2]\noutput y as y\n");
  EXPECT_THAT(after(kRoll, {fold}), HasSubstr("f: f32[6,5,4] = "));
}

/// Pieces of other lengths than the tensor's do not come round.
TEST(FoldMovement, OtherPiecesStayApart) {
  const std::string text = after(R"((x: f32[6,4], w: f32[4,3]) {
    a = slice x, start={2,0}, step={1,1} : f32[4,4]
    b = slice x, start={1,0}, step={1,1} : f32[2,4]
    c = concat a, b, axis=0 : f32[6,4]
    y = dot_general c, w, lhs_contract={1}, rhs_contract={0} : f32[6,3]
  } -> (y))",
                                 {fold_and_join});
  EXPECT_THAT(text, HasSubstr("c: f32[6,4] = i64(d0) < i64(4) ?"));
}

TEST(FoldMovement, HeadsOfAttentionAreReadFromTheProjections) {
  EXPECT_EQ(after(R"((q: f32[26,24], k: f32[26,24]) {
    q4 = reshape q : f32[2,13,3,8]
    qt = transpose q4, permutation={0,2,1,3} : f32[2,3,13,8]
    q3 = reshape qt : f32[6,13,8]
    k4 = reshape k : f32[2,13,3,8]
    kt = transpose k4, permutation={0,2,3,1} : f32[2,3,8,13]
    k3 = reshape kt : f32[6,8,13]
    s3 = dot_general q3, k3, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, rhs_contract={1} : f32[6,13,13]
    s = reshape s3 : f32[2,3,13,13]
    y = exp s : f32[2,3,13,13]
  } -> (y))",
                  {fold, split}),
            "s3: f32[2,3,13,13] declared f32[6,13,13] = contraction sum[8]:f32 q[d0 * 13 + d2, d1 "
            "* 8 + r0] * k[d0 * 13 "
            "+ d3, d1 * "
            "8 + r0]\n"
            "y: f32[2,3,13,13] = exp(s3[d0, d1, d2, d3])\n"
            "output y as y\n");
}

TEST(FoldMovement, AJoinThatIsAnOutputIsReadTransposedFromMemory) {
  // Instead of joining the parts a second time, transposed.
  EXPECT_EQ(after(R"((q: f32[1,8], past: f32[4,8], now: f32[1,8]) {
    k = concat past, now, axis=0 : f32[5,8]
    kt = transpose k, permutation={1,0} : f32[8,5]
    s = dot_general q, kt, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[1,5]
  } -> (k, s))",
                  {fold}),
            "k: f32[5,8] = i64(d0) < i64(4) ? past[d0, d1] : now[d0 - 4, d1]\n"
            "s: f32[1,5] = contraction sum[8]:f32 q[0, r0] * k[d1, r0]\n"
            "output k as k\noutput s as s\n");
}

TEST(FoldMovement, PadsSlicesAndBroadcastsVanish) {
  EXPECT_EQ(after(R"((x: f32[4,6], b: f32[6]) {
    z = constant 0 : f32[]
    p = pad x, z, low={1,0}, high={1,0} : f32[6,6]
    s = slice p, start={1,2}, step={1,1} : f32[4,3]
    bs = slice b, start={0}, step={2} : f32[3]
    bb = broadcast bs, dims={1} : f32[4,3]
    y = add s, bb : f32[4,3]
  } -> (y))",
                  {fold}),
            "y: f32[4,3] = x[d0, d1 + 2] + b[d1 * 2]\noutput y as y\n");
}

TEST(FoldMovement, ConcatsBecomeSelectsAndSlicesOfThemOneRead) {
  const std::string concat = R"((a: f32[2,3], b: f32[4,3]) {
    c = concat a, b, axis=0 : f32[6,3]
    t = transpose c, permutation={1,0} : f32[3,6]
  )";
  EXPECT_EQ(after(concat + "y = exp t : f32[3,6]\n} -> (y)", {fold}),
            "y: f32[3,6] = exp(i64(d1) < i64(2) ? a[d1, d0] : b[d1 - 2, d0])\noutput y as y\n");
  EXPECT_EQ(
      after(concat +
                "s = slice t, start={0,3}, step={1,1} : f32[3,2]\ny = exp s : f32[3,2]\n} -> (y)",
            {fold}),
      "y: f32[3,2] = exp(b[d1 + 1, d0])\noutput y as y\n");
}

TEST(FoldMovement, ManyBranchesStayOneTensor) {
  std::string graph = "(a: f32[1], b: f32[1]) {\n c0 = concat a, b, axis=0 : f32[2]\n";
  for (int i = 1; i <= 4; ++i) {
    const std::string from = "c" + std::to_string(i - 1);
    graph.append(" c").append(std::to_string(i)).append(" = concat ").append(from).append(", ");
    graph.append(from).append(", axis=0 : f32[").append(std::to_string(2 << i)).append("]\n");
  }
  const Graph parsed = parsed_graph(graph + " y = neg c4 : f32[32]\n} -> (y)");
  TensorProgram program = expressed(parsed);
  fold_movement(program);
  for (const TensorExpr& e : program.exprs)
    EXPECT_LT(operation_count(e.body), 40) << print(program);
  const std::vector<HostTensor> inputs = random_inputs(parsed, 3, false);
  expect_computes(program, inputs, *interpret(parsed, inputs));
}

TEST(FoldMovement, GathersOfMovedTablesKeepTheirClamp) {
  EXPECT_EQ(after(R"((table: f32[6,4], i: i64[3]) {
    s = slice table, start={1,0}, step={2,1} : f32[2,4]
    g = gather s, i, axis=0, batch_dims=0 : f32[3,4]
    y = transpose g, permutation={1,0} : f32[4,3]
  } -> (y))",
                  {fold}),
            "y: f32[4,3] = table[{min(max(i[d1], i64(0)), i64(1)) * i64(2) + i64(1)}, d0]\noutput "
            "y as y\n");
}

TEST(FoldMovement, AContractionReadsPaddingButNoConcat) {
  EXPECT_EQ(after(R"((a: f32[3,2], b: f32[3,2], w: f32[4,5]) {
    c = concat a, b, axis=1 : f32[3,4]
    y = dot_general c, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,5]
  } -> (y))",
                  {fold}),
            "c: f32[3,4] = i64(d1) < i64(2) ? a[d0, d1] : b[d0, d1 - 2]\n"
            "y: f32[3,5] = contraction sum[4]:f32 c[d0, r0] * w[r0, d1]\noutput y as y\n");
}

// Each element of the chosen matrices is read once, along rows that lie side by side.
TEST(FoldMovement, AContractionReadsMatricesChosenAtRunTime) {
  const auto product = [](const std::string& vectors) {
    return after("(w: f32[8,5,4], i: i64[3], x: f32[" + vectors + "]) {\n" +
                     "g = gather w, i, axis=0, batch_dims=0 : f32[3,5,4]\n" +
                     "y = dot_general g, x, lhs_batch={}, rhs_batch={}, lhs_contract={2}, "
                     "rhs_contract={0} : f32[3,5" +
                     vectors.substr(1) + "]\n} -> (y)",
                 {fold});
  };
  EXPECT_EQ(product("4"),
            "y: f32[3,5] = contraction sum[4]:f32 w[i[d0], d1, r0] * x[r0]\noutput y as y\n");
  // Of several vectors the matrices are read several times: from memory side by side.
  EXPECT_NE(product("4,6").find("g[d0, d1, r0] * x[r0, d2]"), std::string::npos);
  // Rows whose elements are chosen one by one are no rows.
  const std::string apart = after(R"((w: f32[5,8], i: i64[4], x: f32[4]) {
    g = gather w, i, axis=1, batch_dims=0 : f32[5,4]
    y = dot_general g, x, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[5]
  } -> (y))",
                                  {fold});
  EXPECT_NE(apart.find("g[d0, r0] * x[r0]"), std::string::npos) << apart;
}

TEST(SplitAxes, AReductionOverMergedAxesRunsOverBoth) {
  const std::string text = after(R"((c: f32[2,3,5,4]) {
    w = constant {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24} : f32[12,2]
    t = transpose c, permutation={0,2,1,3} : f32[2,5,3,4]
    m = reshape t : f32[2,5,12]
    y = dot_general m, w, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[2,5,2]
  } -> (y))",
                                 {fold, split});
  EXPECT_EQ(text,
            "y: f32[2,5,2] = contraction sum[3, 4]:f32 c[d0, r0, d1, r1] * w_view[r0, r1, "
            "d2]\noutput y as y\n");
}

TEST(SplitAxes, GroupsOfChannelsKeepOneShape) {
  // The outputs keep their declared shape as a view of the same bytes.
  EXPECT_EQ(after(R"((x: f32[2,6,5]) {
    g = reshape x : f32[2,3,10]
    s = reduce g, axes={2}, combiner=sum : f32[2,3]
    b = broadcast s, dims={0,1} : f32[2,3,10]
    d = sub g, b : f32[2,3,10]
    r = reshape d : f32[2,6,5]
    y = tanh r : f32[2,6,5]
  } -> (y))",
                  {fold, split}),
            "s: f32[2,3] = sum[2, 5]:f32 x[d0, d1 * 2 + r0, r1]\n"
            "d: f32[2,3,2,5] declared f32[2,3,10] = x[d0, d1 * 2 + d2, d3] - s[d0, d1]\n"
            "y: f32[2,3,2,5] declared f32[2,6,5] = tanh(d[d0, d1, d2, d3])\n"
            "output y as y\n");
}

TEST(SplitAxes, TheProducerOfGroupsFollows) {
  EXPECT_EQ(after(R"((x: f32[2,6,5]) {
    e = exp x : f32[2,6,5]
    g = reshape e : f32[2,3,10]
    s = reduce g, axes={2}, combiner=sum : f32[2,3]
    y = tanh s : f32[2,3]
  } -> (y))",
                  {fold, split}),
            "e: f32[2,3,2,5] declared f32[2,6,5] = exp(x[d0, d1 * 2 + d2, d3])\n"
            "s: f32[2,3] = sum[2, 5]:f32 e[d0, d1, r0, r1]\n"
            "y: f32[2,3] = tanh(s[d0, d1])\n"
            "output y as y\n");
}

TEST(SplitAxes, AReaderOfMergedAxesFollowsTheirDigits) {
  // The product's rows are windows of 2x2 in 2x3; its reader knows windows and their elements only.
  EXPECT_EQ(after(R"((x: f32[4,6,5], w: f32[5,8]) {
    s = reshape x : f32[2,2,3,2,5]
    t = transpose s, permutation={0,2,1,3,4} : f32[2,3,2,2,5]
    m = reshape t : f32[24,5]
    p = dot_general m, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[24,8]
    r = reshape p : f32[6,4,8]
    y = tanh r : f32[6,4,8]
  } -> (y))",
                  {fold, split}),
            "p: f32[2,3,2,2,8] declared f32[24,8] = contraction sum[5]:f32 x[d0 * 2 + d2, d1 * 2 + "
            "d3, r0] * w[r0, d4]\n"
            "y: f32[2,3,2,2,8] declared f32[6,4,8] = tanh(p[d0, d1, d2, d3, d4])\n"
            "output y as y\n");
}

TEST(SplitAxes, AReaderThatKeepsItsChannelsTakesThemApart) {
  // The convolution keeps its channels as one axis, which then is taken apart where groups are
  // read: c mod 2 and the position rather than (c mod 2) * 5 + the position.
  const std::string text = after(R"((x: f32[2,6,5], w: f32[3,6,3]) {
    g = reshape x : f32[2,3,10]
    s = reduce g, axes={2}, combiner=sum : f32[2,3]
    b = broadcast s, dims={0,1} : f32[2,3,10]
    d = sub g, b : f32[2,3,10]
    r = reshape d : f32[2,6,5]
    t = tanh r : f32[2,6,5]
    y = convolution t, w, strides={1}, low={1}, high={1}, lhs_dilations={1}, rhs_dilations={1}, groups=1 : f32[2,3,5]
  } -> (y))",
                                 {fold, split});
  EXPECT_NE(text.find("d: f32[2,3,2,5] declared f32[2,3,10] = x[d0, d1 * 2 + d2, d3] - s[d0, d1]\n"
                      "t: f32[2,6,5] = tanh(d[d0, d1 floordiv 2, d1 mod 2, d2])\n"),
            std::string::npos)
      << text;
}

TEST(SplitAxes, LeavesAxesThatAReaderShifts) {
  const std::string graph = R"((x: f32[2,3]) {
    z = constant 0 : f32[]
    f = reshape x : f32[6]
    e = exp f : f32[6]
    s = slice e, start={1}, step={1} : f32[4]
    y = tanh s : f32[4]
  } -> (y))";
  EXPECT_EQ(
      after(graph, {fold, split}),
      "e: f32[6] = exp(x[d0 floordiv 3, d0 mod 3])\ny: f32[4] = tanh(e[d0 + 1])\noutput y as y\n");
}

TEST(SplitAxes, BordersOfRolledAxesAreComparedWithPlainIndices) {
  // Windows of a picture that was rolled by 2: rows 0 to 3 come from 2 on, the others from 0.
  EXPECT_EQ(after(R"((x: f32[6,4]) {
    t = slice x, start={2,0}, step={1,1} : f32[4,4]
    h = slice x, start={0,0}, step={1,1} : f32[2,4]
    c = concat t, h, axis=0 : f32[6,4]
    w = reshape c : f32[2,3,4]
    p = transpose w, permutation={1,0,2} : f32[3,2,4]
    r = reshape p : f32[6,4]
    y = reduce r, axes={0,1}, combiner=max : f32[]
  } -> (y))",
                  {fold, split}),
            "y: f32[] = max[3, 2, 4]:f32 i64(r0 + r1 * 3) < i64(4) ? x[r0 + r1 * 3 + 2, r2] : "
            "x[r0 + r1 * 3 - 4, r2]\n"
            "output y as y\n");
}

TEST(SinkMovement, TheProducerWritesTheOutput) {
  EXPECT_EQ(after(R"((a: f32[3,4], w: f32[4,5]) {
    p = dot_general a, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,5]
    y = transpose p, permutation={1,0} : f32[5,3]
  } -> (y))",
                  {fold, split, sink_movement}),
            "y: f32[5,3] = contraction sum[4]:f32 a[d1, r0] * w[r0, d0]\noutput y as y\n");
  // Read twice, the intermediate is needed.
  EXPECT_EQ(after(R"((a: f32[3,4]) {
    e = exp a : f32[3,4]
    y = transpose e, permutation={1,0} : f32[4,3]
    z = neg e : f32[3,4]
  } -> (y, z))",
                  {fold, sink_movement}),
            "e: f32[3,4] = exp(a[d0, d1])\ny: f32[4,3] = e[d1, d0]\nz: f32[3,4] = neg(e[d0, d1])\n"
            "output y as y\noutput z as z\n");
}

TEST(PackContractions, ProjectionsOfOneInputWithTheirBiases) {
  EXPECT_EQ(after(R"((x: f32[3,2]) {
    wq = constant {1,2,3,4} : f32[2,2]
    wk = constant {5,6,7,8,9,10} : f32[2,3]
    bq = constant {1,2} : f32[2]
    bk = constant {3,4,5} : f32[3]
    q = dot_general x, wq, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,2]
    k = dot_general x, wk, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,3]
    bqb = broadcast bq, dims={1} : f32[3,2]
    bkb = broadcast bk, dims={1} : f32[3,3]
    q1 = add q, bqb : f32[3,2]
    k1 = add k, bkb : f32[3,3]
    y = exp q1 : f32[3,2]
    z = tanh k1 : f32[3,3]
  } -> (y, z))",
                  {fold, merge_products}),
            "q_packed: f32[3,5] = contraction sum[2]:f32 x[d0, r0] * wq_packed[r0, d1]\n"
            "q1_packed: f32[3,5] = q_packed[d0, d1] + bq_packed[d1]\n"
            "y: f32[3,2] = exp(q1_packed[d0, d1])\n"
            "z: f32[3,3] = tanh(q1_packed[d0, d1 + 2])\n"
            "output y as y\noutput z as z\n");
}

TEST(PackContractions, LeavesOutputsAndOtherInputsAlone) {
  const std::string text = R"((x: f32[3,2], u: f32[3,2]) {
    w = constant {1,2,3,4} : f32[2,2]
    v = constant {5,6,7,8} : f32[2,2]
    a = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,2]
    b = dot_general u, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[3,2]
    y = add a, b : f32[3,2]
  } -> (y))";
  EXPECT_EQ(after(text, {merge_products}), after(text, {}));
}

TEST(AssignLayouts, ConvolutionsLieChannelsLast) {
  const Graph graph = parsed_graph(R"((x: f32[1,3,6,6], w: f32[4,3,3,3], v: f32[5,4,3,3]) {
    a = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,4,6,6]
    r = tanh a : f32[1,4,6,6]
    y = convolution r, v, strides={2,2}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,5,3,3]
  } -> (y))");
  TensorProgram program = expressed(graph);
  EXPECT_TRUE(assign_layouts(program, true));
  for (const Tensor& t : program.tensors) {
    const bool moved = t.name == "a" || t.name == "r";
    if (t.name == "y_values") {
      EXPECT_EQ(print(t.layout), "{0,1,1}{2,1,3}{3,1,3}{1,1,5}");
    } else {
      EXPECT_EQ(print(t.layout), moved ? "{0,1,1}{2,1,6}{3,1,6}{1,1,4}" : "") << t.name;
    }
  }
}

/// Inputs and outputs lie as the model says. What follows an input reads a copy, unless few
/// channels or results, or a product without windows, read it as quickly; readers of an output read
/// what it is copied from.
TEST(AssignLayouts, FixedTensorsHaveTwins) {
  const auto program_of = [](int channels, int window, int results) {
    const std::string c = std::to_string(channels), k = std::to_string(window),
                      n = std::to_string(results), pad = std::to_string(window / 2);
    const std::string attributes = ", strides={1,1}, low={" + pad + "," + pad + "}, high={" + pad +
                                   "," + pad +
                                   "}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : ";
    const Graph graph = parsed_graph("(x: f32[1," + c + ",4,4], w: f32[" + n + "," + c + "," + k +
                                     "," + k + "], v: f32[5," + n + ",3,3]) {\n" +
                                     "    y = convolution x, w" + attributes + "f32[1," + n +
                                     R"(,4,4]
    t = tanh y : f32[1,)" + n + R"(,4,4]
    z = convolution t, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,5,4,4]
  } -> (y, z))");
    TensorProgram program = expressed(graph);
    EXPECT_TRUE(assign_layouts(program, true));
    const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
    expect_computes(program, inputs, *interpret(graph, inputs));
    return print(program);
  };
  const std::string twins = program_of(16, 3, 16);
  EXPECT_THAT(twins,
              HasSubstr("x_values: f32[1,16,4,4] layout {0,1,1}{2,1,4}{3,1,4}{1,1,16} = x["));
  EXPECT_THAT(twins, HasSubstr("y: f32[1,16,4,4] = y_values["));
  EXPECT_THAT(twins, HasSubstr("tanh(y_values["));
  EXPECT_THAT(program_of(15, 3, 16), Not(HasSubstr("x_values")));
  EXPECT_THAT(program_of(16, 1, 16), Not(HasSubstr("x_values")));
  EXPECT_THAT(program_of(16, 3, 15), Not(HasSubstr("x_values")));
}

/// Interpolation between two convolutions: its rows come from where a table says.
/// Alone between an input and an output a convolution has copies of both where it multiplies much.
TEST(AssignLayouts, LongSumsAloneHaveTwins) {
  const auto copies = [](const std::string& window, const std::string& pad) {
    const Graph graph = parsed_graph("(x: f32[1,16,9,9], w: f32[16,16," + window + "," + window +
                                     "]) {\n    y = convolution x, w, strides={1,1}, low={" + pad +
                                     "," + pad + "}, high={" + pad + "," + pad +
                                     "}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : "
                                     "f32[1,16,9,9]\n  } -> (y)");
    TensorProgram program = expressed(graph);
    return assign_layouts(program, true);
  };
  EXPECT_TRUE(copies("3", "1"));
  EXPECT_FALSE(copies("1", "0"));
}

TEST(AssignLayouts, GatheredPixelsFollowTheConvolutionsAroundThem) {
  const Graph graph =
      parsed_graph(R"((x: f32[1,3,6,6], i: i64[12], w: f32[4,3,3,3], v: f32[5,4,3,3]) {
    a = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,4,6,6]
    g = gather a, i, axis=2, batch_dims=0 : f32[1,4,12,6]
    t = tanh g : f32[1,4,12,6]
    y = convolution t, v, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,5,12,6]
  } -> (y))");
  TensorProgram program = expressed(graph);
  EXPECT_TRUE(assign_layouts(program, true));
  for (const Tensor& t : program.tensors) {
    if (t.name == "a") EXPECT_EQ(print(t.layout), "{0,1,1}{2,1,6}{3,1,6}{1,1,4}");
    if (t.name == "t") EXPECT_EQ(print(t.layout), "{0,1,1}{2,1,12}{3,1,6}{1,1,4}");
  }
}

/// Pixels of which data say where they are: channels are vectors, be it in a copy made for it,
/// where as many are read as the copy has. All that gather read the copy. Regions have one however
/// many they are.
TEST(AssignLayouts, ChannelsOfGatheredPixelsLieLast) {
  const auto laid_out = [](const std::string& image, int places) {
    const std::string n = std::to_string(places);
    auto program = parse_tensor_program(R"(program {
  input x: f32[2,16,6,6]
  input image: i64[2]
  input at: i64[2,)" + n + R"(,3]
  pixel: f32[2,16,)" + n + R"(,3] = x[)" +
                                        image + R"(, d1, at[d0, d2, d3], at[d0, d2, d3]] * 2.0
  y: f32[2,1,)" + n + R"(,3] = sum[16]:f32 x[d0, r0, 3, at[d0, d2, d3]] + pixel[d0, r0, d2, d3]
  output y as y
}
)");
    EXPECT_TRUE(program.ok()) << program.error().message;
    assign_layouts(*program, true);
    return print(*program);
  };
  const std::string text = laid_out("d0", 12);
  EXPECT_THAT(text, HasSubstr("pixel: f32[2,16,12,3] layout {0,1,2}{2,1,12}{3,1,3}{1,1,16} = "
                              "x_values[d0, d1, "));
  EXPECT_THAT(text, HasSubstr("y: f32[2,1,12,3] = sum[16]:f32 x_values["));
  EXPECT_THAT(laid_out("d0", 11), Not(HasSubstr("x_values")));
  EXPECT_THAT(laid_out("image[d0]", 1), HasSubstr("x_values[image[d0], d1, "));
}

/// Tokens of a product as pixels: the convolution's results lie as what it reads.
TEST(AssignLayouts, WindowsOverTokensLeaveChannelsInnermost) {
  const Graph graph = parsed_graph(R"((x: f32[1,36,8], w: f32[8,1,3,3]) {
    c = transpose x, permutation={0,2,1} : f32[1,8,36]
    p = reshape c : f32[1,8,6,6]
    a = convolution p, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=8 : f32[1,8,6,6]
    f = reshape a : f32[1,8,36]
    t = transpose f, permutation={0,2,1} : f32[1,36,8]
    y = tanh t : f32[1,36,8]
  } -> (y))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_TRUE(assign_layouts(program, true));
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_THAT(print(program),
              HasSubstr("a: f32[1,8,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,8} = contraction"));
}

/// The same where the channels are summed up, as in an image that was given so.
TEST(AssignLayouts, WindowsBeforeChannelsMakeChannelsInnermost) {
  const Graph graph = parsed_graph(R"((x: f32[1,6,6,8], w: f32[12,8,3,3]) {
    t = transpose x, permutation={0,3,1,2} : f32[1,8,6,6]
    a = convolution t, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,12,6,6]
    b = tanh a : f32[1,12,6,6]
    y = neg b : f32[1,12,6,6]
  } -> (y))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_TRUE(assign_layouts(program, true));
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_THAT(print(program),
              HasSubstr("a: f32[1,12,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,12} = contraction"));
}

/// One image is no batch where the first axis of the result goes over its channels: places of a
/// window, whose gradient that is, are no pixels.
TEST(AssignLayouts, GradientsOfOneImageStayRowMajor) {
  const Graph graph = parsed_graph(R"((x: f32[1,16,10,10], g: f32[1,16,8,8]) {
    xt = transpose x, permutation={1,0,2,3} : f32[16,1,10,10]
    gt = transpose g, permutation={1,0,2,3} : f32[16,1,8,8]
    a = convolution xt, gt, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[16,16,3,3]
    b = tanh a : f32[16,16,3,3]
    y = neg b : f32[16,16,3,3]
  } -> (y))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_FALSE(assign_layouts(program, true));
}

/// The same where the window slides over some of a token's channels alone.
TEST(AssignLayouts, WindowsOverPartsOfTokensLeaveChannelsInnermost) {
  const Graph graph = parsed_graph(R"((x: f32[1,36,20], w: f32[8,1,3,3]) {
    e = neg x : f32[1,36,20]
    s = slice e, start={0,0,12}, step={1,1,1} : f32[1,36,8]
    c = transpose s, permutation={0,2,1} : f32[1,8,36]
    p = reshape c : f32[1,8,6,6]
    a = convolution p, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=8 : f32[1,8,6,6]
    f = reshape a : f32[1,8,36]
    t = transpose f, permutation={0,2,1} : f32[1,36,8]
    y = tanh t : f32[1,36,8]
  } -> (y, e))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_TRUE(assign_layouts(program, true));
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_THAT(print(program), HasSubstr("d1 + 12]"));
  EXPECT_THAT(print(program),
              HasSubstr("a: f32[1,8,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,8} = contraction"));
}

/// What a normalisation over channels reads: products of single pixels alone say nothing.
TEST(AssignLayouts, TokensOfAnImageLeaveItsChannelsInnermost) {
  const Graph graph = parsed_graph(R"((x: f32[1,6,6,4], w: f32[8,4,1,1]) {
    p = transpose x, permutation={0,3,1,2} : f32[1,4,6,6]
    a = convolution p, w, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,8,6,6]
    e = tanh a : f32[1,8,6,6]
    t = transpose e, permutation={0,2,3,1} : f32[1,6,6,8]
    y = neg t : f32[1,6,6,8]
  } -> (y))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_TRUE(assign_layouts(program, true));
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_THAT(print(program),
              HasSubstr("e: f32[1,8,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,8} = tanh"));
}

/// Each piece of a concatenation of channels lies as what a convolution reads.
TEST(AssignLayouts, PiecesOfChannelsLieAsTheWhole) {
  const Graph graph = parsed_graph(R"((x: f32[1,2,6,6], z: f32[1,3,6,6], w: f32[4,5,3,3]) {
    a = tanh x : f32[1,2,6,6]
    b = exp z : f32[1,3,6,6]
    c = concat a, b, axis=1 : f32[1,5,6,6]
    d = neg c : f32[1,5,6,6]
    y = convolution d, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : f32[1,4,6,6]
  } -> (y))");
  TensorProgram program = expressed(graph);
  fold_movement(program);
  EXPECT_TRUE(assign_layouts(program, true));
  const std::vector<HostTensor> inputs = random_inputs(graph, 7, false);
  expect_computes(program, inputs, *interpret(graph, inputs));
  EXPECT_THAT(print(program), HasSubstr("d1 - 2"));
  EXPECT_THAT(print(program),
              HasSubstr("a: f32[1,2,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,2} = tanh"));
  EXPECT_THAT(print(program),
              HasSubstr("b: f32[1,3,6,6] layout {0,1,1}{2,1,6}{3,1,6}{1,1,3} = exp"));
}

/// A sum over channels alone lies channels last where its factors are multiplied in groups.
TEST(AssignLayouts, ChannelsLieBesideEachOtherInGroups) {
  const auto moved = [](const std::string& type) {
    const std::string x = type + "[1,8,6,6]";
    const Graph graph =
        parsed_graph("(x: " + x + ", w: " + type + "[4,8,1,1]) {\n  n = neg x : " + x + R"(
    y = convolution n, w, strides={1,1}, low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : )" +
                     type + "[1,4,6,6]\n} -> (y)");
    TensorProgram program = expressed(graph);
    return assign_layouts(program, true);
  };
  EXPECT_TRUE(moved("bf16"));
  EXPECT_FALSE(moved("f32"));
}

/// Of a program whose constants are sequences of small numbers; checks that it computes the same.
std::string laid_out(const char* text) {
  auto program = parse_tensor_program(
      text, [](std::string_view, const TensorType& type) -> Result<HostTensor> {
        HostTensor value(type.dtype, type.shape);
        for (int64_t i = 0; i < value.size(); ++i)
          value.set_double(i, static_cast<double>(i % 7 - 3) / 4);
        return value;
      });
  EXPECT_TRUE(program.ok()) << program.error().message;
  HostTensor x(DType::kF32, declared_type(program->tensors[0]).shape);
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, static_cast<double>(i % 11 - 5) / 4);
  const auto expected = evaluate(*program, {x});
  EXPECT_TRUE(expected.ok());
  assign_layouts(*program, true);
  expect_computes(*program, {x}, *expected);
  return print(*program);
}

/// Squares of two groups of channels that are added up lie as the channels do.
TEST(AssignLayouts, SumsOfGroupsLieAsTheirChannels) {
  const std::string text = laid_out(R"(program {
  input x: f32[2,1,40]
  constant w: f32[6,1,8] = #1
  image: f32[2,6,9] = contraction sum[8]:f32 x[d0, 0, d2 * 4 + r0] * w[d1, 0, r0]
  squares: f32[2,3,9] = sum[2]:f32 image[d0, d1 + r0 * 3, d2] * image[d0, d1 + r0 * 3, d2]
  y: f32[2,3,9] = squares[d0, d1, d2] + 1.0
  output y as y
})");
  EXPECT_THAT(text, HasSubstr("image: f32[2,6,9] layout {0,1,2}{2,1,9}{1,1,6} ="));
  EXPECT_THAT(text, HasSubstr("squares: f32[2,3,9] layout {0,1,2}{2,1,9}{1,1,3} ="));
}

/// Convolutions of one place in two groups between tokens: sums run along what they read, and the
/// channels, two axes of four, beside each other in what they make.
TEST(AssignLayouts, ChannelsOfTokensLieLast) {
  const std::string text = laid_out(R"(program {
  input x: f32[1,6,8]
  constant w: f32[2,3,4] = #0
  constant v: f32[2,4,3] = #1
  a: f32[1,2,3,6] declared f32[1,6,6] = contraction sum[4]:f32 x[0, d3, d1 * 4 + r0] * w[d1, d2, r0]
  t: f32[1,2,3,6] declared f32[1,6,6] = tanh(a[0, d1, d2, d3])
  b: f32[1,2,4,6] declared f32[1,8,6] = contraction sum[3]:f32 t[0, d1, r0, d3] * v[d1, d2, r0]
  y: f32[1,6,8] = exp(b[0, d2 floordiv 4, d2 mod 4, d1])
  output y as y
}
)");
  EXPECT_THAT(text,
              HasSubstr("a: f32[1,2,3,6] declared f32[1,6,6] layout {0,1,1}{3,1,6}{1,1,2}{2,1,3}"));
  EXPECT_THAT(text,
              HasSubstr("t: f32[1,2,3,6] declared f32[1,6,6] layout {0,1,1}{3,1,6}{1,1,2}{2,1,3}"));
  EXPECT_THAT(text,
              HasSubstr("b: f32[1,2,4,6] declared f32[1,8,6] layout {0,1,1}{3,1,6}{1,1,2}{2,1,4}"));
}

/// What a convolution makes lies channels last, but not where a product takes a matrix of each.
TEST(AssignLayouts, MatricesOfHeadsStayRowMajor) {
  const std::string text = laid_out(R"(program {
  input x: f32[1,2,6,6]
  constant w: f32[2,3,2,3,3] = #0
  a: f32[1,2,3,4,4] declared f32[1,6,4,4] = contraction sum[2, 3, 3]:f32 x[0, r0, d3 + r1, d4 + r2] * w[d1, d2, r0, r1, r2]
  b: f32[1,2,3,4,4] declared f32[1,6,4,4] = contraction sum[2, 3, 3]:f32 x[0, r0, d3 + r1, d4 + r2] * w[d1, d2, r0, r1, r2]
  m: f32[1,2,3,4,4] declared f32[1,6,4,4] = contraction sum[4]:f32 b[0, d1, d2, d3, r0] * b[0, d1, d2, r0, d4]
  y: f32[1,2,3,4,4] declared f32[1,6,4,4] = a[0, d1, d2, d3, d4] + m[0, d1, d2, d3, d4]
  output y as y
}
)");
  EXPECT_THAT(
      text,
      HasSubstr(
          "a: f32[1,2,3,4,4] declared f32[1,6,4,4] layout {0,1,1}{3,1,4}{4,1,4}{1,1,2}{2,1,3}"));
  EXPECT_THAT(text, HasSubstr("b: f32[1,2,3,4,4] declared f32[1,6,4,4] = "));
  EXPECT_THAT(text, HasSubstr("m: f32[1,2,3,4,4] declared f32[1,6,4,4] = "));
}

TEST(AssignLayouts, MatrixProductsStayRowMajor) {
  const Graph graph = parsed_graph(R"((a: f32[2,3,4], w: f32[4,5], v: f32[5,4]) {
    p = dot_general a, w, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[2,3,5]
    t = tanh p : f32[2,3,5]
    y = dot_general t, v, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[2,3,4]
  } -> (y))");
  TensorProgram program = expressed(graph);
  EXPECT_FALSE(assign_layouts(program, true));
}

bool widen(TensorProgram& program) { return widen_where_read(program); }

/// A normalisation's sum, and what is read transposed; not what others see in the wider type.
TEST(WidenWhereRead, ReadersConvert) {
  const std::string body = R"((x: f16[3,4]) {
    n = neg x : f16[3,4]
    w = convert n : f32[3,4]
    s = reduce w, axes={1}, combiner=sum : f32[3]
    sb = broadcast s, dims={0} : f32[3,4]
    d = sub w, sb : f32[3,4]
    t = transpose w, permutation={1,0} : f32[4,3]
    e = mul t, t : f32[4,3]
    h = convert s : f64[3]
  } -> ()";
  EXPECT_EQ(after(body + "d, e, h)", {fold, widen}),
            "n: f16[3,4] = neg(x[d0, d1])\n"
            "s: f32[3] = sum[4]:f32 f32(n[d0, r0])\n"
            "d: f32[3,4] = f32(n[d0, d1]) - s[d0]\n"
            "e: f32[4,3] = f32(n[d1, d0]) * f32(n[d1, d0])\n"
            "h: f64[3] = f64(s[d0])\n"
            "output d as d\noutput e as e\noutput h as h\n");
  EXPECT_THAT(after(body + "d, w)", {fold, widen}), HasSubstr("w: f32[3,4] = f32(n[d0, d1])"));
}

}  // namespace
}  // namespace weft
