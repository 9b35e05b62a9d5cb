#include "driver/cache/user_cache.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace weft {

std::string default_cache_dir() {
  if (const char* dir = std::getenv("WEFT_CACHE"); dir != nullptr && *dir != '\0') return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir != nullptr && *dir != '\0')
    return std::string(dir) + "/weft";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.cache/weft";
  return {};
}

CacheContents sweep_cache(const std::string& directory, CacheSweep sweep) {
  namespace fs = std::filesystem;
  constexpr std::chrono::hours kMonth(24 * 30);
  CacheContents contents;
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code one;
    if (!it->is_regular_file(one)) continue;
    ++contents.files;
    contents.bytes += static_cast<int64_t>(it->file_size(one));
    const bool stale = sweep == CacheSweep::kMonthOld &&
                       fs::file_time_type::clock::now() - it->last_write_time(one) > kMonth;
    if (sweep == CacheSweep::kAll || stale) contents.removed += fs::remove(it->path(), one) ? 1 : 0;
  }
  return contents;
}

}  // namespace weft
