#include "cost/model_gain.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// 10 GB/s at 1000 bytes, 100 GB/s at 100000; a launch and its barrier take 3 us.
TEST(ModelGain, IsTheVolumeAtItsBandwidthAndTheLaunches) {
  Target t;
  t.bandwidth = {{1000, 10}, {100000, 100}};
  t.launch_us = 2;
  t.barrier_us = 1;
  EXPECT_DOUBLE_EQ(model_gain_us(1000, 3, t), 0.1 + 2 * 3);
  EXPECT_DOUBLE_EQ(model_gain_us(100000, 2, t), 1 + 3);
  EXPECT_DOUBLE_EQ(model_gain_us(0, 1, t), 0);
  // One kernel that moves more than those in whose place it is.
  EXPECT_DOUBLE_EQ(model_gain_us(-100000, 2, t), -1 + 3);
}

}  // namespace
}  // namespace weft
