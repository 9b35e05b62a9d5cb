#include <fmt/format.h>

#include "target/target.h"
#include "tools/commands.h"

namespace weft {

void add_targets_command(CLI::App& app, Status& status) {
  CLI::App* command = app.add_subcommand("targets", "List known targets and the devices present");
  command->callback([&status] {
    const Target host = host_cpu_target();
    fmt::print("cpu      {} cores, {}-byte vectors, {} registers, L1 {} KB, L2 {} KB, L3 {} MB\n",
               host.threads, host.vector_bytes, host.vector_registers, host.l1_bytes >> 10,
               host.l2_bytes >> 10, host.l3_bytes >> 20);
    fmt::print("interp   the reference interpreter\n");
    status = {};
  });
}

}  // namespace weft
