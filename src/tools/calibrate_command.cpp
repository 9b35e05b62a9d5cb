#include <fmt/format.h>

#include <memory>
#include <span>

#include "driver/calibrate.h"
#include "support/atomic_file.h"
#include "tools/commands.h"

namespace weft {

namespace {

struct CalibrateCommand {
  std::string output, name;
  int threads = 0;
};

Status calibrate(const CalibrateCommand& o) {
  WEFT_ASSIGN_OR_RETURN(Target target, calibrate_cpu(host_cpu_target(o.threads)));
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
  command->add_option("--threads", o->threads, "Threads of a run; 0: all that may be used")
      ->check(CLI::Range(0, 1024));
  command->callback([o, &status] { status = calibrate(*o); });
}

}  // namespace weft
