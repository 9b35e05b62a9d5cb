// The public C++ interface over runtime/: handles, and the conversion between the public types and
// the internal ones of the same names.

#include "weft/weft.h"

#include <algorithm>
#include <utility>

#include "api/handles.h"
#include "runtime/artefact.h"
#include "runtime/load_programs.h"
#include "target/target.h"

namespace weft_v1 {

static_assert(static_cast<int>(DType::kI64) == static_cast<int>(weft::DType::kI64));
static_assert(static_cast<int>(DType::kU64) == static_cast<int>(weft::DType::kU64));
static_assert(static_cast<int>(DType::kBF16) == static_cast<int>(weft::DType::kBF16));
static_assert(static_cast<int>(DType::kF64) == static_cast<int>(weft::DType::kF64));

namespace {

weft::DType to_internal(DType type) { return static_cast<weft::DType>(type); }

Status status_of(const weft::Status& status) {
  return status.ok() ? Status() : Status(to_public(status.error()));
}

std::vector<TensorSpec> specs_of(const std::vector<weft::ProgramIo>& list) {
  std::vector<TensorSpec> specs;
  for (const weft::ProgramIo& io : list) {
    specs.push_back({io.name, static_cast<DType>(io.dtype), io.shape});
  }
  return specs;
}

}  // namespace

Error to_public(const weft::Error& error) {
  // A comparison is the command's business; no function here makes one.
  const bool known = error.code != weft::ErrorCode::kComparison;
  return {known ? static_cast<ErrorCode>(error.code) : ErrorCode::kInternal, error.message};
}

int64_t byte_size(DType type) { return weft::byte_size(to_internal(type)); }
std::string_view dtype_name(DType type) { return weft::dtype_name(to_internal(type)); }

int Bridge::thread_count(const std::optional<ThreadPool>& pool, int threads) {
  if (pool.has_value()) return pool->threads();
  return threads == 0 ? weft::available_cores() : threads;
}

Result<Executable> Bridge::make(std::vector<weft::Program> programs,
                                const std::optional<ThreadPool>& pool, int threads,
                                std::map<std::string, std::string> metadata,
                                std::future<void> stored) {
  auto impl = std::make_shared<Executable::Impl>();
  auto loaded = weft::load_programs(std::move(programs));
  if (!loaded.ok()) return to_public(loaded.error());
  impl->programs = std::move(*loaded);
  const bool parallel = std::ranges::any_of(
      impl->programs, [](const auto& executable) { return executable->is_parallel(); });
  if (pool.has_value()) {
    impl->pool = pool->impl_ == nullptr ? nullptr : pool->impl_->pool;
  } else if (const int count = thread_count(pool, threads); parallel && count != 1) {
    weft::ThreadPool::Options options;
    options.threads = count;
    auto created = weft::ThreadPool::create(options);
    if (!created.ok()) return to_public(created.error());
    impl->pool = std::move(*created);
  }
  impl->metadata = std::move(metadata);
  impl->stored = std::move(stored);
  impl->inputs = specs_of(impl->first().inputs);
  impl->outputs = specs_of(impl->first().outputs);
  Executable executable;
  executable.impl_ = std::move(impl);
  return executable;
}

Result<ThreadPool> ThreadPool::create(const Options& options) {
  weft::ThreadPool::Options internal;
  internal.threads = options.threads == 0 ? weft::available_cores() : options.threads;
  internal.pin = options.pin;
  auto created = weft::ThreadPool::create(internal);
  if (!created.ok()) return to_public(created.error());
  ThreadPool pool;
  pool.impl_ = std::make_shared<Impl>(Impl{std::move(*created)});
  return pool;
}

int ThreadPool::threads() const { return impl_ == nullptr ? 1 : impl_->pool->threads(); }

Result<Executable> load(const std::string& path, const LoadOptions& options) {
  weft::ArtefactOptions artefact;
  artefact.verify_constants = !options.skip_constants_checksum;
  auto programs = weft::load_artefact(path, weft::host_cpu_target().features, artefact);
  if (!programs.ok()) return to_public(programs.error());
  return Bridge::make(std::move(*programs), options.pool, options.threads);
}

const std::vector<TensorSpec>& Executable::inputs() const { return impl_->inputs; }
const std::vector<TensorSpec>& Executable::outputs() const { return impl_->outputs; }
const std::map<std::string, std::string>& Executable::metadata() const { return impl_->metadata; }

int64_t Executable::kernel_count() const {
  int64_t count = 0;
  for (const weft::StepInfo& step : impl_->programs.front()->steps()) {
    const bool works = step.kind == weft::ProgramStep::Kind::kLaunch ||
                       step.kind == weft::ProgramStep::Kind::kHost;
    count += works ? 1 : 0;
  }
  return count;
}

int64_t Executable::arena_bytes() const { return impl_->first().arena_bytes; }
const std::string& Executable::explanation() const { return impl_->first().explanation; }
const std::string& Executable::explanation_json() const { return impl_->first().explanation_json; }

Status Executable::save(const std::string& path) const {
  std::vector<const weft::Program*> programs;
  for (const auto& executable : impl_->programs) programs.push_back(&executable->program());
  return status_of(weft::save_artefact(path, programs));
}

Result<Context> Executable::new_context() const {
  weft::ContextOptions options;
  options.pool = impl_->pool;
  auto created = weft::DispatchContext::create(impl_->programs, options);
  if (!created.ok()) return to_public(created.error());
  auto context = std::make_unique<Context::Impl>();
  context->context = std::move(*created);
  context->inputs.reserve(impl_->inputs.size());
  context->outputs.reserve(impl_->outputs.size());
  return Context(std::move(context));
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

Status Context::run(std::span<const Input> inputs, std::span<const Output> outputs,
                    const CancellationToken* cancel) {
  impl_->inputs.clear();
  for (const Input& t : inputs) {
    impl_->inputs.push_back({to_internal(t.dtype), t.shape, t.data, t.strides, t.on_device});
  }
  impl_->outputs.clear();
  for (const Output& t : outputs) {
    impl_->outputs.push_back({to_internal(t.dtype), t.shape, t.data, t.strides, t.on_device});
  }
  weft::RunOptions options;
  options.cancel = cancel == nullptr ? nullptr : &cancel->cancelled_;
  return status_of(impl_->context->run(impl_->inputs, impl_->outputs, options));
}

}  // namespace weft_v1
