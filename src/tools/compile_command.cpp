#include <fmt/format.h>

#include <charconv>
#include <set>

#include "driver/models/compile_for_targets.h"
#include "runtime/artefact.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct CompileCommand {
  ModelOptions model;
  std::string output;
  bool no_fallback = false;
  std::vector<std::string> versions;  ///< DIM=N,N
};

/// More would be a mistake: each is compiled and stored whole, but for constants.
constexpr size_t kMostVersions = 64;

/// DIM=N,N of --version-for, each value of one with each of the others.
Result<std::vector<Binding>> bindings_of(const std::vector<std::string>& versions) {
  std::vector<Binding> all = {{}};
  for (const std::string& text : versions) {
    const size_t equals = text.rfind('=');
    const std::string dimension = text.substr(0, equals);
    const auto refused = [&](const std::string& why) {
      return invalid_input("--version-for " + text + ": " + why);
    };
    if (equals == std::string::npos || equals == 0) return refused("write DIM=N,N");
    if (all.front().contains(dimension)) return refused(dimension + " is given twice");
    std::vector<Binding> next;
    std::set<int64_t> extents;
    for (const std::string& number : CLI::detail::split(text.substr(equals + 1), ',')) {
      int64_t extent = 0;
      const char* end = number.data() + number.size();
      const auto read = std::from_chars(number.data(), end, extent);
      if (number.empty() || read.ec != std::errc() || read.ptr != end || extent < 0)
        return refused("write DIM=N,N with N a number");
      if (!extents.insert(extent).second) return refused(number + " stands there twice");
      for (Binding binding : all) {
        binding[dimension] = extent;
        next.push_back(std::move(binding));
      }
    }
    if (next.empty()) return refused("write DIM=N,N");
    if (next.size() > kMostVersions)
      return refused(fmt::format("at most {} versions are made", kMostVersions));
    all = std::move(next);
  }
  return all;
}

Status compile(const CompileCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  WEFT_ASSIGN_OR_RETURN(const std::vector<Binding> versions, bindings_of(o.versions));
  const auto models = [&] {
    const ProgressBar bar(&request.options);
    return compile_versions(request, versions, !o.no_fallback);
  }();
  if (!models.ok()) return models.error();
  std::vector<const Program*> programs;
  for (const CompiledModel& model : *models) {
    programs.push_back(&model.program);
    if (!o.model.timings) continue;
    print_timings(model.timings, model.kernels_from_cache, model.unique_kernels);
  }
  return save_artefact(o.output, programs);
}

}  // namespace

void add_compile_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CompileCommand>();
  CLI::App* command = app.add_subcommand("compile", "Write a self-contained artefact");
  add_model_options(*command, o->model);
  command->add_option("-o,--output", o->output, "FILE.weft")->required();
  command->add_flag(
      "--no-fallback", o->no_fallback,
      "For GPUs: leave out the variant without barriers of the grid, which devices "
      "with fewer multiprocessors run, and the kernels that do the work of library "
      "calls where the library is missing. For CPUs: leave out the code for processors "
      "that cannot multiply bytes or bfloat16, where the other multiplies them");
  command
      ->add_option("--version-for", o->versions,
                   "DIM=N,N: a version for each extent of a symbolic dimension, in one artefact; a "
                   "run takes the one for its inputs' shapes; repeatable")
      ->allow_extra_args(false);
  command->callback([o, &status] { status = compile(*o); });
}

}  // namespace weft
