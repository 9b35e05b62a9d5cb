#include "driver/measured_rows.h"

#include <bit>
#include <cstdlib>
#include <utility>

#include "driver/cache/source_digest.h"

namespace weft {

namespace {

template <typename F>
void for_each_row(const CompileOptions& options, const Target& target, F&& f) {
  if (options.measured == nullptr) return;
  const Hash128 own = fingerprint(target);
  const std::string compiler = compiler_version();
  for (const MeasuredRow& row : *options.measured) {
    if (row.target == own && row.compiler == compiler) f(row);
  }
}

}  // namespace

Hash128 fingerprint(const Target& target) {
  Hasher hasher;
  hasher.add_text(print(target));
  hasher.add_value(target.reduced_float32 ? 1 : 0);
  return hasher.digest128();
}

std::string compiler_version() { return std::string(source_digest().substr(0, 16)); }

std::string default_library() {
  if (const char* file = std::getenv("WEFT_LIBRARY"); file != nullptr && *file != '\0') return file;
  if (const char* dir = std::getenv("XDG_DATA_HOME"); dir != nullptr && *dir != '\0')
    return std::string(dir) + "/weft/library.db";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.local/share/weft/library.db";
  return {};
}

Status read_library(const std::string& path, CompileOptions* options) {
  WEFT_ASSIGN_OR_RETURN(std::vector<MeasuredRow> rows, PerformanceLibrary::read(path));
  options->measured = std::make_shared<const std::vector<MeasuredRow>>(std::move(rows));
  return {};
}

MeasuredCompositions measured_on(const CompileOptions& options, const Target& target) {
  MeasuredCompositions measured;
  for_each_row(options, target, [&](const MeasuredRow& row) {
    TextCursor cursor(row.composition);
    auto composition = parse_composition(cursor);
    if (!composition.ok() || cursor.peek() != '\0') return;
    measured.add(row.group, {std::move(*composition), row.median(),
                             static_cast<int64_t>(row.microseconds.size()), row.name()});
  });
  return measured;
}

void add_measured(Hasher& hasher, const CompileOptions& options, const Target& target) {
  for_each_row(options, target, [&](const MeasuredRow& row) {
    hasher.add_text(row.name());
    hasher.add_value(row.microseconds.size());
    hasher.add_value(std::bit_cast<uint64_t>(row.median()));
  });
}

}  // namespace weft
