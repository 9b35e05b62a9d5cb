#include "expr/products/decode_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A product with weights in bytes of `count` numbers each, in blocks of 32, as an importer leaves
/// it.
std::string packed_in_bytes(int bits, const std::string& shifts) {
  const int count = 8 / bits;
  const auto number = [](int n) { return std::to_string(n); };
  const std::string c = number(count), bytes = number(32 / count), mask = number((1 << bits) - 1);
  return "program {\n  input x: f32[1,256]\n"
         "  constant p: u8[512,8," +
         bytes +
         ",1] = #0000000000000001\n"
         "  constant h: u8[1,1," +
         c + "] = " + shifts +
         "\n"
         "  t: u8[512,8," +
         bytes + "," + c +
         "] = shr(p[d0, d1, d2, 0], h[0, 0, d3])\n"
         "  q: u8[512,8," +
         bytes + "," + c + "] = and(t[d0, d1, d2, d3], u8(" + mask +
         "))\n"
         "  w: f32[512,8,32] = f32(q[d0, d1, d2 floordiv " +
         c + ", d2 mod " + c +
         "]) - 8.0\n"
         "  y: f32[1,512] = contraction sum[256]:f32 x[0, r0] * w[d1, r0 floordiv 32, r0 mod 32]\n"
         "  output y as y\n}\n";
}

HostTensor filled(const TensorType& type) {
  std::mt19937 random(3);
  HostTensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    const auto value = static_cast<int>(random() % 256);
    if (type.dtype == DType::kU8) {
      t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(value);
    } else {
      t.mutable_data<float>()[i] = static_cast<float>(value % 33 - 16);
    }
  }
  return t;
}

TEST(DecodeWeights, PacksNumbersOfBytesAnewInWords) {
  struct Case {
    int bits;
    const char* shifts;
    const char* sum;
    const char* number;
  };
  for (const Case& c : {Case{4, "{0, 4}", "sum[8, 4, 8]", "i32(r2 * 4)), i32(15)"},
                        Case{2, "{0, 2, 4, 6}", "sum[8, 2, 16]", "i32(r2 * 2)), i32(3)"}}) {
    SCOPED_TRACE(c.bits);
    auto program = parse_tensor_program(
        packed_in_bytes(c.bits, c.shifts),
        [](std::string_view, const TensorType& type) { return Result<HostTensor>(filled(type)); });
    ASSERT_TRUE(program.ok()) << program.error().message;
    const std::vector<HostTensor> inputs = {filled({DType::kF32, {1, 256}})};
    const auto before = evaluate(*program, inputs);
    ASSERT_TRUE(before.ok()) << before.error().message;
    ASSERT_TRUE(decode_weights(*program));
    const Status status = verify_tensor_program(*program);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const std::string text = print(*program);
    const std::string product = text.substr(text.find("  y: "));
    EXPECT_THAT(product, HasSubstr(c.sum));
    EXPECT_THAT(product, HasSubstr(c.number));
    EXPECT_THAT(product, Not(HasSubstr("u8")));
    const auto after = evaluate(*program, inputs);
    ASSERT_TRUE(after.ok()) << after.error().message;
    for (int64_t i = 0; i < (*before)[0].size(); ++i)
      ASSERT_EQ((*after)[0].at_double(i), (*before)[0].at_double(i)) << "element " << i;
  }
}

}  // namespace
}  // namespace weft
