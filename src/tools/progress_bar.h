#pragma once

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "driver/compile_options.h"

namespace weft {

/// Shows on a terminal how far a compilation is, once it has taken a while: a pass's name or, while
/// code is made, a bar. The line goes away with the object. Anything but a terminal sees nothing.
class ProgressBar {
 public:
  /// Becomes the progress callback of the options, whose copies may outlive it, and makes room for
  /// their warnings.
  explicit ProgressBar(CompileOptions* options, int terminal = STDERR_FILENO,
                       std::chrono::milliseconds delay = std::chrono::milliseconds(500));
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  struct Line;
  std::shared_ptr<Line> line_;  ///< null: nothing is shown
};

/// "weft: plan", or "weft: generate ━━━━╌╌╌╌ 12/24".
std::string progress_text(const CompileProgress& progress);

}  // namespace weft
