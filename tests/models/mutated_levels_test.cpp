// The texts of every level of small models with numbers, names and lines changed: an error or a
// program that verifies, never a crash, never a broken invariant.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "driver/compiler.h"
#include "tests/paths.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

Result<HostTensor> small_zeros(std::string_view, const TensorType& type) {
  const auto bytes = checked_byte_size(type.dtype, type.shape);
  if (!bytes || *bytes > 1 << 20) return invalid_input("too large");
  HostTensor value(type.dtype, type.shape);
  for (int64_t i = 0; i < value.size(); ++i) value.set_int(i, 0);
  return value;
}

std::vector<std::pair<size_t, size_t>> runs_of(const std::string& text, bool (*belongs)(char)) {
  std::vector<std::pair<size_t, size_t>> runs;  // begin, length
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && belongs(text[end])) ++end;
    if (end > i) runs.emplace_back(i, end - i);
    i = std::max(end, i + 1);
  }
  return runs;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_line(char c) { return c != '\n'; }

/// A number becomes another, a word another of the text, a line goes or moves, or a byte changes.
std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "2",
                                             "7",
                                             "-1",
                                             "65536",
                                             "4294967296",
                                             "9223372036854775807",
                                             "99999999999999999999"};
  const auto replace = [&](std::pair<size_t, size_t> run, const std::string& by) {
    text.replace(run.first, run.second, by);
  };
  for (size_t changes = 1 + below(3); changes > 0 && !text.empty(); --changes) {
    const auto numbers = runs_of(text, is_digit), words = runs_of(text, is_word),
               lines = runs_of(text, is_line);
    const size_t kind = below(6);
    if (kind < 2 && !numbers.empty()) {
      replace(numbers[below(numbers.size())], kNumbers[below(std::size(kNumbers))]);
    } else if (kind == 2 && !words.empty()) {
      const auto from = words[below(words.size())];
      replace(words[below(words.size())], text.substr(from.first, from.second));
    } else if (kind == 3 && !lines.empty()) {
      replace(lines[below(lines.size())], "");
    } else if (kind == 4 && !lines.empty()) {
      const auto from = lines[below(lines.size())];
      text.insert(lines[below(lines.size())].first, text.substr(from.first, from.second) + "\n");
    } else {
      text[below(text.size())] = static_cast<char>(random());
    }
  }
  return text;
}

int mutation_count() {
  const char* count = std::getenv("WEFT_MUTATIONS");
  return count != nullptr ? static_cast<int>(std::strtol(count, nullptr, 10)) : 60;
}

class MutatedLevels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = std::string(WEFT_SOURCE_DIR) + "/tests/models/" + GetParam() + ".onnx";
    CompileOptions options;
    options.threads = 2;
    options.stop_after = "lower";
    auto compiled = compile_model(path, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    c_ = std::move(*compiled);
  }

  /// Reads mutations of `text`; `read` gives whether one parsed and verified.
  void try_all(const std::string& text, const std::function<bool(const std::string&)>& read) {
    std::mt19937 random(20240613);
    int good = 0;
    for (int i = 0; i < mutation_count(); ++i) {
      const std::string mutated = mutate(text, random);
      EXPECT_NO_THROW(good += read(mutated) ? 1 : 0) << i << ":\n" << mutated;
    }
    EXPECT_LT(good, mutation_count());
  }

  std::unique_ptr<Compilation> c_;
};

TEST_P(MutatedLevels, Graph) {
  try_all(print(c_->graph), [](const std::string& text) {
    const auto graph = parse_graph(text, small_zeros);
    return graph.ok() && verify_graph(*graph).ok();
  });
}

TEST_P(MutatedLevels, TensorProgram) {
  try_all(print(c_->tensors), [](const std::string& text) {
    const auto program = parse_tensor_program(text, small_zeros);
    return program.ok() && verify_tensor_program(*program).ok();
  });
}

TEST_P(MutatedLevels, Plan) {
  try_all(print(c_->plan, c_->tensors), [&](const std::string& text) {
    const auto plan = parse_plan(text, c_->tensors, c_->target);
    return plan.ok() && verify_plan(c_->tensors, *plan).ok();
  });
}

TEST_P(MutatedLevels, TileProgram) {
  ASSERT_FALSE(c_->plan.kernels.empty());
  try_all(print(c_->plan.kernels.front().schedule.program), [](const std::string& text) {
    const auto program = parse_tile_program(text);
    return program.ok() && verify_tile_program(*program).ok();
  });
}

TEST_P(MutatedLevels, Kernel) {
  ASSERT_FALSE(c_->kernels.empty());
  try_all(print(c_->kernels.front().function), [](const std::string& text) {
    const auto kernel = parse_kernel(text);
    return kernel.ok() && verify_kernel(*kernel).ok();
  });
}

INSTANTIATE_TEST_SUITE_P(SmallModels, MutatedLevels,
                         ::testing::Values("mlp", "attention-causal", "gru", "conv-se"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace weft
