#include "tile/text/template_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/check/verify_tile_program.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// The program of FusionStitching 2019, §5.2: the loop over blocks and a warp on the first
/// dimension, a reduction within the warp.
std::string program(const std::string& place) {
  return R"(kernel k(x: f32[256,2,2,32], out y: f32[256,2]) blocks 128 warps 8 gpu {
  b: 2; c: 2; d: 32;
  grid a in 256 step 2 {
    R[a,b] = sum[c, d] x[a,b,c,d] )" +
         place + R"(;
    y[a,b] = R[a,b];
  }
})";
}

const TileStatement& first(const TileProgram& p) { return p.body[0].loop->body[0].statement; }

TileProgram parsed(const std::string& text) {
  auto p = parse_tile_program(text);
  EXPECT_TRUE(p.ok()) << p.error().message;
  return p.ok() ? std::move(*p) : TileProgram{};
}

TEST(TemplateForm, PrintsThePapersTuple) {
  const TileProgram p = parsed(program("at block @[a=WARP_2, b=WARP_2, c=WARP_2, d=LANE_32]"));
  EXPECT_EQ(template_form(p, first(p), Scope::kBlock), "[GRID_128-WARP_2,WARP,WARP,CTA]S");
}

TEST(TemplateForm, StandsForAPlaceAndADemand) {
  const TileProgram formed = parsed(program("@[GRID_128-WARP_2,WARP,WARP,CTA]S"));
  const TileProgram placed = parsed(program("at block @[a=WARP_2, b=WARP_2, c=WARP_2, d=LANE_32]"));
  EXPECT_EQ(print(formed), print(placed));
  const Status status = verify_tile_program(formed);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(TemplateForm, PrintsWhatItParses) {
  for (const char* text : {"[GRID_128-WARP_2,WARP,WARP,CTA]S", "[]", "[GRID]", "[GRID-CTA_32]S",
                           "[THREAD_4-WARP_2]"}) {
    const auto form = parse_template_form(text);
    ASSERT_TRUE(form.ok()) << form.error().message;
    EXPECT_EQ(print(*form), text);
  }
}

TEST(TemplateForm, NamesTheBlocksOfACluster) {
  const std::string head = R"(
kernel k(x: f32[8,512], out y: f32[8,512]) blocks 32 warps 2 gpu {
  grid i in 8 { cluster j in 512 step 128 { y[i,j] = x[i,j] @)";
  const TileProgram p = parsed(head + "[j=WARP_2-LANE_32-VEC_2]; } } }");
  const TileStatement& store = p.body[0].loop->body[0].loop->body[0].statement;
  const std::string text = template_form(p, store, Scope::kRegister);
  EXPECT_EQ(text, "[GRID,CLUSTER_4-WARP_2-CTA_32-THREAD_2]");
  EXPECT_TRUE(parse_tile_program(head + text + "; } } }").ok());
  EXPECT_FALSE(parse_tile_program(head + "[GRID,GRID_4-WARP_2-CTA_32-THREAD_2]; } } }").ok());
}

TEST(TemplateForm, LoopsAndRegistersOfOneThreadAreOneLevel) {
  const TileProgram p = parsed(R"(
kernel k(x: f32[8,512], out y: f32[8,512]) blocks 8 warps 2 gpu {
  grid i in 8 {
    seq j in 512 step 256 { y[i,j] = x[i,j] @[j=REG_2-WARP_2-LANE_32-VEC_2]; }
  }
})");
  const TileStatement& store = p.body[0].loop->body[0].loop->body[0].statement;
  const std::string text = template_form(p, store, Scope::kRegister);
  EXPECT_EQ(text, "[GRID,THREAD_4-WARP_2-CTA_32-THREAD_2]");
  const TileProgram again = parsed(R"(
kernel k(x: f32[8,512], out y: f32[8,512]) blocks 8 warps 2 gpu {
  grid i in 8 {
    seq j in 512 step 256 { y[i,j] = x[i,j] @)" +
                                   text + R"(; }
  }
})");
  const TileStatement& same = again.body[0].loop->body[0].loop->body[0].statement;
  EXPECT_EQ(template_form(again, same, Scope::kRegister), text);
}

TEST(TemplateForm, SaysWhatDoesNotFit) {
  const auto message = [](const std::string& text) {
    const auto p = parse_tile_program(text);
    return p.ok() ? std::string() : p.error().message;
  };
  EXPECT_THAT(message(program("@[GRID_128-WARP_2,WARP]")), HasSubstr("has 2 dimensions, not 4"));
  EXPECT_THAT(message(program("@[GRID_64-WARP_2,WARP,WARP,CTA]")), HasSubstr("other loops"));
  EXPECT_THAT(message(program("@[GRID_128-WARP_2,GRID_2-WARP,WARP,CTA]")),
              HasSubstr("a loop that is not there"));
  EXPECT_THAT(message(program("@[GRID_128-WARP_2,WARP,WARP,WARP-CTA]")), HasSubstr("open"));
  EXPECT_THAT(message(program("@[GRID_128-WARP_0,WARP,WARP,CTA]")),
              HasSubstr("expected GRID, CLUSTER"));
  EXPECT_THAT(message(program("@[GRID_99999999999999999999,WARP,WARP,CTA]")),
              HasSubstr("expected GRID, CLUSTER"));
  for (const char* text : {"", "[", "[WARP", "[WARP,]", "[FOO]", "[WARP]SS", "[WARP-]"}) {
    EXPECT_FALSE(parse_template_form(text).ok()) << text;
  }
}

}  // namespace
}  // namespace weft
