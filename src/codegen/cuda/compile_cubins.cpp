#include "codegen/cuda/compile_cubins.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>

#include "codegen/cuda/prelude.h"

namespace weft {
namespace {

/// A text to compile: the first of those that are equal.
struct Job {
  size_t text = 0;
  Hash128 key;
  std::optional<Result<CudaBinary>> result;
  bool ended = false;  ///< the helper did, without a result
};

/// A result as bytes through a pipe: '+' and a binary, or '-', the code of the error and its text.
std::string encode_result(const Result<CudaBinary>& result) {
  if (result.ok()) return "+" + encode_cuda_binary(*result);
  return "-" + std::to_string(static_cast<int>(result.error().code)) + " " + result.error().message;
}

Result<CudaBinary> decode_result(const std::string& bytes, const std::string& name) {
  if (bytes.starts_with('+')) {
    if (std::optional<CudaBinary> binary = decode_cuda_binary(std::string_view(bytes).substr(1))) {
      return *std::move(binary);
    }
  }
  const size_t space = bytes.find(' ');
  if (bytes.starts_with('-') && space != std::string::npos) {
    return Error{static_cast<ErrorCode>(std::strtol(bytes.c_str() + 1, nullptr, 10)),
                 bytes.substr(space + 1)};
  }
  return Error{ErrorCode::kInternal, "NVRTC ended while it compiled '" + name + "'"};
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

/// A child process that compiles one text and writes the result to a pipe.
class Helper {
 public:
  Helper(Job& job, const CudaText& text, const Nvrtc& nvrtc, const NvrtcOptions& options)
      : job_(&job), name_(text.name) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      write_all(ends[1], encode_result(nvrtc.compile(text.text, text.name, options)));
      ::_exit(0);
    }
    ::close(ends[1]);
    fd_ = ends[0];
  }
  bool started() const { return pid_ > 0; }
  /// Ends the child; its job has no result.
  void stop() {
    ::kill(pid_, SIGKILL);
    ::close(fd_);
    wait();
  }
  int fd() const { return fd_; }
  /// Reads what there is; false once the child has closed its end, when the job has its result.
  bool read_some() {
    std::array<char, 65536> chunk;
    const ssize_t n = ::read(fd_, chunk.data(), chunk.size());
    if (n > 0) bytes_.append(chunk.data(), static_cast<size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) return true;
    ::close(fd_);
    wait();
    job_->ended = bytes_.empty();
    job_->result = decode_result(bytes_, name_);
    return false;
  }

 private:
  void wait() const {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Job* job_;
  std::string name_;
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string bytes_;
};

/// Milliseconds between looks at the flag.
constexpr int kBetweenLooks = 50;

void run_helpers(std::vector<Job*> jobs, std::span<const CudaText> texts, const Nvrtc& nvrtc,
                 const NvrtcOptions& options, size_t processes, CancelFlag cancel) {
  std::vector<Helper> running;
  size_t next = 0;
  while (next < jobs.size() || !running.empty()) {
    if (is_cancelled(cancel)) {
      for (Helper& helper : running) helper.stop();
      return;
    }
    while (next < jobs.size() && running.size() < processes) {
      Job& job = *jobs[next++];
      Helper helper(job, texts[job.text], nvrtc, options);
      if (helper.started()) {
        running.push_back(std::move(helper));
      } else {
        job.result = nvrtc.compile(texts[job.text].text, texts[job.text].name, options);
      }
    }
    std::vector<pollfd> polled;
    for (const Helper& helper : running) polled.push_back({helper.fd(), POLLIN, 0});
    const int wait = cancel == nullptr ? -1 : kBetweenLooks;
    if (polled.empty() || ::poll(polled.data(), polled.size(), wait) <= 0) continue;
    for (size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents != 0 && !running[i].read_some()) {
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }
}

}  // namespace

Hash128 cubin_cache_key(const std::string& text, const Nvrtc& nvrtc, const NvrtcOptions& options) {
  Hasher hasher;
  hasher.add_text(text);
  hasher.add_text(cuda_prelude());
  hasher.add_text(options.arch);
  hasher.add_value(options.contract);
  hasher.add_value(static_cast<uint64_t>(nvrtc.major()));
  hasher.add_value(static_cast<uint64_t>(nvrtc.minor()));
  return hasher.digest128();
}

Result<CompiledCubins> compile_cubins(std::span<const CudaText> texts, const Nvrtc& nvrtc,
                                      const NvrtcOptions& options, int processes,
                                      const CubinCache* cache, CancelFlag cancel) {
  CompiledCubins compiled;
  std::map<Hash128, Job> jobs;
  std::vector<Hash128> keys;
  for (size_t i = 0; i < texts.size(); ++i) {
    keys.push_back(cubin_cache_key(texts[i].text, nvrtc, options));
    const auto [at, is_new] = jobs.try_emplace(keys.back(), Job{i, keys.back(), std::nullopt});
    if (!is_new || cache == nullptr) continue;
    if (std::optional<CudaBinary> binary = cache->find(keys.back())) {
      at->second.result = *std::move(binary);
      ++compiled.from_cache;
    }
  }
  std::vector<Job*> left;
  for (auto& [_, job] : jobs) {
    if (!job.result.has_value()) left.push_back(&job);
  }
  std::sort(left.begin(), left.end(), [](const Job* a, const Job* b) { return a->text < b->text; });
  // In this process nothing would stop NVRTC, and its faults would be this process's.
  const auto at_once = static_cast<size_t>(std::max(1, processes));
  run_helpers(left, texts, nvrtc, options, at_once, cancel);
  std::vector<Job*> again;
  for (Job* job : left) {
    if (job->ended) again.push_back(job);
  }
  NvrtcOptions plain = options;
  plain.optimizes = false;
  if (!is_cancelled(cancel)) run_helpers(again, texts, nvrtc, plain, at_once, cancel);
  if (is_cancelled(cancel)) return Error{ErrorCode::kInterrupted, Cancelled().what()};
  for (const Job* job : left) {
    if (!job->result->ok()) return (*job->result).error();
    if (cache != nullptr) cache->insert(job->key, **job->result);
  }
  for (const Hash128& key : keys) compiled.binaries.push_back(**jobs.at(key).result);
  return compiled;
}

}  // namespace weft
