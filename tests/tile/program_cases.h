#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/tensor.h"
#include "tests/paths.h"
#include "tile/text/tile_text.h"
#include "tile/tile_program.h"

namespace weft::tile_test {

/// A program as it stands in tests/tile/programs.
struct ProgramCase {
  std::string name;
  /// Numbers of the text and what they become, so that a run is short and sizes leave tails.
  std::vector<std::pair<std::string, std::string>> smaller;
  std::map<std::string, int64_t> sizes;
  double tolerance = 2e-5;
};

inline std::string program_directory() {
  return std::string(WEFT_SOURCE_DIR) + "/tests/tile/programs/";
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Replaces whole numbers and words.
inline std::string with_numbers(const std::string& text,
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

/// The program with smaller numbers, its sizes bound.
inline TileProgram small_program(const ProgramCase& test) {
  auto program = parse_tile_program(
      with_numbers(read_text(program_directory() + test.name + ".tile"), test.smaller));
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return {};
  for (TileVar& var : program->vars) {
    const auto size = test.sizes.find(var.name);
    if (var.kind == TileVar::Kind::kSize && size != test.sizes.end()) var.extent = size->second;
  }
  return *program;
}

/// Values in [-1, 1], without a zero, the same for the same seed.
inline HostTensor random_tensor(DType type, const Shape& shape, uint32_t seed) {
  HostTensor out(type, shape);
  uint32_t state = seed * 2654435761U + 12345U;
  for (int64_t i = 0; i < out.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    const double value = static_cast<double>(state >> 8) / (1 << 24);
    out.set_double(i, value < 0.5 ? value * 2 - 1.001 : value * 2 - 0.999);
  }
  return out;
}

/// Random inputs of a program whose sizes are bound.
inline std::map<std::string, HostTensor> program_inputs(const TileProgram& program) {
  std::map<std::string, HostTensor> inputs;
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
  return inputs;
}

inline std::vector<ProgramCase> program_cases() {
  return {
      {"softmax_gpu", {{"1024", "100"}}, {{"R", 3}}},
      {"softmax_cpu", {}, {{"R", 7}, {"C", 100}}},
      {"softmax_wide_gpu", {{"64", "5"}, {"30000", "70"}, {"250", "9"}, {"120", "8"}}, {}},
      {"softmax_kept_gpu", {{"1100", "11"}, {"180", "45"}, {"275", "3"}}, {}},
      {"softmax_cluster_gpu", {{"64", "3"}, {"30000", "4000"}, {"4096", "512"}, {"512", "24"}}, {}},
      {"recurrent_cluster_gpu", {{"256", "44"}, {"32", "12"}}, {{"T", 5}, {"N", 3}}},
      {"weights_cluster_gpu", {{"1000", "70"}, {"256", "20"}}, {{"R", 203}, {"C", 70}}},
      {"attention_gpu", {}, {{"B", 1}, {"H", 2}, {"M", 75}, {"N", 75}}, 2e-2},
      {"attention_cpu", {}, {{"B", 1}, {"H", 2}, {"M", 43}, {"N", 43}}},
      {"attention_rows_gpu", {{"512", "75"}}, {{"B", 1}, {"H", 2}, {"M", 75}, {"N", 75}}, 2e-2},
      {"attention_rows_cpu", {}, {{"B", 1}, {"H", 2}, {"M", 43}, {"N", 43}}},
      {"feed_forward_gpu", {{"768", "40"}, {"3072", "100"}, {"96", "6"}}, {{"M", 70}}, 2e-2},
      {"ahead_gpu",
       {{"128", "70"}, {"96", "56"}, {"256", "104"}, {"192", "72"}, {"48", "24"}, {"24", "12"}},
       {},
       2e-2},
      {"norm_mlp_gpu", {{"768", "40"}, {"3072", "100"}}, {{"M", 70}}, 2e-2},
      {"norm_mlp_cpu",
       {{"768", "40"}, {"3072", "100"}, {"0.0013020834", "0.025"}},
       {{"M", 6}},
       1e-4},
      {"lstm_gpu",
       {{"10", "3"}, {"9", "2"}, {"512", "24"}, {"256", "12"}, {"20", "5"}, {"130", "9"}},
       {{"T", 5}}},
      {"lstm_cpu",
       {{"10", "3"}, {"9", "2"}, {"512", "24"}, {"256", "12"}, {"32", "5"}, {"8", "3"}},
       {{"T", 5}, {"P", 3}}},
      {"recurrence_gpu", {{"64", "40"}, {"12", "8"}, {"6", "5"}}, {}},
      {"recurrence_kept_gpu", {{"64", "40"}, {"12", "8"}, {"8", "6"}, {"9", "7"}}, {}},
      {"loops_kept_gpu", {{"64", "40"}, {"12", "8"}, {"6", "5"}}, {}},
      {"conv_gpu", {{"56", "17"}}, {{"N", 2}, {"H", 4}, {"C", 3}, {"CO", 40}}},
      {"conv_cpu", {{"56", "17"}}, {{"N", 2}, {"H", 4}, {"C", 3}, {"CO", 40}}},
      {"sums_gpu", {{"1024", "150"}, {"32", "9"}, {"128", "9"}, {"t", "t"}}, {{"M", 81}}},
      {"sums_cpu", {{"1024", "150"}, {"8", "3"}, {"512", "4"}}, {{"M", 11}}},
      {"handed_gpu", {{"96", "18"}, {"64", "20"}, {"48", "9"}, {"4608", "162"}, {"24", "3"}}, {}},
      {"handed_cluster_gpu",
       {{"96", "18"}, {"64", "20"}, {"48", "9"}, {"4608", "162"}, {"8", "3"}},
       {}},
      {"handed_cpu", {{"96", "18"}, {"64", "20"}, {"48", "9"}, {"4608", "162"}}, {}},
      {"packing_gpu", {{"96", "6"}, {"12", "5"}, {"256", "70"}, {"108", "11"}}, {}},
      {"packing_cpu", {{"96", "6"}, {"12", "5"}, {"256", "70"}}, {}},
      {"squeeze_gpu", {{"49", "5"}, {"1152", "70"}, {"48", "7"}, {"72", "5"}}, {}},
      {"squeeze_kept_gpu", {{"49", "5"}, {"1152", "70"}, {"48", "7"}, {"72", "5"}}, {}},
      {"squeeze_cpu", {{"49", "5"}, {"1152", "70"}, {"48", "7"}}, {}},
      {"depthwise_gpu", {{"56", "11"}, {"58", "13"}, {"16", "3"}, {"96", "9"}}, {}},
      {"depthwise_cpu", {{"56", "11"}, {"57", "12"}, {"16", "3"}, {"96", "9"}}, {}},
  };
}

}  // namespace weft::tile_test
