#include "support/dynamic_library.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(DynamicLibrary, BindsFunctionsAndSaysWhatIsLacking) {
  std::string missed;
  DynamicLibrary library = DynamicLibrary::open_first({"libno-such.so.1", "libm.so.6"}, &missed);
  ASSERT_TRUE(library.is_open());
  EXPECT_EQ(library.file(), "libm.so.6");
  EXPECT_EQ(missed, "libno-such.so.1");
  double (*cosine)(double) = nullptr;
  library.bind(cosine, "cos");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(library.lacking(), "");
  library.bind(cosine, "no_such_function");
  library.bind(cosine, "another");
  EXPECT_EQ(cosine, nullptr);
  EXPECT_EQ(library.lacking(), "no_such_function");
}

TEST(DynamicLibrary, SaysWhyNoneOpened) {
  std::string missed;
  const DynamicLibrary none =
      DynamicLibrary::open_first({"libno-such.so.1", "libno-such.so.2"}, &missed);
  EXPECT_FALSE(none.is_open());
  EXPECT_EQ(missed, "libno-such.so.1, libno-such.so.2");
  EXPECT_NE(none.reason().find("libno-such.so.2"), std::string::npos);
}

}  // namespace
}  // namespace weft
