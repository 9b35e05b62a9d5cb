#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; empty when none of them is set.
std::string default_cache_dir();

struct CacheContents {
  int64_t files = 0, bytes = 0;  ///< as they were found
  int64_t removed = 0;           ///< files
};
enum class CacheSweep : uint8_t { kNothing, kMonthOld, kAll };

/// Counts the files of a cache folder and removes what the sweep names: all, or what was not
/// written to for 30 days. A folder that cannot be read is empty.
CacheContents sweep_cache(const std::string& directory, CacheSweep sweep);

}  // namespace weft
