#include "support/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class AtomicFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft-atomic-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ / "f"; }
  std::string content() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsWhenItIsComplete) {
  for (const bool durable : {true, false}) {
    std::ofstream(path()) << "old";
    auto file = AtomicFile::create(path());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write(bytes_of("one, ")).ok());
    ASSERT_TRUE(file->write(bytes_of("two")).ok());
    EXPECT_EQ(content(), "old");
    ASSERT_TRUE(file->commit(durable).ok());
    EXPECT_EQ(content(), "one, two");
    EXPECT_THAT(files(), ::testing::ElementsAre("f"));
  }
}

TEST_F(AtomicFileTest, AWriterThatIsKilledLeavesTheOldFileAlone) {
  std::ofstream(path()) << "old";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto file = AtomicFile::create(path());
    const bool written = file.ok() && file->write(bytes_of("half of")).ok();
    const char done = written ? 'y' : 'n';
    if (write(ends[1], &done, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char done = 0;
  ASSERT_EQ(read(ends[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(content(), "old");
  EXPECT_THAT(files(), ::testing::ElementsAre("f"));
}

}  // namespace
}  // namespace weft
