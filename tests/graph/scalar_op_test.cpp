#include "graph/scalar_op.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace weft {
namespace {

double f32(ScalarOp op, double a, double b) {
  const ScalarValue x[] = {float_value(DType::kF32, a), float_value(DType::kF32, b)};
  return evaluate_scalar(op, {x, static_cast<size_t>(scalar_op_arity(op))}, DType::kF32).f;
}
int64_t integer(DType type, ScalarOp op, int64_t a, int64_t b) {
  const ScalarValue x[] = {int_value(type, a), int_value(type, b)};
  return evaluate_scalar(op, {x, static_cast<size_t>(scalar_op_arity(op))}, type).i;
}

TEST(ScalarOp, NamesParseBack) {
  for (int i = 0; i <= static_cast<int>(ScalarOp::kBitcast); ++i) {
    const auto op = static_cast<ScalarOp>(i);
    EXPECT_EQ(parse_scalar_op(scalar_op_name(op)), op);
  }
  for (int i = 0; i <= static_cast<int>(Combiner::kArgMax); ++i) {
    const auto combiner = static_cast<Combiner>(i);
    EXPECT_EQ(parse_combiner(combiner_name(combiner)), combiner);
  }
}

TEST(ScalarOp, FloatsRoundToTheirType) {
  EXPECT_EQ(f32(ScalarOp::kAdd, 16777216, 1), 16777216);
  EXPECT_EQ(f32(ScalarOp::kExp, 1, 0), static_cast<float>(std::exp(1.0)));
  EXPECT_EQ(float_value(DType::kBF16, 1.01).f, 1.0078125);
  EXPECT_EQ(f32(ScalarOp::kRsqrt, 3, 0), 1.0F / std::sqrt(3.0F));
}

TEST(ScalarOp, FloatEdges) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(f32(ScalarOp::kSign, kNan, 0)));
  EXPECT_TRUE(std::isnan(f32(ScalarOp::kMin, 1, kNan)));
  EXPECT_EQ(f32(ScalarOp::kRoundEven, 2.5, 0), 2);
  EXPECT_EQ(f32(ScalarOp::kRem, -5.5, 2), -1.5);
  EXPECT_EQ(f32(ScalarOp::kSigmoid, -kInf, 0), 0);
  EXPECT_EQ(f32(ScalarOp::kSigmoid, kInf, 0), 1);
  EXPECT_EQ(f32(ScalarOp::kErf, -kInf, 0), -1);
  EXPECT_EQ(
      evaluate_scalar(ScalarOp::kNe,
                      std::array{float_value(DType::kF32, kNan), float_value(DType::kF32, kNan)},
                      DType::kBool)
          .i,
      1);
}

/// The known answers of the authors' Random123 for 20 rounds.
TEST(ScalarOp, ThreefryEncryptsWords) {
  const auto encrypted = [](uint64_t counter, uint64_t key) {
    return static_cast<uint64_t>(integer(DType::kU64, ScalarOp::kThreefry,
                                         static_cast<int64_t>(counter), static_cast<int64_t>(key)));
  };
  EXPECT_EQ(encrypted(0, 0), 0x99BA4EFE6B200159);
  EXPECT_EQ(encrypted(~uint64_t{0}, ~uint64_t{0}), 0xBB002BE71CB996FC);
  EXPECT_EQ(encrypted(0x85A308D3243F6A88, 0x0370734413198A2E), 0x483DF7A0C4923A9C);
  EXPECT_FALSE(scalar_op_accepts(ScalarOp::kThreefry, DType::kU32));
}

TEST(ScalarOp, IntegersWrapAndNeverTrap) {
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(integer(DType::kI64, ScalarOp::kDiv, lowest, -1), lowest);
  EXPECT_EQ(integer(DType::kI64, ScalarOp::kRem, lowest, -1), 0);
  EXPECT_EQ(integer(DType::kI64, ScalarOp::kNeg, lowest, 1), lowest);
  EXPECT_EQ(integer(DType::kI32, ScalarOp::kDiv, 7, 0), 0);
  EXPECT_EQ(integer(DType::kU8, ScalarOp::kSub, 3, 5), 254);
  EXPECT_EQ(integer(DType::kI16, ScalarOp::kMul, 300, 300), 24464);
  EXPECT_EQ(integer(DType::kU16, ScalarOp::kMul, 65535, 65535), 1);
  EXPECT_EQ(integer(DType::kU64, ScalarOp::kDiv, -1, 2), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(integer(DType::kI32, ScalarOp::kPow, -3, 3), -27);
  EXPECT_EQ(integer(DType::kI32, ScalarOp::kPow, -1, -3), -1);
  EXPECT_EQ(integer(DType::kI32, ScalarOp::kPow, 2, -1), 0);
  EXPECT_EQ(integer(DType::kI8, ScalarOp::kShl, 3, 7), -128);
  EXPECT_EQ(integer(DType::kI8, ScalarOp::kShl, 3, 8), 0);
  EXPECT_EQ(integer(DType::kI8, ScalarOp::kShl, 3, -1), 0);
  EXPECT_EQ(integer(DType::kI8, ScalarOp::kShr, -128, 3), -16);
  EXPECT_EQ(integer(DType::kU8, ScalarOp::kNot, 5, 0), 250);
}

TEST(ScalarOp, Conversions) {
  const auto to = [](DType type, double value) {
    return convert_value(float_value(DType::kF64, value), type).i;
  };
  EXPECT_EQ(to(DType::kI32, 2147483648.0), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(to(DType::kI32, -2147483648.9), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(to(DType::kI64, 9.3e18), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(to(DType::kU64, 1.8446744073709550e19), static_cast<int64_t>(0xfffffffffffff800u));
  EXPECT_EQ(to(DType::kU8, -0.5), 0);
  EXPECT_EQ(to(DType::kI8, std::nan("")), 0);
  EXPECT_EQ(to(DType::kBool, std::nan("")), 1);
  EXPECT_EQ(convert_value(int_value(DType::kI32, 300), DType::kI8).i, 44);
  EXPECT_EQ(convert_value(int_value(DType::kU64, -1), DType::kF64).f, 0x1p64);
  const ScalarValue bits[] = {int_value(DType::kI32, 0x40490fdb)};
  EXPECT_EQ(evaluate_scalar(ScalarOp::kBitcast, bits, DType::kF32).f, 3.1415927410125732);
}

TEST(Combiner, IdentitiesLeaveValuesAlone) {
  for (DType type :
       {DType::kI8, DType::kU16, DType::kI64, DType::kF16, DType::kF32, DType::kBool}) {
    for (int c = 0; c <= static_cast<int>(Combiner::kOr); ++c) {
      const auto combiner = static_cast<Combiner>(c);
      if (!scalar_op_accepts(*combiner_op(combiner), type)) continue;
      const ScalarValue x = is_float(type) ? float_value(type, -2.5) : int_value(type, 1);
      EXPECT_EQ(combine(combiner, combiner_identity(combiner, type), x), x)
          << combiner_name(combiner) << " " << dtype_name(type);
    }
  }
}

}  // namespace
}  // namespace weft
