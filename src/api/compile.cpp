// The half of the public interface that needs the compiler.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "api/handles.h"
#include "driver/compiler.h"
#include "driver/models/describe_targets.h"
#include "driver/models/device_target.h"
#include "driver/models/load_or_compile.h"
#include "driver/models/model_in_parts.h"
#include "driver/models/start_unfused.h"
#include "driver/page/page.h"
#include "driver/plan_file.h"
#include "driver/report/page_of_model.h"
#include "runtime/tensor_ref.h"
#include "support/cache_memory.h"

namespace weft_v1 {

namespace {

std::vector<ModelTensor> declared(const std::vector<weft::DeclaredTensor>& list) {
  std::vector<ModelTensor> tensors;
  for (const weft::DeclaredTensor& d : list) {
    ModelTensor& tensor = tensors.emplace_back(d.name, static_cast<DType>(d.dtype), std::nullopt);
    if (!d.dims) continue;
    tensor.shape.emplace();
    for (const auto& [extent, symbol] : *d.dims) tensor.shape->push_back({extent, symbol});
  }
  return tensors;
}

/// What the public options ask for.
weft::Result<weft::CompileOptions> internal_options(const CompileOptions& options) {
  weft::CompileOptions internal;
  if (weft::is_plan_file(options.plan)) {
    WEFT_RETURN_IF_ERROR(weft::read_plan_file(options.plan, &internal));
  } else {
    internal.planner = options.plan;
  }
  internal.threads = Bridge::thread_count(options.pool, options.threads);
  internal.import.bind = options.bind;
  internal.import.shapes = options.shapes;
  internal.cache_dir = options.cache_dir;
  internal.fast_math = options.fast_math;
  WEFT_ASSIGN_OR_RETURN(internal.precision, weft::parse_precision(options.precision));
  internal.cancel = Bridge::flag_of(options.cancel);
  if (options.progress) {
    internal.progress = [tell = options.progress](const weft::CompileProgress& p) {
      tell({p.pass, p.done, p.total});
    };
  }
  if (options.target != "cpu") {
    WEFT_ASSIGN_OR_RETURN(internal.device, weft::target_by_name(options.target));
    internal.device_code = internal.device->is_gpu();
  }
  return internal;
}

Result<Executable> compile_source(const weft::ModelSource& source, const CompileOptions& options,
                                  std::shared_ptr<weft::EntryCache> shared = nullptr) {
  auto internal = internal_options(options);
  if (!internal.ok()) return to_public(internal.error());
  internal->shared = std::move(shared);
  if (options.start_unfused) {
    auto started = weft::start_unfused(source, *internal);
    if (!started.ok()) return to_public(started.error());
    return Bridge::make(std::move(started->programs), options.pool, options.threads,
                        std::move(started->metadata), std::move(started->stored));
  }
  auto compiled = weft::load_or_compile(source, *internal);
  if (!compiled.ok()) return to_public(compiled.error());
  std::vector<weft::Program> programs;
  programs.push_back(std::move(compiled->program));
  return Bridge::make(std::move(programs), options.pool, options.threads,
                      std::move(compiled->metadata), std::move(compiled->stored));
}

/// A copy of bytes, aligned as a mapped file's are.
weft::Result<weft::MappedFile> copy_of(std::span<const std::byte> bytes) {
  const size_t capacity = (bytes.size() + 64) / 64 * 64;
  std::shared_ptr<std::byte> buffer(static_cast<std::byte*>(std::aligned_alloc(64, capacity)),
                                    std::free);
  if (buffer == nullptr) return weft::invalid_input("the model needs more memory than there is");
  if (!bytes.empty()) std::memcpy(buffer.get(), bytes.data(), bytes.size());
  return weft::MappedFile{buffer, {buffer.get(), bytes.size()}};
}

}  // namespace

Model Bridge::make_model(weft::ModelSource source, const std::vector<weft::DeclaredTensor>& inputs,
                         const std::vector<weft::DeclaredTensor>& outputs) {
  Model model;
  const auto is_open = [](const weft::DeclaredTensor& input) {
    return !input.dims ||
           std::ranges::any_of(*input.dims, [](const auto& d) { return d.extent < 0; });
  };
  // A model of one binding is compiled once.
  auto shared = std::ranges::any_of(inputs, is_open) ? std::make_shared<weft::CacheMemory>()
                                                     : std::shared_ptr<weft::CacheMemory>();
  model.impl_ = std::make_shared<Model::Impl>(
      Model::Impl{std::move(source), std::move(shared), declared(inputs), declared(outputs)});
  return model;
}

namespace {

/// A model whose file has these bytes.
Result<Model> model_of(weft::ModelSource source, weft::MappedFile bytes) {
  const auto signature = weft::onnx_signature(std::move(bytes));
  if (signature.ok())
    return Bridge::make_model(std::move(source), signature->inputs, signature->outputs);
  const weft::Error& error = signature.error();
  return to_public({error.code, "'" + source.name() + "': " + error.message});
}

}  // namespace

Result<Model> Model::open(const std::string& path) {
  auto file = weft::map_file(path);
  if (!file.ok()) return to_public(file.error());
  return model_of(path, std::move(*file));
}

Result<Model> Model::from_bytes(std::span<const std::byte> bytes) {
  const auto copy = copy_of(bytes);
  if (!copy.ok()) return to_public(copy.error());
  return model_of(weft::ModelSource(*copy), *copy);
}

const std::vector<ModelTensor>& Model::inputs() const { return impl_->inputs; }
const std::vector<ModelTensor>& Model::outputs() const { return impl_->outputs; }

Result<Executable> compile(const Model& model, const CompileOptions& options) {
  return compile_source(Bridge::source_of(model), options, Bridge::shared_of(model));
}
Result<Executable> compile(const std::string& path, const CompileOptions& options) {
  return compile_source(path, options);
}

struct ModelInParts::Impl {
  std::unique_ptr<weft::ModelInParts> model;
};

Result<ModelInParts> ModelInParts::create(const Model& model, const CompileOptions& options) {
  auto internal = internal_options(options);
  if (!internal.ok()) return to_public(internal.error());
  auto opened = weft::ModelInParts::open(Bridge::source_of(model), *internal);
  if (!opened.ok()) return to_public(opened.error());
  (*opened)->use(Bridge::pool_of(options.pool));
  ModelInParts parts;
  parts.impl_ = std::make_shared<Impl>(Impl{std::move(*opened)});
  return parts;
}

const std::vector<std::string>& ModelInParts::output_names() const {
  return impl_->model->outputs();
}

Result<std::vector<OwnedTensor>> ModelInParts::run(std::span<const Input> inputs,
                                                   const CancellationToken* cancel) const {
  std::vector<weft::HostTensor> in;
  for (const Input& t : inputs) {
    if (t.on_device)
      return to_public(weft::unsupported("inputs in a GPU's memory, of a model in parts"));
    weft::HostTensor tensor(static_cast<weft::DType>(t.dtype), {t.shape.begin(), t.shape.end()});
    if (t.strides.empty()) {
      if (tensor.bytes() > 0)
        std::memcpy(tensor.mutable_raw(), t.data, static_cast<size_t>(tensor.bytes()));
    } else {
      weft::copy_from_strided(tensor.mutable_raw(), t.data, weft::byte_size(tensor.dtype()),
                              t.shape, t.strides);
    }
    in.push_back(std::move(tensor));
  }
  auto made = impl_->model->run(in, Bridge::flag_of(cancel));
  if (!made.ok()) return to_public(made.error());
  std::vector<OwnedTensor> outputs;
  for (const weft::HostTensor& t : *made)
    outputs.push_back({static_cast<DType>(t.dtype()), t.shape(), {t.owner(), t.raw()}});
  return outputs;
}

namespace {

Status written(const weft::Result<std::string>& page, const std::string& path) {
  if (!page.ok()) return to_public(page.error());
  const weft::Status status = weft::write_page(path, *page);
  return status.ok() ? Status() : Status(to_public(status.error()));
}

weft::PageOptions internal_options(const PageOptions& options) {
  return {options.measure, options.compare_with};
}

weft::Result<std::string> page_of(const weft::ModelSource& source, const CompileOptions& options,
                                  const PageOptions& page) {
  WEFT_ASSIGN_OR_RETURN(weft::CompileOptions internal, internal_options(options));
  internal.cache_dir.clear();
  if (page.measure) WEFT_RETURN_IF_ERROR(weft::check_can_measure(internal));
  WEFT_ASSIGN_OR_RETURN(const auto compilation, weft::compile_model(source, internal));
  return weft::page_of_compilation(*compilation, internal_options(page));
}

}  // namespace

Status save_page(const Model& model, const std::string& path, const CompileOptions& options,
                 const PageOptions& page) {
  return written(page_of(Bridge::source_of(model), options, page), path);
}

Status Executable::save_page(const std::string& path, const PageOptions& options) const {
  const int threads = impl_->pool == nullptr ? 1 : impl_->pool->threads();
  return written(
      weft::page_of_executable(impl_->current().front(), threads, internal_options(options)), path);
}

std::vector<TargetInfo> targets() {
  std::vector<TargetInfo> list;
  for (weft::TargetDescription& t : weft::describe_targets())
    list.push_back({std::move(t.name), std::move(t.text), t.is_here});
  return list;
}

std::string_view version() { return WEFT_VERSION; }

}  // namespace weft_v1
