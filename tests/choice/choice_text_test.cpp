#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "choice/choice.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Result<Composition> read(std::string_view text) {
  TextCursor cursor(text);
  auto composition = parse_composition(cursor);
  if (composition.ok() && cursor.peek() != '\0') return cursor.error("the text should end here");
  return composition;
}

/// One composition of each template, with every kind of field.
const char* const kTexts[] = {
    "leaf(sweep grid [0, 2] inner [1] vec_axis 1 row_axis 2 rows 4 vectors 2 lanes 16 "
    "kept [true, false])",
    "leaf(sweep grid [0] inner [1] vec_axis 0 row_vector false chunked true kept [false])",
    "leaf(panel grid [1] inner [6, 4, 5] vec_axis 3 row_axis 2 rows 6 vectors 4 lanes 16 "
    "vec_strides [0, -1] constants_in_panels [false, true] staged_read 0 rows_outermost true)",
    "leaf(rows vec_axis 1 free [0] row [1] digits {0: WARP_8, 1: REG_2-LANE_32-VEC_4} warps 8 "
    "resident false split 1 part 512 parts 8 cluster true)",
    "leaf(rows digits {0: 1})",
    "leaf(two_ways along [1] digits {1: LANE_32-VEC_4} warps 4 blocks 132 per_sm 2 chunk 64)",
    "leaf(tiles m 128 n 64 k 32 warps_m 2 warps_n 2 stages 3 splits 4)",
    "leaf(call cublaslt else tiles m 128 n 64 k 32)",
    "leaf(thread_tiles others [0] inner [3] row_axis 1 column_axis 2 row_digits WARP_4-REG_8 "
    "column_digits LANE_8 warps 4 shared true)",
    "pack { leaf(rows vec_axis 0 free [0]); leaf(tiles m 16 n 8 k 16) }",
    "grid { leaf(tiles m 16 n 8 k 16); leaf(rows vec_axis 0 free [0]) }",
    "cluster 8 { leaf(tiles m 16 n 8 k 16); recur cluster 4 { leaf(rows vec_axis 0 free [0]) } }",
    "recur { leaf(rows vec_axis 0 free [0]) }",
    "recur resident { leaf(rows vec_axis 0 free [0]); leaf(rows vec_axis 0 free [0]) }",
    "recur cluster 4 resident { leaf(rows vec_axis 0 free [0]) }",
    "block(v7: d1 1, d2 64; d2 8) { leaf(panel rows 6) v0 v1; leaf(sweep vec_axis 3) v2 v4; "
    "leaf(panel rows 4) v7 }",
    "block(v2) { leaf(sweep) v0 v1 v2 }",
    "block(v1, v3: d0|- 1, d1|d0 8) { leaf(rows) v0 v1; leaf(rows) v2 v3 }",
    "block(v0: ; d0 4) { leaf(rows) v0 }",
    "chain(v12: d0 1, d1 64 carrying v7 r0 256) { leaf(panel rows 6) v0 v1; leaf(sweep) v2 v12 }",
    "chain(v12: d0 64 carrying v7 r0 32 splits 8) { leaf(fragments warps 2) v0 v1 v12 }",
};

TEST(ChoiceText, PrintsAndParses) {
  for (const char* text : kTexts) {
    const auto composition = read(text);
    ASSERT_TRUE(composition.ok()) << text << ": " << composition.error().message;
    EXPECT_EQ(print(*composition), text);
    EXPECT_EQ(*read(print(*composition)), *composition);
  }
}

struct BadText {
  const char* text;
  const char* error;
};

TEST(ChoiceText, SaysWhatIsWrong) {
  const BadText kBad[] = {
      {"leaf(softmax)", "1:6: expected what a template chose"},
      {"leaf(tiles m)", "1:13:"},
      {"leaf(tiles m 1 m 2)", "'m' stands twice"},
      {"leaf(tiles q 1)", "1:11: `)` is expected"},
      {"leaf(sweep row_vector 3)", "expected true or false"},
      {"leaf(sweep vec_axis 99999999999)", "too large"},
      {"leaf(rows digits {0: WARP})", "expected WARP_n, LANE_n, REG_n or VEC_n"},
      {"leaf(rows digits {0: CTA_4})", "expected WARP_n, LANE_n, REG_n or VEC_n"},
      {"leaf(rows digits {0: WARP_4, 0: WARP_4})", "an axis stands twice"},
      {"pack { }", "the members of a pack, grid, cluster or recur are leaves"},
      {"pack { pack { leaf(tiles) } }", "the members of a pack, grid, cluster or recur are leaves"},
      {"grid { pack { leaf(tiles) } }", "the members of a pack, grid, cluster or recur are leaves"},
      {"tree { }",
       "expected leaf(…), block(…) { … }, chain(…) { … }, pack { … }, grid { … }, cluster 8 { … } "
       "or recur { … }"},
      {"cluster { leaf(tiles) }", "1:9: "},
      {"cluster 0 { leaf(tiles) }", "a cluster has at least one block"},
      {"block() { leaf(rows) v0 }", "expected v and a number"},
      {"block(v0: d 1) { leaf(rows) v0 }", "expected d and a number"},
      {"block(v0, v1: d0 1) { leaf(rows) v0 v1 }", "a loop has an axis, or -, of each root"},
      {"block(v0: d0 0) { leaf(rows) v0 }", "a step is at least 1"},
      {"block(v0: d0 1) { leaf(rows) }", "expected v and a number"},
      {"block(v0: d0 1) { leaf(rows) v1 v0 }", "a stage's expressions stand in their order"},
      {"chain(v0: d0 1) { leaf(rows) v0 }", "`carrying` is expected"},
      {"chain(v0: d0 1 carrying v0 0) { leaf(rows) v0 }", "expected r and a number"},
      {"chain(v0: d0 1 carrying v0 r0 0) { leaf(rows) v0 }", "a step is at least 1"},
      {"chain(v0: d0 1 carrying v0 r0 1 splits 0) { leaf(rows) v0 }", "in one part at least"},
      {"block(v0: d0 1) { pack { leaf(rows) } v0 }", "`leaf` is expected"},
  };
  for (const BadText& bad : kBad) {
    const auto composition = read(bad.text);
    ASSERT_FALSE(composition.ok()) << bad.text;
    EXPECT_THAT(composition.error().message, HasSubstr(bad.error)) << bad.text;
  }
}

}  // namespace
}  // namespace weft
