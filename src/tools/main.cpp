#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>

#include "driver/reproducer.h"
#include "support/atomic_file.h"
#include "support/check.h"
#include "support/hash.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/limit_memory.h"
#include "tools/quantize_command.h"

namespace weft {
namespace {

/// Files come into place complete, so an interrupt may end the process at once.
void on_interrupt(int) { _exit(static_cast<int>(ErrorCode::kInterrupted)); }

/// A first word that is neither option nor command.
Status check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->check_name(argv[1])) return {};
  }
  return invalid_input(fmt::format("unknown command '{}'; `weft --help` lists them", argv[1]));
}

Status parse_and_run(CLI::App& app, int argc, char** argv, int* usage) {
  Status status;
  add_run_command(app, status);
  add_compile_command(app, status);
  add_bench_command(app, status);
  add_explain_command(app, status);
  add_dump_command(app, status);
  add_check_command(app, status);
  add_bisect_command(app, status);
  add_cache_command(app, status);
  add_targets_command(app, status);
  add_calibrate_command(app, status);
  add_quantize_command(app, status);
  add_tune_command(app, status);
  add_library_command(app, status);
  WEFT_RETURN_IF_ERROR(check_command(app, argc, argv));
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
  } catch (const CLI::ParseError& e) {
    *usage = app.exit(e) == 0 ? 0 : static_cast<int>(ErrorCode::kInvalidInput);
  } catch (const InternalError& e) {
    return Error{ErrorCode::kInternal, e.what()};
  } catch (const std::bad_alloc&) {
    return invalid_input("this needs more memory than there is");
  } catch (const std::system_error& e) {
    return invalid_input("cannot write to the standard output: " + e.code().message());
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInternal, e.what()};
  }
  return status;
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The command as a script, for internal errors outside a compilation.
std::string with_script(std::span<char* const> command, const std::string& message) {
  std::error_code failed;
  std::string text =
      "# " + message + "\ncd " + quoted(std::filesystem::current_path(failed).string()) + " &&";
  for (const char* word : command) text += " " + quoted(word);
  text += "\n";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const std::string path =
      (std::filesystem::temp_directory_path(failed) / ("weft-" + to_hex(hash64(bytes)) + ".sh"))
          .string();
  auto file = AtomicFile::create(path);
  Status written = file.ok() ? file->write(bytes) : Status(file.error());
  if (written.ok()) written = file->commit(/*durable=*/false);
  if (!written.ok()) return message + "; no reproducer: " + written.error().message;
  return message + "; " + kReproducerIs + path;
}

int run(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like that of a full disk
  limit_memory();
  CLI::App app{"weft: a fusion compiler for deep-learning models", "weft"};
  app.set_version_flag("--version", std::string("weft ") + WEFT_VERSION);
  app.require_subcommand(1);
  int usage = 0;
  const Status status = parse_and_run(app, argc, argv, &usage);
  if (status.ok()) return usage;
  const Error& error = status.error();
  std::string message = error.message;
  if (error.code == ErrorCode::kInternal) {
    if (message.find(kReproducerIs) == std::string::npos) {
      message = with_script({argv, static_cast<size_t>(argc)}, message);
    }
    message = "internal error: " + message;
  }
  std::fputs(("weft: " + printable(message) + "\n").c_str(), stderr);  // which may be closed, too
  return static_cast<int>(error.code);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run(argc, argv); }
