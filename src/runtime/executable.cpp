#include "runtime/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/host_ops.h"

namespace weft {
namespace {

Result<size_t> index_of(std::string_view name, const std::vector<ProgramIo>& list,
                        const char* what) {
  std::string names;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return i;
    names += (i == 0 ? "'" : ", '") + list[i].name + "'";
  }
  return invalid_input("there is no " + std::string(what) + " '" + std::string(name) + "'" +
                       (list.empty() ? std::string(": there are none") : "; there are " + names));
}

/// Views of model files start where the file has them; code and host operations need at least the
/// alignment of the element. Copies those that lack it.
void align_constants(std::vector<HostTensor>& constants) {
  for (HostTensor& constant : constants) {
    const auto element = static_cast<uintptr_t>(byte_size(constant.dtype()));
    if (reinterpret_cast<uintptr_t>(constant.raw()) % element == 0) continue;
    HostTensor aligned(constant.dtype(), constant.shape());
    std::memcpy(aligned.mutable_raw(), constant.raw(), static_cast<size_t>(constant.bytes()));
    constant = std::move(aligned);
  }
}

}  // namespace

Result<std::shared_ptr<const Executable>> Executable::create(Program program) {
  if (!program.arch.empty()) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDevice> device, open_cuda_device());
    return create(std::move(program), std::move(device));
  }
  std::vector<const KernelImage*> images;
  for (const KernelImage& image : program.kernels) images.push_back(&image);
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedKernels> kernels, LoadedKernels::load(images));
  return create(std::move(program), std::move(kernels));
}

Result<std::shared_ptr<const Executable>> Executable::create(
    Program program, std::shared_ptr<const LoadedKernels> kernels) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, make(std::move(program)));
  executable->kernels_ = std::move(kernels);
  WEFT_RETURN_IF_ERROR(executable->resolve(executable->program_.steps, 0, executable->root_));
  return std::shared_ptr<const Executable>(std::move(executable));
}

Result<std::shared_ptr<const Executable>> Executable::create(
    Program program, std::shared_ptr<const CudaDevice> device) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, make(std::move(program)));
  WEFT_ASSIGN_OR_RETURN(executable->device_,
                        DeviceProgram::load(executable->program_, std::move(device)));
  WEFT_RETURN_IF_ERROR(executable->resolve(executable->program_.steps, 0, executable->root_));
  executable->parallel_ = false;  // on the host it has one thread
  return std::shared_ptr<const Executable>(std::move(executable));
}

Result<std::shared_ptr<Executable>> Executable::make(Program program) {
  WEFT_RETURN_IF_ERROR(verify_program(program));
  std::shared_ptr<Executable> executable(new Executable);
  executable->program_ = std::move(program);
  align_constants(executable->program_.constants);
  executable->loops_ = loop_facts(executable->program_);
  return executable;
}

Status Executable::resolve(const std::vector<ProgramStep>& from, int32_t depth,
                           std::vector<ExecutableStep>& to) {
  to.reserve(from.size());
  for (const ProgramStep& source : from) {
    ExecutableStep& step = to.emplace_back();
    step.source = &source;
    step.id = static_cast<int32_t>(steps_.size());
    const bool launches = source.kind == ProgramStep::Kind::kLaunch;
    steps_.push_back({source.name, source.kind, launches ? source.launch.kernel : -1, depth});
    switch (source.kind) {
      case ProgramStep::Kind::kLaunch:
        WEFT_RETURN_IF_ERROR(resolve_launch(source.launch, step));
        break;
      case ProgramStep::Kind::kHost: {
        step.on_first_thread = source.host.serial;
        parallel_ = parallel_ || !step.on_first_thread;
        scratch_bytes_ = std::max(
            scratch_bytes_,
            host_step_scratch_bytes(source.host, types_of(program_.buffers, source.host.operands)));
        break;
      }
      case ProgramStep::Kind::kIf:
        WEFT_RETURN_IF_ERROR(resolve(source.if_step->then_steps, depth + 1, step.body));
        WEFT_RETURN_IF_ERROR(resolve(source.if_step->else_steps, depth + 1, step.otherwise));
        break;
      case ProgramStep::Kind::kLoop:
        WEFT_RETURN_IF_ERROR(resolve(source.loop_step->condition_steps, depth + 1, step.condition));
        WEFT_RETURN_IF_ERROR(resolve(source.loop_step->body, depth + 1, step.body));
        break;
    }
  }
  return {};
}

Status Executable::resolve_launch(const LaunchStep& launch, ExecutableStep& to) {
  if (device_ != nullptr) return {};
  const auto kernel = static_cast<size_t>(launch.kernel);
  if (kernel >= kernels_->image_count() ||
      kernels_->phase_count(kernel) != launch.work_items.size()) {
    return invalid_input("kernel '" + program_.kernels[kernel].name +
                         "' is not among the loaded ones with the phases that the program expects");
  }
  int64_t most_items = 0;
  for (size_t phase = 0; phase < launch.work_items.size(); ++phase) {
    to.phases.push_back(kernels_->entry(kernel, phase));
    most_items = std::max(most_items, launch.work_items[phase]);
  }
  to.on_first_thread = launch.serial || most_items <= 1;
  parallel_ = parallel_ || !to.on_first_thread;
  scratch_bytes_ = std::max(scratch_bytes_, launch.scratch_bytes);
  most_launch_buffers_ = std::max(most_launch_buffers_, launch.buffers.size());
  return {};
}

Result<size_t> Executable::input_index(std::string_view name) const {
  return index_of(name, program_.inputs, "input");
}

Result<size_t> Executable::output_index(std::string_view name) const {
  return index_of(name, program_.outputs, "output");
}

}  // namespace weft
