#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/load_or_compile.h"
#include "support/cache_folder.h"

namespace weft {

/// A compiled model as an entry of the cache: its program, what is known of its inputs, and for
/// each constant the bytes, or where they are: in a file of the model or in another entry.
struct ModelEntry {
  std::vector<std::byte> description;
  std::vector<std::byte> constants;  ///< those that lie nowhere else, each at a multiple of 64
};
ModelEntry encode_model_entry(const Compilation& c, const PlanTotals& totals);

/// The model of an entry's bytes, for the model file `path`; nullopt when it does not parse, when a
/// file or entry that it refers to is gone or another one, or when it is specialised on other
/// values than those in `options`.
std::optional<CompiledModel> decode_model_entry(const MappedFile& entry, const std::string& path,
                                                const CompileOptions& options,
                                                const CacheFolder& cache);

/// The entry's bytes: the description's length, the description, padding to 64, the constants.
std::vector<std::byte> join_model_entry(const ModelEntry& entry);

}  // namespace weft
