#include <fmt/format.h>

#include <bit>

#include "kernel/kernel_function.h"
#include "kernel/kernel_op.h"
#include "kernel/uniformity.h"

namespace weft {
namespace {

constexpr int32_t kMaxLanes = 64;
constexpr int kMaxDepth = 200;

std::string type_name(KernelType t) {
  return t.lanes == 1 ? std::string(dtype_name(t.dtype))
                      : fmt::format("{}x{}", dtype_name(t.dtype), t.lanes);
}

class KernelVerifier {
 public:
  explicit KernelVerifier(const KernelFunction& kernel) : kernel_(kernel) {}

  Status run() {
    visible_.assign(kernel_.types.size(), false);
    ever_defined_ = visible_;
    step_.assign(kernel_.types.size(), 0);
    stored_.assign(kernel_.buffers.size(), false);
    WEFT_RETURN_IF_ERROR(check_declarations());
    for (const KernelPhase& phase : kernel_.phases) {
      if (phase.work_items < 0) return fail("a phase of a negative number of items");
      if (phase.body.parameters.size() != 2) return fail("a phase takes (begin, end)");
      WEFT_RETURN_IF_ERROR(check_block(phase.body, {{DType::kI64, 1}, {DType::kI64, 1}}, 0));
      if (!phase.body.yields.empty()) return fail("a phase yields nothing");
    }
    if (kernel_.is_gpu()) WEFT_RETURN_IF_ERROR(check_convergence());
    for (size_t i = 0; i < stored_.size(); ++i) {
      const KernelBuffer& buffer = kernel_.buffers[i];
      if (buffer.kind == KernelBuffer::Kind::kOutput && buffer.elements > 0 && !stored_[i]) {
        return fail(fmt::format("output buffer {} is never stored to", i));
      }
    }
    return {};
  }

 private:
  Error fail(std::string message) const {
    return invalid_input(fmt::format("kernel '{}': {}{}", kernel_.name,
                                     where_.empty() ? "" : where_ + ": ", message));
  }

  Status check_declarations() {
    if (kernel_.argument_count < 0 || kernel_.scratch_bytes < 0) return fail("a negative size");
    const int32_t cluster = kernel_.cluster;
    if (cluster < 1 || cluster > kMostClusterBlocks || kernel_.blocks % cluster != 0 ||
        (cluster > 1 && !kernel_.is_gpu())) {
      return fail(fmt::format("clusters of {} of {} blocks", cluster, kernel_.blocks));
    }
    for (const KernelType& t : kernel_.types) {
      if (t.lanes < 1 || t.lanes > kMaxLanes ||
          !std::has_single_bit(static_cast<uint32_t>(t.lanes))) {
        return fail(fmt::format("a vector of {} lanes", t.lanes));
      }
    }
    for (const KernelBuffer& b : kernel_.buffers) {
      if (b.elements < 0 || b.alignment < 1 ||
          !std::has_single_bit(static_cast<uint32_t>(b.alignment))) {
        return fail("buffer '" + b.name + "' has a size or alignment that none has");
      }
      if (b.kind == KernelBuffer::Kind::kShared) WEFT_RETURN_IF_ERROR(check_shared(b));
      if (b.kind != KernelBuffer::Kind::kScratch) continue;
      const auto bytes = checked_byte_size(b.dtype, {b.elements});
      if (!bytes || b.scratch_offset < 0 || b.scratch_offset % 64 != 0 ||
          b.scratch_offset > kernel_.scratch_bytes - *bytes) {
        return fail("buffer '" + b.name + "' lies outside the scratch memory");
      }
    }
    return check_library();
  }

  Status check_library() const {
    if (!kernel_.library) return {};
    if (!kernel_.is_gpu()) return fail("a library call on a CPU");
    const LibraryCall& call = *kernel_.library;
    const Status call_status =
        verify_library_call(call, static_cast<int64_t>(kernel_.buffers.size()));
    if (!call_status.ok()) return fail(call_status.error().message);
    for (const CallBuffer& touched : buffers_of(call)) {
      const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(touched.position)];
      if (b.dtype != touched.type || (b.elements != 0 && b.elements < touched.elements) ||
          (touched.written && b.kind != KernelBuffer::Kind::kOutput))
        return fail("buffer '" + b.name + "' is not what the library call takes it for");
    }
    return {};
  }

