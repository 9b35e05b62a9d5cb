#include "runtime/switching_context.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

/// Whether a run may be broken off and made again: no output lies where an input does.
bool leaves_inputs(std::span<const InputRef> inputs, std::span<const OutputRef> outputs) {
  return std::ranges::none_of(outputs, [&](const OutputRef& out) {
    const auto written = touched_bytes(out.data, out.dtype, out.shape, out.strides);
    return !written || std::ranges::any_of(inputs, [&](const InputRef& in) {
      const auto read = touched_bytes(in.data, in.dtype, in.shape, in.strides);
      return !read || read->overlaps(*written);
    });
  });
}

}  // namespace

SwitchingContext::SwitchingContext(std::shared_ptr<const LaterPrograms> later,
                                   ContextOptions options)
    : later_(std::move(later)), options_(std::move(options)) {}

Result<std::unique_ptr<SwitchingContext>> SwitchingContext::create(
    ModelPrograms first, std::shared_ptr<const LaterPrograms> later, ContextOptions options) {
  std::unique_ptr<SwitchingContext> context(
      new SwitchingContext(std::move(later), std::move(options)));
  WEFT_ASSIGN_OR_RETURN(context->context_,
                        DispatchContext::create(std::move(first), context->options_));
  return context;
}

void SwitchingContext::take_over() {
  auto better = DispatchContext::create(*later_->ready(), options_);
  later_ = nullptr;
  if (!better.ok()) {
    trouble_ = better.error();
    return;
  }
  context_ = std::move(*better);
  switched_ = true;
}

Status SwitchingContext::run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
                             const RunOptions& options) {
  if (later_ != nullptr && later_->ready() != nullptr) take_over();
  const bool may_restart =
      later_ != nullptr && !has_run_ && options.cancel == nullptr && leaves_inputs(inputs, outputs);
  if (!may_restart) {
    const Status status = context_->run(inputs, outputs, options);
    has_run_ |= status.ok();
    return status;
  }
  RunOptions until_ready = options;
  until_ready.cancel = &later_->ready_flag();
  Status status = context_->run(inputs, outputs, until_ready);
  if (!status.ok() && status.error().code == ErrorCode::kInterrupted) {
    take_over();
    status = context_->run(inputs, outputs, options);
  }
  has_run_ |= status.ok();
  return status;
}

}  // namespace weft
