// The CPU programs of tests/tile/programs as machine code: lowered at three widths of vectors, on
// the kernel executor and compiled, beside the tile program's evaluator.

#include <gtest/gtest.h>

#include <cmath>

#include "assemble/lay_out_constants.h"
#include "codegen/cpu/compile_kernel.h"
#include "lower/lower.h"
#include "runtime/execution_context.h"
#include "tests/tile/program_cases.h"
#include "tile/check/evaluate.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"

namespace weft::tile_test {
namespace {

using Tensors = std::map<std::string, HostTensor>;

std::vector<ProgramCase> cpu_programs() {
  std::vector<ProgramCase> out;
  for (const ProgramCase& test : program_cases()) {
    if (test.name.ends_with("_cpu")) out.push_back(test);
  }
  return out;
}

/// Vectors of `lanes` elements, and as many more registers: REG_4-VEC_16 becomes REG_16-VEC_4.
void cut_vectors(Place& place, int64_t lanes) {
  for (Place::Axis& axis : place.axes) {
    if (axis.digits.empty() || axis.digits.back().level != PlaceLevel::kVec) continue;
    const int64_t registers = axis.digits.back().extent / lanes;
    axis.digits.back().extent = lanes;
    if (axis.digits.size() > 1) {
      axis.digits[axis.digits.size() - 2].extent *= registers;
    } else if (registers > 1) {
      axis.digits.insert(axis.digits.begin(), {PlaceLevel::kReg, registers});
    }
  }
}

void cut_vectors(TileBody& body, int64_t lanes) {
  for (TileNode& node : body) {
    cut_vectors(node.statement.place, lanes);
    if (node.kind == TileNode::Kind::kLoop) {
      for (TileCarry& carry : node.loop->carries) cut_vectors(carry.place, lanes);
      cut_vectors(node.loop->body, lanes);
    }
    if (node.kind == TileNode::Kind::kCondition) cut_vectors(node.condition->body, lanes);
    if (node.kind == TileNode::Kind::kPack) {
      for (TilePack::Member& member : node.pack->members) cut_vectors(member.body, lanes);
    }
  }
}

/// The kernel's memory, parameters in their layouts, outputs and workspaces unset.
class Memory {
 public:
  Memory(const TileProgram& program, const KernelFunction& kernel, const Tensors& inputs) {
    for (const KernelBuffer& b : kernel.buffers) {
      if (b.kind == KernelBuffer::Kind::kScratch) continue;
      HostTensor& tensor = tensors_.emplace_back(b.dtype, Shape{b.elements});
      std::fill_n(tensor.mutable_raw(), b.elements * byte_size(b.dtype), std::byte{0x7b});
      const auto given = inputs.find(b.name);
      if (given == inputs.end()) continue;
      const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.find_symbol(b.name))];
      tensor = lay_out_constant(given->second, symbol.layout, symbol.type);
    }
  }

  std::vector<std::span<std::byte>> spans() {
    std::vector<std::span<std::byte>> out;
    for (HostTensor& t : tensors_) {
      out.emplace_back(t.mutable_raw(), static_cast<size_t>(t.size() * byte_size(t.dtype())));
    }
    return out;
  }

  HostTensor& operator[](size_t buffer) { return tensors_[buffer]; }

  void expect(const KernelFunction& kernel, const Tensors& outputs, double tolerance,
              const std::string& how) const {
    for (size_t b = 0; b < tensors_.size(); ++b) {
      const auto wanted = outputs.find(kernel.buffers[b].name);
      if (wanted == outputs.end()) continue;
      int wrong = 0;
      for (int64_t i = 0; i < wanted->second.size() && wrong < 4; ++i) {
        const double g = tensors_[b].at_double(i), e = wanted->second.at_double(i);
        if (std::abs(g - e) <= tolerance * std::max(1.0, std::abs(e))) continue;
        ++wrong;
        ADD_FAILURE() << how << ": " << wanted->first << " element " << i << ": " << g << ", not "
                      << e;
      }
    }
  }

 private:
  std::vector<HostTensor> tensors_;
};