  Status check_shared(const KernelBuffer& b) const {
    const auto bytes = checked_byte_size(b.dtype, {b.elements});
    if (!kernel_.is_gpu()) return fail("buffer '" + b.name + "' is shared on a CPU");
    if (!bytes || b.scratch_offset < 0 || b.scratch_offset % 16 != 0 ||
        b.scratch_offset > kernel_.shared_bytes - *bytes) {
      return fail("buffer '" + b.name + "' lies outside the block's arena");
    }
    return {};
  }

  /// Defines the registers for as long as its block is open.
  Status define(const std::vector<Reg>& regs, const std::vector<KernelType>& types,
                std::vector<Reg>& opened) {
    if (regs.size() != types.size()) {
      return fail(fmt::format("{} results where {} are made", regs.size(), types.size()));
    }
    for (size_t i = 0; i < regs.size(); ++i) {
      const Reg r = regs[i];
      if (r < 0 || static_cast<size_t>(r) >= kernel_.types.size()) {
        return fail(fmt::format("register %{} out of range", r));
      }
      if (ever_defined_[static_cast<size_t>(r)])
        return fail(fmt::format("%{} is defined twice", r));
      if (kernel_.type(r) != types[i]) {
        return fail(fmt::format("%{} is {}, made as {}", r, type_name(kernel_.type(r)),
                                type_name(types[i])));
      }
      visible_[static_cast<size_t>(r)] = ever_defined_[static_cast<size_t>(r)] = true;
      opened.push_back(r);
    }
    return {};
  }

  Status check_uses(const std::vector<Reg>& regs) const {
    for (const Reg r : regs) {
      if (r < 0 || static_cast<size_t>(r) >= visible_.size() || !visible_[static_cast<size_t>(r)]) {
        return fail(fmt::format("%{} is used where it is not defined", r));
      }
    }
    return {};
  }

  Status check_block(const KernelBlock& block, const std::vector<KernelType>& parameters,
                     int depth) {
    if (depth > kMaxDepth) return fail("blocks nest too deeply");
    std::vector<Reg> opened;
    WEFT_RETURN_IF_ERROR(define(block.parameters, parameters, opened));
    for (const KernelInstruction& in : block.body) {
      where_ =
          fmt::format("%{} = {}", in.results.empty() ? -1 : in.results[0], kernel_op_name(in.op));
      if (in.results.empty()) where_ = kernel_op_name(in.op);
      WEFT_RETURN_IF_ERROR(check_uses(in.operands));
      std::vector<KernelType> types;
      WEFT_RETURN_IF_ERROR(check_instruction(in, types, depth));
      WEFT_RETURN_IF_ERROR(define(in.results, types, opened));
    }
    WEFT_RETURN_IF_ERROR(check_uses(block.yields));
    for (const Reg r : opened) visible_[static_cast<size_t>(r)] = false;
    return {};
  }

  KernelType operand(const KernelInstruction& in, size_t i) const {
    return kernel_.type(in.operands[i]);
  }
  /// The type that the first result claims; define() compares it with what is made.
  KernelType claimed(const KernelInstruction& in) const {
    if (in.results.empty()) return {};
    const Reg r = in.results[0];
    return r >= 0 && static_cast<size_t>(r) < kernel_.types.size() ? kernel_.type(r) : KernelType{};
  }
  Status expect_operands(const KernelInstruction& in, size_t count) const {
    if (in.operands.size() == count) return {};
    return fail(fmt::format("{} operands, not {}", in.operands.size(), count));
  }

