// The public C++ interface over runtime/: handles, and the conversion between the public types and
// the internal ones of the same names.

#include "weft/weft.h"

#include <algorithm>
#include <utility>

#include "api/handles.h"
#include "runtime/artefact.h"
#include "runtime/load_programs.h"
#include "runtime/run_seed.h"
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

std::vector<TensorSpec> specs_of(std::span<const weft::ProgramIo> list) {
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

void set_seed(uint64_t seed) { weft::set_run_seed(seed); }

int64_t byte_size(DType type) { return weft::byte_size(to_internal(type)); }
std::string_view dtype_name(DType type) { return weft::dtype_name(to_internal(type)); }

int Bridge::thread_count(const std::optional<ThreadPool>& pool, int threads) {
  if (pool.has_value()) return pool->threads();
  return threads == 0 ? weft::available_cores() : threads;
}

namespace {

/// The caller's pool, or one of so many threads where there is a use for it; null: none.
Result<std::shared_ptr<weft::ThreadPool>> make_pool(std::shared_ptr<weft::ThreadPool> given,
                                                    bool is_given, bool parallel, int count) {
  if (is_given) return given;
  if (!parallel || count == 1) return std::shared_ptr<weft::ThreadPool>();
  weft::ThreadPool::Options options;
  options.threads = count;
  auto created = weft::ThreadPool::create(options);
  if (!created.ok()) return to_public(created.error());
  return std::move(*created);
}

}  // namespace

Result<Executable> Bridge::make(weft::StartedPrograms programs,
                                const std::optional<ThreadPool>& pool, int threads,
                                std::map<std::string, std::string> metadata,
                                std::shared_ptr<const void> kept) {
  auto impl = std::make_shared<Executable::Impl>();
  impl->programs = std::move(programs.first);
  const bool parallel =
      programs.later != nullptr ||
      std::ranges::any_of(impl->programs, [](const auto& e) { return e->is_parallel(); });
  const bool is_given = pool.has_value();
  auto made = make_pool(is_given && pool->impl_ != nullptr ? pool->impl_->pool : nullptr, is_given,
                        parallel, thread_count(pool, threads));
  if (!made.ok()) return made.error();
  impl->pool = std::move(*made);
  impl->later = std::move(programs.later);
  impl->given_up = std::move(programs.given_up);
  impl->metadata = std::move(metadata);
  impl->kept = std::move(kept);
  impl->inputs = specs_of(impl->first().given_inputs());
  impl->outputs = specs_of(impl->first().outputs);
  Executable executable;
  executable.impl_ = std::move(impl);
  return executable;
}

Result<Executable> Bridge::make(std::vector<weft::Program> programs,
                                const std::optional<ThreadPool>& pool, int threads,
                                std::map<std::string, std::string> metadata,
                                std::future<void> stored) {
  auto loaded = weft::load_programs(std::move(programs));
  if (!loaded.ok()) return to_public(loaded.error());
  return make(weft::StartedPrograms{std::move(*loaded), nullptr}, pool, threads,
              std::move(metadata), std::make_shared<std::future<void>>(std::move(stored)));
}

Result<ThreadPool> ThreadPool::create(const Options& options) {
  weft::ThreadPool::Options internal;
  internal.threads = options.threads == 0 ? weft::available_cores() : options.threads;
  internal.pin = options.pin;
  internal.openmp = options.openmp;
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
  for (const weft::StepInfo& step : impl_->current().front()->steps()) {
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
  for (const auto& executable : impl_->current()) programs.push_back(&executable->program());
  return status_of(weft::save_artefact(path, programs));
}

Status Executable::wait_for_plan() const {
  return impl_->later == nullptr ? Status() : status_of(impl_->later->wait());
}

Result<Context> Executable::new_context() const {
  weft::ContextOptions options;
  options.pool = impl_->pool;
  auto created = weft::SwitchingContext::create(impl_->programs, impl_->later, options);
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
