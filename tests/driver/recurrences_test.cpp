// Recurrences as a CPU's code runs them, beside the interpreter: steps of one kernel that combine
// the parts of a product, and states that the stack of results holds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "driver/compiler.h"
#include "driver/print_level.h"
#include "driver/session.h"
#include "interp/interpreter.h"

namespace weft {
namespace {

struct Sizes {
  int64_t steps, rows, width;
  bool reverse_in = false, reverse_out = false;
};

/// A recurrence of four gates over `x`, whose first state is handed on and stacked.
std::string gated(const Sizes& s) {
  const std::string state = fmt::format("f32[{},{}]", s.rows, s.width);
  const std::string gates = fmt::format("f32[{},{}]", s.rows, 4 * s.width);
  std::string parts;
  for (const int64_t g : {0, 1, 2, 3})
    parts += fmt::format("      g{} = slice q, start={{0,{}}}, step={{1,1}} : {}\n", g, g * s.width,
                         state);
  return fmt::format(R"((x: f32[{0},{1},{2}], h: {3}, c: {3}) {{
  i0 = iota axis=0 : f32[{4},{2}]
  i1 = iota axis=1 : f32[{4},{2}]
  i2 = mul i0, i1 : f32[{4},{2}]
  i3 = add i2, i1 : f32[{4},{2}]
  w = sin i3 : f32[{4},{2}]
  hn, cn, ys = scan h, c, x, w, carry_count=2, scanned_count=1, x_reverse={{{5}}}, y_reverse={{{6}}} : {3}, {3}, f32[{0},{1},{4}]
    region (h: {3}, c: {3}, x: {7}, w: f32[{4},{2}]) {{
      p = dot_general h, w, lhs_contract={{1}}, rhs_contract={{0}} : {7}
      q = add p, x : {7}
{8}      a = sigmoid g0 : {3}
      b = sigmoid g1 : {3}
      d = tanh g2 : {3}
      e = sigmoid g3 : {3}
      f = mul b, c : {3}
      i = mul a, d : {3}
      c2 = add f, i : {3}
      t = tanh c2 : {3}
      h2 = mul e, t : {3}
    }} -> (h2, c2, y=h2)
}} -> (hn, cn, ys))",
                     s.steps, s.rows, 4 * s.width, state, s.width, s.reverse_in, s.reverse_out,
                     gates, parts);
}

HostTensor random_values(const TensorType& type, uint32_t seed) {
  std::mt19937 random(seed);
  HostTensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.mutable_data<float>()[i] = static_cast<float>(random() % 2001) / 1000 - 1;
  return t;
}

const LoopStep* loop_of(const Program& program) {
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::kLoop) return step.loop_step.get();
  }
  return nullptr;
}

std::unique_ptr<Compilation> compiled(const std::string& text, const Target& target) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message << text;
  CompileOptions options;
  options.verify = true;
  options.device = target;
  auto out = compile_graph(*graph, options);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? std::move(*out) : nullptr;
}

/// Three layers in each step: the first reads x, each other one the layer below and its own state.
std::string layered(const Sizes& s) {
  const std::string state = fmt::format("f32[{},{}]", s.rows, s.width);
  const std::string weights = fmt::format("f32[{0},{0}]", s.width);
  std::string layers, below = "x";
  for (const int l : {0, 1, 2}) {
    layers += fmt::format(R"(
      p{0} = dot_general h{0}, w, lhs_contract={{1}}, rhs_contract={{0}} : {1}
      q{0} = dot_general {2}, u, lhs_contract={{1}}, rhs_contract={{0}} : {1}
      s{0} = add p{0}, q{0} : {1}
      m{0} = mul s{0}, e : {1}
      n{0} = tanh m{0} : {1})",
                          l, state, below);
    below = fmt::format("n{}", l);
  }
  return fmt::format(R"((x: f32[{0},{1},{2}], h: {3}, w: {4}, u: {4}) {{
  a, b, c, d, ys = scan h, h, h, h, x, w, u, carry_count=4, scanned_count=1, x_reverse={{{5}}}, y_reverse={{{6}}} : {3}, {3}, {3}, {3}, f32[{0},{1},{2}]
    region (h0: {3}, h1: {3}, h2: {3}, t: {3}, x: {3}, w: {4}, u: {4}) {{
      k = constant 0.125 : f32[]
      e = broadcast k, dims={{}} : {3}{7}
      r = add t, n1 : {3}
    }} -> (n0, n1, n2, r, y=n2)
}} -> (a, b, c, d, ys))",
                     s.steps, s.rows, s.width, state, weights, s.reverse_in, s.reverse_out, layers);
}