/// A program that launches the kernel once, its parameters as inputs and outputs.
Program launch_of(const KernelFunction& kernel, const KernelImage& image) {
  Program p;
  p.kernels = {image};
  ProgramStep step;
  step.name = kernel.name;
  step.launch.kernel = 0;
  step.launch.scratch_bytes = kernel.scratch_bytes;
  step.launch.inner_barriers = kernel.inner_barriers;
  for (const KernelPhase& phase : kernel.phases) step.launch.work_items.push_back(phase.work_items);
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind == KernelBuffer::Kind::kScratch) continue;
    ProgramBuffer buffer;
    buffer.name = b.name;
    buffer.dtype = b.dtype;
    buffer.shape = {b.elements};
    buffer.bytes = b.elements * byte_size(b.dtype);
    ProgramIo io;
    io.name = b.name;
    io.dtype = b.dtype;
    io.shape = buffer.shape;
    switch (b.kind) {
      case KernelBuffer::Kind::kInput:
        buffer.kind = ProgramBuffer::Kind::kInput;
        buffer.index = static_cast<int32_t>(p.inputs.size());
        p.inputs.push_back(io);
        break;
      case KernelBuffer::Kind::kOutput:
        buffer.kind = ProgramBuffer::Kind::kOutput;
        buffer.index = static_cast<int32_t>(p.outputs.size());
        p.outputs.push_back(io);
        break;
      default:
        buffer.kind = ProgramBuffer::Kind::kArena;
        buffer.offset = p.arena_bytes;
        p.arena_bytes += (buffer.bytes + 63) / 64 * 64;
    }
    step.launch.buffers.push_back(static_cast<int32_t>(p.buffers.size()));
    p.buffers.push_back(buffer);
  }
  p.steps.push_back(std::move(step));
  return p;
}

void run_compiled(const KernelFunction& kernel, const KernelImage& image, int threads,
                  Memory& memory) {
  const auto executable = Executable::create(launch_of(kernel, image));
  ASSERT_TRUE(executable.ok()) << executable.error().message;
  ContextOptions options;
  if (threads > 1) {
    auto pool = ThreadPool::create({.threads = threads});
    ASSERT_TRUE(pool.ok()) << pool.error().message;
    options.pool = *pool;
  }
  auto context = ExecutionContext::create(*executable, options);
  ASSERT_TRUE(context.ok()) << context.error().message;
  std::vector<InputRef> inputs;
  std::vector<OutputRef> outputs;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    if (kernel.buffers[b].kind == KernelBuffer::Kind::kInput) {
      inputs.push_back({memory[b].dtype(), memory[b].shape(), memory[b].raw()});
    }
    if (kernel.buffers[b].kind == KernelBuffer::Kind::kOutput) {
      outputs.push_back({memory[b].dtype(), memory[b].shape(), memory[b].mutable_raw()});
    }
  }
  const Status done = (*context)->run(inputs, outputs);
  ASSERT_TRUE(done.ok()) << done.error().message;
}

struct CpuCase {
  ProgramCase program;
  int vector_bytes = 16;
};

std::vector<CpuCase> cpu_cases() {
  std::vector<CpuCase> out;
  for (const ProgramCase& program : cpu_programs()) {
    for (const int bytes : {16, 32, 64}) out.push_back({program, bytes});
  }
  return out;
}

class CpuPrograms : public testing::TestWithParam<CpuCase> {};

TEST_P(CpuPrograms, RunAsMachineCode) {
  const double tolerance = GetParam().program.tolerance;
  const Target target = host_cpu_target(3, GetParam().vector_bytes);
  if (target.vector_bytes != GetParam().vector_bytes) GTEST_SKIP() << "no such vectors here";
  TileProgram program = small_program(GetParam().program);
  cut_vectors(program.body, target.lanes(4));
  const Tensors inputs = program_inputs(program);
  const auto evaluation = evaluate_tile_program(program, inputs);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;

  const auto kernel = lower_to_kernel(program, target);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const Status verified = verify_kernel(*kernel);
  ASSERT_TRUE(verified.ok()) << verified.error().message << print(*kernel);
  const auto again = parse_kernel(print(*kernel));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(kernel_hash(*again), kernel_hash(*kernel));

  Memory executed(program, *kernel, inputs);
  const Status done = execute_kernel(*kernel, executed.spans(), {});
  ASSERT_TRUE(done.ok()) << done.error().message << print(*kernel);
  executed.expect(*kernel, evaluation->outputs, tolerance, "executed");

  const auto image = compile_kernel(*kernel, target);
  ASSERT_TRUE(image.ok()) << image.error().message;
  for (const int threads : {1, 2, 5}) {
    Memory compiled(program, *kernel, inputs);
    run_compiled(*kernel, *image, threads, compiled);
    compiled.expect(*kernel, evaluation->outputs, tolerance,
                    "compiled, " + std::to_string(threads) + " threads");
  }
}

TEST_P(CpuPrograms, AreLoweredAtTheirOwnSizes) {
  const Target target = host_cpu_target(3, GetParam().vector_bytes);
  auto program =
      parse_tile_program(read_text(program_directory() + GetParam().program.name + ".tile"));
  ASSERT_TRUE(program.ok()) << program.error().message;
  cut_vectors(program->body, target.lanes(4));
  const auto kernel = lower_to_kernel(*program, target);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const Status verified = verify_kernel(*kernel);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CpuPrograms, testing::ValuesIn(cpu_cases()), [](const auto& test) {
  return test.param.program.name + "_" + std::to_string(test.param.vector_bytes);
});

}  // namespace
}  // namespace weft::tile_test