  /// Sets the types of the results.
  Status check_instruction(const KernelInstruction& in, std::vector<KernelType>& types, int depth) {
    if (in.op != KernelOp::kFor && in.op != KernelOp::kIf && !in.regions.empty()) {
      return fail("no place for a region");
    }
    switch (in.op) {
      case KernelOp::kConst:
      case KernelOp::kArgument:
      case KernelOp::kRamp:
        return check_leaf(in, types);
      case KernelOp::kApply:
        return check_apply(in, types);
      case KernelOp::kFma:
        WEFT_RETURN_IF_ERROR(expect_operands(in, 3));
        types = {operand(in, 0)};
        if (operand(in, 1) != types[0] || operand(in, 2) != types[0] || !is_float(types[0].dtype)) {
          return fail("needs three floats of one type");
        }
        return {};
      case KernelOp::kBroadcast:
      case KernelOp::kLaneMask:
      case KernelOp::kReduceLanes:
      case KernelOp::kExtract:
      case KernelOp::kShuffle:
        return check_lanes(in, types);
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kStore:
      case KernelOp::kScatter:
        return check_access(in, types);
      case KernelOp::kPrefetch:
        return check_prefetch(in);
      case KernelOp::kPosition:
      case KernelOp::kWarpXor:
      case KernelOp::kWarpPick:
      case KernelOp::kBarrier:
      case KernelOp::kLoadCluster:
      case KernelOp::kCopyAsync:
      case KernelOp::kCommitAsync:
      case KernelOp::kWaitAsync:
      case KernelOp::kLoadMatrix:
      case KernelOp::kMatrixMultiply:
        return check_gpu(in, types);
      case KernelOp::kFor:
        return check_for(in, types, depth);
      case KernelOp::kIf:
        return check_if(in, types, depth);
    }
    return fail("no such instruction");
  }

  const KernelBuffer* buffer(int32_t number) const {
    const bool known = number >= 0 && static_cast<size_t>(number) < kernel_.buffers.size();
    return known ? &kernel_.buffers[static_cast<size_t>(number)] : nullptr;
  }

  Status check_prefetch(const KernelInstruction& in) const {
    WEFT_RETURN_IF_ERROR(expect_operands(in, 1));
    if (buffer(in.buffer) == nullptr || in.index < 0 || in.index > 1)
      return fail("names no buffer or no kind of access");
    if (operand(in, 0) != KernelType{DType::kI64, 1}) return fail("an offset that is no i64");
    return {};
  }

  Status check_gpu(const KernelInstruction& in, std::vector<KernelType>& types) {
    if (!kernel_.is_gpu()) return fail("in a CPU's kernel");
    const KernelType offset{DType::kI64, 1};
    switch (in.op) {
      case KernelOp::kPosition:
        types = {offset};
        if (in.index < 0 || in.index > 2) return fail("no such position");
        return expect_operands(in, 0);
      case KernelOp::kWarpXor:
        WEFT_RETURN_IF_ERROR(expect_operands(in, 1));
        types = {operand(in, 0)};
        if (in.index < 1 || in.index > 31) return fail(fmt::format("lanes {} apart", in.index));
        return types[0].lanes == 1 ? Status{} : fail("of a vector");
      case KernelOp::kWarpPick:
        WEFT_RETURN_IF_ERROR(expect_operands(in, 2));
        types = {operand(in, 0)};
        return types[0].lanes == 1 && operand(in, 1) == offset ? Status{}
                                                               : fail("takes a scalar and a lane");
      case KernelOp::kBarrier:
        if (in.index < 0 || in.index > static_cast<int32_t>(KernelBarrier::kGrid) ||
            (static_cast<KernelBarrier>(in.index) == KernelBarrier::kCluster &&
             kernel_.cluster == 1)) {
          return fail("no such scope");
        }
        return expect_operands(in, 0);
      case KernelOp::kLoadCluster:
        return check_cluster_load(in, types);
      case KernelOp::kCommitAsync:
      case KernelOp::kWaitAsync:
        return in.index >= 0 ? expect_operands(in, 0) : fail("a negative number of groups");
      case KernelOp::kCopyAsync:
        return check_copy(in);
      case KernelOp::kLoadMatrix: {
        WEFT_RETURN_IF_ERROR(expect_operands(in, 1));
        const KernelBuffer* from = buffer(in.buffer);
        types.assign(static_cast<size_t>(std::max(in.index, 0)), {DType::kU32, 1});
        const bool fits = in.index == 1 || in.index == 2 || in.index == 4;
        return fits && from != nullptr && from->kind == KernelBuffer::Kind::kShared &&
                       (byte_size(from->dtype) == 2 ||
                        (byte_size(from->dtype) == 4 && !in.transposed)) &&
                       operand(in, 0) == offset
                   ? Status{}
                   : fail(
                         "loads 1, 2 or 4 matrices of 16-bit elements, or of 32-bit ones that are "
                         "not transposed, from a shared buffer");
      }
      default: {
        WEFT_RETURN_IF_ERROR(expect_operands(in, 10));
        for (size_t i = 0; i < 10; ++i) {
          const KernelType wanted{i < 6 ? DType::kU32 : DType::kF32, 1};
          if (operand(in, i) != wanted) return fail("takes four, two u32 and four f32");
        }
        types.assign(4, {DType::kF32, 1});
        return in.index >= 0 && in.index <= 2 ? Status{} : fail("no such unit");
      }
    }
  }

