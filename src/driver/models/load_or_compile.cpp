#include "driver/models/load_or_compile.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "driver/cache/model_entry.h"
#include "driver/cache/source_digest.h"
#include "driver/compiler.h"
#include "driver/measured_rows.h"
#include "support/file_identity.h"

namespace weft {

namespace {

constexpr const char* kModelKind = "model";

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void add_shape(Hasher& hasher, const Shape& shape) {
  hasher.add_value(shape.size());
  for (const int64_t extent : shape) hasher.add_value(static_cast<uint64_t>(extent));
}

/// All that the program depends on but the external data and the values of inputs.
Hash128 model_key(const Hash128& file, const CompileOptions& o) {
  Hasher hasher;
  hasher.add_text(source_digest());
  hasher.add_value(file.high);
  hasher.add_value(file.low);
  hasher.add_text(o.planner);
  hasher.add_text(o.compositions);
  hasher.add_text(o.planner_parameters);
  hasher.add_value(o.compute_as_calls ? 1 : 0);
  hasher.add_text(o.plan_text);
  hasher.add_value((o.fast_math ? 1 : 0) + (o.unroll ? 2 : 0) + (o.fixed_sizes ? 4 : 0));
  hasher.add_text(precision_name(o.precision));
  Target target = o.device ? *o.device : host_cpu_target(o.threads, o.max_vector_bytes);
  hasher.add_text(print(target));
  target.reduced_float32 = o.fast_math;
  add_measured(hasher, o, target);
  hasher.add_value(o.import.bind.size());
  for (const auto& [name, extent] : o.import.bind) {
    hasher.add_text(name);
    hasher.add_value(static_cast<uint64_t>(extent));
  }
  hasher.add_value(o.import.shapes.size());
  for (const auto& [name, shape] : o.import.shapes) {
    hasher.add_text(name);
    add_shape(hasher, shape);
  }
  for (const auto& [name, value] : o.import.known_inputs) {
    hasher.add_text(name);
    hasher.add_value(static_cast<uint64_t>(value.dtype()));
    add_shape(hasher, value.shape());
  }
  return hasher.digest128();
}

/// Whether the options ask for nothing but a program.
bool is_plain(const ModelSource& source, const CompileOptions& o) {
  return (!source.is_file() || !source.path.ends_with(".graph")) &&
         (!o.device || !o.device->is_gpu() || o.device_code) && !o.cache_dir.empty() && !o.verify &&
         o.dump_dir.empty() && o.stop_after.empty() && !o.tamper;
}

Hash128 content_of(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add_text("memory");  // an entry of a file refers to it
  hasher.add_value(bytes.size());
  hasher.add_bytes(bytes);
  return hasher.digest128();
}

/// Of a graph at a binding: its text, which names constants by their hashes.
Result<Hash128> content_of(const RecordedGraph& recorded, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const ImportedModel model, recorded.build(options));
  Hasher hasher;
  hasher.add_text("graph");
  hasher.add_text(print(model.graph));
  return hasher.digest128();
}

Result<Hash128> identify(const ModelSource& source, const CompileOptions& options) {
  if (source.recorded) return content_of(*source.recorded, options.import);
  if (source.is_file()) return identify_file(source.path, options.verify_cache);
  return content_of(source.memory.bytes);
}

/// Whether the model that was compiled is what the key says: its file may have changed meanwhile.
bool is_still(const ModelSource& source, const ModelFiles& read, const Hash128& identity) {
  if (!source.is_file()) return read.files().empty();
  return !read.files().empty() && read.files()[0].identity == identity;
}

Result<CompiledModel> compile(const ModelSource& source, const CompileOptions& options) {
  CompiledModel model;
  WEFT_ASSIGN_OR_RETURN(model.compilation, compile_model(source, options));
  Compilation& c = *model.compilation;
  model.totals = totals_of(c);
  model.unique_kernels = c.unique_kernels;
  model.kernels_from_cache = c.kernels_from_cache;
  model.timings = c.timings;
  model.inputs = c.imported.inputs;
  model.metadata = c.imported.metadata;
  model.program = c.program;
  return model;
}

void store(const Compilation& c, const PlanTotals& totals, const Hash128& key, EntryCache& cache) {
  const std::vector<std::byte> entry = join_model_entry(
      encode_model_entry({c.model, c.program, c.imported.inputs, c.imported.metadata, totals,
                          c.unique_kernels, c.files, c.cached_constants}));
  const std::span<const std::byte> bytes(entry);
  if (cache.insert(key, kModelKind, {&bytes, 1})) cache.trim();
}

/// Starts to store a model on a thread of its own. Where the machine has none to spare, or no
/// memory for the entry, nothing is stored.
std::future<void> store_beside(const CompiledModel& model, const Hash128& key,
                               std::shared_ptr<EntryCache> cache) {
  try {
    return std::async(std::launch::async,
                      [key, compilation = model.compilation, totals = model.totals,
                       folder = std::move(cache)]() mutable {
                        store(*compilation, totals, key, *folder);
                        compilation.reset();  // the future would hold it
                      });
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace

Result<CompiledModel> load_or_compile(const ModelSource& source, const CompileOptions& options) {
  const auto start = Clock::now();
  const Result<Hash128> file = is_plain(source, options)
                                   ? identify(source, options)
                                   : Result<Hash128>(invalid_input("no cache"));
  if (!file.ok()) return compile(source, options);
  const Hash128 key = model_key(*file, options);
  const std::shared_ptr<EntryCache> cache = open_cache(options);
  if (const std::optional<MappedFile> entry = cache->find(key, kModelKind)) {
    const std::string name = source.name();
    const ModelReading reading{name, options.import.known_inputs, options.verify_cache};
    if (auto stored = decode_model_entry(*entry, reading, *cache)) {
      CompiledModel model;
      model.program = std::move(stored->program);
      model.inputs = std::move(stored->inputs);
      model.metadata = std::move(stored->metadata);
      model.totals = stored->totals;
      model.unique_kernels = model.kernels_from_cache = stored->unique_kernels;
      model.timings.push_back({"load", milliseconds_since(start)});
      return model;
    }
  }
  WEFT_ASSIGN_OR_RETURN(CompiledModel model, compile(source, options));
  if (is_still(source, model.compilation->files, *file))
    model.stored = store_beside(model, key, cache);
  return model;
}

}  // namespace weft
