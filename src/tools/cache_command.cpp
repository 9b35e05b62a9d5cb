#include <fmt/format.h>

#include "driver/cache/user_cache.h"
#include "tools/commands.h"

namespace weft {

namespace {

struct CacheCommand {
  std::string dir;
  std::string action = "show";
};

Status cache(const CacheCommand& o) {
  const std::string dir = o.dir.empty() ? default_cache_dir() : o.dir;
  if (dir.empty())
    return invalid_input("no cache folder: set WEFT_CACHE or HOME, or give --cache DIR");
  const CacheSweep sweep = o.action == "clear"   ? CacheSweep::kAll
                           : o.action == "prune" ? CacheSweep::kMonthOld
                                                 : CacheSweep::kNothing;
  const CacheContents contents = sweep_cache(dir, sweep);
  fmt::print("{}: {} entries, {:.1f} MB", dir, contents.files,
             static_cast<double>(contents.bytes) * 1e-6);
  if (sweep != CacheSweep::kNothing) fmt::print("; removed {}", contents.removed);
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
