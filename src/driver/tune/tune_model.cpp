#include "driver/tune/tune_model.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "driver/compiler.h"
#include "driver/explain/plan_totals.h"
#include "driver/measured_rows.h"
#include "driver/tune/alternate.h"
#include "group/group_key.h"
#include "library/performance_library.h"
#include "runtime/device_program.h"

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

/// Kernels of one key and one composition, at all their places.
struct Subject {
  Hash128 key;
  std::vector<PlannedKernel*> kernels;
  const TensorProgram* program = nullptr;  ///< of the first
  Target target;
  std::set<std::string> names;
  int64_t launches = 0;  ///< of a run
  double predicted_us = 0;
};

/// What a run of the model consists of that may be composed otherwise.
class Subjects {
 public:
  explicit Subjects(const Target& target) : target_(target) {}

  void collect(FusionPlan& plan, const TensorProgram& program, int64_t times, bool in_region) {
    GroupKeys keys(program);
    for (PlannedKernel& kernel : plan.kernels) {
      const Composition& composed = kernel.schedule.composition;
      const bool has_others = composed.kind == Composition::Kind::kLeaf ||
                              composed.kind == Composition::Kind::kChain ||
                              composed.kind == Composition::Kind::kBlock;
      if (!has_others || kernel.schedule.library || !kernel.members.empty()) continue;
      const Hash128 key = keys.of(kernel.group).hash;
      const auto [at, is_new] =
          numbers_.try_emplace(std::pair(key, print(composed)), subjects_.size());
      if (is_new)
        subjects_.push_back(
            {key, {}, &program, in_region ? of_region(target_) : target_, {}, 0, 0});
      Subject& subject = subjects_[at->second];
      subject.kernels.push_back(&kernel);
      subject.names.insert(kernel.name);
      subject.launches += times;
      subject.predicted_us += static_cast<double>(times) * kernel.schedule.estimate.microseconds;
    }
    for (size_t o = 0; o < plan.regions.size(); ++o) {
      const OpaqueExpr& opaque = program.opaques[o];
      const int64_t inner = region_runs(program, opaque, plan.regions[o], times);
      for (size_t r = 0; r < plan.regions[o].size(); ++r)
        collect(*plan.regions[o][r], *opaque.regions[r], inner, true);
    }
  }

  /// Those predicted to take longest first.
  std::vector<Subject> take() && {
    std::ranges::sort(subjects_, {}, [](const Subject& s) {
      return std::tuple(-s.predicted_us, std::string_view(*s.names.begin()));
    });
    return std::move(subjects_);
  }

 private:
  const Target& target_;
  std::map<std::pair<Hash128, std::string>, size_t> numbers_;
  std::vector<Subject> subjects_;
};

/// A model made ready, and what it runs on.
struct Made {
  std::unique_ptr<Compilation> compilation;
  std::unique_ptr<Session> session;
  std::vector<HostTensor> inputs;
};

Result<Made> make(const ModelRequest& request, const CompileOptions& options) {
  Made made;
  WEFT_ASSIGN_OR_RETURN(made.compilation, compile_model(request.model, options));
  Compilation& c = *made.compilation;
  const std::vector<ProgramIo> inputs = c.program.inputs;
  WEFT_ASSIGN_OR_RETURN(made.session, Session::create(c.program, options.threads));
  WEFT_ASSIGN_OR_RETURN(made.inputs, program_inputs(c.imported.inputs, inputs, request.inputs));
  return made;
}

class Tuner {
 public:
  Tuner(const ModelRequest& request, const TuneOptions& options, CompileOptions compile,
        PerformanceLibrary library)
      : request_(request),
        options_(options),
        compile_(std::move(compile)),
        library_(std::move(library)) {}

  Result<TuneReport> run();

 private:
  struct Candidate {
    Composition composition;
    std::string text;
    std::optional<double> us;
  };