/// Compiles for each width of vectors, and runs on one thread and on three.
void expect_runs(const std::string& text) {
  SCOPED_TRACE(text);
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::vector<HostTensor> inputs;
  for (const ValueId v : graph->inputs)
    inputs.push_back(random_values(graph->type(v), static_cast<uint32_t>(inputs.size()) + 1));
  const auto expected = interpret(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const int width : {16, 32, 64}) {
    for (const int threads : {1, 3}) {
      Target target = host_cpu_target(threads, width);
      if (target.vector_bytes != width) continue;
      SCOPED_TRACE(fmt::format("{} bytes, {} threads", width, threads));
      const auto c = compiled(text, target);
      ASSERT_NE(c, nullptr);
      auto session = Session::create(std::move(c->program), threads);
      ASSERT_TRUE(session.ok()) << session.error().message;
      for (int run = 0; run < 3; ++run) {
        const auto outputs = (*session)->run(inputs);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        for (size_t o = 0; o < expected->size(); ++o) {
          for (int64_t i = 0; i < (*expected)[o].size(); ++i)
            ASSERT_NEAR((*outputs)[o].at_double(i), (*expected)[o].at_double(i), 1e-4)
                << "output " << o << " element " << i;
        }
      }
    }
  }
}

TEST(Recurrences, RunAsTheInterpreterDoes) {
  for (const Sizes& sizes :
       {Sizes{7, 1, 48}, Sizes{5, 3, 33, true, false}, Sizes{4, 2, 16, false, true},
        Sizes{1, 1, 20, true, true}, Sizes{0, 2, 16}, Sizes{9, 13, 5, true, true}}) {
    expect_runs(gated(sizes));
    expect_runs(layered(sizes));
  }
}

/// Each layer of a step has a loop of its own, behind the products of what the one below stacked.
TEST(Recurrences, LayersOfAStepAreLoops) {
  const auto c = compiled(layered({6, 2, 64}), host_cpu_target(2));
  ASSERT_NE(c, nullptr);
  std::vector<size_t> carries;
  for (const ProgramStep& step : c->program.steps) {
    if (step.kind == ProgramStep::Kind::kLoop) carries.push_back(step.loop_step->carries.size());
  }
  // What is summed up of the second layer stays with it.
  EXPECT_EQ(carries, (std::vector<size_t>{1, 2, 1})) << *print_level(*c, "plan");
}

/// No gate reaches memory, and no state is copied: a step is one launch.
TEST(Recurrences, AStepIsOneLaunch) {
  const auto c = compiled(gated({6, 1, 64}), host_cpu_target(2));
  ASSERT_NE(c, nullptr);
  const LoopStep* loop = loop_of(c->program);
  ASSERT_NE(loop, nullptr);
  ASSERT_EQ(loop->body.size(), 1U) << *print_level(*c, "plan");
  EXPECT_EQ(loop->body[0].kind, ProgramStep::Kind::kLaunch);
  ASSERT_EQ(loop->carries.size(), 2U);
  const auto kind_of = [&](size_t carry) {
    return c->program.buffers[static_cast<size_t>(loop->carries[carry].carry)].kind;
  };
  EXPECT_EQ(kind_of(0), ProgramBuffer::Kind::kStackedCarry);
  EXPECT_EQ(kind_of(1), ProgramBuffer::Kind::kCarry);
}

}  // namespace
}  // namespace weft
