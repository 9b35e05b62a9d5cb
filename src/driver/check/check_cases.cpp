#include "driver/check/check_cases.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <utility>

#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"

namespace weft {

namespace {

ModelRunner make_runner(const CheckOptions& o) {
  if (o.interpreted) {
    return [](const ImportedModel& model, const std::vector<HostTensor>& inputs) {
      return interpret(model.graph, inputs);
    };
  }
  CompileOptions options;
  options.planner = o.planner;
  options.max_vector_bytes = o.max_vector_bytes;
  options.threads = 1;
  options.verify = true;
  return [options](const ImportedModel& model,
                   const std::vector<HostTensor>& inputs) -> Result<std::vector<HostTensor>> {
    WEFT_ASSIGN_OR_RETURN(const auto c, compile_graph(model.graph, options));
    WEFT_ASSIGN_OR_RETURN(const auto session, Session::create(c->program, 1));
    return session->run(inputs);
  };
}

/// One case in a process of its own: a crash there is a failed case here.
class Worker {
 public:
  Worker(std::string folder, const ModelRunner& runner, Tolerance tolerance)
      : folder_(std::move(folder)) {
    int ends[2];
    if (pipe(ends) != 0) return;
    read_ = ends[0];
    pid_ = fork();
    if (pid_ != 0) {
      close(ends[1]);
      return;
    }
    close(ends[0]);
    CaseResult r;
    try {
      r = check_case(folder_, runner, tolerance);
    } catch (const std::exception& e) {
      r = {"", CaseStatus::kFailed, std::string("internal error: ") + e.what()};
    }
    const std::string text =
        std::string(1, static_cast<char>('0' + static_cast<int>(r.status))) + r.reason;
    size_t written = 0;
    while (written < text.size()) {
      const ssize_t n = write(ends[1], text.data() + written, text.size() - written);
      if (n <= 0) break;
      written += static_cast<size_t>(n);
    }
    _exit(0);
  }
  pid_t pid() const { return pid_; }

  CaseResult finish(int wait_status) {
    CaseResult r;
    r.name = folder_.substr(folder_.find_last_of('/') + 1);
    std::string text;
    char chunk[4096];
    ssize_t n = 0;
    while ((n = read(read_, chunk, sizeof chunk)) > 0) text.append(chunk, static_cast<size_t>(n));
    close(read_);
    r.status = CaseStatus::kFailed;
    if (WIFSIGNALED(wait_status)) {
      r.reason = fmt::format("crashed with signal {}", WTERMSIG(wait_status));
    } else if (text.empty()) {
      r.reason = "ended without a result";
    } else {
      r.status = static_cast<CaseStatus>(text[0] - '0');
      r.reason = text.substr(1);
    }
    return r;
  }

 private:
  std::string folder_;
  pid_t pid_ = -1;
  int read_ = -1;
};

constexpr unsigned kCaseSeconds = 120;

std::vector<CaseResult> check_all(const std::vector<std::string>& cases, const CheckOptions& o) {
  const ModelRunner runner = [inner = make_runner(o)](const ImportedModel& m,
                                                      const std::vector<HostTensor>& in) {
    alarm(kCaseSeconds);  // a hang is a crash of this case alone
    return inner(m, in);
  };
  const size_t jobs = static_cast<size_t>(o.jobs > 0 ? o.jobs : available_cores());
  std::vector<CaseResult> results(cases.size());
  std::map<pid_t, std::pair<size_t, Worker>> running;
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    while (next < cases.size() && running.size() < jobs) {
      Worker worker(cases[next], runner, o.tolerance);
      const pid_t pid = worker.pid();
      running.emplace(pid, std::pair(next++, std::move(worker)));
    }
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, 0);
    const auto it = running.find(pid);
    if (it == running.end()) continue;
    results[it->second.first] = it->second.second.finish(wait_status);
    running.erase(it);
  }
  return results;
}

}  // namespace

Result<std::vector<CaseResult>> check_cases(const std::vector<std::string>& folders,
                                            const CheckOptions& options) {
  WEFT_RETURN_IF_ERROR(find_planner(options.planner));
  std::vector<std::string> cases;
  for (const std::string& folder : folders) {
    WEFT_ASSIGN_OR_RETURN(const auto found, find_cases(folder));
    cases.insert(cases.end(), found.begin(), found.end());
  }
  if (cases.empty()) return invalid_input("no folder with a model.onnx in what was given");
  return check_all(cases, options);
}

}  // namespace weft
