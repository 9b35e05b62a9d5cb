#include "tests/tools/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "tests/import/onnx/model_writer.h"
#include "tests/paths.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;

std::string read_all(int fd) {
  std::string text;
  char chunk[4096];
  for (ssize_t n = 0; (n = read(fd, chunk, sizeof chunk)) > 0;) {
    text.append(chunk, static_cast<size_t>(n));
  }
  close(fd);
  return text;
}

[[noreturn]] void become_weft(const std::vector<std::string>& arguments, int out, int err,
                              const CommandOptions& options) {
  if (!options.standard_output.empty()) out = open(options.standard_output.c_str(), O_WRONLY);
  if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
  if (options.max_file_bytes != RLIM_INFINITY) {
    const struct rlimit limit{options.max_file_bytes, options.max_file_bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
  }
  unsetenv("WEFT_CACHE");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  const std::string command = std::string(WEFT_BINARY_DIR) + "/weft";
  std::vector<char*> words = {const_cast<char*>(command.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(command.c_str(), words.data());
  _exit(99);
}

}  // namespace

CommandRun run_weft(const std::vector<std::string>& arguments, const CommandOptions& options) {
  int out[2], err[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) become_weft(arguments, out[1], err[1], options);
  close(out[1]);
  close(err[1]);
  if (options.interrupt_after_ms >= 0) {
    usleep(static_cast<useconds_t>(options.interrupt_after_ms) * 1000);
    kill(child, SIGINT);
  }
  CommandRun run;
  run.out = read_all(out[0]);
  run.err = read_all(err[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  run.exit_code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return run;
}

TestFolder::TestFolder() {
  std::string name = (fs::path(::testing::TempDir()) / "weft-command-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  root_ = name;
}
TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::permissions(root_, fs::perms::owner_all, ignored);
  fs::remove_all(root_, ignored);
}

std::vector<std::string> TestFolder::files(const std::string& below) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root_ / below)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string TestFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream(root_ / name, std::ios::binary) << content;
  return path(name);
}

std::string small_model() {
  return onnx::TestModel()
      .input("x", DType::kF32, {"N", 4})
      .initializer("w", onnx::f32_tensor({4}, {1, -2, 3, -4}))
      .node({"Add", {"x", "w"}, {"sum"}, {}, "the_sum"})
      .node({"Relu", {"sum"}, {"y"}, {}, "the_relu"})
      .output("y")
      .model();
}

}  // namespace weft::testing
