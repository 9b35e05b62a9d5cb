// Programs for a GPU on a driver of the test's own: what is asked of it, and in which order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/execution_context.h"
#include "runtime/load_programs.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// buffers[1] = buffers[0] * 2 + 1 over as many floats as the number says.
void double_all(const CudaLaunchConfig&, void** arguments) {
  const auto* x = *static_cast<const float**>(arguments[0]);
  auto* y = *static_cast<float**>(arguments[1]);
  const int64_t n = *static_cast<int64_t*>(arguments[2]);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2 + 1;
}

/// A kernel whose last parameter is the counter of the grid's barrier: counts its launches there.
void count_launches(const CudaLaunchConfig&, void** arguments) {
  auto* y = *static_cast<float**>(arguments[0]);
  auto* counter = *static_cast<uint32_t**>(arguments[1]);
  y[0] = static_cast<float>(++*counter);
}

KernelImage image_of(const FakeKernel& kernel) {
  KernelImage image;
  image.name = std::string("step ") + kernel.name;
  const auto bytes = std::as_bytes(std::span(&kernel, 1));
  image.bytes.assign(bytes.begin(), bytes.end());
  image.phase_entries = {0};
  image.device.entry = kernel.name;
  image.device.blocks = 4;
  image.device.threads = 64;
  return image;
}

class DeviceRunTest : public ::testing::Test {
 protected:
  DeviceRunTest() { fixture_.program.arch = "sm_90"; }

  /// The number of a kernel like those of ProgramFixture::kernel.
  int32_t kernel(const char* name, void (*run)(const CudaLaunchConfig&, void**)) {
    fixture_.program.kernels.push_back(image_of({name, run}));
    return static_cast<int32_t>(fixture_.program.kernels.size()) - 1;
  }

  Result<std::shared_ptr<const Executable>> load() {
    WEFT_ASSIGN_OR_RETURN(auto driver, CudaDriver::from_functions(fake_.functions()));
    WEFT_ASSIGN_OR_RETURN(auto device, CudaDevice::open(driver));
    return Executable::create(fixture_.program, device);
  }

  std::unique_ptr<ExecutionContext> context() {
    auto executable = load();
    EXPECT_TRUE(executable.ok()) << executable.error().message;
    auto context = ExecutionContext::create(*executable);
    EXPECT_TRUE(context.ok()) << context.error().message;
    return std::move(*context);
  }

  ptrdiff_t calls(const std::string& start) const {
    return std::ranges::count_if(fake_.calls,
                                 [&](const std::string& call) { return call.starts_with(start); });
  }

  FakeDriver fake_;
  ProgramFixture fixture_;
};

TEST_F(DeviceRunTest, StraightProgramsAreOneGraph) {
  const int32_t x = fixture_.input("x", {8}), y = fixture_.output("y", {8});
  const int32_t t = fixture_.arena({8});
  const int32_t twice = kernel("twice", double_all);
  fixture_.step(ProgramFixture::launch(twice, {x, t}, {1}, {8}));
  fixture_.step(ProgramFixture::copy(t, y));
  const auto run = context();
  // The fake runs what is captured at once, and a graph not at all.
  std::vector<float> given = iota(8), got(8);
  const Shape given_shape = {8};
  const InputRef inputs[] = {in(given, given_shape)};
  const Shape shape = {8};
  const OutputRef outputs[] = {out(got, shape)};
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(got, (std::vector<float>{3, 5, 7, 9, 11, 13, 15, 17}));
  EXPECT_EQ(calls("cuStreamBeginCapture"), 1);
  EXPECT_EQ(calls("cuGraphLaunch"), 1);
  fake_.calls.clear();
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(calls("cuStreamBeginCapture"), 0);
  EXPECT_EQ(calls("cuLaunchKernelEx"), 0);
  EXPECT_EQ(calls("cuGraphLaunch"), 1);
  EXPECT_EQ(calls("cuMemcpyHtoDAsync"), 1);
  EXPECT_EQ(calls("cuMemcpyDtoHAsync"), 1);
}

