#include "tools/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>

namespace weft {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::milliseconds kAtOnce(0);

std::string read_some(int fd) {
  char text[4096];
  const ssize_t n = read(fd, text, sizeof text);
  return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

TEST(ProgressBar, ShowsPassesAndKernels) {
  EXPECT_EQ(progress_text({"plan", 0, 0}), "weft: plan");
  const std::string half = progress_text({"generate", 12, 24});
  EXPECT_THAT(half, StartsWith("weft: generate ━"));
  EXPECT_THAT(half, EndsWith("╌ 12/24"));
  EXPECT_THAT(progress_text({"generate", 24, 24}), HasSubstr("━ 24/24"));
}

/// A terminal that takes escape sequences, whatever the tests run in.
class TerminalBar : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    ASSERT_EQ(openpty(&screen, &terminal, nullptr, nullptr, nullptr), 0);
  }
  void TearDown() override {
    close(terminal);
    close(screen);
  }
  int screen = -1, terminal = -1;
};

TEST_F(TerminalBar, LeavesNothingOnTheTerminal) {
  CompileOptions options;
  options.warn = [&](const std::string& message) {
    EXPECT_EQ(write(terminal, message.data(), message.size()),
              static_cast<ssize_t>(message.size()));
  };
  {
    const ProgressBar bar(&options, terminal, kAtOnce);
    ASSERT_TRUE(options.progress);
    options.progress({"plan", 0, 0});
    EXPECT_THAT(read_some(screen), EndsWith("weft: plan"));
    options.warn("the cache is full");
    EXPECT_EQ(read_some(screen), "\r\x1b[Kthe cache is full");
    usleep(100'000);
    options.progress({"generate", 1, 2});
    EXPECT_THAT(read_some(screen), EndsWith("1/2"));
  }
  EXPECT_EQ(read_some(screen), "\r\x1b[K");
  options.progress({"lower", 0, 0});  // of a copy that outlives it
  ASSERT_EQ(write(terminal, "x", 1), 1);
  EXPECT_EQ(read_some(screen), "x");
}

TEST_F(TerminalBar, SaysNothingOfWhatIsQuick) {
  CompileOptions options;
  {
    const ProgressBar bar(&options, terminal, std::chrono::hours(1));
    options.progress({"plan", 0, 0});
  }
  ASSERT_EQ(write(terminal, "x", 1), 1);
  EXPECT_EQ(read_some(screen), "x");
}

TEST(ProgressBar, IsForTerminalsAlone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  CompileOptions options;
  const ProgressBar bar(&options, ends[1], kAtOnce);
  EXPECT_FALSE(options.progress);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weft
