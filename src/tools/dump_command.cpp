#include <fmt/format.h>

#include "driver/round_trip.h"
#include "tools/commands.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct DumpCommand {
  ModelOptions model;
  std::string stage;
  bool check = false;
};

/// The last pass that a level needs.
std::string last_pass_of(const std::string& stage) {
  std::string last;
  for (const Pass& pass : pipeline()) {
    if (stage == pass.level || (stage == "tile-program" && std::string(pass.name) == "plan"))
      last = pass.name;
  }
  return last;
}

Status dump(const DumpCommand& o) {
  WEFT_RETURN_IF_ERROR(check_target(o.model.target));
  WEFT_ASSIGN_OR_RETURN(const auto given, load_given_inputs(o.model));
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, compile_options(o.model, given));
  options.stop_after = last_pass_of(o.check ? "kernel" : o.stage);
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(o.model.model, options));
  WEFT_ASSIGN_OR_RETURN(const std::string text, print_level(*c, o.stage));
  fmt::print("{}", text);
  if (o.check) WEFT_RETURN_IF_ERROR(check_round_trips(*c));
  if (o.model.timings) print_timings(c->timings, c->kernels_from_cache, c->unique_kernels);
  return {};
}

}  // namespace

void add_dump_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<DumpCommand>();
  CLI::App* command = app.add_subcommand("dump", "Print one level");
  add_model_options(*command, o->model);
  command
      ->add_option("--stage", o->stage, "graph, tensor-program, plan, tile-program, kernel or code")
      ->required()
      ->check(CLI::IsMember({"graph", "tensor-program", "plan", "tile-program", "kernel", "code"}));
  command->add_flag("--check", o->check,
                    "Parse what every level prints, and fail where it does not print the same");
  command->callback([o, &status] { status = dump(*o); });
}

}  // namespace weft
