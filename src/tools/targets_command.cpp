#include <fmt/format.h>

#include "driver/models/describe_targets.h"
#include "tools/commands.h"

namespace weft {

namespace {

void print_line(const std::string& name, const std::string& text) {
  fmt::print("{:<10} {}\n", name, text);
}

}  // namespace

void add_targets_command(CLI::App& app, Status& status) {
  CLI::App* command = app.add_subcommand("targets", "List known targets and the devices present");
  command->callback([&status] {
    for (const TargetDescription& target : describe_targets()) {
      const bool described = target.name != "cpu" && target.name != "cuda";
      print_line(target.name, target.text + (described ? "; compile, dump, explain" : ""));
      if (target.name != "cpu") continue;
      print_line("interp", "the reference interpreter");
      print_line("simt", "CUDA text on an emulator, planned with the figures of h100-sxm");
    }
    status = {};
  });
}

}  // namespace weft