  Status check_cluster_load(const KernelInstruction& in, std::vector<KernelType>& types) {
    if (in.operands.size() != 2) WEFT_RETURN_IF_ERROR(expect_operands(in, 3));
    const KernelBuffer* from = buffer(in.buffer);
    if (from == nullptr || from->kind != KernelBuffer::Kind::kShared || kernel_.cluster == 1) {
      return fail("takes a shared buffer of a block of the cluster");
    }
    types = {{from->dtype, claimed(in).lanes}};
    const KernelType offset{DType::kI64, 1};
    const bool typed =
        operand(in, 0) == offset && operand(in, 1) == offset &&
        (in.operands.size() == 2 || operand(in, 2) == KernelType{DType::kBool, types[0].lanes});
    if (!typed) return fail("takes a rank, an offset and a mask of as many lanes");
    if (in.operands.size() == 3 && in.value.type != from->dtype) {
      return fail("a filler of another type");
    }
    return {};
  }

  Status check_copy(const KernelInstruction& in) {
    if (in.operands.size() != 2) WEFT_RETURN_IF_ERROR(expect_operands(in, 3));
    const KernelBuffer* to = buffer(in.buffer);
    const KernelBuffer* from = buffer(in.index);
    if (to == nullptr || from == nullptr || to->kind != KernelBuffer::Kind::kShared ||
        from->kind == KernelBuffer::Kind::kShared || to->dtype != from->dtype) {
      return fail("copies from global into shared memory of one type");
    }
    const int64_t bytes = in.count * byte_size(to->dtype);
    if (bytes != 4 && bytes != 8 && bytes != 16) return fail(fmt::format("copies {} bytes", bytes));
    const bool typed = operand(in, 0) == KernelType{DType::kI64, 1} &&
                       operand(in, 1) == KernelType{DType::kI64, 1} &&
                       (in.operands.size() == 2 || operand(in, 2) == KernelType{DType::kBool, 1});
    return typed ? Status{} : fail("takes two offsets and a scalar mask");
  }

  /// Barriers and warp operations stand where all threads of the cluster, block or warp come.
  Status check_convergence() {
    const std::vector<Uniformity> uniformity = derive_uniformity(kernel_);
    for (const KernelPhase& phase : kernel_.phases) {
      WEFT_RETURN_IF_ERROR(check_converged(phase.body, Uniformity::kCluster, uniformity));
    }
    return {};
  }
  Status check_converged(const KernelBlock& block, Uniformity around,
                         const std::vector<Uniformity>& uniformity) {
    for (const KernelInstruction& in : block.body) {
      Uniformity needed = Uniformity::kThread;
      if (is_warp_operation(in.op)) needed = Uniformity::kWarp;
      if (in.op == KernelOp::kBarrier) {
        const auto scope = static_cast<KernelBarrier>(in.index);
        needed = scope == KernelBarrier::kWarp      ? Uniformity::kWarp
                 : scope == KernelBarrier::kCluster ? Uniformity::kCluster
                                                    : Uniformity::kBlock;
      }
      if (around > needed) {
        where_ = kernel_op_name(in.op);
        return fail("stands where not all threads come");
      }
      Uniformity inside = around;
      const size_t controls = in.op == KernelOp::kFor ? 3 : in.op == KernelOp::kIf ? 1 : 0;
      for (size_t i = 0; i < controls; ++i) {
        inside = std::max(inside, uniformity[static_cast<size_t>(in.operands[i])]);
      }
      for (const KernelBlock& region : in.regions) {
        WEFT_RETURN_IF_ERROR(check_converged(region, inside, uniformity));
      }
    }
    return {};
  }