TEST_F(DeviceRunTest, TensorsOnTheDeviceDoNotGoOverTheHost) {
  const int32_t x = fixture_.input("x", {8}), y = fixture_.output("y", {8});
  fixture_.step(ProgramFixture::launch(kernel("twice", double_all), {x, y}, {1}, {8}));
  const auto run = context();
  // The fake's device memory is the host's.
  std::vector<float> given = iota(8), got(8);
  const Shape shape = {8};
  InputRef inputs[] = {in(given, shape)};
  OutputRef outputs[] = {out(got, shape)};
  inputs[0].on_device = outputs[0].on_device = true;
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(got, (std::vector<float>{3, 5, 7, 9, 11, 13, 15, 17}));
  EXPECT_EQ(calls("cuMemcpyHtoDAsync") + calls("cuMemcpyDtoHAsync"), 0);
  EXPECT_EQ(calls("cuMemcpyDtoDAsync"), 2);
  // The next run may have them elsewhere.
  outputs[0].on_device = false;
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(calls("cuMemcpyDtoHAsync"), 1);

  const int64_t backwards[] = {-1};
  inputs[0].strides = backwards;
  const Status strided = run->run(inputs, outputs);
  ASSERT_FALSE(strided.ok());
  EXPECT_THAT(strided.error().message, AllOf(HasSubstr("input 'x'"), HasSubstr("contiguous")));
}

TEST_F(DeviceRunTest, ScansAreCapturedWithEveryIteration) {
  const int32_t x = fixture_.input("x", {5, 2}), y = fixture_.output("y", {5, 2});
  const int32_t loop = fixture_.new_loop();
  const int32_t from = fixture_.slice(x, loop, {2}), to = fixture_.slice(y, loop, {2}, true);
  const int32_t twice = kernel("twice", double_all);
  fixture_.step(
      ProgramFixture::scan(loop, 5, {}, {ProgramFixture::launch(twice, {from, to}, {1}, {2})}));
  const auto run = context();
  std::vector<float> given = iota(10), got(10);
  const Shape given_shape = {5, 2};
  const InputRef inputs[] = {in(given, given_shape)};
  const Shape shape = {5, 2};
  const OutputRef outputs[] = {out(got, shape)};
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(got, (std::vector<float>{19, 21, 15, 17, 11, 13, 7, 9, 3, 5}));
  EXPECT_EQ(calls("cuLaunchKernelEx"), 5);
  EXPECT_EQ(calls("cuGraphLaunch"), 1);
}

TEST_F(DeviceRunTest, HostOperationsGetTheirOperandsFromTheDevice) {
  const int32_t x = fixture_.input("x", {4}), y = fixture_.output("y", {4});
  const int32_t t = fixture_.arena({4}), order = fixture_.arena({4}, DType::kI64);
  const int32_t twice = kernel("twice", double_all);
  fixture_.step(ProgramFixture::launch(twice, {x, t}, {1}, {4}));
  HostStep sort;
  sort.op = HostStep::Op::kSort;
  sort.operands = {t};
  sort.results = {y, order};
  sort.descending = true;
  fixture_.step(ProgramFixture::host(sort));
  const auto run = context();
  std::vector<float> given = {1, 3, 2, 0}, got(4);
  const Shape given_shape = {4};
  const InputRef inputs[] = {in(given, given_shape)};
  const Shape shape = {4};
  const OutputRef outputs[] = {out(got, shape)};
  ASSERT_TRUE(run->run(inputs, outputs).ok());
  EXPECT_EQ(got, (std::vector<float>{7, 5, 3, 1}));
  EXPECT_EQ(calls("cuStreamBeginCapture"), 0);
}