  Status tune(Subject& subject, TunedKernel& out);
  Status measure_best_again(Subject& subject, std::vector<Candidate>& candidates);
  std::vector<Candidate> candidates_of(const Subject& subject) const;
  Result<std::string> plan_with(Subject& subject, const Composition& composition) const;
  Status measure(Subject& subject, Candidate& candidate);
  Status add(const Subject& subject, const std::string& composition,
             const std::vector<double>& microseconds);
  std::optional<double> known(const Subject& subject, const std::string& composition) const;
  bool out_of_time() const {
    return options_.time_limit_s > 0 &&
           std::chrono::duration<double>(Clock::now() - start_).count() > options_.time_limit_s;
  }
  static std::string present(const Subject& subject) {
    return print(subject.kernels.front()->schedule.composition);
  }

  const ModelRequest& request_;
  const TuneOptions& options_;
  CompileOptions compile_;
  PerformanceLibrary library_;
  Made base_;
  Hash128 target_;
  std::string compiler_ = compiler_version();
  std::map<std::pair<Hash128, std::string>, std::vector<double>> samples_;
  Clock::time_point start_ = Clock::now();
};

std::optional<double> Tuner::known(const Subject& subject, const std::string& composition) const {
  const auto found = samples_.find(std::pair(subject.key, composition));
  if (found == samples_.end()) return std::nullopt;
  return MeasuredRow{{}, {}, {}, {}, found->second}.median();
}

Status Tuner::add(const Subject& subject, const std::string& composition,
                  const std::vector<double>& microseconds) {
  MeasuredRow row{subject.key, target_, composition, compiler_, {}};
  for (const double us : microseconds)
    row.microseconds.push_back(us / static_cast<double>(subject.launches));
  WEFT_RETURN_IF_ERROR(library_.add(row));
  std::vector<double>& all = samples_[std::pair(subject.key, composition)];
  all.insert(all.end(), row.microseconds.begin(), row.microseconds.end());
  return {};
}

/// Those that build, no two with the same program.
std::vector<Tuner::Candidate> Tuner::candidates_of(const Subject& subject) const {
  const PlannedKernel& kernel = *subject.kernels.front();
  std::vector<Candidate> out;
  for (Composition& other : others_to_measure(*subject.program, kernel.group,
                                              kernel.schedule.composition, subject.target)) {
    if (static_cast<int>(out.size()) >= options_.most_candidates) break;
    if (!build_composition(*subject.program, kernel.group, other, subject.target, "k").ok())
      continue;
    Candidate candidate{std::move(other), {}, {}};
    candidate.text = print(candidate.composition);
    candidate.us = known(subject, candidate.text);
    out.push_back(std::move(candidate));
  }
  return out;
}

/// The text of the base's plan with another composition at all places of the subject, whose groups
/// build alike.
Result<std::string> Tuner::plan_with(Subject& subject, const Composition& composition) const {
  WEFT_ASSIGN_OR_RETURN(const ScheduledKernel built,
                        build_composition(*subject.program, subject.kernels.front()->group,
                                          composition, subject.target, "k"));
  const auto swap_all = [&](const Composition& with, const std::string& schedule_template) {
    for (PlannedKernel* kernel : subject.kernels) {
      kernel->schedule.composition = with;
      kernel->schedule.schedule_template = schedule_template;
    }
  };
  const Composition present = subject.kernels.front()->schedule.composition;
  const std::string present_template = subject.kernels.front()->schedule.schedule_template;
  swap_all(built.composition, built.schedule_template);
  std::string text = print(base_.compilation->plan, base_.compilation->tensors);
  swap_all(present, present_template);
  return text;
}

Status Tuner::measure(Subject& subject, Candidate& candidate) {
  CompileOptions options = compile_;
  WEFT_ASSIGN_OR_RETURN(options.plan_text, plan_with(subject, candidate.composition));
  options.plan_source = "candidate";
  WEFT_ASSIGN_OR_RETURN(Made other, make(request_, options));
  WatchedModel first{*base_.session, base_.inputs, subject.names, {}};
  WatchedModel second{*other.session, other.inputs, subject.names, {}};
  WEFT_RETURN_IF_ERROR(run_in_turns(first, second, options_.rounds));
  WEFT_RETURN_IF_ERROR(add(subject, present(subject), first.microseconds));
  WEFT_RETURN_IF_ERROR(add(subject, candidate.text, second.microseconds));
  candidate.us = known(subject, candidate.text);
  return {};
}

