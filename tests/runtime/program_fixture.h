#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execution_context.h"

namespace weft::testing {

/// Programs made by hand over f32 buffers, with kernels that are functions of the test.
class ProgramFixture {
 public:
  Program program;
  std::vector<std::vector<KernelEntry>> functions;

  int32_t input(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    program.inputs.push_back({name, dtype, shape});
    return add(ProgramBuffer::Kind::kInput, std::move(shape), dtype,
               static_cast<int32_t>(program.inputs.size()) - 1);
  }
  int32_t output(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    program.outputs.push_back({name, dtype, shape});
    return add(ProgramBuffer::Kind::kOutput, std::move(shape), dtype,
               static_cast<int32_t>(program.outputs.size()) - 1);
  }
  int32_t arena(Shape shape, DType dtype = DType::kF32) {
    const int32_t id = add(ProgramBuffer::Kind::kArena, std::move(shape), dtype, 0);
    program.buffers.back().offset = program.arena_bytes;
    program.arena_bytes += (program.buffers.back().bytes + 63) / 64 * 64;
    return id;
  }
  template <typename T>
  int32_t constant(DType dtype, Shape shape, const std::vector<T>& values) {
    HostTensor tensor(dtype, shape);
    std::memcpy(tensor.mutable_raw(), values.data(), values.size() * sizeof(T));
    program.constants.push_back(tensor);
    return add(ProgramBuffer::Kind::kConstant, std::move(shape), dtype,
               static_cast<int32_t>(program.constants.size()) - 1);
  }
  int32_t slice(int32_t base, int32_t loop, Shape shape, bool reverse = false) {
    const DType dtype = program.buffers[static_cast<size_t>(base)].dtype;
    const int32_t id = add(ProgramBuffer::Kind::kSlice, std::move(shape), dtype, 0);
    ProgramBuffer& slice = program.buffers.back();
    slice.base = base;
    slice.loop = loop;
    slice.stride = slice.bytes;
    slice.reverse = reverse;
    return id;
  }
  /// (carry, carry_next) over two new arena buffers.
  std::pair<int32_t, int32_t> carry(int32_t loop, const Shape& shape, DType dtype = DType::kF32) {
    const int32_t even = arena(shape, dtype), odd = arena(shape, dtype);
    std::pair<int32_t, int32_t> ids;
    for (int32_t* id : {&ids.first, &ids.second}) {
      *id = add(id == &ids.first ? ProgramBuffer::Kind::kCarry : ProgramBuffer::Kind::kCarryNext,
                shape, dtype, 0);
      program.buffers.back().base = even;
      program.buffers.back().other = odd;
      program.buffers.back().loop = loop;
    }
    return ids;
  }
  /// What the iterations before have written to `slice`, from `initial` on.
  int32_t stacked_carry(int32_t initial, int32_t slice) {
    const ProgramBuffer row = program.buffers[static_cast<size_t>(slice)];
    const int32_t id = add(ProgramBuffer::Kind::kStackedCarry, row.shape, row.dtype, 0);
    ProgramBuffer& carry = program.buffers.back();
    carry.base = initial;
    carry.other = row.base;
    carry.loop = row.loop;
    carry.stride = row.stride;
    carry.reverse = row.reverse;
    return id;
  }
  int32_t new_loop() { return program.loop_count++; }

  int32_t kernel(std::vector<KernelEntry> phases) {
    KernelImage image;
    image.name = "k" + std::to_string(functions.size());
    image.phase_entries.resize(phases.size());
    image.bytes.resize(1);
    program.kernels.push_back(image);
    functions.push_back(std::move(phases));
    return static_cast<int32_t>(functions.size()) - 1;
  }

