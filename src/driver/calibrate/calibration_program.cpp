#include "driver/calibrate/calibration_program.h"

#include <utility>

namespace weft {

Program calibration_program(const KernelFunction& kernel, const KernelImage& image, int64_t steps,
                            bool barriers) {
  Program p;
  p.model = "calibration";
  for (size_t i = 0; i < 2; ++i) {
    const Shape shape{kernel.buffers[i].elements};
    ProgramBuffer buffer;
    buffer.name = kernel.buffers[i].name;
    buffer.kind = i == 0 ? ProgramBuffer::Kind::kInput : ProgramBuffer::Kind::kOutput;
    buffer.shape = shape;
    buffer.bytes = 4 * kernel.buffers[i].elements;
    p.buffers.push_back(buffer);
    ProgramIo io;
    io.name = buffer.name;
    io.shape = shape;
    io.alignment = 64;
    (i == 0 ? p.inputs : p.outputs).push_back(io);
  }
  p.kernels.push_back(image);
  for (int64_t i = 0; i < steps; ++i) {
    ProgramStep step;
    step.name = kernel.name;
    step.barrier_before = barriers;
    step.launch.kernel = 0;
    step.launch.buffers = {0, 1};
    for (const KernelPhase& phase : kernel.phases)
      step.launch.work_items.push_back(phase.work_items);
    p.steps.push_back(std::move(step));
  }
  return p;
}

}  // namespace weft
