#include "assemble/build_program.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "assemble/arena.h"
#include "assemble/barriers.h"
#include "assemble/constant_table.h"
#include "assemble/host_operation.h"
#include "assemble/lifetimes.h"
#include "assemble/share_steps.h"
#include "cost/latency.h"
#include "expr/analysis/dependence.h"
#include "runtime/host_ops.h"

namespace weft {

namespace {

/// A run whose kernels all together take less on one thread ends before a sleeping thread is awake.
constexpr double kSerialRunMicroseconds = 25;

double microseconds_on_one_thread(const PlannedKernel& kernel, const TensorProgram& program,
                                  const Target& target) {
  const Estimate& e = kernel.schedule.estimate;
  const int64_t bytes = e.bytes_read + e.bytes_written;
  // A copy goes both ways at once: what is mostly read goes one of them.
  const auto one_way = static_cast<double>(std::max(e.bytes_read, e.bytes_written));
  double flops = 0;
  for (const ExprId id : kernel.group.exprs) {
    flops += static_cast<double>(flops_at_peak(program.exprs[static_cast<size_t>(id)]));
  }
  return std::max(1, target.threads) *
         std::max(2 * one_way / (target.bandwidth_gb_per_s(bytes) * 1e3),
                  flops / (target.peak_gflops * 1e3));
}

/// Of a thread's share that takes so long: each begins late enough to be worth a look at what is
/// left, and the last one to be begun is short beside the whole.
int32_t pieces_of_share(double microseconds) {
  constexpr double kShortest = 8;  // us; cores may be half as fast as they say
  constexpr double kMost = 16;
  return static_cast<int32_t>(std::clamp(microseconds / kShortest, 1.0, kMost));
}

/// Blocks of one list of steps, and the buffers to move when they are placed.
struct ArenaScope {
  std::vector<ArenaBlock> blocks;
  std::vector<std::vector<int32_t>> buffers;  ///< by block
};

class Builder {
 public:
  Builder(const CodeOfPlan& code, const Target& target) : code_(code), target_(target) {}

  Result<BuiltProgram> build(const TensorProgram& tensors, const FusionPlan& plan,
                             const LayoutOptions& constants) {
    std::vector<int32_t> inputs, outputs;
    for (size_t i = 0; i < tensors.inputs.size(); ++i) {
      const Tensor& t = tensors.tensors[static_cast<size_t>(tensors.inputs[i])];
      inputs.push_back(add_buffer(t, ProgramBuffer::Kind::kInput, static_cast<int32_t>(i)));
      program_.inputs.push_back({t.name, t.type.dtype, t.type.shape});
    }
    for (size_t o = 0; o < tensors.outputs.size(); ++o) {
      const Tensor& t = tensors.tensors[static_cast<size_t>(tensors.outputs[o])];
      outputs.push_back(add_buffer(t, ProgramBuffer::Kind::kOutput, static_cast<int32_t>(o)));
      program_.outputs.push_back({tensors.output_names[o], t.type.dtype, declared_type(t).shape});
    }
    Region top;
    WEFT_RETURN_IF_ERROR(build_region(tensors, plan, inputs, outputs, &top));
    program_.brief = !target_.is_gpu() && top.microseconds < kSerialRunMicroseconds;
    program_.steps = std::move(top.steps);
    program_.arena_bytes = top.arena_bytes;
    ConstantTable::Constants laid_out = constants_.take(constants);
    program_.constants = std::move(laid_out.values);
    return BuiltProgram{std::move(program_), std::move(laid_out.keys)};
  }

 private:
  struct Region {
    std::vector<ProgramStep> steps;
    std::vector<StepAccess> access;  ///< by step
    std::vector<StepWork> works;     ///< by step, up to the last launch
    int64_t arena_bytes = 0;
    std::vector<int32_t> arena_buffers;  ///< every arena buffer inside, to be moved as one
    double microseconds = 0;             ///< of its kernels on one thread
  };
  struct Frame {
    const TensorProgram& tensors;
    const FusionPlan& plan;
    std::vector<int32_t> buffer_of;  ///< by tensor
    Lifetimes lives;
    ArenaScope arena;
    std::pair<int32_t, int32_t> position;  ///< first and last, of the step that is built
  };

