#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "driver/measured_rows.h"
#include "library/performance_library.h"
#include "support/printable.h"
#include "tools/commands.h"

namespace weft {

namespace {

struct LibraryCommand {
  std::string action = "show";
  std::vector<std::string> files;
  std::string library;
};

void print_warning(const std::string& message) {
  fmt::print(stderr, "weft: warning: {}\n", printable(message));
}

Status show(const std::string& path) {
  std::vector<MeasuredRow> rows;
  std::error_code failed;
  if (std::filesystem::exists(path, failed)) {
    WEFT_ASSIGN_OR_RETURN(rows, PerformanceLibrary::read(path));
  }
  const std::string compiler = compiler_version();
  int64_t others = 0;
  for (const MeasuredRow& row : rows) {
    if (row.compiler != compiler) {
      ++others;
      continue;
    }
    fmt::print("{}  group {}  target {}  {:>10.2f} us {:>5} samples  {}\n", row.name(),
               to_hex(row.group).substr(0, 8), to_hex(row.target).substr(0, 8), row.median(),
               row.microseconds.size(), printable(row.composition));
  }
  fmt::print("{}: {} rows, {} of another compiler\n", printable(path), rows.size(), others);
  return {};
}

Status take_files(const std::string& path, const std::vector<std::string>& files) {
  std::vector<MeasuredRow> rows;
  for (const std::string& file : files) {
    WEFT_ASSIGN_OR_RETURN(const std::vector<MeasuredRow> more, PerformanceLibrary::read(file));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  WEFT_ASSIGN_OR_RETURN(PerformanceLibrary library, PerformanceLibrary::open(path, print_warning));
  WEFT_ASSIGN_OR_RETURN(const int64_t taken, library.merge(rows));
  fmt::print("{}: {} of {} rows are new or longer\n", printable(path), taken, rows.size());
  return {};
}

Status prune(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(PerformanceLibrary library, PerformanceLibrary::open(path, print_warning));
  WEFT_ASSIGN_OR_RETURN(const int64_t dropped, library.drop_others(compiler_version()));
  fmt::print("{}: {} rows of another compiler dropped\n", printable(path), dropped);
  return {};
}

Status library(const LibraryCommand& o) {
  const std::string path = o.library.empty() ? default_library() : o.library;
  if (path.empty()) return invalid_input("no performance library: give --library FILE");
  const bool takes_one = o.action == "export" || o.action == "import";
  if ((takes_one && o.files.size() != 1) || (o.action == "merge" && o.files.empty()))
    return invalid_input("library " + o.action + ": name " + (takes_one ? "a file" : "files"));
  if (!takes_one && o.action != "merge" && !o.files.empty())
    return invalid_input("library " + o.action + " takes no file; --library names the library");
  if (o.action == "import" || o.action == "merge") return take_files(path, o.files);
  if (o.action == "prune") return prune(path);
  if (o.action == "show") return show(path);
  WEFT_ASSIGN_OR_RETURN(const std::vector<MeasuredRow> rows, PerformanceLibrary::read(path));
  return export_rows(o.files[0], rows);
}

}  // namespace

void add_library_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<LibraryCommand>();
  CLI::App* command = app.add_subcommand(
      "library",
      "Show, export, import, merge or prune (rows of other compilers) the performance "
      "library");
  command->add_option("action", o->action, "show (default), export, import, merge or prune")
      ->check(CLI::IsMember({"show", "export", "import", "merge", "prune"}));
  command->add_option("files", o->files,
                      "FILE to export to or import from; merge takes several, of other processes "
                      "and machines");
  command->add_option("--library", o->library,
                      "FILE of the library; default: WEFT_LIBRARY, else one of the user's");
  command->callback([o, &status] { status = library(*o); });
}

}  // namespace weft