/// The best of many is best by luck, too: it is measured once more, and so is whatever is best
/// then.
Status Tuner::measure_best_again(Subject& subject, std::vector<Candidate>& candidates) {
  std::set<std::string> again;
  while (!out_of_time()) {
    const auto best = std::ranges::min_element(
        candidates, {}, [](const Candidate& c) { return c.us.value_or(1e300); });
    if (best == candidates.end() || !best->us || *best->us >= *known(subject, present(subject)) ||
        !again.insert(best->text).second)
      return {};
    WEFT_RETURN_IF_ERROR(measure(subject, *best));
  }
  return {};
}

Status Tuner::tune(Subject& subject, TunedKernel& out) {
  out.kernel = *subject.names.begin();
  std::vector<Candidate> candidates = candidates_of(subject);
  for (Candidate& candidate : candidates) {
    if (candidate.us) {
      ++out.known;
      continue;
    }
    if (out_of_time()) break;
    WEFT_RETURN_IF_ERROR(check_cancelled(compile_));
    WEFT_RETURN_IF_ERROR(measure(subject, candidate));
    ++out.measured;
  }
  if (out.measured > 0) WEFT_RETURN_IF_ERROR(measure_best_again(subject, candidates));
  const std::optional<double> present_us = known(subject, present(subject));
  if (!present_us) return {};
  out.present_us = out.best_us = *present_us;
  for (const Candidate& candidate : candidates) {
    if (!candidate.us || *candidate.us >= out.best_us) continue;
    out.best_us = *candidate.us;
    out.best = candidate.text;
  }
  return {};
}

Result<TuneReport> Tuner::run() {
  WEFT_ASSIGN_OR_RETURN(base_, make(request_, compile_));
  Compilation& c = *base_.compilation;
  target_ = fingerprint(c.target);
  const auto watch = std::exchange(compile_.progress, {});
  WEFT_ASSIGN_OR_RETURN(const std::vector<MeasuredRow> rows, library_.rows());
  for (const MeasuredRow& row : rows) {
    if (row.target == target_ && row.compiler == compiler_)
      samples_[std::pair(row.group, row.composition)] = row.microseconds;
  }
  Subjects all(c.target);
  all.collect(c.plan, c.tensors, 1, false);
  std::vector<Subject> subjects = std::move(all).take();
  TuneReport report;
  for (Subject& subject : subjects) {
    if (watch)
      watch({"tune", static_cast<int64_t>(report.kernels.size()),
             static_cast<int64_t>(subjects.size())});
    WEFT_RETURN_IF_ERROR(tune(subject, report.kernels.emplace_back()));
  }
  report.out_of_time = out_of_time();
  return report;
}

}  // namespace

Result<TuneReport> tune_model(const ModelRequest& request, const TuneOptions& options) {
  if (is_artefact(request.model))
    return invalid_input("'" + request.model + "' is a compiled artefact: tune needs the model");
  if (request.target == "interp" || request.target == "simt")
    return unsupported("tuning for target '" + request.target + "', whose times say nothing");
  WEFT_ASSIGN_OR_RETURN(CompileOptions compile, options_for_target(request));
  if (compile.device && !compile.device->is_gpu())
    return unsupported("tuning for target '" + request.target +
                       "': candidates are measured on the machine that is here");
  if (compile.device) {
    if (const auto device = open_cuda_device(); !device.ok()) return device.error();
    compile.device_code = true;
  }
  compile.measured = nullptr;  // beside the choice of the model alone
  WEFT_ASSIGN_OR_RETURN(PerformanceLibrary library,
                        PerformanceLibrary::open(options.library, compile.warn));
  return Tuner(request, options, std::move(compile), std::move(library)).run();
}

}  // namespace weft
