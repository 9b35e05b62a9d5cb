// The nine programs of docs/tile_program.md, as GPU and as CPU programs: text, scopes, traffic and
// values.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/tile/reference.h"
#include "tile/evaluate.h"
#include "tile/scopes.h"
#include "tile/tile_program.h"

namespace weft::tile_test {
namespace {

struct ProgramCase {
  std::string name;
  /// Numbers of the text and what they become, so that a run is short and sizes leave tails.
  std::vector<std::pair<std::string, std::string>> smaller;
  std::map<std::string, int64_t> sizes;
  Tensors (*reference)(const Tensors&);
  double tolerance = 2e-5;
};

std::string directory() { return std::string(WEFT_SOURCE_DIR) + "/tests/tile/programs/"; }

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Replaces whole numbers and words.
std::string with_numbers(const std::string& text,
                         const std::vector<std::pair<std::string, std::string>>& map) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    const auto is_word = [&](size_t i) {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_' ||
             (text[i] == '.' && i > 0 && std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
              i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])));
    };
    while (end < text.size() && is_word(end)) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    std::string word = text.substr(at, end - at);
    for (const auto& [from, to] : map) {
      if (word == from) {
        word = to;
        break;
      }
    }
    out += word;
    at = end;
  }
  return out;
}

TileProgram parsed(const std::string& text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

class Programs : public testing::TestWithParam<ProgramCase> {};

TEST_P(Programs, PrintAndParseAreInverses) {
  const TileProgram program = parsed(read_text(directory() + GetParam().name + ".tile"));
  EXPECT_EQ(program.cpu, GetParam().name.ends_with("_cpu"));
  const std::string text = print(program);
  const TileProgram again = parsed(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(tile_program_hash(again), tile_program_hash(program));
  // What was derived stands in comments, which parse away.
  EXPECT_EQ(print(parsed(print(program, true))), text);
}

TEST_P(Programs, AreVerified) {
  const TileProgram program = parsed(read_text(directory() + GetParam().name + ".tile"));
  const Status status = verify_tile_program(program);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// WEFT_UPDATE_GOLDEN=1 rewrites the expected texts.
TEST_P(Programs, HaveTheExpectedScopes) {
  const TileProgram program = parsed(read_text(directory() + GetParam().name + ".tile"));
  const std::string path = directory() + GetParam().name + ".scopes";
  const std::string text = print(program, true);
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(text, read_text(path));
}

TEST_P(Programs, ComputeWhatTheyShouldWithTheTrafficPredicted) {
  const ProgramCase& test = GetParam();
  TileProgram program =
      parsed(with_numbers(read_text(directory() + test.name + ".tile"), test.smaller));
  for (TileVar& var : program.vars) {
    const auto size = test.sizes.find(var.name);
    if (var.kind == TileVar::Kind::kSize && size != test.sizes.end()) var.extent = size->second;
  }
  const Status verified = verify_tile_program(program);
  ASSERT_TRUE(verified.ok()) << verified.error().message;

  Tensors inputs;
  uint32_t seed = 1;
  for (const TileSymbolId id : program.parameters) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(id)];
    if (symbol.kind != TileSymbol::Kind::kInput) continue;
    Shape shape;
    for (const IndexExpr& e : symbol.shape) {
      shape.push_back(
          evaluate(e, [&](int v) { return program.vars[static_cast<size_t>(v)].extent; }));
    }
    inputs[symbol.name] = random_tensor(symbol.type, shape, seed++);
  }
  if (inputs.count("mask") != 0) {
    // Causal: the programs leave out the keys behind the tile, the mask those within it.
    HostTensor& mask = inputs["mask"];
    for (int64_t i = 0; i < mask.size(); ++i) {
      if (i % mask.shape()[1] > i / mask.shape()[1]) mask.set_double(i, -INFINITY);
    }
  }
  const auto evaluation = evaluate_tile_program(program, inputs);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;

  const Tensors expected = test.reference(inputs);
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

const std::vector<ProgramCase> kCases = {
    {"softmax_gpu", {{"1024", "100"}}, {{"R", 3}}, softmax},
    {"softmax_cpu", {}, {{"R", 7}, {"C", 100}}, softmax},
    {"softmax_wide_gpu", {{"64", "5"}, {"30000", "70"}, {"250", "9"}, {"120", "8"}}, {}, softmax},
    {"attention_gpu", {}, {{"B", 1}, {"H", 2}, {"M", 75}, {"N", 75}}, attention, 2e-2},
    {"attention_cpu", {}, {{"B", 1}, {"H", 2}, {"M", 43}, {"N", 43}}, attention},
    {"norm_mlp_gpu", {{"768", "40"}, {"3072", "100"}}, {{"M", 70}}, norm_mlp, 1e-4},
    {"norm_mlp_cpu",
     {{"768", "40"}, {"3072", "100"}, {"0.0013020834", "0.025"}},
     {{"M", 6}},
     norm_mlp,
     1e-4},
    {"lstm_gpu",
     {{"10", "3"}, {"9", "2"}, {"512", "24"}, {"256", "12"}, {"20", "5"}, {"130", "9"}},
     {{"T", 5}},
     lstm},
    {"lstm_cpu",
     {{"10", "3"}, {"9", "2"}, {"512", "24"}, {"256", "12"}, {"32", "5"}, {"8", "3"}},
     {{"T", 5}, {"P", 3}},
     lstm},
    {"conv_gpu", {{"56", "17"}}, {{"N", 2}, {"H", 4}, {"C", 3}, {"CO", 40}}, conv},
    {"conv_cpu", {{"56", "17"}}, {{"N", 2}, {"H", 4}, {"C", 3}, {"CO", 40}}, conv},
    {"sums_gpu", {{"1024", "150"}, {"64", "9"}, {"t", "t"}}, {{"M", 81}}, sums},
    {"sums_cpu", {{"1024", "150"}, {"8", "3"}, {"512", "4"}}, {{"M", 11}}, sums},
    {"packing_gpu", {{"96", "6"}, {"12", "5"}, {"256", "70"}, {"108", "11"}}, {}, packing},
    {"packing_cpu", {{"96", "6"}, {"12", "5"}, {"256", "70"}}, {}, packing},
    {"squeeze_gpu", {{"49", "5"}, {"1152", "70"}, {"48", "7"}, {"72", "3"}}, {}, squeeze},
    {"squeeze_cpu", {{"49", "5"}, {"1152", "70"}, {"48", "7"}}, {}, squeeze},
    {"depthwise_gpu", {{"56", "11"}, {"58", "13"}, {"16", "3"}, {"96", "9"}}, {}, depthwise},
    {"depthwise_cpu", {{"56", "11"}, {"57", "12"}, {"16", "3"}, {"96", "9"}}, {}, depthwise},
};

INSTANTIATE_TEST_SUITE_P(NinePrograms, Programs, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::tile_test
