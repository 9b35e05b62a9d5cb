#include "tools/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

/// To the line's start, and what stands there away.
constexpr std::string_view kErase = "\r\x1b[K";
constexpr std::chrono::milliseconds kBetween(50);  ///< two states that are shown
constexpr int64_t kCells = 30;

bool is_terminal(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace

struct ProgressBar::Line {
  int fd;
  Clock::time_point next;  ///< when something may be shown
  bool shown = false, over = false;
  std::mutex mutex;

  void put(std::string_view text) const {
    // What cannot be written is not worth a word.
    [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
  }
  void show(const CompileProgress& progress) {
    const std::lock_guard lock(mutex);
    if (over || Clock::now() < next) return;
    next = Clock::now() + kBetween;
    shown = true;
    put(std::string(kErase) + progress_text(progress));
  }
  /// For other text, or for good.
  void take_away(bool for_good) {
    const std::lock_guard lock(mutex);
    over = for_good;
    if (shown) put(kErase);
    shown = false;
  }
};

std::string progress_text(const CompileProgress& progress) {
  if (progress.total <= 0) return fmt::format("weft: {}", progress.pass);
  const int64_t full = std::clamp<int64_t>(kCells * progress.done / progress.total, 0, kCells);
  std::string bar;
  for (int64_t cell = 0; cell < kCells; ++cell) bar += cell < full ? "━" : "╌";
  return fmt::format("weft: {} {} {}/{}", progress.pass, bar, progress.done, progress.total);
}

ProgressBar::ProgressBar(CompileOptions* options, int terminal, std::chrono::milliseconds delay) {
  if (!is_terminal(terminal)) return;
  line_ = std::make_shared<Line>();
  line_->fd = terminal;
  line_->next = Clock::now() + delay;
  options->progress = [line = line_](const CompileProgress& progress) { line->show(progress); };
  if (!options->warn) return;
  options->warn = [line = line_, warn = options->warn](const std::string& message) {
    line->take_away(/*for_good=*/false);
    warn(message);
  };
}

ProgressBar::~ProgressBar() {
  if (line_) line_->take_away(/*for_good=*/true);
}

}  // namespace weft
