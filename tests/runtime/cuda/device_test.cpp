// The driver's use, on a driver that writes down what is asked of it.

#include "runtime/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/cuda/stream.h"
#include "tests/runtime/cuda/fake_driver.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const CudaDevice> open_device(FakeDriver& fake) {
  Result<std::shared_ptr<const CudaDriver>> driver = CudaDriver::from_functions(fake.functions());
  EXPECT_TRUE(driver.ok()) << driver.error().message;
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::open(*driver);
  EXPECT_TRUE(device.ok()) << device.error().message;
  return *device;
}

/// y = 2 x over a grid of one thread a block.
FakeKernel twice = {"twice", [](const CudaLaunchConfig& config, void** arguments) {
                      const auto x = *static_cast<CudaAddress*>(arguments[0]);
                      const auto y = *static_cast<CudaAddress*>(arguments[1]);
                      for (unsigned int i = 0; i < config.grid[0]; ++i) {
                        reinterpret_cast<float*>(y)[i] = 2 * reinterpret_cast<float*>(x)[i];
                      }
                    }};
std::span<const std::byte> image_of(const FakeKernel& kernel) {
  return std::as_bytes(std::span(&kernel, 1));
}

TEST(CudaDriver, AbsentDriverSaysWhatWasLookedFor) {
  const auto driver = CudaDriver::load("libno-such-driver.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(driver.error().message, HasSubstr("looked for libno-such-driver.so.1"));
}

TEST(CudaDriver, ALibraryWithoutTheFunctionsIsTooOld) {
  const auto driver = CudaDriver::load("libm.so.6");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(driver.error().message, HasSubstr("has no function cuInit"));
}

TEST(CudaDriver, WhatKeepsItFromStarting) {
  FakeDriver fake;
  const auto message = [&] {
    const auto driver = CudaDriver::from_functions(fake.functions());
    EXPECT_FALSE(driver.ok());
    EXPECT_EQ(driver.error().code, ErrorCode::kMissingDevice);
    return driver.error().message;
  };
  fake.failures["cuInit"] = 999;
  EXPECT_EQ(
      message(),
      "no CUDA device: starting the NVIDIA driver failed: CUDA error 999 (as the test asked)");
  fake.failures.clear();
  fake.version = 11080;
  EXPECT_EQ(message(),
            "the NVIDIA driver serves CUDA 11.8; CUDA 12.0 or later is needed: update the driver");
  fake.version = 12080;
  fake.devices = 0;
  EXPECT_EQ(message(), "the NVIDIA driver finds no device");
}

TEST(CudaDevice, RunsAKernelAndGivesEverythingBack) {
  FakeDriver fake;
  {
    const auto device = open_device(fake);
    EXPECT_EQ(device->properties().arch(), "sm_90");
    EXPECT_EQ(device->properties().sm_count, 4);
    const auto module = CudaModule::load(device, image_of(twice), "twice.cubin");
    ASSERT_TRUE(module.ok()) << module.error().message;
    const auto kernel = (*module)->kernel("twice", 100 << 10);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_EQ(kernel->registers, 40);
    EXPECT_THAT(fake.calls, Contains("cuFuncSetAttribute 8 102400"));
    EXPECT_EQ(*(*module)->resident_blocks(*kernel, 256, 0), 4 * 8);

    std::vector<float> x = {1, 2, 3}, y(3);
    Result<CudaMemory> dx = CudaMemory::allocate(device, 12);
    Result<CudaMemory> dy = CudaMemory::allocate(device, 12);
    Result<CudaStream> stream = CudaStream::create(device);
    ASSERT_TRUE(dx.ok() && dy.ok() && stream.ok());
    CudaAddress arguments[] = {dx->address(), dy->address()};
    void* pointers[] = {&arguments[0], &arguments[1]};
    CudaLaunchShape shape;
    shape.grid = {3, 1, 1};
    shape.cluster = 3;
    shape.cooperative = true;
    shape.shared_bytes = 100 << 10;
    EXPECT_TRUE(stream->copy_to_device(dx->address(), std::as_bytes(std::span(x))).ok());
    EXPECT_TRUE(stream->launch(*kernel, shape, pointers).ok());
    EXPECT_TRUE(stream->copy_to_host(std::as_writable_bytes(std::span(y)), dy->address()).ok());
    EXPECT_TRUE(stream->synchronize().ok());
    EXPECT_THAT(y, ::testing::ElementsAre(2, 4, 6));
    EXPECT_THAT(fake.calls,
                Contains("cuLaunchKernelEx 3x32 shared 102400 cooperative 1 cluster 3"));
    EXPECT_TRUE(stream->copy_on_device(dx->address(), dy->address(), 12).ok());
    EXPECT_TRUE(stream->fill_zero(dy->address(), 12).ok());
    EXPECT_TRUE(stream->copy_to_host(std::as_writable_bytes(std::span(x)), dx->address()).ok());
    EXPECT_TRUE(stream->copy_to_host(std::as_writable_bytes(std::span(y)), dy->address()).ok());
    EXPECT_THAT(x, ::testing::ElementsAre(2, 4, 6));
    EXPECT_THAT(y, ::testing::Each(0.0f));
    const auto time = stream->time_us([&](CudaStream& s) { return s.fill_zero(dy->address(), 4); });
    ASSERT_TRUE(time.ok());
    EXPECT_EQ(*time, 250.0);
  }
  EXPECT_EQ(fake.contexts, 0);
  EXPECT_EQ(fake.allocations, 0);
  EXPECT_EQ(fake.libraries, 0);
  EXPECT_EQ(fake.streams, 0);
  EXPECT_EQ(fake.events, 0);
}

TEST(CudaDevice, CapturesAGraphAndEndsAFailedCapture) {
  FakeDriver fake;
  const auto device = open_device(fake);
  Result<CudaStream> stream = CudaStream::create(device);
  ASSERT_TRUE(stream.ok());
  {
    const auto graph = stream->capture([](CudaStream&) { return Status(); });
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_EQ(fake.capturing, 0);
    EXPECT_EQ(fake.graphs, 1);
    EXPECT_TRUE(stream->launch(*graph).ok());
    EXPECT_THAT(fake.calls, Contains("cuGraphLaunch"));
  }
  EXPECT_EQ(fake.graphs, 0);
  const auto failed =
      stream->capture([](CudaStream&) { return Status(invalid_input("no such work")); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "no such work");
  EXPECT_EQ(fake.capturing, 0);
  EXPECT_EQ(fake.graphs, 0);
  fake.failures["cuGraphInstantiate"] = 801;
  EXPECT_FALSE(stream->capture([](CudaStream&) { return Status(); }).ok());
  EXPECT_EQ(fake.graphs, 0);
}

TEST(CudaDevice, ErrorsNameTheKernelAndTheirClass) {
  FakeDriver fake;
  const auto device = open_device(fake);
  fake.failures["cuMemAlloc"] = 2;
  const auto memory = CudaMemory::allocate(device, 64);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(memory.error().message,
              HasSubstr("allocating 64 bytes on Fake GPU failed: CUDA_ERROR_OUT_OF_MEMORY"));

  fake.failures["cuLibraryLoadData"] = 209;
  const auto refused = CudaModule::load(device, image_of(twice), "twice.cubin");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(refused.error().message, HasSubstr("(sm_90, driver for CUDA 12.8)"));
  fake.failures.clear();

  const auto module = CudaModule::load(device, image_of(twice), "twice.cubin");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ((*module)->kernel("thrice", 0).error().message, "'twice.cubin' has no kernel 'thrice'");
  EXPECT_EQ((*module)->kernel("twice", 1 << 20).error().code, ErrorCode::kMissingDevice);
  const auto kernel = (*module)->kernel("twice", 0);
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(fake.calls, Not(Contains(HasSubstr("cuFuncSetAttribute"))));

  Result<CudaStream> stream = CudaStream::create(device);
  ASSERT_TRUE(stream.ok());
  CudaAddress nothing = 0;
  void* pointers[] = {&nothing, &nothing};
  fake.failures["cuLaunchKernelEx"] = 701;
  const Status refused_launch = stream->launch(*kernel, {}, pointers);
  ASSERT_FALSE(refused_launch.ok());
  EXPECT_EQ(refused_launch.error().code, ErrorCode::kInternal);
  EXPECT_THAT(refused_launch.error().message,
              HasSubstr("starting kernel 'twice' failed: CUDA_ERROR_TEST"));
  fake.failures = {{"cuStreamSynchronize", 700}};
  EXPECT_THAT(stream->synchronize().error().message,
              HasSubstr("running kernel 'twice' failed: CUDA_ERROR_TEST (as the test asked)"));
}

TEST(CudaDevice, RefusesWhatTheDeviceLacks) {
  FakeDriver fake;
  fake.cooperative = 0;
  const auto device = open_device(fake);
  const auto none = CudaDevice::open(*CudaDriver::from_functions(fake.functions()), 1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "there is no CUDA device 1; the driver finds 1");
  const auto module = CudaModule::load(device, image_of(twice), "twice.cubin");
  const auto kernel = (*module)->kernel("twice", 0);
  Result<CudaStream> stream = CudaStream::create(device);
  ASSERT_TRUE(kernel.ok() && stream.ok());
  CudaLaunchShape shape;
  shape.cooperative = true;
  const Status refused = stream->launch(*kernel, shape, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(refused.error().message, HasSubstr("'twice' needs a cooperative launch"));
}

}  // namespace
}  // namespace weft
