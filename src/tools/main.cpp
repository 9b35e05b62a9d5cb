#include <fmt/format.h>

#include <unistd.h>
#include <csignal>
#include <cstdio>

#include "support/check.h"
#include "tools/commands.h"

namespace {

/// Nothing partial is ever left in place, so an interrupt may end the process at once.
void on_interrupt(int) { _exit(130); }

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  CLI::App app{"weft: a fusion compiler for deep-learning models", "weft"};
  app.set_version_flag("--version", std::string("weft ") + WEFT_VERSION);
  app.require_subcommand(1);
  weft::Status status;
  weft::add_run_command(app, status);
  weft::add_compile_command(app, status);
  weft::add_bench_command(app, status);
  weft::add_explain_command(app, status);
  weft::add_dump_command(app, status);
  weft::add_check_command(app, status);
  weft::add_bisect_command(app, status);
  weft::add_cache_command(app, status);
  weft::add_targets_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const weft::InternalError& e) {
    status = weft::Error{weft::ErrorCode::kInternal, e.what()};
  } catch (const std::bad_alloc&) {
    status = weft::invalid_input("not enough memory");
  }
  if (status.ok()) return 0;
  const weft::Error& error = status.error();
  fmt::print(stderr, "weft: {}{}\n",
             error.code == weft::ErrorCode::kInternal ? "internal error: " : "", error.message);
  return static_cast<int>(error.code);
}
