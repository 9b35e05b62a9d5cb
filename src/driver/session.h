#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/compiler.h"
#include "runtime/execution_context.h"

namespace weft {

/// A compiled program with one context, run on whole host tensors: what the command and the tests
/// need. The public API gives callers their own memory.
class Session {
 public:
  /// `threads` 0: the program's; 1: no pool.
  static Result<std::unique_ptr<Session>> create(Program program, int threads);
  /// The same of a program that is loaded already.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Executable> executable,
                                                 int threads);
  /// On threads that others use, too; null: on the caller's alone.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Executable> executable,
                                                 std::shared_ptr<ThreadPool> pool);
  /// Kernels run where the launcher says; the program's images hold no code.
  static Result<std::unique_ptr<Session>> create(Program program,
                                                 std::shared_ptr<KernelLauncher> launcher);

  const Program& program() const { return executable_->program(); }
  const Executable& executable() const { return *executable_; }
  ExecutionContext& context() const { return *context_; }
  /// Inputs in the program's order; fresh outputs.
  Result<std::vector<HostTensor>> run(const std::vector<HostTensor>& inputs,
                                      const RunOptions& options = {});
  /// The same into outputs of an earlier run.
  Status run_into(const std::vector<HostTensor>& inputs, std::vector<HostTensor>* outputs,
                  const RunOptions& options = {});

 private:
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<ExecutionContext> context_;
};

}  // namespace weft
