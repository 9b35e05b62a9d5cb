#pragma once

#include <CLI/CLI.hpp>

#include "support/result.h"

namespace weft {

/// Each adds its subcommand; the callback leaves its result in `status`. One file a command.
void add_run_command(CLI::App& app, Status& status);
void add_compile_command(CLI::App& app, Status& status);
void add_bench_command(CLI::App& app, Status& status);
void add_explain_command(CLI::App& app, Status& status);
void add_dump_command(CLI::App& app, Status& status);
void add_check_command(CLI::App& app, Status& status);
void add_bisect_command(CLI::App& app, Status& status);
void add_cache_command(CLI::App& app, Status& status);
void add_targets_command(CLI::App& app, Status& status);
void add_calibrate_command(CLI::App& app, Status& status);
void add_tune_command(CLI::App& app, Status& status);
void add_library_command(CLI::App& app, Status& status);

}  // namespace weft
