// The C interface of include/weft/weft_runtime.h: handles around Executable and ExecutionContext.
// Nothing throws across it.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "runtime/artefact.h"
#include "runtime/load_programs.h"
#include "runtime/run_seed.h"
#include "runtime/shape_dispatch.h"
#include "target/target.h"
#include "weft/weft_runtime.h"

static_assert(static_cast<int>(weft::DType::kBool) == WEFT_BOOL);
static_assert(static_cast<int>(weft::DType::kI64) == WEFT_I64);
static_assert(static_cast<int>(weft::DType::kU64) == WEFT_U64);
static_assert(static_cast<int>(weft::DType::kF32) == WEFT_F32);
static_assert(static_cast<int>(weft::DType::kF64) == WEFT_F64);
static_assert(static_cast<int>(weft::ErrorCode::kInvalidInput) == WEFT_INVALID_INPUT);
static_assert(static_cast<int>(weft::ErrorCode::kMissingDevice) == WEFT_MISSING_DEVICE);
static_assert(static_cast<int>(weft::ErrorCode::kInterrupted) == WEFT_INTERRUPTED);

namespace {

using weft::Status;

/// Runs `body`, which returns a Status; keeps its message and returns its code.
template <typename Body>
int guarded(std::string& message, const Body& body) noexcept {
  try {
    const Status status = body();
    message = status.ok() ? "" : status.error().message;
    return status.ok() ? WEFT_OK : static_cast<int>(status.error().code);
  } catch (const std::bad_alloc&) {
    message.clear();  // no memory to say so
    return WEFT_INVALID_INPUT;
  } catch (const std::exception& error) {
    try {
      message = error.what();
    } catch (...) {
      message.clear();
    }
    return WEFT_INTERNAL;
  }
}

}  // namespace

struct weft_model {
  mutable std::mutex mutex;  ///< over the message: contexts may be made by several threads
  std::string message;
  weft::ModelPrograms programs;
  std::shared_ptr<weft::ThreadPool> pool;

  const weft::Program* first() const {
    return programs.empty() ? nullptr : &programs.front()->program();
  }
};

struct weft_context {
  std::string message;
  std::unique_ptr<weft::DispatchContext> context;
  std::atomic<bool> cancel{false};
  std::vector<weft::InputRef> inputs;
  std::vector<weft::OutputRef> outputs;
};

namespace {

Status load(weft_model& model, const char* path, const weft_load_options* options) {
  weft_load_options known = {};
  if (options != nullptr) {
    // A caller of another version knows fewer or more fields.
    std::memcpy(&known, options, std::min(options->struct_size, sizeof known));
  }
  model.programs.clear();
  model.pool.reset();
  const weft::Target host = weft::host_cpu_target(known.threads);
  weft::ArtefactOptions artefact;
  artefact.verify_constants = known.skip_constants_checksum == 0;
  WEFT_ASSIGN_OR_RETURN(std::vector<weft::Program> programs,
                        weft::load_artefact(path, host.features, artefact));
  WEFT_ASSIGN_OR_RETURN(weft::ModelPrograms executables, weft::load_programs(std::move(programs)));
  if (host.threads > 1) {
    weft::ThreadPool::Options pool;
    pool.threads = host.threads;
    WEFT_ASSIGN_OR_RETURN(model.pool, weft::ThreadPool::create(pool));
  }
  model.programs = std::move(executables);
  return {};
}

std::span<const int64_t> extents(const int64_t* numbers, size_t rank) {
  return {numbers, numbers == nullptr ? 0 : rank};
}

template <typename Ref>
Status convert(const weft_tensor* from, size_t count, std::vector<Ref>& to) {
  if (count > 0 && from == nullptr) return weft::invalid_input("no tensors given");
  to.clear();
  for (size_t i = 0; i < count; ++i) {
    const weft_tensor& t = from[i];
    if (t.rank > 0 && t.shape == nullptr) return weft::invalid_input("a tensor without a shape");
    // What is no element type stays none: it must not wrap into one.
    const bool known = t.dtype >= WEFT_BOOL && t.dtype <= WEFT_F64;
    const auto dtype = known ? static_cast<weft::DType>(t.dtype) : static_cast<weft::DType>(255);
    to.push_back({dtype, extents(t.shape, t.rank), t.data, extents(t.strides, t.rank)});
  }
  return {};
}

int describe(std::span<const weft::ProgramIo> list, size_t index, weft_tensor_info* info) {
  if (info == nullptr || index >= list.size()) return WEFT_INVALID_INPUT;
  const weft::ProgramIo& io = list[index];
  *info = {io.name.c_str(), static_cast<int32_t>(io.dtype), io.shape.size(), io.shape.data()};
  return WEFT_OK;
}

}  // namespace

