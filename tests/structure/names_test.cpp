// One name for one type.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/structure/source_files.h"
#include "tests/structure/source_outline.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

TEST(Names, NoTwoTypesOfOneNamespaceShareAName) {
  std::map<std::string, std::vector<std::string>> places;
  for (const char* part : {"src", "include"}) {
    for (const fs::path& file : files_below(kRoot / part)) {
      if (!is_source(file)) continue;
      for (const OutlinedType& type : outline_source(text_of(file)).types) {
        places[type.name].push_back(name_of(file) + ":" + std::to_string(type.line));
      }
    }
  }
  EXPECT_GT(places.size(), 100U);
  std::vector<std::string> shared;
  for (const auto& [name, where] : places) {
    for (size_t i = 1; i < where.size(); ++i) {
      shared.push_back(name + ": " + where[0] + ", " + where[i]);
    }
  }
  EXPECT_THAT(shared, IsEmpty());
}

}  // namespace
}  // namespace weft
