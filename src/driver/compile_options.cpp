#include "driver/compile_options.h"

#include <utility>

#include "support/cache_folder.h"
#include "support/cancelled.h"

namespace weft {

std::string_view precision_name(Precision precision) {
  return precision == Precision::kBFloat16 ? "bf16" : "model";
}

Result<Precision> parse_precision(std::string_view name) {
  for (const Precision precision : {Precision::kModel, Precision::kBFloat16}) {
    if (name == precision_name(precision)) return precision;
  }
  return invalid_input("there is no precision '" + std::string(name) + "'; known: model, bf16");
}

Status check_cancelled(const CompileOptions& options) {
  if (!is_cancelled(options.cancel)) return {};
  return Error{ErrorCode::kInterrupted, Cancelled().what()};
}

bool has_cache(const CompileOptions& options) {
  return !options.cache_dir.empty() || options.shared != nullptr;
}

std::shared_ptr<EntryCache> open_cache(const CompileOptions& options) {
  if (options.cache_dir.empty()) return options.shared;
  CacheFolder::Options folder;
  folder.directory = options.cache_dir;
  folder.verify = options.verify_cache;
  folder.warn = options.warn ? options.warn : [](const std::string&) {};
  return std::make_shared<CacheFolder>(std::move(folder));
}

}  // namespace weft
