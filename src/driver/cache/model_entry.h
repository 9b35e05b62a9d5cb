#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/cache/model_files.h"
#include "driver/explain/plan_totals.h"
#include "import/builder/imported_model.h"
#include "runtime/program.h"
#include "support/entry_cache.h"

namespace weft {

/// A compiled model, views of what an entry of the cache is made from.
struct ModelToStore {
  const std::string& path;  ///< of the model's file
  const Program& program;
  const std::vector<ImportedInput>& inputs;
  const std::map<std::string, std::string>& metadata;
  PlanTotals totals;
  int64_t unique_kernels = 0;
  const ModelFiles& files;
  /// By constant of the program: its key in the cache folder, when it is a view of a file there.
  const std::vector<std::optional<Hash128>>& cached_constants;
};

/// What an entry holds: the program, what is known of its inputs, and for each constant the bytes,
/// or where they are: in a file of the model or in another entry.
struct ModelEntry {
  std::vector<std::byte> description;
  std::vector<std::byte> constants;  ///< those that lie nowhere else, each at a multiple of 64
};
ModelEntry encode_model_entry(const ModelToStore& model);

/// The entry's bytes: the description's length, the description, padding to 64, the constants.
std::vector<std::byte> join_model_entry(const ModelEntry& entry);

/// What an entry gives back.
struct StoredModel {
  Program program;
  std::vector<ImportedInput> inputs;
  std::map<std::string, std::string> metadata;
  PlanTotals totals;
  int64_t unique_kernels = 0;
};
/// How an entry is read: for a model file `path`, in an import with these values of inputs;
/// `verify`: hash whole files instead of samples.
struct ModelReading {
  const std::string& path;
  const std::map<std::string, HostTensor>& known_inputs;
  bool verify = false;
};
/// The model of an entry's bytes; nullopt when it does not parse, when a file or entry that it
/// refers to is gone or another one, or when it is specialised on other values than those given.
std::optional<StoredModel> decode_model_entry(const MappedFile& entry, const ModelReading& reading,
                                              const EntryCache& cache);

}  // namespace weft
