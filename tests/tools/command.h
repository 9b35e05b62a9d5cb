#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace weft::testing {

/// What a run of the command left.
struct CommandRun {
  int exit_code = -1;  ///< minus the signal's number when a signal ended it
  std::string out, err;
};

struct CommandOptions {
  std::string standard_output;  ///< a file that takes stdout; empty: CommandRun::out
  rlim_t max_file_bytes = RLIM_INFINITY;
  std::map<std::string, std::string> environment;  ///< added to this process's
  int interrupt_after_ms = -1;                     ///< SIGINT to the command, if it still runs then
};

/// Runs build/…/weft with these arguments, without a cache unless they name one.
CommandRun run_weft(const std::vector<std::string>& arguments, const CommandOptions& options = {});

/// A folder of its own for each test, removed after it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  std::string path(const std::string& name = "") const { return (root_ / name).string(); }
  /// Names of what lies in it, in order.
  std::vector<std::string> files(const std::string& below = "") const;
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path root_;
};

/// y = relu(x + w), x: f32[N, 4]; the last axis of x has the extent 4.
std::string small_model();

}  // namespace weft::testing
