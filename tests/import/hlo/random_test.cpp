#include <fmt/format.h>

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
  EXPECT_THAT(import_error(module_of(R"(  s = f32[] constant(0)
  ROOT r = f32[2] rng(s, s), distribution=rng_uniform)"),
                           ErrorCode::kUnsupported),
              HasSubstr("whose state is not part"));
}

}  // namespace
}  // namespace weft::hlo
