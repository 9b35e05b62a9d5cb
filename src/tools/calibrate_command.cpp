#include <fmt/format.h>

#include <memory>
#include <span>

#include "driver/calibrate/calibrate.h"
#include "support/atomic_file.h"
#include "tools/commands.h"

namespace weft {

namespace {

struct CalibrateCommand {
  std::string output, name, target = "cpu";
  int threads = 0;
  int64_t most_bytes = 0;
};

Status run_calibrate(const CalibrateCommand& o) {
  CalibrationOptions options;
  options.most_bytes = o.most_bytes;
  WEFT_ASSIGN_OR_RETURN(Target target, calibrate(o.target, o.threads, options));
  if (!o.name.empty()) target.name = o.name;
  const std::string text = print(target);
  if (o.output.empty()) {
    fmt::print("{}", text);
    return {};
  }
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(o.output));
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

}  // namespace

void add_calibrate_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CalibrateCommand>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this machine and write its target description");
  command->add_option("-o,--output", o->output, "File to write; the standard output without it");
  command->add_option("--name", o->name, "What to call the target");
  command->add_option("--target", o->target,
                      "cpu (default), cuda (the GPU that is there) or the name of its target");
  command->add_option("--threads", o->threads, "Threads of a run; 0: all that may be used")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--most-bytes", o->most_bytes,
                   "Of the largest copy, read and written together; default 256 MiB, on a GPU "
                   "1 GiB")
      ->check(CLI::Range(int64_t{1} << 12, int64_t{1} << 40));
  command->callback([o, &status] { status = run_calibrate(*o); });
}

}  // namespace weft
