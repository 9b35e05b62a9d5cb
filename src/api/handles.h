#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/model_source.h"
#include "runtime/switching_context.h"
#include "support/entry_cache.h"
#include "weft/weft.h"

// What stands behind the public handles. The public types have the names of internal ones: those of
// weft:: are always written with it here.

#pragma GCC visibility push(hidden)  // no part of the interface, though in its namespace

namespace weft_v1 {

struct ThreadPool::Impl {
  std::shared_ptr<weft::ThreadPool> pool;
};

struct Model::Impl {
  weft::ModelSource source;
  /// What its compilations share that have no folder: kernels and weights of several bindings.
  std::shared_ptr<weft::EntryCache> shared;
  std::vector<ModelTensor> inputs, outputs;
};

struct Executable::Impl {
  weft::ModelPrograms programs;
  /// Better ones on their way, others that are not needed any more, and what is kept with them,
  /// as the entries in the cache that are being written; null: none.
  std::shared_ptr<weft::LaterPrograms> later;
  std::shared_ptr<weft::LaterPrograms> given_up;
  std::shared_ptr<const void> kept;
  std::shared_ptr<weft::ThreadPool> pool;
  std::vector<TensorSpec> inputs, outputs;
  std::map<std::string, std::string> metadata;

  /// Those that runs begin with now.
  const weft::ModelPrograms& current() const {
    const weft::ModelPrograms* better = later == nullptr ? nullptr : later->ready();
    return better == nullptr ? programs : *better;
  }
  const weft::Program& first() const { return current().front()->program(); }
};

struct Context::Impl {
  std::unique_ptr<weft::SwitchingContext> context;
  std::vector<weft::InputRef> inputs;  ///< of the run in progress, kept for their capacity
  std::vector<weft::OutputRef> outputs;
};

Error to_public(const weft::Error& error);

/// The way of the free functions to the private parts of the handles.
struct __attribute__((visibility("hidden"))) Bridge {
  /// Threads of runs: the pool's, or `threads`, 0 for all that the process may use.
  static int thread_count(const std::optional<ThreadPool>& pool, int threads);
  static Model make_model(weft::ModelSource source, const std::vector<weft::DeclaredTensor>& inputs,
                          const std::vector<weft::DeclaredTensor>& outputs);
  static const weft::ModelSource& source_of(const Model& model) { return model.impl_->source; }
  static const std::shared_ptr<weft::EntryCache>& shared_of(const Model& model) {
    return model.impl_->shared;
  }
  static std::shared_ptr<weft::ThreadPool> pool_of(const std::optional<ThreadPool>& pool) {
    return pool && pool->impl_ != nullptr ? pool->impl_->pool : nullptr;
  }
  static const std::atomic<bool>* flag_of(const CancellationToken* token) {
    return token == nullptr ? nullptr : &token->cancelled_;
  }
  /// An executable of at least one program; without a pool it gets one where it has a use for it.
  static Result<Executable> make(std::vector<weft::Program> programs,
                                 const std::optional<ThreadPool>& pool, int threads,
                                 std::map<std::string, std::string> metadata = {},
                                 std::future<void> stored = {});
  /// The same of programs that others may take the place of; `kept` lives as long.
  static Result<Executable> make(weft::StartedPrograms programs,
                                 const std::optional<ThreadPool>& pool, int threads,
                                 std::map<std::string, std::string> metadata,
                                 std::shared_ptr<const void> kept);
};

}  // namespace weft_v1

#pragma GCC visibility pop
