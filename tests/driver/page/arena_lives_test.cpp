#include "driver/page/arena_lives.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

ProgramBuffer arena(const char* name, int64_t offset) {
  ProgramBuffer buffer;
  buffer.name = name;
  buffer.bytes = 64;
  buffer.offset = offset;
  return buffer;
}

ProgramStep launch(const char* name, std::vector<int32_t> buffers) {
  ProgramStep step;
  step.name = name;
  step.launch.buffers = std::move(buffers);
  return step;
}

TEST(ArenaLives, RunFromTheFirstUseToTheLast) {
  Program program;
  program.buffers = {arena("a", 0), arena("b", 64), arena("unused", 128)};
  program.steps = {launch("k0", {0}), launch("k1", {0, 1}), launch("k2", {1})};
  const ArenaLives arena = arena_lives(program);
  EXPECT_EQ(arena.steps, (std::vector<std::string>{"k0", "k1", "k2"}));
  ASSERT_EQ(arena.lives.size(), 2U);
  EXPECT_EQ(arena.lives[0].first, 0);
  EXPECT_EQ(arena.lives[0].last, 1);
  EXPECT_EQ(arena.lives[1].first, 1);
  EXPECT_EQ(arena.lives[1].last, 2);
}

TEST(ArenaLives, OfWhatALoopReadsLastAsLongAsTheLoop) {
  Program program;
  program.buffers = {arena("before", 0), arena("inside", 64), arena("slice", 0)};
  program.buffers[2].kind = ProgramBuffer::Kind::kSlice;
  program.buffers[2].base = 0;
  ProgramStep loop;
  loop.kind = ProgramStep::Kind::kLoop;
  loop.name = "scan";
  loop.loop_step = std::make_shared<LoopStep>();
  loop.loop_step->body = {launch("first", {2, 1}), launch("last", {1})};
  program.steps = {launch("k0", {0}), loop, launch("k1", {})};
  const ArenaLives arena = arena_lives(program);
  ASSERT_EQ(arena.lives.size(), 2U);  // a slice is of its base
  EXPECT_EQ(arena.lives[0].first, 0);
  EXPECT_EQ(arena.lives[0].last, 3);
  EXPECT_EQ(arena.lives[1].first, 2);
  EXPECT_EQ(arena.lives[1].last, 3);
}

}  // namespace
}  // namespace weft
