#include "tests/structure/source_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SourceOutline, TypesOfNamespaces) {
  const SourceOutline outline = outline_source(R"(
struct Forward;
namespace weft {
class Forward;
struct Plain {
  struct Nested {};
  using Alias = int;
};
enum class Kind : int { kA, kB };
template <class T, class U = std::vector<int>>
class Derived final : public Base<T> {};
using Name = Plain;
template <>
struct Traits<Plain> {};
namespace detail { union Either { int a; }; }
namespace { struct Hidden {}; enum { kOne }; }
void f() { struct Local {}; }
}
struct alignas(64) Last { int x{3}; };
)");
  EXPECT_THAT(outline.types,
              ElementsAre(OutlinedType{"weft::Plain", 5}, OutlinedType{"weft::Kind", 9},
                          OutlinedType{"weft::Derived", 11}, OutlinedType{"weft::Name", 12},
                          OutlinedType{"weft::detail::Either", 15}, OutlinedType{"Last", 19}));
}

TEST(SourceOutline, FunctionsWithAllTheirLines) {
  const SourceOutline outline = outline_source(R"(
int declared(int a);
int one() { return 1; }
template <class T>
std::vector<T> wrapped(const std::vector<T>& a,
                       std::function<void()> f = [] {}) {
  if (a.empty()) {
    return {};
  }
}
struct S {
  explicit S(int a) : a_{a}, b_(a) {
    g();
  }
  bool operator==(const S&) const { return true; }
  int a_{3};
};
)");
  EXPECT_THAT(outline.functions, ElementsAre(OutlinedFunction{3, 3}, OutlinedFunction{5, 10},
                                             OutlinedFunction{12, 14}, OutlinedFunction{15, 15}));
}

TEST(SourceOutline, BracesOfLiteralsTablesAndDirectivesAreNone) {
  const SourceOutline outline = outline_source(R"x(
#define OPEN {  \
  {
// }}}} it's {
/* { */
const char* const kText = "{\"" "{";
const char kBrace = '{', kQuote = '\'';
constexpr int kTable[] = {1'000, [] { return 2; }()};
const std::string kRaw = R"({{{ " )";
int last() {
}
)x");
  EXPECT_THAT(outline.types, IsEmpty());
  EXPECT_THAT(outline.functions, ElementsAre(OutlinedFunction{10, 11}));
}

}  // namespace
}  // namespace weft
