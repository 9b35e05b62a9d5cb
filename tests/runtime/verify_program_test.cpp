// Every rule of verify_program, by breaking one thing in a sound program.

#include "runtime/verify_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Fixture = ProgramFixture;

/// Buffers of the sound program.
enum : int32_t { kX, kY, kWeights, kEven, kOdd, kH, kHNext, kXt, kYt, kT, kFlag, kStacked = 13 };
/// Its steps.
enum : size_t { kLaunch, kScan, kWhile, kIf, kSort };

Program sound() {
  Fixture f;
  f.input("x", {3, 4});
  f.output("y", {3, 4});
  f.constant<float>(DType::kF32, {4}, {1, 2, 3, 4});
  const int32_t loop = f.new_loop(), endless = f.new_loop();
  f.carry(loop, {4});  // kEven, kOdd, kH, kHNext
  f.slice(kX, loop, {4});
  f.slice(kY, loop, {4});
  f.arena({4});
  f.arena({}, DType::kBool);
  const int32_t values = f.arena({4}), order = f.arena({4}, DType::kI64);
  f.stacked_carry(kWeights, kYt);
  const int32_t plus = f.kernel({add});
  f.step(Fixture::launch(plus, {kWeights, kWeights, kT}, {4}));
  f.step(
      Fixture::scan(loop, 3, {{kH, kT, kT}, {kStacked, -1, kT}},
                    {Fixture::launch(plus, {kXt, kH, kHNext}, {4}), Fixture::copy(kHNext, kYt)}));
  f.step(Fixture::while_loop(endless, kFlag, {}, {}, {}));
  f.step(Fixture::if_step(kFlag, {Fixture::copy(kT, kEven)}, {}));
  HostStep sort;
  sort.op = HostStep::Op::kSort;
  sort.operands = {kWeights};
  sort.results = {values, order};
  f.step(Fixture::host(sort));
  return f.program;
}

ProgramBuffer& buffer(Program& p, int32_t b) { return p.buffers[static_cast<size_t>(b)]; }
LoopStep& scan(Program& p) { return *p.steps[kScan].loop_step; }

struct Fault {
  const char* message;
  std::function<void(Program&)> make;
};

