#include "tile/rewrite/open_sizes.h"
#include "tile/text/tile_text.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

std::string replaced(std::string text,
                     const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [from, to] : words) {
    for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size()))
      text.replace(p, from.size(), to);
  }
  return text;
}

TileProgram window(int64_t width, int64_t tile = 4) {
  const std::string text = replaced(R"(
    kernel k(x: f32[5,WIDTH,16], out y: f32[5,WIDTH,16]) blocks P warps 1 {
      c: 16;
      grid h in 5, i in WIDTH step TILE {
        y[h,i,c] = (i+1 < WIDTH ? x[h,i+1,c] : 0.0) * COUNT.0 @[i=REG_TILE, c=VEC_16];
      }
    })",
                                    {{"WIDTH", std::to_string(width)},
                                     {"TILE", std::to_string(tile)},
                                     {"COUNT", std::to_string(width - 1)}});
  const auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

TEST(OpenSizes, OneSizeForEachPairOfNumbers) {
  const auto open = open_sizes(window(20), window(40));
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->values, (std::vector<int64_t>{20}));
  const std::string text = print(open->program);
  EXPECT_NE(text.find("f32[5,S0,16]"), std::string::npos) << text;
  EXPECT_NE(text.find("i in S0 step 4"), std::string::npos) << text;
  EXPECT_EQ(text.find("20"), std::string::npos) << text;
  EXPECT_EQ(text.find("19"), std::string::npos) << text;
}

TEST(OpenSizes, AnotherBindingIsTheSameProgram) {
  const auto a = open_sizes(window(20), window(40)), b = open_sizes(window(23), window(46));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(print(a->program), print(b->program));
  EXPECT_EQ(b->values, (std::vector<int64_t>{23}));
}

TEST(OpenSizes, NothingIsOpenWhereNothingDiffers) {
  const auto open = open_sizes(window(20), window(20));
  ASSERT_TRUE(open.has_value());
  EXPECT_TRUE(open->values.empty());
  EXPECT_EQ(print(open->program), print(window(20)));
}

TEST(OpenSizes, TileSizesMustAgree) {
  EXPECT_FALSE(open_sizes(window(20, 4), window(40, 5)).has_value());
}

}  // namespace
}  // namespace weft
