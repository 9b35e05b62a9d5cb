// Nothing is too long to read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/structure/source_files.h"
#include "tests/structure/source_outline.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

constexpr int kMaxFileLines = 800;
constexpr int kMaxFunctionLines = 80;

TEST(Sizes, FilesAreShort) {
  std::vector<std::string> longer;
  for (const char* part : {"src", "include", "tests", "bench", "python"}) {
    for (const fs::path& file : files_below(kRoot / part)) {
      if (!is_source(file) && file.extension() != ".py") continue;
      const std::string text = text_of(file);
      const auto lines = std::count(text.begin(), text.end(), '\n');
      if (lines > kMaxFileLines) {
        longer.push_back(name_of(file) + ": " + std::to_string(lines) + " lines");
      }
    }
  }
  EXPECT_THAT(longer, IsEmpty());
}

TEST(Sizes, FunctionsAreShort) {
  std::vector<std::string> longer;
  int functions = 0;
  for (const fs::path& file : files_below(kRoot / "src")) {
    if (!is_source(file)) continue;
    for (const OutlinedFunction& function : outline_source(text_of(file)).functions) {
      ++functions;
      const int lines = function.last_line - function.first_line + 1;
      if (lines > kMaxFunctionLines) {
        longer.push_back(name_of(file) + ":" + std::to_string(function.first_line) + ": " +
                         std::to_string(lines) + " lines");
      }
    }
  }
  EXPECT_GT(functions, 1000);
  EXPECT_THAT(longer, IsEmpty());
}

}  // namespace
}  // namespace weft
