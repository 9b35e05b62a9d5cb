#include "schedule/writer/sum_in_pieces.h"

#include <gtest/gtest.h>

#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// The program after the pass; it must verify.
std::string in_pieces(const std::string& text, bool is_open = false) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return "";
  std::set<TileVarId> open;
  for (size_t v = 0; v < program->vars.size() && is_open; ++v) {
    if (program->vars[v].name == "k") open.insert(static_cast<TileVarId>(v));
  }
  sum_in_pieces(*program, open, [](const std::string& base) { return base; });
  const Status status = verify_tile_program(*program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return print(*program);
}

std::string normalised(const std::string& text) {
  const auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? print(*program) : "";
}

/// y[i] = what the loop makes of a row of x.
std::string rows_of(const std::string& loop, const std::string& type = "f32") {
  return "kernel k(x: " + type + "[9,3,2,5000], out y: " + type +
         "[9]) blocks P warps 1 {\n  grid i in 9 {\n" + loop + "    y[i] = s;\n  }\n}\n";
}

TEST(SumInPieces, ALongLoopIsCut) {
  EXPECT_EQ(in_pieces(rows_of("seq k in 5000 carry s: f32 = 0.0 { s' = s + x[i,0,0,k]; }\n")),
            normalised(rows_of("seq piece in 20 carry s: f32 = 0.0 {\n"
                               "  seq k in piece*250 .. piece*250+250 carry part: f32 = 0.0 {\n"
                               "    part' = part + x[i,0,0,k]; }\n"
                               "  s' = s + part; }\n")));
}

/// Loops inside that have enough terms are the piece; what is carried beside comes along.
TEST(SumInPieces, InnerLoopsArePieces) {
  EXPECT_EQ(
      in_pieces(rows_of("seq l in 3, m in 2, k in 300 carry s: f32 = 1.0, t: f32 = -inf {\n"
                        "  s' = s + x[i,l,m,k]; t' = max(t, x[i,l,m,k]); }\n")),
      normalised(rows_of("seq l in 3, m in 2 carry s: f32 = 1.0, t: f32 = -inf {\n"
                         "  seq k in 300 carry part: f32 = 0.0, part_2: f32 = -inf {\n"
                         "    part' = part + x[i,l,m,k]; part_2' = max(part_2, x[i,l,m,k]); }\n"
                         "  s' = s + part; t' = max(t, part_2); }\n")));
}

/// Lanes and copies of a carry are those of an axis behind the loop; each takes a term a step.
TEST(SumInPieces, VectorsAddUpPieces) {
  const auto row_of = [](int64_t length, const std::string& loops) {
    const std::string n = std::to_string(length);
    return "kernel k(x: f32[9," + n + "], out y: f32[9]) blocks P warps 1 {\n  jj: 8;\n" +
           (loops.find("jj_2") == std::string::npos ? "" : "  jj_2: 8;\n") + "  grid i in 9 {\n" +
           loops + "    y[i] = sum[jj] c[jj] @[jj=VEC_8];\n  }\n}\n";
  };
  const auto sweep = [](const std::string& range, const std::string& carry) {
    return "seq k in " + range + " step 8 carry " + carry + "[.k]: f32 = 0.0 @[k=VEC_8] { " +
           carry + "'[.k] = " + carry + "[.k] + x[i,k] @[k=VEC_8]; }\n";
  };
  const std::string few = row_of(4096, sweep("4096", "c"));
  EXPECT_EQ(in_pieces(few), normalised(few));
  EXPECT_EQ(in_pieces(row_of(6144, sweep("6144", "c"))),
            normalised(row_of(6144, "seq piece in 3 carry c[jj_2]: f32 = 0.0 @[jj_2=VEC_8] {\n" +
                                        sweep("piece*2048 .. piece*2048+2048", "part") +
                                        "c'[jj_2] = c[jj_2] + part[jj_2] @[jj_2=VEC_8]; }\n")));
}

/// A factor is loaded for several registers: pieces are longer, since new ones take time.
TEST(SumInPieces, ProductsHaveLongerPieces) {
  const auto tile = [](const std::string& depth, const std::string& loops) {
    return "kernel k(a: f32[4," + depth + "], b: f32[" + depth +
           ",8], out y: f32[4,8]) blocks P warps 1 {\n  grid i in 4 step 4, j in 8 step 8 {\n" +
           loops + "    y[i,j] = c[i,j] @[i=REG_4, j=VEC_8];\n  }\n}\n";
  };
  const auto sum = [](const std::string& range, const std::string& carry) {
    return "seq k in " + range + " carry " + carry + "[i,j]: f32 = 0.0 @[i=REG_4, j=VEC_8] { " +
           carry + "'[i,j] = " + carry + "[i,j] + a[i,k]*b[k,j] @[i=REG_4, j=VEC_8]; }\n";
  };
  const std::string few = tile("2048", sum("2048", "c"));
  EXPECT_EQ(in_pieces(few), normalised(few));
  EXPECT_EQ(
      in_pieces(tile("2560", sum("2560", "c"))),
      normalised(tile("2560", "seq piece in 5 carry c[i,j]: f32 = 0.0 @[i=REG_4, j=VEC_8] {\n" +
                                  sum("piece*512 .. piece*512+512", "part") +
                                  "c'[i,j] = c[i,j] + part[i,j] @[i=REG_4, j=VEC_8]; }\n")));
}

TEST(SumInPieces, OthersStayAsTheyAre) {
  for (const std::string& loop : {
           std::string("seq k in 512 carry s: f32 = 0.0 { s' = s + x[i,0,0,k]; }\n"),
           std::string("seq k in 5000 carry s: f32 = 0.0 { s' = max(s, x[i,0,0,k]); }\n"),
           std::string("seq k in 5000 carry s: f32 = 0.0 { s' = s * 0.5 + x[i,0,0,k]; }\n"),
           std::string("seq k in 5000 carry s: f32 = 0.0, t: f32 = 0.0 {\n"
                       "  t' = t + s; s' = s + x[i,0,0,k]; }\n"),
       }) {
    EXPECT_EQ(in_pieces(rows_of(loop)), normalised(rows_of(loop)));
  }
  const std::string counts =
      rows_of("seq k in 5000 carry s: i32 = 0 { s' = s + x[i,0,0,k]; }\n", "i32");
  EXPECT_EQ(in_pieces(counts), normalised(counts));
  const std::string open = rows_of("seq k in 5000 carry s: f32 = 0.0 { s' = s + x[i,0,0,k]; }\n");
  EXPECT_EQ(in_pieces(open, true), normalised(open));
}

}  // namespace
}  // namespace weft
