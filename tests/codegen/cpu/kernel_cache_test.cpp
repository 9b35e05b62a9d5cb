#include "codegen/cpu/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/cpu/compile_kernels.h"
#include "support/cache_folder.h"
#include "tests/codegen/cpu/kernel_runner.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// y = x * factor.
KernelFunction scale_kernel(float factor, const std::string& name = "scale") {
  KernelFunction k;
  k.name = name;
  k.buffers = {make_buffer("x", DType::kF32, KernelBuffer::Kind::kInput, 16),
               make_buffer("y", DType::kF32, KernelBuffer::Kind::kOutput, 16)};
  KernelBuilder b(k);
  const Reg begin = b.begin_phase(1).first;
  const Reg c = b.constant({DType::kF32, 16}, float_value(DType::kF32, factor));
  b.store(1, begin, b.apply(ScalarOp::kMul, {b.load(0, begin, 16), c}, DType::kF32));
  b.end_phase();
  return k;
}

std::vector<KernelToCompile> all_of(const std::vector<KernelFunction>& kernels) {
  std::vector<KernelToCompile> all;
  for (const KernelFunction& kernel : kernels) all.push_back({&kernel});
  return all;
}

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "weft_kernel_cache_" + std::to_string(getpid());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  CacheFolder::Options options() {
    return {directory_ + "/below", int64_t{1} << 20, false,
            [this](const std::string& message) { warnings_.push_back(message); }};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory_ + "/below")) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }

  const Target target_ = host_cpu_target(1);
  std::string directory_;
  std::vector<std::string> warnings_;
};

TEST_F(KernelCacheTest, CompilesEqualKernelsOnceAndFindsThemAgain) {
  const std::vector<KernelFunction> kernels = {scale_kernel(2), scale_kernel(3),
                                               scale_kernel(2, "again")};
  CacheFolder folder(options());
  KernelCache cache(folder);
  const auto cold = compile_kernels(all_of(kernels), target_, 2, &cache);
  ASSERT_TRUE(cold.ok()) << cold.error().message;
  EXPECT_EQ(cold->image_of, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_EQ(cold->from_cache, 0);
  EXPECT_EQ(files().size(), 2u);
  CacheFolder same(options());
  KernelCache later(same);
  const auto warm = compile_kernels(all_of(kernels), target_, 2, &later);
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(warm->from_cache, 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(warm->images[i].bytes, cold->images[i].bytes);
    EXPECT_EQ(warm->images[i].phase_entries, cold->images[i].phase_entries);
    EXPECT_EQ(warm->images[i].hash, cold->images[i].hash);
    EXPECT_EQ(warm->images[i].name, kernels[i].name);
  }
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(KernelCacheTest, KeysSeeTheKernelAndTheMachine) {
  const Hash128 key = kernel_cache_key(scale_kernel(2), target_);
  EXPECT_EQ(key, kernel_cache_key(scale_kernel(2, "other name"), target_));
  EXPECT_NE(key, kernel_cache_key(scale_kernel(4), target_));
  Target other = target_;
  other.features.emplace_back("not-for-our-code");
  EXPECT_EQ(key, kernel_cache_key(scale_kernel(2), other));
  other.features = {"sse3"};
  EXPECT_NE(key, kernel_cache_key(scale_kernel(2), other));
  other = target_;
  other.threads += 1;
  EXPECT_EQ(key, kernel_cache_key(scale_kernel(2), other));
}

TEST_F(KernelCacheTest, IgnoresAndReplacesWhatIsDamaged) {
  const std::vector<KernelFunction> kernels = {scale_kernel(5)};
  CacheFolder folder(options());
  KernelCache cache(folder);
  ASSERT_TRUE(compile_kernels(all_of(kernels), target_, 1, &cache).ok());
  ASSERT_EQ(files().size(), 1u);
  const std::string path = files()[0];
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(path, std::ios::binary) << bad;
    EXPECT_FALSE(cache.find(kernel_cache_key(kernels[0], target_)).has_value()) << at;
  }
  for (const size_t length : {size_t{0}, size_t{9}, good.size() / 2, good.size() - 1}) {
    std::ofstream(path, std::ios::binary) << good.substr(0, length);
    EXPECT_FALSE(cache.find(kernel_cache_key(kernels[0], target_)).has_value()) << length;
  }
  const auto again = compile_kernels(all_of(kernels), target_, 1, &cache);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->from_cache, 0);
  EXPECT_TRUE(cache.find(kernel_cache_key(kernels[0], target_)).has_value());
}

TEST_F(KernelCacheTest, WarnsOnceAndGoesOnWithoutAFolder) {
  fs::create_directories(directory_);
  std::ofstream(directory_ + "/below") << "a file where the folder should be";
  CacheFolder folder(options());
  KernelCache cache(folder);
  const std::vector<KernelFunction> kernels = {scale_kernel(2), scale_kernel(3)};
  const auto compiled = compile_kernels(all_of(kernels), target_, 2, &cache);
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->images.size(), 2u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr(directory_ + "/below"));
}

TEST_F(KernelCacheTest, ServesManyThreadsAtOnce) {
  const std::vector<KernelFunction> kernels = {scale_kernel(2), scale_kernel(3), scale_kernel(4)};
  std::vector<std::thread> threads;
  std::vector<GeneratedCode> results(4);
  for (GeneratedCode& result : results) {
    threads.emplace_back([&] {
      CacheFolder folder(options());
      KernelCache cache(folder);
      auto compiled = compile_kernels(all_of(kernels), target_, 2, &cache);
      if (compiled.ok()) result = std::move(*compiled);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const GeneratedCode& result : results) {
    ASSERT_EQ(result.images.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(result.images[i].bytes, results[0].images[i].bytes);
  }
  EXPECT_EQ(files().size(), 3u);
}

}  // namespace
}  // namespace weft