TEST_F(DeviceRunTest, StepsAreTimedOneByOne) {
  const int32_t x = fixture_.input("x", {2}), y = fixture_.output("y", {2});
  fixture_.step(ProgramFixture::launch(kernel("twice", double_all), {x, y}, {1}, {2}));
  const auto run = context();
  std::vector<float> given(2), got(2);
  const Shape given_shape = {2};
  const InputRef inputs[] = {in(given, given_shape)};
  const Shape shape = {2};
  const OutputRef outputs[] = {out(got, shape)};
  std::vector<int64_t> ns(1);
  int64_t device_ns = 0;
  RunOptions options;
  options.step_nanoseconds = ns;
  options.device_nanoseconds = &device_ns;
  ASSERT_TRUE(run->run(inputs, outputs, options).ok());
  EXPECT_EQ(ns[0], 250000);  // what the fake says of every pair of events
  EXPECT_EQ(device_ns, 250000);
}

TEST_F(DeviceRunTest, GridBarriersGetACounterOfTheirOwn) {
  const int32_t y = fixture_.output("y", {1});
  const int32_t count = kernel("count", count_launches);
  fixture_.program.kernels.back().device.cooperative = true;
  fixture_.step(ProgramFixture::launch(count, {y}, {1}));
  const auto run = context();
  std::vector<float> got(1);
  const Shape shape = {1};
  const OutputRef outputs[] = {out(got, shape)};
  std::vector<int64_t> ns(1);
  RunOptions options;
  options.step_nanoseconds = ns;
  ASSERT_TRUE(run->run({}, outputs, options).ok());
  ASSERT_TRUE(run->run({}, outputs, options).ok());
  EXPECT_EQ(got[0], 2);
  EXPECT_THAT(fake_.calls, Contains("cuLaunchKernelEx 4x64 shared 0 cooperative 1"));
}

TEST_F(DeviceRunTest, WhatTheDeviceDoesNotRunIsSaid) {
  const int32_t y = fixture_.output("y", {1});
  fixture_.step(ProgramFixture::launch(kernel("count", count_launches), {y}, {1}));
  DeviceLaunch& launch = fixture_.program.kernels.back().device;
  const auto refusal = [&] {
    const auto executable = load();
    EXPECT_FALSE(executable.ok());
    if (executable.ok()) return std::string();
    EXPECT_EQ(executable.error().code, ErrorCode::kMissingDevice);
    return executable.error().message;
  };
  launch.cooperative = true;
  launch.blocks = 4 * 32 + 1;  // 4 multiprocessors of 2048 / 64 blocks
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'step count'"), HasSubstr("grid of 129 blocks"),
                               HasSubstr("Fake GPU holds 128")));
  launch.blocks = 1;
  launch.shared_bytes = 300 << 10;
  EXPECT_THAT(refusal(), HasSubstr("needs 307200 bytes of shared memory"));
  fixture_.program.arch = "sm_80";
  EXPECT_THAT(refusal(), HasSubstr("(sm_80), whose code Fake GPU (sm_90) does not run"));
}

TEST_F(DeviceRunTest, FailuresNameTheKernel) {
  const int32_t y = fixture_.output("y", {1});
  fixture_.step(ProgramFixture::launch(kernel("count", count_launches), {y}, {1}));
  fixture_.program.kernels.back().device.cooperative = true;
  const auto run = context();
  std::vector<float> got(1);
  const Shape shape = {1};
  const OutputRef outputs[] = {out(got, shape)};
  fake_.failures["cuLaunchKernelEx"] = 700;
  const Status status = run->run({}, outputs);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_THAT(status.error().message, HasSubstr("kernel 'step count'"));
  fake_.failures.clear();
  EXPECT_TRUE(run->run({}, outputs).ok());  // a graph that was not made is made again
}

TEST(DeviceArchitecture, RunsOnItsOwnMajorVersionAndLaterMinorOnes) {
  CudaDevice::Properties device;
  device.major = 8;
  device.minor = 6;
  EXPECT_TRUE(arch_runs_on("sm_80", device));
  EXPECT_TRUE(arch_runs_on("sm_86", device));
  EXPECT_TRUE(arch_runs_on("sm_86a", device));
  for (const char* other : {"sm_89", "sm_75", "sm_90", "sm_80a", "", "sm_", "86"}) {
    EXPECT_FALSE(arch_runs_on(other, device)) << other;
  }
}

}  // namespace
}  // namespace weft::testing
