#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/compilation.h"

namespace weft {

/// A model that is ready to run: what a later process finds in the cache instead of compiling.
struct CompiledModel {
  Program program;
  std::vector<ImportedInput> inputs;
  std::map<std::string, std::string> metadata;
  PlanTotals totals;
  int64_t unique_kernels = 0, kernels_from_cache = 0;
  std::vector<PassTiming> timings;
  std::shared_ptr<Compilation> compilation;  ///< null when the cache had the whole model
  /// The writing of the model's entry in the cache, beside whatever runs next; whoever drops it
  /// waits for it.
  std::future<void> stored;
};

/// compile_model, or its result from the cache folder. An entry is found under the content of the
/// model's file (see identify_file), the options, the target and the sources that weft was built
/// from; it is used when the files of external data and the values that the model was specialised
/// on are the same too. Constants of an entry are views of the model's files and of the cache's.
/// An entry that is damaged or lacks a file is none.
Result<CompiledModel> load_or_compile(const ModelSource& source, const CompileOptions& options);

}  // namespace weft
