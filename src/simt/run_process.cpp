#include "simt/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace weft::simt {
namespace {

/// Two ends of a pipe that close themselves; neither is inherited but by what names it.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool open() { return ::pipe2(ends, O_CLOEXEC) == 0; }
  void close_end(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
};

/// SIGPIPE held back from this thread while it writes to a process that may have ended.
class HoldSigpipe {
 public:
  HoldSigpipe() {
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before_);
  }
  ~HoldSigpipe() {
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    const timespec now = {0, 0};
    while (sigtimedwait(&pipe_only, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HoldSigpipe(const HoldSigpipe&) = delete;
  HoldSigpipe& operator=(const HoldSigpipe&) = delete;

 private:
  sigset_t before_;
};

/// Writes `input` and reads until the other side has closed its output.
std::string exchange(Pipe& in, Pipe& out, const std::string& input) {
  const HoldSigpipe hold;
  std::string text;
  size_t written = 0;
  if (input.empty()) in.close_end(1);
  for (;;) {
    pollfd polled[2] = {{out.ends[0], POLLIN, 0}, {in.ends[1], POLLOUT, 0}};
    if (::poll(polled, in.ends[1] >= 0 ? 2 : 1, -1) < 0) {
      if (errno == EINTR) continue;
      return text;
    }
    if (in.ends[1] >= 0 && polled[1].revents != 0) {
      const ssize_t n = ::write(in.ends[1], input.data() + written,
                                std::min<size_t>(input.size() - written, 4096));
      if (n > 0) written += static_cast<size_t>(n);
      if ((n < 0 && errno != EINTR) || written == input.size()) in.close_end(1);
    }
    if (polled[0].revents != 0) {
      std::array<char, 65536> buffer;
      const ssize_t n = ::read(out.ends[0], buffer.data(), buffer.size());
      if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) return text;
    }
  }
}

}  // namespace

Result<ProcessOutput> run_process(const std::vector<std::string>& arguments,
                                  const std::string& input) {
  const auto failure = [&](int error) {
    return Error{ErrorCode::kMissingDevice,
                 "cannot run '" + arguments[0] + "': " + std::strerror(error)};
  };
  Pipe in, out;
  if (!in.open() || !out.open()) return failure(errno);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 2);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failure(error);
  in.close_end(0);
  out.close_end(1);

  ProcessOutput output;
  output.text = exchange(in, out, input);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return failure(errno);
  }
  output.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace weft::simt
