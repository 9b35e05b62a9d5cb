#include "support/release_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "support/mapped_file.h"

namespace weft {
namespace {

std::vector<unsigned char> counted(size_t size) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 4096);
  return bytes;
}

TEST(ReleasePages, KeepsWhatMemoryAndFilesHold) {
  const std::vector<unsigned char> expected = counted(1 << 20);
  std::vector<unsigned char> memory = expected;
  release_pages(std::as_bytes(std::span(memory)).subspan(3, memory.size() - 10));
  EXPECT_EQ(memory, expected);

  const std::string path = testing::TempDir() + "weft-release-pages-" + std::to_string(getpid());
  FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(expected.data(), 1, expected.size(), file), expected.size());
  std::fclose(file);
  const auto mapped = map_file(path);
  ASSERT_TRUE(mapped.ok());
  release_pages(mapped->bytes);
  EXPECT_TRUE(std::ranges::equal(mapped->bytes, std::as_bytes(std::span(expected))));
  std::remove(path.c_str());
}

TEST(ReleasePages, TakesLessThanAPage) {
  std::vector<unsigned char> memory = counted(100);
  release_pages(std::as_bytes(std::span(memory)));
  release_pages({});
  EXPECT_EQ(memory, counted(100));
}

}  // namespace
}  // namespace weft
