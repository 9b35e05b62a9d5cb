#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/execution_context.h"

namespace weft {

/// The programs of one model for different shapes of its inputs; mostly one.
using ModelPrograms = std::vector<std::shared_ptr<const Executable>>;

/// A context for whichever program the shapes of a run ask for. The first one's memory is allocated
/// at once, the others' when they are first needed.
class DispatchContext {
 public:
  /// `programs` has at least one.
  static Result<std::unique_ptr<DispatchContext>> create(ModelPrograms programs,
                                                         ContextOptions options);

  /// ExecutionContext::run of the program that fits; with a single one its error says what differs.
  Status run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
             const RunOptions& options = {});

 private:
  DispatchContext(ModelPrograms programs, ContextOptions options);
  Status prepare(size_t program);

  ModelPrograms programs_;
  ContextOptions options_;
  std::vector<std::unique_ptr<ExecutionContext>> contexts_;
};

}  // namespace weft
