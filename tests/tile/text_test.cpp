// Texts that read back as they are printed.

#include "tile/text/tile_text.h"

#include <gtest/gtest.h>

#include "tile/check/verify_tile_program.h"
#include "tile/tile_program.h"

namespace weft {
namespace {

TEST(TileText, ConvertedIndicesOfGathersReadBack) {
  for (const std::string index : {"q[m]", "i32(q[m])", "i64(i32(q[m]))"}) {
    const std::string text = R"(
kernel k(q: u8[16], t: u8[256], out y: i16[16]) blocks 1 warps 1 {
  grid m in 16 step 8 {
    y[m] = i16(t[)" + index + R"(]) @[m=VEC_8];
  }
}
)";
    const auto program = parse_tile_program(text);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const Status status = verify_tile_program(*program);
    EXPECT_TRUE(status.ok()) << status.error().message;
    const std::string printed = print(*program);
    EXPECT_NE(printed.find("t[" + index + "]"), std::string::npos) << printed;
    const auto again = parse_tile_program(printed);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(print(*again), printed);
  }
}

}  // namespace
}  // namespace weft