  int32_t add_buffer(const Tensor& t, ProgramBuffer::Kind kind, int32_t index);
  int32_t add_arena(Frame& frame, const std::string& name, DType type, Shape shape, int64_t bytes,
                    std::pair<int32_t, int32_t> life);
  int32_t constant_buffer(const Tensor& tensor, DType type, const Layout& layout,
                          const Shape& shape);
  Status build_region(const TensorProgram& tensors, const FusionPlan& plan,
                      const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
                      Region* out);
  ArenaLayout placed(const std::vector<ArenaBlock>& blocks) const;
  int32_t buffer_of(Frame& frame, TensorId t);
  void launch(Frame& frame, int32_t index, Region* out);
  Status opaque(Frame& frame, int32_t index, Region* out);
  Status branch(Frame& frame, int32_t index, Region* out);
  Status loop(Frame& frame, int32_t index, Region* out);
  /// A loop whose iterations all run in one launch, on the buffers of the whole.
  Status whole_loop(Frame& frame, int32_t index, Region* out);
  /// What the steps inside an opaque one read and write, in the order of its region.
  struct RegionBuffers {
    std::vector<int32_t> inputs, outputs;
  };
  void add_carries(Frame& frame, const OpaqueExpr& o, int64_t count, LoopStep& loop,
                   const RegionBuffers& slices, RegionBuffers* of_body);
  RegionBuffers add_slices(Frame& frame, const OpaqueExpr& o, LoopStep& loop);
  int32_t add_stacked_carry(Frame& frame, const OpaqueExpr& o, size_t carry, int32_t slice);
  int32_t add_carry(const Tensor& like, ProgramBuffer::Kind kind, int32_t base, int32_t other,
                    int32_t loop);
  int32_t add_slice(const Tensor& like, int32_t base, bool reverse, int32_t loop);
  Status add_region(Frame& frame, const TensorProgram& tensors, const FusionPlan& plan,
                    const RegionBuffers& buffers, StepAccess* access, Region* region);
  static ProgramStep copy_step(int32_t from, int32_t to);
  void add_host_step(ProgramStep step, Region* out);