extern "C" {

int weft_runtime_version(void) { return WEFT_RUNTIME_VERSION; }

weft_model* weft_model_new(void) { return new (std::nothrow) weft_model; }

int weft_model_load(weft_model* model, const char* path, const weft_load_options* options) {
  if (model == nullptr) return WEFT_INVALID_INPUT;
  const std::lock_guard lock(model->mutex);
  return guarded(model->message, [&]() -> Status {
    if (path == nullptr) return weft::invalid_input("no path given");
    return load(*model, path, options);
  });
}

const char* weft_model_message(const weft_model* model) {
  return model == nullptr ? "no model given" : model->message.c_str();
}

size_t weft_model_input_count(const weft_model* model) {
  return model == nullptr || model->first() == nullptr ? 0 : model->first()->given_inputs().size();
}

size_t weft_model_output_count(const weft_model* model) {
  return model == nullptr || model->first() == nullptr ? 0 : model->first()->outputs.size();
}

int weft_model_input(const weft_model* model, size_t index, weft_tensor_info* info) {
  const weft::Program* program = model == nullptr ? nullptr : model->first();
  return program == nullptr ? WEFT_INVALID_INPUT : describe(program->given_inputs(), index, info);
}

int weft_model_output(const weft_model* model, size_t index, weft_tensor_info* info) {
  const weft::Program* program = model == nullptr ? nullptr : model->first();
  return program == nullptr ? WEFT_INVALID_INPUT : describe(program->outputs, index, info);
}

void weft_model_free(weft_model* model) { delete model; }

weft_context* weft_context_new(weft_model* model) {
  if (model == nullptr) return nullptr;
  const std::lock_guard lock(model->mutex);
  std::unique_ptr<weft_context> context;
  const int code = guarded(model->message, [&]() -> Status {
    if (model->programs.empty()) return weft::invalid_input("no model is loaded");
    context = std::make_unique<weft_context>();
    context->inputs.reserve(model->first()->inputs.size());
    context->outputs.reserve(model->first()->outputs.size());
    weft::ContextOptions options;
    options.pool = model->pool;
    WEFT_ASSIGN_OR_RETURN(context->context,
                          weft::DispatchContext::create(model->programs, options));
    return {};
  });
  return code == WEFT_OK ? context.release() : nullptr;
}

int weft_context_run(weft_context* context, const weft_tensor* inputs, size_t input_count,
                     const weft_tensor* outputs, size_t output_count) {
  if (context == nullptr) return WEFT_INVALID_INPUT;
  const int code = guarded(context->message, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(convert(inputs, input_count, context->inputs));
    WEFT_RETURN_IF_ERROR(convert(outputs, output_count, context->outputs));
    weft::RunOptions options;
    options.cancel = &context->cancel;
    return context->context->run(context->inputs, context->outputs, options);
  });
  if (code == WEFT_INTERRUPTED) context->cancel.store(false);
  return code;
}

void weft_set_seed(uint64_t seed) { weft::set_run_seed(seed); }

void weft_context_cancel(weft_context* context) {
  if (context != nullptr) context->cancel.store(true);
}

const char* weft_context_message(const weft_context* context) {
  return context == nullptr ? "no context given" : context->message.c_str();
}

void weft_context_free(weft_context* context) { delete context; }

}  // extern "C"
