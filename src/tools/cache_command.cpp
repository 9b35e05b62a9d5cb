#include <fmt/format.h>

#include <filesystem>

#include "driver/generate_kernels.h"
#include "tools/commands.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

struct CacheCommand {
  std::string dir;
  std::string action = "show";
};

Status cache(const CacheCommand& o) {
  const std::string dir = o.dir.empty() ? default_cache_dir() : o.dir;
  if (dir.empty())
    return invalid_input("no cache folder: set WEFT_CACHE or HOME, or give --cache DIR");
  int64_t files = 0, bytes = 0, removed = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator it(dir, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code one;
    if (!it->is_regular_file(one)) continue;
    ++files;
    bytes += static_cast<int64_t>(it->file_size(one));
    const bool stale =
        o.action == "prune" &&
        fs::file_time_type::clock::now() - it->last_write_time(one) > std::chrono::hours(24 * 30);
    if (o.action == "clear" || stale) removed += fs::remove(it->path(), one) ? 1 : 0;
  }
  fmt::print("{}: {} entries, {:.1f} MB", dir, files, static_cast<double>(bytes) * 1e-6);
  if (o.action != "show") fmt::print("; removed {}", removed);
  fmt::print("\n");
  return {};
}

}  // namespace

void add_cache_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<CacheCommand>();
  CLI::App* command =
      app.add_subcommand("cache", "Show, prune (what is a month old) or clear the compile cache");
  command->add_option("action", o->action, "show (default), prune or clear")
      ->check(CLI::IsMember({"show", "prune", "clear"}));
  command->add_option("--cache", o->dir, "Folder of the cache");
  command->callback([o, &status] { status = cache(*o); });
}

}  // namespace weft