  Status check_leaf(const KernelInstruction& in, std::vector<KernelType>& types) {
    WEFT_RETURN_IF_ERROR(expect_operands(in, 0));
    types = {claimed(in)};
    if (in.op == KernelOp::kConst) {
      if (in.value.type != types[0].dtype) return fail("a value of another type");
      if (types[0] == KernelType{DType::kI64, 1} && !in.results.empty()) {
        step_[static_cast<size_t>(in.results[0])] = in.value.i;
      }
      return {};
    }
    if (in.op == KernelOp::kArgument) {
      types = {{DType::kI64, 1}};
      return in.index >= 0 && in.index < kernel_.argument_count
                 ? Status{}
                 : fail(fmt::format("argument {} of {}", in.index, kernel_.argument_count));
    }
    return is_integer(types[0].dtype) ? Status{} : fail("a ramp counts in an integer type");
  }

  Status check_apply(const KernelInstruction& in, std::vector<KernelType>& types) {
    const ScalarOp op = in.scalar_op;
    WEFT_RETURN_IF_ERROR(expect_operands(in, static_cast<size_t>(scalar_op_arity(op))));
    const KernelType a = operand(in, 0);
    for (size_t i = 1; i < in.operands.size(); ++i) {
      if (operand(in, i).lanes != a.lanes) return fail("operands of different lanes");
    }
    types = {a};
    if (in.exponent_nonpositive && op != ScalarOp::kExp) return fail("is not an exponential");
    switch (op) {
      case ScalarOp::kSelect:
        types = {operand(in, 1)};
        if (a.dtype != DType::kBool || operand(in, 2) != types[0]) {
          return fail("needs a condition and two values of one type");
        }
        return {};
      case ScalarOp::kConvert:
        types = {{claimed(in).dtype, a.lanes}};
        return {};
      case ScalarOp::kBitcast:
        types = {{claimed(in).dtype, a.lanes}};
        return a.dtype != DType::kBool && types[0].dtype != DType::kBool &&
                       byte_size(a.dtype) == byte_size(types[0].dtype)
                   ? Status{}
                   : fail("between types of different widths");
      default:
        break;
    }
    if (!scalar_op_accepts(op, a.dtype)) {
      return fail(fmt::format("{} is not defined on {}", scalar_op_name(op), dtype_name(a.dtype)));
    }
    if (in.operands.size() == 2 && operand(in, 1) != a) return fail("operands of different types");
    if (scalar_op_is_predicate(op)) types = {{DType::kBool, a.lanes}};
    return {};
  }

  Status check_lanes(const KernelInstruction& in, std::vector<KernelType>& types) {
    WEFT_RETURN_IF_ERROR(expect_operands(in, in.op == KernelOp::kShuffle ? 2 : 1));
    const KernelType a = operand(in, 0);
    switch (in.op) {
      case KernelOp::kBroadcast:
        types = {{a.dtype, claimed(in).lanes}};
        return a.lanes == 1 ? Status{} : fail("of a vector");
      case KernelOp::kLaneMask:
        types = {{DType::kBool, claimed(in).lanes}};
        return a == KernelType{DType::kI64, 1} ? Status{} : fail("of something else than an i64");
      case KernelOp::kReduceLanes: {
        types = {{a.dtype, 1}};
        const auto op = combiner_op(in.combiner);
        return op && scalar_op_accepts(*op, a.dtype) ? Status{}
                                                     : fail("by a combiner that does not fit");
      }
      case KernelOp::kExtract:
        types = {{a.dtype, 1}};
        return in.index >= 0 && in.index < a.lanes ? Status{} : fail("of a lane that is not there");
      default:
        break;
    }
    if (operand(in, 1) != a) return fail("operands of different types");
    types = {{a.dtype, static_cast<int32_t>(in.lanes_picked.size())}};
    for (const int32_t lane : in.lanes_picked) {
      if (lane < 0 || lane >= 2 * a.lanes) return fail(fmt::format("lane {}", lane));
    }
    return {};
  }

