#include <fmt/format.h>

#include <memory>

#include "driver/measured_rows.h"
#include "driver/tune/tune_model.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"

namespace weft {

namespace {

struct TuneCommand {
  ModelOptions model;
  TuneOptions tune;
};

void print_report(const TuneReport& report, const TuneCommand& o) {
  int64_t measured = 0, known = 0, quicker = 0;
  fmt::print("{:>10} {:>10}  {}\n", "present us", "best us", "kernel");
  for (const TunedKernel& kernel : report.kernels) {
    measured += kernel.measured;
    known += kernel.known;
    quicker += kernel.best.empty() ? 0 : 1;
    if (kernel.present_us == 0) continue;
    fmt::print("{:>10.2f} {:>10.2f}  {}{}\n", kernel.present_us, kernel.best_us,
               printable(kernel.kernel), kernel.best.empty() ? "" : ": " + kernel.best);
  }
  fmt::print(
      "{} candidates of {} distinct kernels measured, {} known before; {} kernels have a quicker "
      "one{}\n",
      measured, report.kernels.size(), known, quicker,
      report.out_of_time ? "; the time was over before all were measured" : "");
  if (quicker > 0) fmt::print("use it with --library {}\n", printable(o.tune.library));
}

Status tune(TuneCommand& o) {
  o.tune.library = o.model.library.empty() ? default_library() : o.model.library;
  if (o.tune.library.empty())
    return invalid_input("no file for the measurements: give --library FILE");
  o.model.library
      .clear();  // it may not be there yet, and candidates stand beside the model's choice
  WEFT_ASSIGN_OR_RETURN(ModelRequest request, model_request(o.model));
  auto report = [&] {
    const ProgressBar bar(&request.options);
    return tune_model(request, o.tune);
  }();
  if (!report.ok()) return report.take_error();
  print_report(*report, o);
  return {};
}

}  // namespace

void add_tune_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<TuneCommand>();
  CLI::App* command = app.add_subcommand(
      "tune",
      "Measure candidates for each kernel in its place in the model, into the performance library. "
      "An interrupt loses nothing: the next run goes on where it ended");
  add_model_options(*command, o->model);
  command->add_option("--time-limit", o->tune.time_limit_s, "Seconds after which no more is begun")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--most", o->tune.most_candidates,
                   "Candidates of each distinct kernel, beside the present one (8)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--rounds", o->tune.rounds, "Runs of each candidate and the present one (15)")
      ->check(CLI::Range(1, 10000));
  command->callback([o, &status] { status = tune(*o); });
}

}  // namespace weft
