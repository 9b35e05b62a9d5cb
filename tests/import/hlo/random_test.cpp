#include <fmt/format.h>

#include <cmath>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

/// From the state {1 | 2 << 32, 3 | 4 << 32}. Expected values are XLA's on a CPU.
std::vector<std::vector<double>> generate(std::string_view type, std::string_view algorithm) {
  return run_all(module_of(fmt::format(R"(  s = u64[2] constant({{8589934593, 17179869187}})
  ROOT r = (u64[2], {}) rng-bit-generator(s), algorithm={})",
                                       type, algorithm)),
                 {});
}

TEST(RngBitGenerator, IsPhilox) {
  for (const std::string_view algorithm : {"rng_philox", "rng_default"}) {
    const auto values = generate("u32[7]", algorithm);
    ASSERT_EQ(values.size(), 2U);
    expect_values(values[0], {8589934593, 17179869189});
    expect_values(values[1], {512747620, 1298009047, 1267190206, 761827841, 1383286907, 1639995030,
                              2756207988});
  }
  expect_values(generate("u8[3]", "rng_philox").at(1), {100, 215, 190});
  expect_values(generate("u32[]", "rng_philox").at(1), {512747620});
}

TEST(RngBitGenerator, IsThreefry) {
  auto values = generate("u32[7]", "rng_three_fry");
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {8589934593, 17179869191});
  expect_values(values[1], {1576285164, 2249660814, 740599976, 2425682526, 2436392515, 1497962777,
                            1335360347});
  values = generate("u32[2,2]", "rng_three_fry");
  expect_values(values.at(0), {8589934593, 17179869189});
  expect_values(values.at(1), {1576285164, 740599976, 2249660814, 2425682526});
}

TEST(RngBitGenerator, RefusesWhatIsNotItsState) {
  EXPECT_THAT(import_error(module_of(R"(  s = u64[5] parameter(0)
  ROOT r = (u64[5], u32[2]) rng-bit-generator(s), algorithm=rng_philox)")),
              HasSubstr("no u64[2]"));
}

std::vector<double> draw(std::string_view type, double a, double b, std::string_view distribution) {
  return run(module_of(fmt::format(R"(  a = {0}[] constant({1})
  b = {0}[] constant({2})
  ROOT r = {0}[5000] rng(a, b), distribution={3})",
                                   type, a, b, distribution)),
             {tensor_of(DType::kU64, {}, {7})});
}

TEST(Rng, DrawsFromItsDistributionByTheSeed) {
  for (const std::string_view type : {"f32", "f64", "s32"}) {
    const std::vector<double> drawn = draw(type, -2, 6, "rng_uniform");
    double sum = 0;
    for (const double v : drawn) {
      ASSERT_TRUE(v >= -2 && v < 6) << v;
      sum += v;
    }
    const double mean = type == "s32" ? 1.5 : 2;
    EXPECT_NEAR(sum / 5000, mean, 5 * 8 / std::sqrt(12.0 * 5000));
  }
  double squares = 0;
  for (const double v : draw("f32", 3, 2, "rng_normal")) squares += (v - 3) * (v - 3);
  EXPECT_NEAR(squares / 5000, 4, 5 * 4 * std::sqrt(2.0 / 5000));
}

TEST(Rng, RefusesWhatIsNoDistribution) {
  const auto error = [](std::string_view distribution, std::string_view type) {
    return import_error(module_of(fmt::format(R"(  a = {0}[] constant(1)
  ROOT r = {0}[2] rng(a, a), distribution={1})",
                                              type, distribution)),
                        ErrorCode::kUnsupported);
  };
  EXPECT_THAT(error("rng_cauchy", "f32"), HasSubstr("rng_cauchy"));
  EXPECT_THAT(error("rng_normal", "s32"), HasSubstr("of this type"));
}

}  // namespace
}  // namespace weft::hlo