  const CodeOfPlan& code_;
  const Target& target_;
  Program program_;
  ConstantTable constants_;
  std::vector<int32_t> constant_buffers_;  ///< by constant
};

int64_t bytes_of(const Tensor& t) {
  return physical_size(t.layout, t.type.shape) * byte_size(t.type.dtype);
}

int32_t Builder::add_buffer(const Tensor& t, ProgramBuffer::Kind kind, int32_t index) {
  ProgramBuffer b;
  b.name = t.name;
  b.kind = kind;
  b.dtype = t.type.dtype;
  b.shape = t.type.shape;
  b.bytes = bytes_of(t);
  b.index = index;
  program_.buffers.push_back(std::move(b));
  return static_cast<int32_t>(program_.buffers.size()) - 1;
}

int32_t Builder::add_arena(Frame& frame, const std::string& name, DType type, Shape shape,
                           int64_t bytes, std::pair<int32_t, int32_t> life) {
  ProgramBuffer b;
  b.name = name;
  b.kind = ProgramBuffer::Kind::kArena;
  b.dtype = type;
  b.shape = std::move(shape);
  b.bytes = bytes;
  program_.buffers.push_back(std::move(b));
  const auto id = static_cast<int32_t>(program_.buffers.size()) - 1;
  frame.arena.blocks.push_back({bytes, life.first, life.second});
  frame.arena.buffers.push_back({id});
  return id;
}

/// A constant as a kernel reads it: see ConstantTable.
int32_t Builder::constant_buffer(const Tensor& tensor, DType type, const Layout& layout,
                                 const Shape& shape) {
  const ConstantTable::Entry& constant = constants_.add(tensor, type, layout, shape);
  if (constant.number < constant_buffers_.size()) return constant_buffers_[constant.number];
  ProgramBuffer b;
  b.name = tensor.name;
  b.kind = ProgramBuffer::Kind::kConstant;
  b.dtype = type;
  b.shape = constant.shape;
  b.bytes = constant.bytes;
  b.index = static_cast<int32_t>(constant.number);
  program_.buffers.push_back(std::move(b));
  constant_buffers_.push_back(static_cast<int32_t>(program_.buffers.size()) - 1);
  return constant_buffers_.back();
}

ProgramStep Builder::copy_step(int32_t from, int32_t to) {
  ProgramStep step;
  step.kind = ProgramStep::Kind::kHost;
  step.name = "copy";
  step.host.op = HostStep::Op::kCopy;
  step.host.operands = {from};
  step.host.results = {to};
  return step;
}

int32_t Builder::buffer_of(Frame& frame, TensorId t) {
  int32_t& b = frame.buffer_of[static_cast<size_t>(t)];
  if (b >= 0) return b;
  const Tensor& tensor = frame.tensors.tensors[static_cast<size_t>(t)];
  if (tensor.kind == Tensor::Kind::kConstant)
    return b = constant_buffer(tensor, tensor.type.dtype, tensor.layout, tensor.type.shape);
  return b = add_arena(frame, tensor.name, tensor.type.dtype, tensor.type.shape, bytes_of(tensor),
                       frame.lives.tensors[static_cast<size_t>(t)]);
}

/// Where several threads run the steps, each writes lines of its own, if their second caches hold
/// what that takes.
ArenaLayout Builder::placed(const std::vector<ArenaBlock>& blocks) const {
  if (!target_.is_gpu() && target_.threads > 1) {
    ArenaLayout by_size = place_arena_by_size(blocks);
    if (by_size.bytes <= target_.l2_bytes * target_.threads) return by_size;
  }
  return place_arena(blocks);
}

Status Builder::build_region(const TensorProgram& tensors, const FusionPlan& plan,
                             const std::vector<int32_t>& inputs,
                             const std::vector<int32_t>& outputs, Region* out) {
  Frame frame{tensors, plan, std::vector<int32_t>(tensors.tensors.size(), -1), {}, {}, {}};
  const auto steps = static_cast<int32_t>(plan.order.size());
  std::vector<StepTensors> touched;
  for (const FusionPlan::Step& step : plan.order) {
    const auto index = static_cast<size_t>(step.index);
    touched.push_back(step.opaque ? tensors_of(tensors.opaques[index])
                                  : tensors_of(plan.kernels[index]));
  }
  frame.lives = lifetimes_of(tensors.tensors.size(), touched);
  for (size_t i = 0; i < inputs.size(); ++i)
    frame.buffer_of[static_cast<size_t>(tensors.inputs[i])] = inputs[i];
  // An output is written in place by its producer; one that is also an input, a constant or written
  // already is copied.
  std::vector<std::pair<TensorId, int32_t>> copies;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const TensorId t = tensors.outputs[o];
    int32_t& b = frame.buffer_of[static_cast<size_t>(t)];
    const Tensor& tensor = tensors.tensors[static_cast<size_t>(t)];
    if (b < 0 && tensor.kind == Tensor::Kind::kIntermediate && tensor.layout.is_row_major()) {
      b = outputs[o];
    } else if (b != outputs[o]) {
      frame.lives.tensors[static_cast<size_t>(t)].second = frame.lives.end;
      copies.emplace_back(t, outputs[o]);
    }
  }
  for (int32_t s = 0; s < steps; ++s) {
    frame.position = frame.lives.steps[static_cast<size_t>(s)];
    const FusionPlan::Step& step = plan.order[static_cast<size_t>(s)];
    if (step.opaque) {
      WEFT_RETURN_IF_ERROR(opaque(frame, step.index, out));
    } else {
      launch(frame, step.index, out);
    }
  }
  for (const auto& [tensor, to] : copies) {
    const int32_t from = buffer_of(frame, tensor);
    add_host_step(copy_step(from, to), out);
  }

