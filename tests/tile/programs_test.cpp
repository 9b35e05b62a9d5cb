// The programs of tests/tile/programs, for GPUs and for CPUs: text, scopes, traffic and
// values.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/tile/program_cases.h"
#include "tests/tile/reference.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/check/evaluate.h"
#include "tile/check/verify_tile_program.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"
#include "tile/tile_program.h"

namespace weft::tile_test {
namespace {

TileProgram parsed(const std::string& text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

ScopeAnalysis scopes_of(const TileProgram& program) {
  auto scopes = derive_scopes(program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  return scopes.ok() ? std::move(*scopes) : ScopeAnalysis{};
}

class Programs : public testing::TestWithParam<ProgramCase> {};

TEST_P(Programs, PrintAndParseAreInverses) {
  const TileProgram program = parsed(read_text(program_directory() + GetParam().name + ".tile"));
  EXPECT_EQ(program.cpu, GetParam().name.ends_with("_cpu"));
  const std::string text = print(program);
  const TileProgram again = parsed(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(tile_program_hash(again), tile_program_hash(program));
  // What was derived stands in comments, which parse away.
  EXPECT_EQ(print(parsed(print(program, scopes_of(program)))), text);
}

TEST_P(Programs, AreVerified) {
  const TileProgram program = parsed(read_text(program_directory() + GetParam().name + ".tile"));
  const Status status = verify_tile_program(program);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// WEFT_UPDATE_GOLDEN=1 rewrites the expected texts.
TEST_P(Programs, HaveTheExpectedScopes) {
  const TileProgram program = parsed(read_text(program_directory() + GetParam().name + ".tile"));
  const std::string path = program_directory() + GetParam().name + ".scopes";
  const std::string text = print(program, scopes_of(program));
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(text, read_text(path));
}

TEST_P(Programs, ComputeWhatTheyShouldWithTheTrafficPredicted) {
  const ProgramCase& test = GetParam();
  const TileProgram program = small_program(test);
  const Status verified = verify_tile_program(program);
  ASSERT_TRUE(verified.ok()) << verified.error().message;

  const Tensors inputs = program_inputs(program);
  const auto evaluation = evaluate_tile_program(program, inputs);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;

  const Tensors expected = reference_of(test.name)(inputs);
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(evaluation->outputs.count(name), 1U) << name;
    const HostTensor& actual = evaluation->outputs.at(name);
    ASSERT_EQ(actual.shape(), tensor.shape()) << name;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const double want = tensor.at_double(i);
      ASSERT_NEAR(actual.at_double(i), want, test.tolerance * std::max(1.0, std::abs(want)))
          << name << " at " << i;
    }
  }

  const auto scopes = derive_scopes(program);
  ASSERT_TRUE(scopes.ok());
  const auto traffic = predict_traffic(program, *scopes);
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  EXPECT_EQ(traffic->requested_read, evaluation->requested_read);
  EXPECT_EQ(traffic->requested_written, evaluation->requested_written);
  EXPECT_EQ(traffic->unique_read, evaluation->unique_read);
  EXPECT_EQ(traffic->unique_written, evaluation->unique_written);
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(program_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::tile_test
