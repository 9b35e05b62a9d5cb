#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "driver/calibrate.h"
#include "driver/device_target.h"
#include "support/atomic_file.h"
#include "tools/commands.h"

namespace weft {

namespace {

struct CalibrateCommand {
  std::string output, name, target = "cpu";
  int threads = 0;
  int64_t most_bytes = 0;
};

Result<Target> measured(const CalibrateCommand& o) {
  CalibrationOptions options;
  if (o.most_bytes > 0) options.most_bytes = o.most_bytes;
  if (o.target == "cpu") return calibrate_cpu(host_cpu_target(o.threads), options);
  // A device has room for copies that its second-level cache is small beside.
  if (o.most_bytes == 0) options.most_bytes = int64_t{1} << 30;
  WEFT_ASSIGN_OR_RETURN(Target target,
                        o.target == "cuda" ? target_by_name(o.target) : find_target(o.target));
  if (!target.is_gpu())
    return invalid_input("'" + o.target + "' describes a CPU; --target cpu measures this one");
  return calibrate_gpu(std::move(target), options);
}

Status calibrate(const CalibrateCommand& o) {
  WEFT_ASSIGN_OR_RETURN(Target target, measured(o));
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
  command->callback([o, &status] { status = calibrate(*o); });
}

}  // namespace weft
