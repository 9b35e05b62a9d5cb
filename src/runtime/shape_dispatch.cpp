#include "runtime/shape_dispatch.h"

#include <utility>

#include "runtime/artefact.h"

namespace weft {
namespace {

Result<size_t> choose(const ModelPrograms& programs, std::span<const InputRef> inputs) {
  if (programs.size() == 1) return size_t{0};
  std::vector<const Program*> list;
  for (const auto& executable : programs) list.push_back(&executable->program());
  std::vector<std::span<const int64_t>> shapes;
  for (const InputRef& input : inputs) shapes.push_back(input.shape);
  return find_program(list, shapes);
}

}  // namespace

DispatchContext::DispatchContext(ModelPrograms programs, ContextOptions options)
    : programs_(std::move(programs)), options_(std::move(options)), contexts_(programs_.size()) {}

Result<std::unique_ptr<DispatchContext>> DispatchContext::create(ModelPrograms programs,
                                                                 ContextOptions options) {
  WEFT_CHECK(!programs.empty(), "a model has at least one program");
  std::unique_ptr<DispatchContext> context(
      new DispatchContext(std::move(programs), std::move(options)));
  WEFT_RETURN_IF_ERROR(context->prepare(0));
  return context;
}

Status DispatchContext::prepare(size_t program) {
  std::unique_ptr<ExecutionContext>& slot = contexts_[program];
  if (slot != nullptr) return {};
  WEFT_ASSIGN_OR_RETURN(slot, ExecutionContext::create(programs_[program], options_));
  return {};
}

Status DispatchContext::run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
                            const RunOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const size_t program, choose(programs_, inputs));
  WEFT_RETURN_IF_ERROR(prepare(program));
  return contexts_[program]->run(inputs, outputs, options);
}

}  // namespace weft