  static ProgramStep launch(int32_t kernel, std::vector<int32_t> buffers,
                            std::vector<int64_t> work_items, std::vector<int64_t> arguments = {}) {
    ProgramStep step;
    step.name = "launch of k" + std::to_string(kernel);
    step.launch.kernel = kernel;
    step.launch.buffers = std::move(buffers);
    step.launch.work_items = std::move(work_items);
    step.launch.arguments = std::move(arguments);
    return step;
  }
  static ProgramStep serial(ProgramStep step) {
    step.launch.serial = true;
    return step;
  }
  static ProgramStep host(HostStep host) {
    ProgramStep step;
    step.kind = ProgramStep::Kind::kHost;
    step.name = "host";
    step.host = std::move(host);
    return step;
  }
  static ProgramStep copy(int32_t from, int32_t to) {
    HostStep step;
    step.operands = {from};
    step.results = {to};
    return host(step);
  }
  static ProgramStep if_step(int32_t condition, std::vector<ProgramStep> then_steps,
                             std::vector<ProgramStep> else_steps) {
    ProgramStep step;
    step.kind = ProgramStep::Kind::kIf;
    step.name = "if";
    step.if_step = std::make_shared<IfStep>();
    step.if_step->condition = condition;
    step.if_step->then_steps = std::move(then_steps);
    step.if_step->else_steps = std::move(else_steps);
    return step;
  }
  static ProgramStep scan(int32_t loop, int64_t trips, std::vector<LoopStep::Carry> carries,
                          std::vector<ProgramStep> body) {
    ProgramStep step;
    step.kind = ProgramStep::Kind::kLoop;
    step.name = "scan " + std::to_string(loop);
    step.loop_step = std::make_shared<LoopStep>();
    step.loop_step->loop = loop;
    step.loop_step->trips = trips;
    step.loop_step->carries = std::move(carries);
    step.loop_step->body = std::move(body);
    return step;
  }
  static ProgramStep while_loop(int32_t loop, int32_t condition,
                                std::vector<ProgramStep> condition_steps,
                                std::vector<LoopStep::Carry> carries,
                                std::vector<ProgramStep> body) {
    ProgramStep step = scan(loop, 0, std::move(carries), std::move(body));
    step.name = "while " + std::to_string(loop);
    step.loop_step->condition = condition;
    step.loop_step->condition_steps = std::move(condition_steps);
    return step;
  }
  void step(ProgramStep step) { program.steps.push_back(std::move(step)); }

  Result<std::shared_ptr<const Executable>> create() const {
    return Executable::create(program, LoadedKernels::from_functions(functions));
  }

 private:
  int32_t add(ProgramBuffer::Kind kind, Shape shape, DType dtype, int32_t index) {
    ProgramBuffer buffer;
    buffer.name = "b" + std::to_string(program.buffers.size());
    buffer.kind = kind;
    buffer.dtype = dtype;
    buffer.bytes = checked_byte_size(dtype, shape).value_or(0);
    buffer.shape = std::move(shape);
    buffer.index = index;
    program.buffers.push_back(std::move(buffer));
    return static_cast<int32_t>(program.buffers.size()) - 1;
  }
};

/// Kernels over f32 buffers; an item is an element.
template <typename T = float>
T* elements(void* buffer) {
  return static_cast<T*>(buffer);
}

/// buffers[1] = buffers[0] * 2 + 1
inline void double_and_one(void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) elements(b[1])[i] = elements(b[0])[i] * 2 + 1;
}
/// buffers[2] = buffers[0] + buffers[1]
inline void add(void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) {
    elements(b[2])[i] = elements(b[0])[i] + elements(b[1])[i];
  }
}
/// buffers[1][i] = buffers[0][n - 1 - i], n the argument: reads what another thread wrote.
inline void reverse(void* const* b, const int64_t* n, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) elements(b[1])[i] = elements(b[0])[n[0] - 1 - i];
}

inline std::vector<float> iota(size_t n, float from = 1) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), from);
  return values;
}

inline InputRef in(const std::vector<float>& values, const Shape& shape) {
  return {DType::kF32, shape, values.data()};
}
inline OutputRef out(std::vector<float>& values, const Shape& shape) {
  return {DType::kF32, shape, values.data()};
}

}  // namespace weft::testing
