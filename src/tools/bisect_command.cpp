#include <fmt/format.h>

#include "driver/check/bisect.h"
#include "driver/graph_file.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct BisectCommand {
  ModelOptions model;
  std::string output = "reduced.graph";
  double rtol = 1e-3, atol = 1e-4;
};

Status run_bisect(const BisectCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  const auto bisected = [&] {
    const ProgressBar bar(&request.options);
    return bisect_model(request, o.rtol, o.atol);
  }();
  if (!bisected.ok()) return bisected.error();
  const auto& found = *bisected;
  if (!found) {
    fmt::print("the plan and the interpreter agree on every value\n");
    return {};
  }
  fmt::print("first difference: {} ({}): {}\n", printable(found->value), printable(found->origin),
             found->difference);
  fmt::print("it arises in {}\n", phrase(found->level));
  WEFT_RETURN_IF_ERROR(write_graph_file(o.output, found->reduced,
                                        "value " + found->value + ": " + found->difference));
  fmt::print("a model that shows it: {}\n", o.output);
  return Error{ErrorCode::kComparison,
               "value " + found->value + " differs between the plan and the interpreter"};
}

}  // namespace

void add_bisect_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<BisectCommand>();
  CLI::App* command = app.add_subcommand(
      "bisect", "Find the first value where the plan and the interpreter differ");
  add_model_options(*command, o->model);
  command->add_option("-o,--output", o->output,
                      "Where to write a reduced model that shows it (reduced.graph)");
  command->add_option("--rtol", o->rtol, "Relative tolerance (1e-3)");
  command->add_option("--atol", o->atol, "Absolute tolerance (1e-4)");
  command->callback([o, &status] { status = run_bisect(*o); });
}

}  // namespace weft
