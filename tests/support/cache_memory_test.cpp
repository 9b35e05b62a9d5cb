#include "support/cache_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft {
namespace {

constexpr Hash128 kKey{1, 2}, kOther{1, 3};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::optional<MappedFile>& entry) {
  if (!entry) return "(none)";
  return {reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size()};
}

bool insert(CacheMemory& cache, const Hash128& key, const std::string& text) {
  const std::span<const std::byte> parts[] = {bytes_of(text).first(1), bytes_of(text).subspan(1)};
  return cache.insert(key, "data", parts);
}

TEST(CacheMemory, KeepsCopiesOfWhatIsInserted) {
  CacheMemory cache;
  {
    const std::string gone = "abc";
    EXPECT_TRUE(insert(cache, kKey, gone));
  }
  EXPECT_TRUE(insert(cache, kOther, "x"));
  EXPECT_EQ(text_of(cache.find(kKey, "data")), "abc");
  EXPECT_EQ(text_of(cache.find(kKey, "other")), "(none)");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(cache.find(kKey, "data")->bytes.data()) % 64, 0U);
}

TEST(CacheMemory, SharesBytesAsLongAsSomebodyReadsThem) {
  CacheMemory cache;
  auto first = std::make_shared<const std::string>("weights");
  auto second = std::make_shared<const std::string>("weights");
  const auto shared = cache.share(kKey, "constant", {first, bytes_of(*first)});
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->bytes.data(), bytes_of(*first).data());
  // Made twice: both makers read the first.
  EXPECT_EQ(cache.share(kKey, "constant", {second, bytes_of(*second)})->bytes.data(),
            bytes_of(*first).data());
  EXPECT_EQ(cache.find(kKey, "constant")->bytes.data(), bytes_of(*first).data());
  first.reset();
  EXPECT_EQ(text_of(cache.find(kKey, "constant")), "weights");  // `shared` reads it
}

TEST(CacheMemory, SharedBytesGoWithTheirLastReader) {
  CacheMemory cache;
  auto made = std::make_shared<const std::string>("weights");
  cache.share(kKey, "constant", {made, bytes_of(*made)});
  made.reset();
  EXPECT_EQ(text_of(cache.find(kKey, "constant")), "(none)");
  made = std::make_shared<const std::string>("again");
  EXPECT_EQ(text_of(cache.share(kKey, "constant", {made, bytes_of(*made)})), "again");
}

TEST(CacheMemory, ForgetsCopiesBeyondItsBound) {
  CacheMemory cache(8);
  insert(cache, kKey, "12345");
  EXPECT_EQ(cache.trim(), 5);
  EXPECT_EQ(text_of(cache.find(kKey, "data")), "12345");
  insert(cache, kKey, "12345");  // there already
  EXPECT_EQ(cache.trim(), 5);
  insert(cache, kOther, "6789");
  EXPECT_EQ(cache.trim(), 0);
  EXPECT_EQ(text_of(cache.find(kKey, "data")), "(none)");
}

}  // namespace
}  // namespace weft
