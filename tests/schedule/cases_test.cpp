// The schedules of tests/schedule/cases: what is chosen for a group, the tile program that is
// built of it, what that computes and moves.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "expr/movement/open_axes.h"
#include "schedule/leaf/template_table.h"
#include "schedule/schedule.h"
#include "tests/expr/expr_testing.h"
#include "tests/schedule/expressed.h"
#include "tests/schedule/schedule_case.h"
#include "tests/tile/program_cases.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/check/evaluate.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft::schedule_test {
namespace {

/// A case's group at one binding of its sizes, its tensors' values and its results' by the
/// interpreter.
struct Bound {
  TensorProgram program;
  Group group;
  std::map<TensorId, HostTensor> values;
  std::vector<HostTensor> expected;  ///< by output
};

Bound bound_case(const std::string& text, const std::vector<std::string>& constants) {
  Bound out;
  out.program = expressed(text);
  out.group = whole_group(out.program);
  std::vector<HostTensor> inputs;
  for (const TensorId t : out.program.inputs) {
    const TensorType& type = out.program.tensors[static_cast<size_t>(t)].type;
    inputs.push_back(
        tile_test::random_tensor(type.dtype, type.shape, static_cast<uint32_t>(inputs.size()) + 1));
    out.values[t] = inputs.back();
  }
  auto expected = interpret(parsed_graph(text), inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().message;
  if (expected.ok()) out.expected = std::move(*expected);
  size_t found = 0;
  for (auto& [t, value] : out.values) {
    Tensor& tensor = out.program.tensors[static_cast<size_t>(t)];
    if (std::ranges::find(constants, tensor.name) == constants.end()) continue;
    tensor.kind = Tensor::Kind::kConstant;
    tensor.value = value;
    std::erase(out.program.inputs, t);
    ++found;
  }
  EXPECT_EQ(found, constants.size()) << "a constant that is no input of the graph";
  return out;
}

std::string choice_text(const ScheduledKernel& kernel) {
  std::string out = kernel.schedule_template + "\n" + print(kernel.composition) + "\n";
  if (kernel.library) out += print(*kernel.library) + "\n";
  return out;
}

/// The composition that the text of a section names, after the line that says how it was built.
Result<Composition> composition_of(const std::string& choice) {
  const std::string text = choice.substr(choice.find('\n') + 1);
  TextCursor cursor(text);
  return parse_composition(cursor);
}

std::string traffic_text(const Traffic& t) {
  return fmt::format("read {} requested {} unique\nwritten {} requested {} unique\n{}",
                     t.requested_read, t.unique_read, t.requested_written, t.unique_written,
                     t.exact ? "" : "at most\n");
}

/// Verifies the kernel's program, evaluates it and compares results with the interpreter's and
/// traffic with what is predicted.
void expect_right(const ScheduledKernel& kernel, const Bound& bound) {
  const TileProgram& program = kernel.program;
  const Status verified = verify_tile_program(program);
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  ASSERT_EQ(program.parameters.size(), kernel.parameters.size());
  std::map<std::string, HostTensor> inputs;
  std::map<TensorId, std::string> outputs;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.parameters[i])];
    if (symbol.kind == TileSymbol::Kind::kOutput) {
      outputs[kernel.parameters[i]] = symbol.name;
      continue;
    }
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(evaluate(e, [](int) { return 0; }));
    inputs[symbol.name] = bound.values.at(kernel.parameters[i]).reshaped(shape);
  }
  const auto evaluation = evaluate_tile_program(program, inputs);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
  std::vector<HostTensor> results;
  for (const TensorId t : bound.program.outputs) {
    results.push_back(evaluation->outputs.at(outputs.at(t))
                          .reshaped(bound.program.tensors[static_cast<size_t>(t)].type.shape));
  }
  EXPECT_EQ(difference_near(bound.expected, results), "");

  const auto traffic = predict_traffic(program, kernel.scopes);
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  if (traffic->exact) {
    EXPECT_EQ(traffic->requested_read, evaluation->requested_read);
    EXPECT_EQ(traffic->unique_read, evaluation->unique_read);
    EXPECT_EQ(traffic->requested_written, evaluation->requested_written);
    EXPECT_EQ(traffic->unique_written, evaluation->unique_written);
  } else {
    EXPECT_GE(traffic->requested_read, evaluation->requested_read);
    EXPECT_GE(traffic->unique_read, evaluation->unique_read);
    EXPECT_GE(traffic->requested_written, evaluation->requested_written);
    EXPECT_GE(traffic->unique_written, evaluation->unique_written);
  }
}

class ScheduleCases : public testing::TestWithParam<std::string> {};

// WEFT_UPDATE_GOLDEN=1 rewrites what is expected.
TEST_P(ScheduleCases, AreChosenBuiltAndRight) {
  ScheduleCase c = read_case(GetParam());
  const auto target = c.target();
  ASSERT_TRUE(target.ok()) << target.error().message;
  Bound here = bound_case(c.graph(), c.words("constants"));
  std::optional<Bound> there;
  if (const auto text = c.graph_at_second_sizes()) {
    there = bound_case(*text, c.words("constants"));
    ASSERT_TRUE(mark_open_axes(here.program, there->program));
  }

  const auto chosen = c.section("as").starts_with("chain")
                          ? schedule_chain(here.program, here.group, *target, "k")
                          : schedule_group(here.program, here.group, *target, "k");
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  const auto traffic = predict_traffic(chosen->program, chosen->scopes);
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) {
    c.replace("choice", choice_text(*chosen));
    c.replace("tile program", print(chosen->program, chosen->scopes));
    c.replace("traffic", traffic_text(*traffic));
    write_case(c);
  }
  EXPECT_EQ(choice_text(*chosen), c.section("choice"));
  EXPECT_EQ(print(chosen->program, chosen->scopes), c.section("tile program"));
  EXPECT_EQ(traffic_text(*traffic), c.section("traffic"));
  expect_right(*chosen, here);

  const auto composition = composition_of(c.section("choice"));
  ASSERT_TRUE(composition.ok()) << composition.error().message;
  const auto built = build_composition(here.program, here.group, *composition, *target, "k");
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_EQ(print(built->program, built->scopes), c.section("tile program"));
  if (!there) return;
  const auto again = build_composition(there->program, there->group, *composition, *target, "k");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_right(*again, *there);
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleCases, testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

TEST(ScheduleCases, HoldEveryTemplate) {
  std::set<std::string> shown;
  for (const std::string& name : case_names()) {
    const auto composition = composition_of(read_case(name).section("choice"));
    ASSERT_TRUE(composition.ok()) << name << ": " << composition.error().message;
    shown.insert(std::string(choice_name(composition->choice)));
  }
  for (const char* target : {"x86-64-v4", "h100-sxm"}) {
    for (const Template& t : templates_of(*find_target(target))) {
      EXPECT_TRUE(shown.contains(t.name)) << "no case of " << t.name;
    }
  }
}

}  // namespace
}  // namespace weft::schedule_test
