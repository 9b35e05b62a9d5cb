#include "support/cache_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr Hash128 kKey{1, 2};

class CacheFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "weft_cache_folder_" + std::to_string(getpid());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  CacheFolder::Options options(int64_t max_bytes = int64_t{1} << 30, bool verify = false) {
    return {directory_, max_bytes, verify, {}};
  }
  std::string path(const Hash128& key) const { return directory_ + "/" + to_hex(key) + ".data"; }

  static bool insert(CacheFolder& cache, const Hash128& key, const std::string& content) {
    const std::span<const std::byte> parts[] = {
        std::as_bytes(std::span(content)).first(content.size() / 2),
        std::as_bytes(std::span(content)).subspan(content.size() / 2)};
    return cache.insert(key, "data", parts);
  }
  static std::string find(const CacheFolder& cache, const Hash128& key) {
    const auto found = cache.find(key, "data");
    if (!found) return "(none)";
    return {reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()};
  }
  /// Changes one byte in the middle and puts the times back if `hide`.
  void damage(const Hash128& key, bool hide) {
    struct stat info{};
    ASSERT_EQ(stat(path(key).c_str(), &info), 0);
    std::fstream file(path(key), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(info.st_size / 2));
    file.put('#');
    file.close();
    const timespec times[2] = {info.st_atim, info.st_mtim};
    if (hide) utimensat(AT_FDCWD, path(key).c_str(), times, 0);
  }

  const std::string large_ = std::string(3 << 20, 'x');
  std::string directory_;
};

TEST_F(CacheFolderTest, FindsWhatWasInsertedUnderItsKeyAndKind) {
  CacheFolder cache(options());
  ASSERT_TRUE(insert(cache, kKey, "some bytes"));
  EXPECT_EQ(find(CacheFolder(options()), kKey), "some bytes");
  EXPECT_EQ(find(cache, Hash128{1, 3}), "(none)");
  EXPECT_FALSE(cache.find(kKey, "other").has_value());
  ASSERT_TRUE(insert(cache, kKey, ""));
  EXPECT_EQ(find(cache, kKey), "");
}

TEST_F(CacheFolderTest, LargeEntriesAreAlignedAndLeftAlone) {
  CacheFolder cache(options());
  ASSERT_TRUE(insert(cache, kKey, large_));
  const auto found = cache.find(kKey, "data");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % 64, 0U);
  EXPECT_EQ(find(cache, kKey), large_);
}

TEST_F(CacheFolderTest, ALargeEntryThatSomebodyWroteToIsNone) {
  CacheFolder cache(options());
  ASSERT_TRUE(insert(cache, kKey, large_));
  damage(kKey, false);
  EXPECT_EQ(find(cache, kKey), "(none)");
  ASSERT_TRUE(insert(cache, kKey, large_));
  EXPECT_EQ(find(cache, kKey), large_);
}

TEST_F(CacheFolderTest, VerifyChecksALargeEntryWhoseTimesAreAsTheyWere) {
  CacheFolder cache(options());
  ASSERT_TRUE(insert(cache, kKey, large_));
  damage(kKey, true);
  EXPECT_EQ(find(CacheFolder(options(int64_t{1} << 30, true)), kKey), "(none)");
}

