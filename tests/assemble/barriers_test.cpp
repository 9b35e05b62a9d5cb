#include "assemble/barriers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::ElementsAre;

ProgramBuffer in_arena(int64_t offset, int64_t bytes) {
  ProgramBuffer b;
  b.offset = offset;
  b.bytes = bytes;
  return b;
}

TEST(Barriers, StandOnlyWhereDataCrossesThreads) {
  // 0 and 1 share memory, 2 lies apart.
  const std::vector<ProgramBuffer> buffers = {in_arena(0, 128), in_arena(64, 128),
                                              in_arena(256, 64)};
  const StepAccess writes_0{false, {}, {0}}, reads_1{false, {1}, {}}, reads_2{false, {2}, {}};
  EXPECT_THAT(place_barriers(buffers, {{writes_0, reads_1}}), ElementsAre(true, true));
  EXPECT_THAT(place_barriers(buffers, {{writes_0, reads_2}}), ElementsAre(true, false));
  // Two readers do not disturb each other; the writer after them waits for the first, too.
  EXPECT_THAT(place_barriers(buffers, {{reads_1, reads_2, writes_0, reads_1}}),
              ElementsAre(true, false, true, true));
  // Steps on the first thread follow each other anyway.
  const StepAccess serial_write{true, {}, {0}}, serial_read{true, {1}, {}};
  EXPECT_THAT(place_barriers(buffers, {{serial_write, serial_read, reads_1}}),
              ElementsAre(true, false, true));
}

TEST(Barriers, SeeThroughSlicesAndCarries) {
  std::vector<ProgramBuffer> buffers = {in_arena(0, 256), in_arena(256, 64), in_arena(320, 64)};
  ProgramBuffer slice;
  slice.kind = ProgramBuffer::Kind::kSlice;
  slice.base = 0;
  buffers.push_back(slice);
  ProgramBuffer carry;
  carry.kind = ProgramBuffer::Kind::kCarry;
  carry.base = 1;
  carry.other = 2;
  buffers.push_back(carry);
  const auto waits = [&](int32_t written, int32_t read) -> bool {
    const std::vector<StepAccess> steps = {{false, {}, {written}}, {false, {read}, {}}};
    return place_barriers(buffers, steps)[1];
  };
  EXPECT_TRUE(waits(3, 0));
  EXPECT_TRUE(waits(1, 4));
  EXPECT_TRUE(waits(4, 2));
  EXPECT_FALSE(waits(3, 4));
  // A carry in a stack meets what writes the stack, and where it begins.
  ProgramBuffer stacked = carry;
  stacked.kind = ProgramBuffer::Kind::kStackedCarry;
  stacked.other = 0;
  buffers.push_back(stacked);
  EXPECT_TRUE(waits(3, 5));
  EXPECT_TRUE(waits(1, 5));
  EXPECT_FALSE(waits(2, 5));
}

}  // namespace
}  // namespace weft
