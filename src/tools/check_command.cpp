#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "driver/check/check_cases.h"
#include "driver/models/device_target.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct CheckCommand {
  std::vector<std::string> folders;
  std::string target = "cpu";
  CheckOptions options;
  bool json = false;
};

Status check(const CheckCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target_names(o.target));
  CheckOptions options = o.options;
  options.interpreted = o.target == "interp";
  WEFT_ASSIGN_OR_RETURN(const std::vector<CaseResult> results, check_cases(o.folders, options));
  int64_t count[3] = {0, 0, 0};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  static constexpr const char* kStatus[] = {"passed", "failed", "skipped"};
  for (const CaseResult& r : results) {
    const auto s = static_cast<size_t>(r.status);
    ++count[s];
    if (o.json) {
      list.push_back({{"name", r.name}, {"status", kStatus[s]}, {"reason", r.reason}});
    } else {
      fmt::print("{:<8} {}{}{}\n", kStatus[s], printable(r.name), r.reason.empty() ? "" : ": ",
                 printable(r.reason));
    }
  }
  if (o.json) {
    nlohmann::ordered_json j;
    j["passed"] = count[0];
    j["failed"] = count[1];
    j["skipped"] = count[2];
    j["cases"] = list;
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} passed, {} failed, {} skipped\n", count[0], count[1], count[2]);
  }
  if (count[1] > 0) return Error{ErrorCode::kComparison, fmt::format("{} cases failed", count[1])};
  return {};
}

}  // namespace

void add_check_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CheckCommand>();
  CLI::App* command =
      app.add_subcommand("check", "Run ONNX backend test folders: pass or fail per folder");
  command
      ->add_option("folders", o->folders,
                   "Folders with model.onnx and test_data_set_*, or folders of such folders")
      ->required();
  command->add_option("--target", o->target, "cpu (default) or interp");
  command->add_option("--plan", o->options.planner, planner_help());
  command
      ->add_option("--vector-bytes", o->options.max_vector_bytes,
                   "Use vectors of at most 16, 32 or 64 bytes")
      ->check(CLI::IsMember({16, 32, 64}));
  command->add_flag("--json", o->json, "One JSON object on stdout");
  command->add_option("--rtol", o->options.tolerance.relative, "Relative tolerance (1e-3)");
  command->add_option("--atol", o->options.tolerance.absolute, "Absolute tolerance (1e-7)");
  command->add_option("--jobs", o->options.jobs, "Cases at a time (default: one a core)");
  command->callback([o, &status] { status = check(*o); });
}

}  // namespace weft