TEST(VerifyProgram, AcceptsASoundProgram) {
  const Status status = verify_program(sound());
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(VerifyProgram, NamesEveryFault) {
  const std::vector<Fault> faults = {
      {"arena size", [](Program& p) { p.arena_bytes = -1; }},
      {"arena size", [](Program& p) { p.arena_bytes = int64_t{1} << 60; }},
      {"loop count", [](Program& p) { p.loop_count = -1; }},
      {"loop count", [](Program& p) { p.loop_count = 1 << 30; }},
      {"input 'x' has an impossible type", [](Program& p) { p.inputs[0].shape[0] = -3; }},
      {"output 'y' has an impossible type",
       [](Program& p) { p.outputs[0].dtype = static_cast<DType>(99); }},
      {"input 'x' has an impossible alignment", [](Program& p) { p.inputs[0].alignment = 48; }},
      {"input 'x' has an impossible alignment", [](Program& p) { p.inputs[0].alignment = 128; }},
      {"input 'x' is drawn and no seed", [](Program& p) { p.inputs[0].drawn = true; }},
      {"larger than 'x'", [](Program& p) { p.inputs[0].shape[0] = 2; }},
      {"no such input", [](Program& p) { buffer(p, kX).index = 1; }},
      {"no such input", [](Program& p) { buffer(p, kY).index = -1; }},
      {"no such constant", [](Program& p) { buffer(p, kWeights).index = 7; }},
      {"larger than its constant",
       [](Program& p) { p.constants[0] = HostTensor(DType::kF32, {3}); }},
      {"outside the arena", [](Program& p) { buffer(p, kT).offset = p.arena_bytes - 8; }},
      {"outside the arena", [](Program& p) { buffer(p, kT).offset = -64; }},
      {"outside the arena",
       [](Program& p) { buffer(p, kT).offset = std::numeric_limits<int64_t>::max() - 3; }},
      {"misaligned", [](Program& p) { buffer(p, kT).offset += 2; }},
      {"unknown kind",
       [](Program& p) { buffer(p, kT).kind = static_cast<ProgramBuffer::Kind>(50); }},
      {"impossible type", [](Program& p) { buffer(p, kT).dtype = static_cast<DType>(50); }},
      {"impossible type", [](Program& p) { buffer(p, kT).shape = {int64_t{1} << 62, 4}; }},
      {"smaller than its shape", [](Program& p) { buffer(p, kT).shape = {5}; }},
      {"size", [](Program& p) { buffer(p, kT).bytes = int64_t{1} << 60; }},
      {"part of a buffer that does not exist", [](Program& p) { buffer(p, kXt).base = 99; }},
      {"part of a buffer that does not exist", [](Program& p) { buffer(p, kH).other = -1; }},
      {"parts of each other", [](Program& p) { buffer(p, kXt).base = kXt; }},
      {"parts of each other",
       [](Program& p) {
         buffer(p, kXt).base = kYt;
         buffer(p, kYt).base = kXt;
       }},
      {"no such loop", [](Program& p) { buffer(p, kXt).loop = 2; }},
      {"no such loop", [](Program& p) { buffer(p, kH).loop = -1; }},
      {"a slice outside its base", [](Program& p) { scan(p).trips = 4; }},
      {"a slice outside its base", [](Program& p) { buffer(p, kXt).stride = 20; }},
      {"stride", [](Program& p) { buffer(p, kXt).stride = -16; }},
      {"misaligned", [](Program& p) { buffer(p, kXt).stride = 14; }},
      {"without a fixed number", [](Program& p) { buffer(p, kXt).loop = 1; }},
      {"a carry larger than its places",
       [](Program& p) { buffer(p, kOdd).bytes = 12, buffer(p, kOdd).shape = {3}; }},
      {"unknown kind", [](Program& p) { p.steps[0].kind = static_cast<ProgramStep::Kind>(9); }},
      {"no branches", [](Program& p) { p.steps[kIf].if_step = nullptr; }},
      {"no loop", [](Program& p) { p.steps[kScan].loop_step = nullptr; }},
      {"the number of another loop", [](Program& p) { scan(p).loop = 1; }},
      {"loop number", [](Program& p) { scan(p).loop = 5; }},
      {"negative number of iterations", [](Program& p) { scan(p).trips = -1; }},
      {"a kernel that does not exist", [](Program& p) { p.steps[0].launch.kernel = 1; }},
      {"not the phases of its kernel", [](Program& p) { p.steps[0].launch.work_items = {4, 4}; }},
      {"negative work", [](Program& p) { p.steps[0].launch.work_items = {-4}; }},
      {"scratch", [](Program& p) { p.steps[0].launch.scratch_bytes = -1; }},
      {"pieces", [](Program& p) { p.steps[0].launch.pieces = 0; }},
      {"pieces", [](Program& p) { p.steps[0].launch.pieces = 1 << 20; }},
      {"a buffer that does not exist", [](Program& p) { p.steps[0].launch.buffers[1] = 55; }},
      {"a slice outside its loop", [](Program& p) { p.steps[0].launch.buffers[1] = kXt; }},
      {"a slice outside its loop", [](Program& p) { scan(p).carries[0].initial = kXt; }},
      {"writes an input or a constant", [](Program& p) { scan(p).body[1].host.results = {kXt}; }},
      {"writes an input or a constant", [](Program& p) { buffer(p, kH).base = kWeights; }},
      {"writes an input or a constant", [](Program& p) { scan(p).carries[0].result = kWeights; }},
      {"no carry of it", [](Program& p) { scan(p).carries[0].carry = kT; }},
      {"no carry of it", [](Program& p) { scan(p).carries[0].carry = kHNext; }},
      {"a stacked carry begins in place", [](Program& p) { scan(p).carries[1].initial = kT; }},
      {"no such loop", [](Program& p) { buffer(p, kStacked).loop = 2; }},
      {"without a fixed number", [](Program& p) { buffer(p, kStacked).loop = 1; }},
      {"a slice outside its base", [](Program& p) { buffer(p, kStacked).stride = 32; }},
      {"a carry larger than its initial", [](Program& p) { buffer(p, kStacked).base = kFlag; }},
      {"writes an input or a constant",
       [](Program& p) { scan(p).body[1].host.results = {kStacked}; }},
      {"a carry larger than its initial", [](Program& p) { scan(p).carries[0].initial = kFlag; }},
      {"the condition is not a bool", [](Program& p) { p.steps[kIf].if_step->condition = kT; }},
      {"the condition is not a bool",
       [](Program& p) { p.steps[kWhile].loop_step->condition = kWeights; }},
      {"a buffer that does not exist", [](Program& p) { p.steps[kIf].if_step->condition = -1; }},
      {"sort: axis 1 of rank 1", [](Program& p) { p.steps[kSort].host.axis = 1; }},
      {"sort: wrong number", [](Program& p) { p.steps[kSort].host.results.pop_back(); }},
  };
  for (const Fault& fault : faults) {
    Program program = sound();
    fault.make(program);
    const Status status = verify_program(program);
    ASSERT_FALSE(status.ok()) << fault.message;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(status.error().message, HasSubstr(fault.message));
    EXPECT_FALSE(Executable::create(program, LoadedKernels::from_functions({{add}})).ok());
  }
}

TEST(VerifyProgram, BoundsTheNestingOfSteps) {
  for (const int depth : {kMaxStepDepth, kMaxStepDepth + 1}) {
    Program program = sound();
    for (int i = 0; i < depth; ++i) {
      ProgramStep outer = ProgramFixture::if_step(kFlag, std::move(program.steps), {});
      program.steps.clear();
      program.steps.push_back(std::move(outer));
    }
    // The sound program's own scan and if add a level.
    EXPECT_EQ(verify_program(program).ok(), depth < kMaxStepDepth) << depth;
  }
}

TEST(VerifyProgram, OrdersBuffersAfterTheirParts) {
  const LoopFacts facts = loop_facts(sound());
  EXPECT_THAT(facts.trips, ElementsAre(3, 0));
  EXPECT_THAT(facts.moving[0], ElementsAre(kH, kHNext, kXt, kYt, kStacked));
  EXPECT_THAT(facts.moving[1], ElementsAre());
}

TEST(VerifyProgram, SlicesOfACarryMoveWithBothLoops) {
  ProgramFixture f;
  const int32_t outer = f.new_loop(), inner = f.new_loop();
  const auto [c, c_next] = f.carry(outer, {2, 4});
  const int32_t row = f.slice(c, inner, {4});
  f.step(ProgramFixture::scan(outer, 5, {}, {ProgramFixture::scan(inner, 2, {}, {})}));
  ASSERT_TRUE(verify_program(f.program).ok());
  const LoopFacts facts = loop_facts(f.program);
  EXPECT_THAT(facts.moving[0], ElementsAre(c, c_next, row));
  EXPECT_THAT(facts.moving[1], ElementsAre(row));
}

TEST(VerifyProgram, HostileChainsEndQuickly) {
  ProgramFixture f;
  std::pair<int32_t, int32_t> last = f.carry(f.new_loop(), {1});
  for (int i = 0; i < 2000; ++i) {
    const std::pair<int32_t, int32_t> next = f.carry(f.new_loop(), {1});
    for (int32_t id : {next.first, next.second}) {
      buffer(f.program, id).base = last.first;
      buffer(f.program, id).other = last.second;
    }
    last = next;
  }
  for (int32_t loop = 0; loop < f.program.loop_count; ++loop) {
    f.step(ProgramFixture::scan(loop, 1, {}, {}));
  }
  EXPECT_THAT(verify_program(f.program).error().message, HasSubstr("too many loops"));
}

}  // namespace
}  // namespace weft::testing