  Status check_access(const KernelInstruction& in, std::vector<KernelType>& types) {
    if (in.buffer < 0 || static_cast<size_t>(in.buffer) >= kernel_.buffers.size()) {
      return fail(fmt::format("buffer {} of {}", in.buffer, kernel_.buffers.size()));
    }
    const bool stores = in.op == KernelOp::kStore || in.op == KernelOp::kScatter;
    const size_t plain = stores ? 2 : 1;
    if (in.operands.size() != plain) WEFT_RETURN_IF_ERROR(expect_operands(in, plain + 1));
    const KernelBuffer& buffer = kernel_.buffers[static_cast<size_t>(in.buffer)];
    const bool indexed = in.op == KernelOp::kGather || in.op == KernelOp::kScatter;
    const KernelType offset = operand(in, 0);
    if (offset.dtype != DType::kI64 || (!indexed && offset.lanes != 1)) {
      return fail(fmt::format("an offset of type {}", type_name(offset)));
    }
    KernelType value = stores ? operand(in, 1) : claimed(in);
    if (indexed && value.lanes != offset.lanes) return fail("as many offsets as values");
    if (value.dtype != buffer.dtype) {
      return fail(fmt::format("{} in a buffer of {}", type_name(value), dtype_name(buffer.dtype)));
    }
    if (const auto mask = mask_operand(in)) {
      if (operand(in, *mask) != KernelType{DType::kBool, value.lanes}) {
        return fail("a mask that does not fit");
      }
      if (!stores && in.value.type != buffer.dtype) return fail("a filler of another type");
    }
    if (!stores) {
      types = {value};
    } else if (buffer.kind == KernelBuffer::Kind::kInput) {
      return fail("stores to an input");
    } else {
      stored_[static_cast<size_t>(in.buffer)] = true;
    }
    return {};
  }

  Status check_yields(const KernelBlock& block, const std::vector<KernelType>& types) {
    if (block.yields.size() != types.size()) return fail("yields another number of values");
    for (size_t i = 0; i < types.size(); ++i) {
      const Reg r = block.yields[i];
      if (r < 0 || static_cast<size_t>(r) >= kernel_.types.size() || kernel_.type(r) != types[i]) {
        return fail(fmt::format("yields %{} for {}", r, type_name(types[i])));
      }
    }
    return {};
  }

  Status check_for(const KernelInstruction& in, std::vector<KernelType>& types, int depth) {
    if (in.operands.size() < 3 || in.regions.size() != 1) return fail("needs bounds and a body");
    std::vector<KernelType> parameters{{DType::kI64, 1}};
    for (size_t i = 0; i < in.operands.size(); ++i) {
      if (i < 3 && operand(in, i) != parameters[0]) return fail("bounds are i64");
      if (i >= 3) types.push_back(operand(in, i));
    }
    if (step_[static_cast<size_t>(in.operands[2])] <= 0)
      return fail("a step is a positive constant");
    parameters.insert(parameters.end(), types.begin(), types.end());
    const std::string where = where_;
    WEFT_RETURN_IF_ERROR(check_block(in.regions[0], parameters, depth + 1));
    where_ = where;
    return check_yields(in.regions[0], types);
  }

  Status check_if(const KernelInstruction& in, std::vector<KernelType>& types, int depth) {
    WEFT_RETURN_IF_ERROR(expect_operands(in, 1));
    if (in.regions.size() != 2) return fail("needs two branches");
    if (operand(in, 0) != KernelType{DType::kBool, 1}) return fail("needs a scalar condition");
    const std::string where = where_;
    for (const KernelBlock& region : in.regions) {
      WEFT_RETURN_IF_ERROR(check_block(region, {}, depth + 1));
      where_ = where;
    }
    for (const Reg r : in.regions[0].yields) types.push_back(kernel_.type(r));
    return check_yields(in.regions[1], types);
  }

  const KernelFunction& kernel_;
  std::vector<bool> visible_, ever_defined_, stored_;
  std::vector<int64_t> step_;  ///< value of an i64 constant, by register
  std::string where_;
};

}  // namespace

Status verify_kernel(const KernelFunction& kernel) { return KernelVerifier(kernel).run(); }

}  // namespace weft
