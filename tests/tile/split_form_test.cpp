// Schedules of FusionStitching 2018 as what they are here: loops over blocks.

#include "tile/text/split_form.h"

#include <gtest/gtest.h>

#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// The form of y in a program of a loop over blocks; empty where it has none.
std::string form_of(const std::string& grid, const std::string& shape, const std::string& store) {
  const auto program =
      parse_tile_program("kernel k(x: f32[" + shape + "], out y: f32[" + shape +
                         "]) blocks P warps 1 {\n  grid " + grid + " {\n    " + store + "\n  }\n}");
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return "";
  const auto forms = split_forms(*program);
  const auto y = forms.find(program->find_symbol("y"));
  return y == forms.end() ? "" : print(y->second);
}

/// §4.1: of a [4,6,8] the rows left of the split dimension are blocks of their own, for a column
/// those right of it.
TEST(SplitForm, NamesRowsAndColumns) {
  const std::string inside = "seq k in 8 { y[i,j,k] = x[i,j,k]; }";
  EXPECT_EQ(form_of("i in 4, j in 6", "4,6,8", inside), "Row(split_dim 1, sword 6)");
  EXPECT_EQ(form_of("i in 4, j in 6 step 3", "4,6,8", "seq k in 8 { y[i,j,k] = x[i,j,k]; }"),
            "Row(split_dim 1, sword 2)");
  EXPECT_EQ(form_of("i in 4", "4,6,8", "seq j in 6, k in 8 { y[i,j,k] = x[i,j,k]; }"),
            "Row(split_dim 0, sword 4)");
  EXPECT_EQ(form_of("j in 6 step 3, k in 8", "4,6,8", "seq i in 4 { y[i,j,k] = x[i,j,k]; }"),
            "Column(split_dim 1, sword 2)");
  EXPECT_EQ(form_of("k in 8 step 2", "4,6,8", "seq i in 4, j in 6 { y[i,j,k] = x[i,j,k]; }"),
            "Column(split_dim 2, sword 4)");
  EXPECT_EQ(form_of("k in 8", "4,6,8", "seq i in 4, j in 6 { y[i,j,k] = x[i,j,k]; }"),
            "Column(split_dim 2, sword 8)");
}

/// §4.3: one block is Row(split_dim 0, sword 1).
TEST(SplitForm, OneBlockIsARow) {
  EXPECT_EQ(form_of("once in 1", "4,8", "seq i in 4, k in 8 { y[i,k] = x[i,k]; }"),
            "Row(split_dim 0, sword 1)");
}

/// What a block has is the box of its loops, also of those that begin where the block does.
TEST(SplitForm, LooksThroughTheLoopsOfABlock) {
  EXPECT_EQ(form_of("b in 64 step 16", "64,8",
                    "seq i in b-.b .. b-.b+16 step 4, k in 8 { y[i,k] = x[i,k] @[i=REG_4]; }"),
            "Row(split_dim 0, sword 4)");
}

/// Pieces that are not equal, or of two dimensions, are no schedule of the paper's.
TEST(SplitForm, NamesNothingElse) {
  EXPECT_EQ(form_of("i in 6 step 4", "6,8", "seq k in 8 { y[i,k] = x[i,k] @[i=REG_4]; }"), "");
  EXPECT_EQ(form_of("i in 4 step 2, k in 8 step 2", "4,8", "y[i,k] = x[i,k] @[i=REG_2, k=REG_2];"),
            "");
  EXPECT_EQ(form_of("i in 4", "4,0", "seq k in 0 { y[i,k] = x[i,k]; }"), "") << "nothing is stored";
}

}  // namespace
}  // namespace weft