  const ArenaLayout layout = placed(frame.arena.blocks);
  out->arena_bytes = layout.bytes;
  for (size_t b = 0; b < layout.offsets.size(); ++b) {
    for (const int32_t id : frame.arena.buffers[b]) {
      program_.buffers[static_cast<size_t>(id)].offset += layout.offsets[b];
      out->arena_buffers.push_back(id);
    }
  }
  out->works.resize(out->steps.size());
  if (!target_.is_gpu() && target_.threads > 1)
    share_steps(program_.buffers, out->works, out->access);
  const std::vector<bool> waits = place_barriers(program_.buffers, out->access);
  for (size_t s = 0; s < waits.size(); ++s) {
    out->steps[s].barrier_before = waits[s];
    if (out->steps[s].kind == ProgramStep::Kind::kLaunch)
      out->steps[s].launch.serial = out->access[s].serial;
  }
  return {};
}

void Builder::launch(Frame& frame, int32_t index, Region* out) {
  const PlannedKernel& kernel = frame.plan.kernels[static_cast<size_t>(index)];
  const KernelCode& code = code_.at(&kernel);
  ProgramStep step;
  StepAccess access;
  const std::set<TensorId> made(kernel.group.outputs.begin(), kernel.group.outputs.end());
  step.kind = ProgramStep::Kind::kLaunch;
  step.name = kernel.name;
  step.launch.kernel = code.image;
  step.launch.arguments = code.arguments;
  for (size_t p = 0; p < kernel.schedule.parameters.size(); ++p) {
    const TensorId t = kernel.schedule.parameters[p];
    const Tensor& tensor = frame.tensors.tensors[static_cast<size_t>(t)];
    const TileProgram& tile = kernel.schedule.program;
    const TileSymbol& symbol = tile.symbols[static_cast<size_t>(tile.parameters[p])];
    Shape shape;  // of constants the extents are numbers
    for (const IndexExpr& e : symbol.shape) shape.push_back(e.is_const() ? e.constant() : 0);
    const auto order = kernel.schedule.orders.find(t);
    if (order != kernel.schedule.orders.end()) {
      step.launch.buffers.push_back(
          constant_buffer(tensor, symbol.type, order->second, tensor.type.shape));
    } else if (tensor.kind == Tensor::Kind::kConstant) {
      step.launch.buffers.push_back(constant_buffer(tensor, symbol.type, symbol.layout, shape));
    } else {
      step.launch.buffers.push_back(buffer_of(frame, t));
    }
    (made.count(t) != 0 ? access.writes : access.reads).push_back(step.launch.buffers.back());
  }
  for (const KernelBuffer& b : code.function->buffers) {
    if (b.kind != KernelBuffer::Kind::kWorkspace) continue;
    step.launch.buffers.push_back(add_arena(frame, kernel.name + "." + b.name, b.dtype,
                                            {b.elements}, b.elements * byte_size(b.dtype),
                                            frame.position));
    access.writes.push_back(step.launch.buffers.back());
  }
  int64_t most = 0;
  for (const KernelPhase& phase : code.function->phases) {
    step.launch.work_items.push_back(phase.work_items);
    most = std::max(most, phase.work_items);
  }
  step.launch.scratch_bytes = code.function->scratch_bytes;
  step.launch.inner_barriers = code.function->inner_barriers;
  const double alone = microseconds_on_one_thread(kernel, frame.tensors, target_);
  const auto phases = static_cast<double>(std::max<size_t>(code.function->phases.size(), 1));
  const double shared = least_shared_us(target_) * phases;
  access.serial = most <= 1 || alone < shared;
  step.launch.pieces = pieces_of_share(alone / (phases * std::max(1, target_.threads)));
  out->works.resize(out->steps.size());
  out->works.push_back(
      {most > 1, alone, shared, static_cast<double>(kernel.schedule.estimate.bytes_read)});
  out->microseconds += alone;
  out->steps.push_back(std::move(step));
  out->access.push_back(std::move(access));
}

/// Builds the region of an opaque step, whose arena lies in that of the frame.
Status Builder::add_region(Frame& frame, const TensorProgram& tensors, const FusionPlan& plan,
                           const RegionBuffers& buffers, StepAccess* access, Region* region) {
  WEFT_RETURN_IF_ERROR(build_region(tensors, plan, buffers.inputs, buffers.outputs, region));
  if (region->arena_bytes != 0 || !region->arena_buffers.empty()) {
    frame.arena.blocks.push_back(
        {region->arena_bytes, frame.position.first, frame.position.second});
    frame.arena.buffers.push_back(region->arena_buffers);
  }
  for (const StepAccess& a : region->access) {
    access->reads.insert(access->reads.end(), a.reads.begin(), a.reads.end());
    access->writes.insert(access->writes.end(), a.writes.begin(), a.writes.end());
  }
  return {};
}

Status Builder::opaque(Frame& frame, int32_t index, Region* out) {
  const OpaqueExpr& o = frame.tensors.opaques[static_cast<size_t>(index)];
  if (o.node.op == GraphOp::kIf) return branch(frame, index, out);
  const auto& regions = frame.plan.regions[static_cast<size_t>(index)];
  if (runs_whole_loop(regions)) return whole_loop(frame, index, out);
  if (o.node.op == GraphOp::kWhile || o.node.op == GraphOp::kScan) return loop(frame, index, out);
  ProgramStep step;
  step.kind = ProgramStep::Kind::kHost;
  step.name = std::string(graph_op_name(o.node.op));
  WEFT_ASSIGN_OR_RETURN(step.host, host_operation(o.node));
  for (const TensorId t : o.operands) step.host.operands.push_back(buffer_of(frame, t));
  for (const TensorId t : o.results) step.host.results.push_back(buffer_of(frame, t));
  add_host_step(std::move(step), out);
  return {};
}

void Builder::add_host_step(ProgramStep step, Region* out) {
  const std::vector<HostOperand> operands = types_of(program_.buffers, step.host.operands);
  const double alone = host_step_microseconds(step.host, operands);
  const bool shared = host_step_pieces(step.host, operands) > 1 &&
                      alone >= least_shared_us(target_) * host_step_phases(step.host);
  step.host.serial = !shared;
  out->microseconds += alone;
  out->access.push_back({!shared, step.host.operands, step.host.results});
  out->steps.push_back(std::move(step));
}

Status Builder::branch(Frame& frame, int32_t index, Region* out) {
  const OpaqueExpr& o = frame.tensors.opaques[static_cast<size_t>(index)];
  ProgramStep step;
  step.kind = ProgramStep::Kind::kIf;
  step.name = "if";
  step.if_step = std::make_shared<IfStep>();
  step.if_step->condition = buffer_of(frame, o.operands[0]);
  std::vector<int32_t> captures, results;
  for (size_t i = 1; i < o.operands.size(); ++i)
    captures.push_back(buffer_of(frame, o.operands[i]));
  for (const TensorId t : o.results) results.push_back(buffer_of(frame, t));
  StepAccess access{false, captures, results};
  access.reads.push_back(step.if_step->condition);
  for (size_t r = 0; r < 2; ++r) {
    Region region;
    WEFT_RETURN_IF_ERROR(add_region(frame, *o.regions[r],
                                    *frame.plan.regions[static_cast<size_t>(index)][r],
                                    {captures, results}, &access, &region));
    out->microseconds += region.microseconds;
    (r == 0 ? step.if_step->then_steps : step.if_step->else_steps) = std::move(region.steps);
  }
  out->steps.push_back(std::move(step));
  out->access.push_back(std::move(access));
  return {};
}

int32_t Builder::add_carry(const Tensor& like, ProgramBuffer::Kind kind, int32_t base,
                           int32_t other, int32_t loop) {
  const int32_t id = add_buffer(like, kind, 0);
  ProgramBuffer& b = program_.buffers[static_cast<size_t>(id)];
  b.base = base;
  b.other = other;
  b.loop = loop;
  return id;
}

int32_t Builder::add_slice(const Tensor& like, int32_t base, bool reverse, int32_t loop) {
  const int32_t id = add_buffer(like, ProgramBuffer::Kind::kSlice, 0);
  ProgramBuffer& b = program_.buffers[static_cast<size_t>(id)];
  b.base = base;
  b.loop = loop;
  b.stride = bytes_of(like);
  b.reverse = reverse;
  return id;
}

/// Number of the output behind the first `carries` that is the same value as carry `c`; nothing
/// where none is.
std::optional<size_t> stack_of(const TensorProgram& body, size_t carries, size_t c) {
  const auto behind = body.outputs.begin() + static_cast<std::ptrdiff_t>(carries);
  const auto stack = std::find(behind, body.outputs.end(), body.outputs[c]);
  if (stack == body.outputs.end()) return std::nullopt;
  return static_cast<size_t>(stack - behind);
}

/// What is handed on and stacked, too, is read from the stack.
int32_t Builder::add_stacked_carry(Frame& frame, const OpaqueExpr& o, size_t carry, int32_t slice) {
  const TensorProgram& body = *o.regions.back();
  const Tensor& t = body.tensors[static_cast<size_t>(body.inputs[carry])];
  const ProgramBuffer row = program_.buffers[static_cast<size_t>(slice)];
  const int32_t id = add_carry(t, ProgramBuffer::Kind::kStackedCarry,
                               buffer_of(frame, o.operands[carry]), row.base, row.loop);
  program_.buffers[static_cast<size_t>(id)].stride = row.stride;
  program_.buffers[static_cast<size_t>(id)].reverse = row.reverse;
  return id;
}

/// What a loop carries lies in two places, in turns, or in the stack of its values.
void Builder::add_carries(Frame& frame, const OpaqueExpr& o, int64_t count, LoopStep& loop,
                          const RegionBuffers& slices, RegionBuffers* of_body) {
  const TensorProgram& body = *o.regions.back();
  for (size_t c = 0; c < static_cast<size_t>(count); ++c) {
    const Tensor& t = body.tensors[static_cast<size_t>(body.inputs[c])];
    const bool is_stacked = o.node.op == GraphOp::kScan && !target_.is_gpu();
    if (const auto y = stack_of(body, static_cast<size_t>(count), c); y && is_stacked) {
      const int32_t slice = slices.outputs[*y];
      of_body->inputs.push_back(add_stacked_carry(frame, o, c, slice));
      of_body->outputs.push_back(slice);
      loop.carries.push_back({of_body->inputs.back(), -1, buffer_of(frame, o.results[c])});
      continue;
    }
    const int32_t a =
        add_arena(frame, t.name, t.type.dtype, t.type.shape, bytes_of(t), frame.position);
    const int32_t b =
        add_arena(frame, t.name + "'", t.type.dtype, t.type.shape, bytes_of(t), frame.position);
    of_body->inputs.push_back(add_carry(t, ProgramBuffer::Kind::kCarry, a, b, loop.loop));
    of_body->outputs.push_back(add_carry(t, ProgramBuffer::Kind::kCarryNext, a, b, loop.loop));
    loop.carries.push_back(
        {of_body->inputs.back(), buffer_of(frame, o.operands[c]), buffer_of(frame, o.results[c])});
  }
}

/// What a scan reads and writes step by step.
Builder::RegionBuffers Builder::add_slices(Frame& frame, const OpaqueExpr& o, LoopStep& loop) {
  RegionBuffers out;
  const auto& attrs = std::get<ScanAttrs>(o.node.attrs);
  const TensorProgram& body = *o.regions.back();
  const auto carries = static_cast<size_t>(attrs.carry_count);
  const auto reversed = [](const auto& list, size_t i) { return i < list.size() && list[i]; };
  for (size_t x = 0; x < static_cast<size_t>(attrs.scanned_count); ++x) {
    const TensorId from = o.operands[carries + x];
    const Tensor& t = body.tensors[static_cast<size_t>(body.inputs[carries + x])];
    out.inputs.push_back(
        add_slice(t, buffer_of(frame, from), reversed(attrs.x_reverse, x), loop.loop));
    loop.trips = frame.tensors.tensors[static_cast<size_t>(from)].type.shape[0];
  }
  for (size_t y = carries; y < o.results.size(); ++y) {
    const Tensor& t = body.tensors[static_cast<size_t>(body.outputs[y])];
    out.outputs.push_back(add_slice(t, buffer_of(frame, o.results[y]),
                                    reversed(attrs.y_reverse, y - carries), loop.loop));
    loop.trips = frame.tensors.tensors[static_cast<size_t>(o.results[y])].type.shape[0];
  }
  return out;
}

Status Builder::loop(Frame& frame, int32_t index, Region* out) {
  const OpaqueExpr& o = frame.tensors.opaques[static_cast<size_t>(index)];
  const auto& regions = frame.plan.regions[static_cast<size_t>(index)];
  const bool is_scan = o.node.op == GraphOp::kScan;
  const int64_t carries = is_scan ? std::get<ScanAttrs>(o.node.attrs).carry_count
                                  : std::get<WhileAttrs>(o.node.attrs).carry_count;
  const int64_t scanned = is_scan ? std::get<ScanAttrs>(o.node.attrs).scanned_count : 0;
  ProgramStep step;
  step.kind = ProgramStep::Kind::kLoop;
  step.name = is_scan ? "scan" : "while";
  step.loop_step = std::make_shared<LoopStep>();
  LoopStep& l = *step.loop_step;
  l.loop = program_.loop_count++;
  StepAccess access;
  for (const TensorId t : o.operands) access.reads.push_back(buffer_of(frame, t));
  for (const TensorId t : o.results) access.writes.push_back(buffer_of(frame, t));
  RegionBuffers of_body, slices;
  if (is_scan) slices = add_slices(frame, o, l);
  add_carries(frame, o, carries, l, slices, &of_body);
  of_body.inputs.insert(of_body.inputs.end(), slices.inputs.begin(), slices.inputs.end());
  of_body.outputs.insert(of_body.outputs.end(), slices.outputs.begin(), slices.outputs.end());
  for (size_t i = static_cast<size_t>(carries + scanned); i < o.operands.size(); ++i)
    of_body.inputs.push_back(buffer_of(frame, o.operands[i]));  // what it captures
  if (!is_scan) {
    const TensorProgram& condition = *o.regions[0];
    const Tensor& c = condition.tensors[static_cast<size_t>(condition.outputs[0])];
    l.condition =
        add_arena(frame, "condition", c.type.dtype, c.type.shape, bytes_of(c), frame.position);
    Region region;
    WEFT_RETURN_IF_ERROR(add_region(frame, condition, *regions[0], {of_body.inputs, {l.condition}},
                                    &access, &region));
    l.condition_steps = std::move(region.steps);
  }
  Region region;
  WEFT_RETURN_IF_ERROR(
      add_region(frame, *o.regions.back(), *regions.back(), of_body, &access, &region));
  l.body = std::move(region.steps);
  // How often a condition holds is not known: often.
  out->microseconds +=
      is_scan ? static_cast<double>(l.trips) * region.microseconds : kSerialRunMicroseconds;
  out->steps.push_back(std::move(step));
  out->access.push_back(std::move(access));
  return {};
}

Status Builder::whole_loop(Frame& frame, int32_t index, Region* out) {
  const OpaqueExpr& o = frame.tensors.opaques[static_cast<size_t>(index)];
  RegionBuffers buffers;
  for (const TensorId t : o.operands) buffers.inputs.push_back(buffer_of(frame, t));
  for (const TensorId t : o.results) buffers.outputs.push_back(buffer_of(frame, t));
  StepAccess access;
  Region region;
  WEFT_RETURN_IF_ERROR(add_region(frame, *o.regions.back(),
                                  *frame.plan.regions[static_cast<size_t>(index)].back(), buffers,
                                  &access, &region));
  out->microseconds += region.microseconds;
  std::ranges::move(region.steps, std::back_inserter(out->steps));
  std::ranges::move(region.access, std::back_inserter(out->access));
  return {};
}

}  // namespace

Result<BuiltProgram> build_program(const TensorProgram& tensors, const FusionPlan& plan,
                                   const CodeOfPlan& code, const Target& target,
                                   const LayoutOptions& constants) {
  return Builder(code, target).build(tensors, plan, constants);
}

}  // namespace weft
