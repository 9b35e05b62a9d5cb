#pragma once

#include <memory>
#include <optional>
#include <span>

#include "runtime/later_programs.h"
#include "runtime/shape_dispatch.h"

namespace weft {

/// A context for programs that better ones will take the place of: each run is one of the better
/// ones where these are ready when it begins.
///
/// A run that goes on when they become ready ends as it began, but for the first: that is begun
/// anew, so that its end is no later than if it had waited for them. This asks of it that its
/// outputs do not overlap its inputs, and that no flag of the caller's may cancel it.
class SwitchingContext {
 public:
  /// `later` may be null: nothing changes then.
  static Result<std::unique_ptr<SwitchingContext>> create(
      ModelPrograms first, std::shared_ptr<const LaterPrograms> later, ContextOptions options);

  /// As DispatchContext::run. Programs that are not made, or do not find the memory that they need,
  /// are no error: runs stay with the first.
  Status run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
             const RunOptions& options = {});
  /// Whether runs are of the better programs.
  bool switched() const { return switched_; }
  /// Why the better programs, which are ready, do not run; mostly nothing.
  const std::optional<Error>& trouble() const { return trouble_; }

 private:
  SwitchingContext(std::shared_ptr<const LaterPrograms> later, ContextOptions options);
  void take_over();

  std::shared_ptr<const LaterPrograms> later_;  ///< null once its programs run, or cannot
  ContextOptions options_;
  std::unique_ptr<DispatchContext> context_;
  bool has_run_ = false, switched_ = false;
  std::optional<Error> trouble_;
};

}  // namespace weft
