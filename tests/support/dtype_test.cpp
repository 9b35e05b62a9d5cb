#include "support/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace weft {
namespace {

TEST(DType, NamesParseBack) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(type)), type);
  }
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
}

TEST(DType, SizesAreChecked) {
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({5, 0}), 0);
  EXPECT_EQ(element_count({2, -1}), std::nullopt);
  EXPECT_EQ(element_count({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(element_count({0, int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(checked_byte_size(DType::kF64, {int64_t{1} << 61}), std::nullopt);
  EXPECT_EQ(checked_byte_size(DType::kBF16, {3, 5}), 30);
}

TEST(DType, EveryHalfReadsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      EXPECT_EQ(float_to_half(value), bits);
    }
  }
}

/// Between two neighbouring halves lies their mean: below it rounding goes down, above it up, at it
/// to the even one.
TEST(DType, HalfRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = half_to_float(static_cast<uint16_t>(bits));
    const float high = half_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(float_to_half(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(float_to_half(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(float_to_half(-middle), 0x8000u | (bits % 2 == 0 ? bits : bits + 1));
  }
  EXPECT_EQ(float_to_half(65519.99F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(1e30F), 0x7c00);
}

TEST(DType, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(bfloat16_to_float(0xc0a0), -5.0F);
}

}  // namespace
}  // namespace weft