TEST_F(CacheFolderTest, ACopiedFolderServesAndIsTrustedAgain) {
  {
    CacheFolder cache(options());
    ASSERT_TRUE(insert(cache, kKey, large_));
  }
  fs::last_write_time(path(kKey), fs::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_EQ(find(CacheFolder(options()), kKey), large_);
  damage(kKey, true);
  EXPECT_NE(find(CacheFolder(options()), kKey), "(none)") << "the time was set back";
}

TEST_F(CacheFolderTest, TruncatedEntriesAreNone) {
  CacheFolder cache(options());
  for (const size_t length : {size_t{0}, size_t{30}, size_t{64}, large_.size()}) {
    ASSERT_TRUE(insert(cache, kKey, large_));
    fs::resize_file(path(kKey), length);
    EXPECT_EQ(find(cache, kKey), "(none)") << length;
  }
}

TEST_F(CacheFolderTest, KeepsWhatWasUsedLast) {
  CacheFolder cache(options());
  const auto key = [](uint64_t n) { return Hash128{n, n}; };
  for (uint64_t n = 0; n < 8; ++n) {
    ASSERT_TRUE(insert(cache, key(n), std::string(1000, 'x')));
    const timespec times[2] = {{static_cast<time_t>(1000 + n), 0}, {0, UTIME_OMIT}};
    utimensat(AT_FDCWD, path(key(n)).c_str(), times, 0);
  }
  EXPECT_NE(find(cache, key(0)), "(none)");  // the oldest, used now
  std::ofstream(directory_ + "/left.1.2.unfinished") << "x";
  fs::last_write_time(directory_ + "/left.1.2.unfinished",
                      fs::file_time_type::clock::now() - std::chrono::hours(3));
  std::ofstream(directory_ + "/of-somebody-else.txt") << std::string(5000, 'x');
  CacheFolder bounded(options(4000));
  EXPECT_LE(bounded.trim(), 4000);
  EXPECT_NE(find(bounded, key(0)), "(none)");
  EXPECT_NE(find(bounded, key(7)), "(none)");
  EXPECT_EQ(find(bounded, key(1)), "(none)");
  EXPECT_FALSE(fs::exists(directory_ + "/left.1.2.unfinished"));
  EXPECT_TRUE(fs::exists(directory_ + "/of-somebody-else.txt"));
}

TEST_F(CacheFolderTest, WarnsOnceWithoutAFolder) {
  fs::create_directories(directory_);
  const std::string blocked = directory_ + "/file/below";
  std::ofstream(directory_ + "/file") << "a file where a folder should be";
  int warnings = 0;
  CacheFolder cache({blocked, 1 << 20, false, [&](const std::string&) { ++warnings; }});
  EXPECT_FALSE(insert(cache, kKey, "x"));
  EXPECT_EQ(find(cache, kKey), "(none)");
  EXPECT_EQ(warnings, 1);
}

class SharedCacheFolderTest : public CacheFolderTest {
 protected:
  static constexpr uid_t kOtherUser = 12345;

  void SetUp() override {
    CacheFolderTest::SetUp();
    CacheFolder cache(options());
    ASSERT_TRUE(insert(cache, kKey, "code"));
  }
  void TearDown() override {
    unlink(link_.c_str());
    CacheFolderTest::TearDown();
  }
  /// What is told when the folder, and a link to it, are opened; neither may serve.
  void expect_unused(const std::string& why) {
    unlink(link_.c_str());
    ASSERT_EQ(symlink(directory_.c_str(), link_.c_str()), 0);
    for (const std::string& name : {directory_, link_}) {
      std::vector<std::string> warnings;
      CacheFolder cache(
          {name, 1 << 20, false, [&](const std::string& message) { warnings.push_back(message); }});
      EXPECT_EQ(find(cache, kKey), "(none)");
      EXPECT_FALSE(insert(cache, Hash128{3, 4}, "more"));
      ASSERT_EQ(warnings.size(), 1U);
      EXPECT_NE(warnings[0].find(name), std::string::npos) << warnings[0];
      EXPECT_NE(warnings[0].find(why), std::string::npos) << warnings[0];
    }
    EXPECT_FALSE(fs::exists(path({3, 4})));
  }
  std::string found() {
    const CacheFolder cache(options());
    return find(cache, kKey);
  }

  const std::string link_ = ::testing::TempDir() + "weft_cache_link_" + std::to_string(getpid());
};

TEST_F(SharedCacheFolderTest, OneThatOthersMayWriteToIsNotUsed) {
  for (const mode_t mode : {0777, 0770, 0702, 01777}) {
    ASSERT_EQ(chmod(directory_.c_str(), mode), 0);
    expect_unused("others may write to it");
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_EQ(found(), "code");
}

TEST_F(SharedCacheFolderTest, OneOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(directory_.c_str(), kOtherUser, static_cast<gid_t>(-1)), 0);
  expect_unused("user 12345 owns it");
}

TEST_F(SharedCacheFolderTest, EntriesThatOthersMayWriteToAreReplaced) {
  ASSERT_EQ(chmod(path(kKey).c_str(), 0666), 0);
  EXPECT_EQ(found(), "(none)");
  CacheFolder cache(options());
  EXPECT_TRUE(insert(cache, kKey, "mine"));
  EXPECT_EQ(found(), "mine");
}

TEST_F(SharedCacheFolderTest, EntriesOfAnotherUserAreReplaced) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(path(kKey).c_str(), kOtherUser, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(found(), "(none)");
  CacheFolder cache(options());
  EXPECT_TRUE(insert(cache, kKey, "mine"));
  EXPECT_EQ(found(), "mine");
}

TEST_F(SharedCacheFolderTest, IsMadeForItsOwnerInAParentOpenToAll) {
  fs::remove_all(directory_);
  fs::create_directories(directory_);
  ASSERT_EQ(chmod(directory_.c_str(), 01777), 0);
  const std::string inside = directory_ + "/cache/";
  const mode_t mask = umask(0);
  CacheFolder cache({inside, 1 << 20, false, {}});
  umask(mask);
  EXPECT_TRUE(insert(cache, kKey, "code"));
  EXPECT_EQ(find(cache, kKey), "code");
  struct stat info{};
  ASSERT_EQ(stat(inside.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

}  // namespace
}  // namespace weft
