#include "driver/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

constexpr CalibrationOptions kShort{.seconds = 0.0005, .most_bytes = 1 << 20};

TEST(Calibrate, MeasuresRatesAndLeavesTheRest) {
  for (const int vector_bytes : {16, 0}) {
    for (const int threads : {1, 2}) {
      const Target given = host_cpu_target(threads, vector_bytes);
      auto measured = calibrate_cpu(given, kShort);
      ASSERT_TRUE(measured.ok()) << measured.error().message;
      ASSERT_GE(measured->bandwidth.size(), 3U);
      for (size_t i = 0; i < measured->bandwidth.size(); ++i) {
        const auto& point = measured->bandwidth[i];
        EXPECT_GT(point.gb_per_s, 0);
        EXPECT_TRUE(std::isfinite(point.gb_per_s));
        EXPECT_LE(point.bytes, kShort.most_bytes);
        if (i > 0) EXPECT_GT(point.bytes, measured->bandwidth[i - 1].bytes);
      }
      EXPECT_GT(measured->peak_gflops, 0.01);
      EXPECT_LT(measured->peak_gflops, 100000);
      // What cannot be told in so short a time to be two multiply-adds a cycle, or one.
      EXPECT_GT(measured->clock_mhz, 100);
      EXPECT_LT(measured->clock_mhz, 20000);
      EXPECT_GT(measured->launch_us, 0);

      Target rest = *measured;
      rest.bandwidth = given.bandwidth;
      rest.peak_gflops = given.peak_gflops;
      rest.clock_mhz = given.clock_mhz;
      rest.launch_us = given.launch_us;
      rest.drain_us = given.drain_us;
      rest.barrier_us = given.barrier_us;
      EXPECT_EQ(print(rest), print(given));
      auto parsed = parse_target(print(*measured));
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      EXPECT_EQ(print(*parsed), print(*measured));
    }
  }
}

}  // namespace
}  // namespace weft
