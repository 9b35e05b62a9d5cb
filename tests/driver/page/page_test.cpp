#include "driver/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Program program_named(const std::string& name) {
  Program program;
  program.model = name;
  program.explanation_json = R"({"target": "cpu", "kernels": []})";
  return program;
}

TEST(Page, HoldsNoNameAsMarkup) {
  const Program program = program_named("</script><b>\xff\u202e{{style}}");
  const auto page = explanation_page({program, {}, {}, {}});
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(*page, HasSubstr("\\u003c/script>\\u003cb>\\ufffd\\u202e{{style}}"));
  EXPECT_THAT(*page, Not(HasSubstr("</script><b>")));
}

TEST(Page, StoresEqualTextsOnce) {
  const Program program = program_named("m");
  const KernelTexts texts{"the tile program", "the instructions", "the code", {"x"}};
  const auto page = explanation_page({program, {texts, texts}, {}, {}});
  ASSERT_TRUE(page.ok());
  const size_t first = page->find("the code");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(page->find("the code", first + 1), std::string::npos);
}

TEST(Page, NeedsAnExplanation) {
  Program program = program_named("m.weft");
  program.explanation_json.clear();
  const auto page = explanation_page({program, {}, {}, {}});
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace weft
