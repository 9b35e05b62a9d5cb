#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernel/kernel_function.h"
#include "kernel/kernel_op.h"
#include "kernel/uniformity.h"

namespace weft {
namespace {

constexpr int32_t kMaxLanes = 64;  ///< of the narrowest elements in the widest (512-bit) registers
constexpr int kMaxDepth =
    200;  ///< of blocks: the recursions over them stay far from the stack's end
constexpr KernelType kIndex{DType::kI64, 1};

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
      WEFT_RETURN_IF_ERROR(check_block(phase.body, {kIndex, kIndex}, 0));
      at_ = nullptr;
      if (!phase.body.yields.empty()) return fail("a phase yields nothing");
    }
    WEFT_RETURN_IF_ERROR(kernel_.is_gpu() ? check_convergence() : check_meeting());
    for (size_t i = 0; i < stored_.size(); ++i) {
      const KernelBuffer& buffer = kernel_.buffers[i];
      if (buffer.kind == KernelBuffer::Kind::kOutput && buffer.elements > 0 && !stored_[i]) {
        return fail(fmt::format("output buffer {} is never stored to", i));
      }
    }
    return {};
  }

 private:
  /// "kernel 'k': %4 = load: …", with the instruction at hand.
  Error fail(const std::string& message) const {
    std::string where;
    if (at_ != nullptr) {
      if (!at_->results.empty()) where = fmt::format("%{} = ", at_->results[0]);
      where += std::string(kernel_op_name(at_->op)) + ": ";
    }
    return invalid_input(fmt::format("kernel '{}': {}{}", kernel_.name, where, message));
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
      at_ = &in;
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
  Status check_count(const KernelInstruction& in, const KernelOperands& operands) const {
    const size_t count = in.operands.size();
    if (count == operands.least) return {};
    switch (operands.beyond) {
      case KernelOperands::Beyond::kAnything:
        return count > operands.least ? Status{} : expect_operands(in, operands.least);
      case KernelOperands::Beyond::kMask:
        return expect_operands(in, operands.least + 1);
      default:
        return expect_operands(in, operands.least);
    }
  }
  /// What kernel/ops.def says of the results' types; of kOther nothing yet.
  std::vector<KernelType> listed_types(const KernelInstruction& in, KernelResult result) const {
    switch (result) {
      case KernelResult::kIndex:
        return {kIndex};
      case KernelResult::kSame:
        return {operand(in, 0)};
      case KernelResult::kElement:
        return {{operand(in, 0).dtype, 1}};
      case KernelResult::kClaimed:
        return {claimed(in)};
      default:
        return {};
    }
  }

  /// Sets the types of the results.
  Status check_instruction(const KernelInstruction& in, std::vector<KernelType>& types, int depth) {
    if (!payload_matches(in.op, in.payload)) return fail("holds what another instruction does");
    if (in.op != KernelOp::kFor && in.op != KernelOp::kIf && !in.regions.empty()) {
      return fail("no place for a region");
    }
    const KernelOpInfo& info = kernel_op_info(in.op);
    if (info.place == KernelPlace::kCpu) {
      if (kernel_.is_gpu()) return fail("in a GPU's kernel");
    } else if (info.place != KernelPlace::kAnywhere && !kernel_.is_gpu()) {
      return fail("in a CPU's kernel");
    }
    WEFT_RETURN_IF_ERROR(check_count(in, info.operands));
    types = listed_types(in, info.result);
    switch (in.op) {
      case KernelOp::kConst:
      case KernelOp::kArgument:
      case KernelOp::kRamp:
        return check_leaf(in, types[0]);
      case KernelOp::kApply:
        return check_apply(in, types);
      case KernelOp::kFma: {
        const bool alike = operand(in, 1) == types[0] && operand(in, 2) == types[0];
        return alike && is_float(types[0].dtype) ? Status{}
                                                 : fail("needs three floats of one type");
      }
      case KernelOp::kDot:
        return check_dot(in, types[0]);
      case KernelOp::kBroadcast:
      case KernelOp::kLaneMask:
      case KernelOp::kReduceLanes:
      case KernelOp::kExtract:
      case KernelOp::kShuffle:
        return check_lanes(in, types);
      case KernelOp::kLookUp:
        return check_look_up(in);
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kStore:
      case KernelOp::kScatter:
        return check_access(in);
      case KernelOp::kPrefetch:
        return check_prefetch(in);
      case KernelOp::kWarpXor:
      case KernelOp::kWarpPick:
        return check_exchange(in);
      case KernelOp::kBarrier: {
        const KernelBarrier scope = in.as<BarrierPayload>().scope;
        if (!kernel_.is_gpu() && scope != KernelBarrier::kGrid) return fail("in a CPU's kernel");
        const bool waits_for_cluster = scope == KernelBarrier::kCluster;
        return waits_for_cluster && kernel_.cluster == 1 ? fail("no such scope") : Status{};
      }
      case KernelOp::kLoadCluster:
        return check_cluster_load(in, types[0]);
      case KernelOp::kWaitAsync:
        return in.as<WaitAsyncPayload>().groups_left >= 0 ? Status{}
                                                          : fail("a negative number of groups");
      case KernelOp::kCopyAsync:
        return check_copy(in);
      case KernelOp::kLoadMatrix:
        return check_load_matrix(in, types);
      case KernelOp::kMatrixMultiply:
        return check_multiply(in, types);
      case KernelOp::kGroupMultiply:
        return check_group_multiply(in, types);
      case KernelOp::kGroupWait:
        return check_group_wait(in, types);
      case KernelOp::kPosition:
      case KernelOp::kCommitAsync:
        return {};
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
    if (buffer(in.as<PrefetchPayload>().buffer) == nullptr) return fail("names no buffer");
    return operand(in, 0) == kIndex ? Status{} : fail("an offset that is no i64");
  }

  Status check_exchange(const KernelInstruction& in) const {
    if (operand(in, 0).lanes != 1) return fail("of a vector");
    if (in.op == KernelOp::kWarpPick) {
      return operand(in, 1) == kIndex ? Status{} : fail("takes a scalar and a lane");
    }
    const int32_t apart = in.as<WarpXorPayload>().lane_bits;
    return apart >= 1 && apart <= 31 ? Status{} : fail(fmt::format("lanes {} apart", apart));
  }

  Status check_load_matrix(const KernelInstruction& in, std::vector<KernelType>& types) const {
    const auto& [number, matrices, transposed] = in.as<LoadMatrixPayload>();
    const KernelBuffer* from = buffer(number);
    const bool counted = matrices == 1 || matrices == 2 || matrices == 4;
    const bool shared = from != nullptr && from->kind == KernelBuffer::Kind::kShared;
    const int64_t width = shared ? byte_size(from->dtype) : 0;
    if (!counted || (width != 2 && (width != 4 || transposed)) || operand(in, 0) != kIndex) {
      return fail(
          "loads 1, 2 or 4 matrices of 16-bit elements, or of 32-bit ones that are not "
          "transposed, from a shared buffer");
    }
    types.assign(static_cast<size_t>(matrices), {DType::kU32, 1});
    return {};
  }

  /// Panels begin where the pattern of their chunks does: every eight rows of 128 bytes.
  Status check_panels(int32_t number, int32_t panel, DType type) const {
    constexpr int64_t kPatternBytes = 1024;
    const KernelBuffer* from = buffer(number);
    const bool shared = from != nullptr && from->kind == KernelBuffer::Kind::kShared;
    if (!shared || from->dtype != type || from->scratch_offset % kPatternBytes != 0 || panel <= 0 ||
        panel * byte_size(type) % kPatternBytes != 0) {
      return fail(fmt::format("takes panels of {} in shared memory, each a multiple of {} bytes",
                              dtype_name(type), kPatternBytes));
    }
    return {};
  }

  Status check_group_multiply(const KernelInstruction& in, std::vector<KernelType>& types) const {
    constexpr int64_t kGroupThreads = 128;
    constexpr int32_t kMostColumns = 256;
    const auto& p = in.as<GroupMultiplyPayload>();
    if (p.unit != KernelUnit::kM64K16F16 && p.unit != KernelUnit::kM64K16BF16)
      return fail("is no operation of this unit");
    const bool counted = p.columns > 0 && p.columns % 8 == 0 && p.columns <= kMostColumns &&
                         p.depth > 0 && p.depth % 16 == 0;
    const auto sums = static_cast<size_t>(p.columns / 2);
    if (!counted || in.operands.size() != sums + 2 || kernel_.threads() % kGroupThreads != 0)
      return fail("takes 8 to 256 columns, steps of 16 and whole groups of four warps");
    const DType type = p.unit == KernelUnit::kM64K16F16 ? DType::kF16 : DType::kBF16;
    WEFT_RETURN_IF_ERROR(check_panels(p.left, p.left_panel, type));
    WEFT_RETURN_IF_ERROR(check_panels(p.right, p.right_panel, type));
    for (size_t i = 0; i < in.operands.size(); ++i) {
      if (operand(in, i) != (i < 2 ? kIndex : KernelType{DType::kF32, 1}))
        return fail("takes two offsets and f32");
    }
    types.assign(sums, {DType::kF32, 1});
    return {};
  }

  Status check_group_wait(const KernelInstruction& in, std::vector<KernelType>& types) const {
    types.clear();
    for (size_t i = 0; i < in.operands.size(); ++i) {
      types.push_back(operand(in, i));
      if (types.back().dtype != DType::kF32) return fail("takes f32");
    }
    return {};
  }

  Status check_multiply(const KernelInstruction& in, std::vector<KernelType>& types) const {
    if (in.as<MatrixMultiplyPayload>().unit >= KernelUnit::kM64K16F16)
      return fail("is no operation of this unit");
    for (size_t i = 0; i < in.operands.size(); ++i) {
      const KernelType wanted{i < 6 ? DType::kU32 : DType::kF32, 1};
      if (operand(in, i) != wanted) return fail("takes four, two u32 and four f32");
    }
    types.assign(4, {DType::kF32, 1});
    return {};
  }

  Status check_cluster_load(const KernelInstruction& in, KernelType type) const {
    const auto& payload = in.as<LoadClusterPayload>();
    const KernelBuffer* from = buffer(payload.buffer);
    if (from == nullptr || from->kind != KernelBuffer::Kind::kShared || kernel_.cluster == 1) {
      return fail("takes a shared buffer of a block of the cluster");
    }
    const bool masked = mask_operand(in).has_value();
    const bool typed = operand(in, 0) == kIndex && operand(in, 1) == kIndex &&
                       (!masked || operand(in, 2) == KernelType{DType::kBool, type.lanes});
    if (!typed) return fail("takes a rank, an offset and a mask of as many lanes");
    WEFT_RETURN_IF_ERROR(check_element(type, *from));
    return masked ? check_filler(payload.filler, *from) : Status{};
  }

  Status check_element(KernelType value, const KernelBuffer& of) const {
    if (value.dtype == of.dtype) return {};
    return fail(fmt::format("{} in a buffer of {}", type_name(value), dtype_name(of.dtype)));
  }
  Status check_filler(const ScalarValue& filler, const KernelBuffer& of) const {
    return filler.type == of.dtype ? Status{} : fail("a filler of another type");
  }

  Status check_copy(const KernelInstruction& in) const {
    const auto& payload = in.as<CopyAsyncPayload>();
    const KernelBuffer* to = buffer(payload.to);
    const KernelBuffer* from = buffer(payload.from);
    if (to == nullptr || from == nullptr || to->kind != KernelBuffer::Kind::kShared ||
        from->kind == KernelBuffer::Kind::kShared || to->dtype != from->dtype) {
      return fail("copies from global into shared memory of one type");
    }
    const int64_t bytes = payload.elements * byte_size(to->dtype);
    if (bytes != 4 && bytes != 8 && bytes != 16) return fail(fmt::format("copies {} bytes", bytes));
    const bool typed = operand(in, 0) == kIndex && operand(in, 1) == kIndex &&
                       (!mask_operand(in) || operand(in, 2) == KernelType{DType::kBool, 1});
    return typed ? Status{} : fail("takes two offsets and a scalar mask");
  }

  /// A CPU's threads come to their barriers equally often: the loops around them have the same
  /// bounds in all.
  Status check_meeting() {
    if (kernel_.inner_barriers != has_inner_barrier(kernel_)) {
      return fail("does not say whether threads meet inside a phase");
    }
    if (!kernel_.inner_barriers) return {};
    std::vector<bool> shared(kernel_.types.size(), false);
    for (const KernelPhase& phase : kernel_.phases) {
      WEFT_RETURN_IF_ERROR(check_meeting(phase.body, true, shared));
    }
    return {};
  }
  Status check_meeting(const KernelBlock& block, bool all_come, std::vector<bool>& shared) {
    const auto is_shared = [&](Reg r) { return shared[static_cast<size_t>(r)]; };
    for (const KernelInstruction& in : block.body) {
      if (in.op == KernelOp::kBarrier && !all_come) {
        at_ = &in;
        return fail("stands where not all threads come");
      }
      const bool computed =
          in.op == KernelOp::kConst || in.op == KernelOp::kArgument || in.op == KernelOp::kApply;
      if (computed && std::ranges::all_of(in.operands, is_shared)) {
        shared[static_cast<size_t>(in.results[0])] = true;
      }
      const size_t controls = in.op == KernelOp::kFor ? 3 : in.op == KernelOp::kIf ? 1 : 0;
      const bool same = std::all_of(
          in.operands.begin(), in.operands.begin() + static_cast<ptrdiff_t>(controls), is_shared);
      for (const KernelBlock& region : in.regions) {
        if (in.op == KernelOp::kFor) shared[static_cast<size_t>(region.parameters[0])] = same;
        WEFT_RETURN_IF_ERROR(check_meeting(region, all_come && same, shared));
      }
    }
    return {};
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
        const KernelBarrier scope = in.as<BarrierPayload>().scope;
        needed = scope == KernelBarrier::kWarp      ? Uniformity::kWarp
                 : scope == KernelBarrier::kCluster ? Uniformity::kCluster
                                                    : Uniformity::kBlock;
      }
      if (around > needed) {
        at_ = &in;
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

  Status check_leaf(const KernelInstruction& in, KernelType type) {
    if (in.op == KernelOp::kRamp) {
      return is_integer(type.dtype) ? Status{} : fail("a ramp counts in an integer type");
    }
    if (in.op == KernelOp::kArgument) {
      const int32_t number = in.as<ArgumentPayload>().number;
      return number >= 0 && number < kernel_.argument_count
                 ? Status{}
                 : fail(fmt::format("argument {} of {}", number, kernel_.argument_count));
    }
    const ScalarValue& value = in.as<ConstPayload>().value;
    if (value.type != type.dtype) return fail("a value of another type");
    // Only of a register that exists is the type an i64.
    if (type == kIndex) step_[static_cast<size_t>(in.results[0])] = value.i;
    return {};
  }

  Status check_apply(const KernelInstruction& in, std::vector<KernelType>& types) {
    const auto& [op, exponent_nonpositive] = in.as<ApplyPayload>();
    WEFT_RETURN_IF_ERROR(expect_operands(in, static_cast<size_t>(scalar_op_arity(op))));
    const KernelType a = operand(in, 0);
    for (size_t i = 1; i < in.operands.size(); ++i) {
      if (operand(in, i).lanes != a.lanes) return fail("operands of different lanes");
    }
    types = {a};
    if (exponent_nonpositive && op != ScalarOp::kExp) return fail("is not an exponential");
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

  Status check_dot(const KernelInstruction& in, KernelType sums) const {
    const KernelType left = operand(in, 1), right = operand(in, 2);
    if (sums.dtype == DType::kF32) {
      const KernelType pairs{DType::kU16, 2 * sums.lanes};
      return left == pairs && right == pairs ? Status{}
                                             : fail("needs f32, and u16 of twice the lanes");
    }
    if (left.dtype == DType::kI16) {
      const KernelType pairs{DType::kI16, 2 * sums.lanes};
      return sums.dtype == DType::kI32 && left == pairs && right == pairs
                 ? Status{}
                 : fail("needs i32, and i16 of twice the lanes");
    }
    const int32_t bytes = 4 * sums.lanes;
    const bool fits = sums.dtype == DType::kI32 && left == KernelType{DType::kU8, bytes} &&
                      right == KernelType{DType::kI8, bytes};
    return fits ? Status{} : fail("needs i32, and u8 and i8 of four times the lanes");
  }

  Status check_lanes(const KernelInstruction& in, std::vector<KernelType>& types) const {
    const KernelType a = operand(in, 0);
    switch (in.op) {
      case KernelOp::kBroadcast:
        types = {{a.dtype, claimed(in).lanes}};
        return a.lanes == 1 ? Status{} : fail("of a vector");
      case KernelOp::kLaneMask:
        types = {{DType::kBool, claimed(in).lanes}};
        return a == kIndex ? Status{} : fail("of something else than an i64");
      case KernelOp::kReduceLanes: {
        const auto op = combiner_op(in.as<ReduceLanesPayload>().combiner);
        return op && scalar_op_accepts(*op, a.dtype) ? Status{}
                                                     : fail("by a combiner that does not fit");
      }
      case KernelOp::kExtract: {
        const int32_t lane = in.as<ExtractPayload>().lane;
        return lane >= 0 && lane < a.lanes ? Status{} : fail("of a lane that is not there");
      }
      default:
        break;
    }
    if (operand(in, 1) != a) return fail("operands of different types");
    const std::vector<int32_t>& lanes = in.as<ShufflePayload>().lanes;
    types = {{a.dtype, static_cast<int32_t>(lanes.size())}};
    for (const int32_t lane : lanes) {
      if (lane < 0 || lane >= 2 * a.lanes) return fail(fmt::format("lane {}", lane));
    }
    return {};
  }

  Status check_look_up(const KernelInstruction& in) {
    const KernelType index = operand(in, 0), made = kernel_.type(in.results[0]);
    if (index.dtype != DType::kI32) return fail("looks up places that are not i32");
    if (made.lanes != index.lanes) return fail("makes other lanes than it looks up");
    if (made.dtype != DType::kF32 && made.dtype != DType::kI32)
      return fail("looks up what is neither f32 nor i32");
    return in.as<LookUpPayload>().entries.size() == kLookUpEntries
               ? Status{}
               : fail(fmt::format("a table of {} entries", in.as<LookUpPayload>().entries.size()));
  }

  Status check_access(const KernelInstruction& in) {
    const int32_t number = *buffer_of(in);
    const KernelBuffer* touched = buffer(number);
    if (touched == nullptr) {
      return fail(fmt::format("buffer {} of {}", number, kernel_.buffers.size()));
    }
    const bool stores = in.op == KernelOp::kStore || in.op == KernelOp::kScatter;
    const bool indexed = in.op == KernelOp::kGather || in.op == KernelOp::kScatter;
    const KernelType offset = operand(in, 0);
    if (offset.dtype != DType::kI64 || (!indexed && offset.lanes != 1)) {
      return fail(fmt::format("an offset of type {}", type_name(offset)));
    }
    const KernelType value = stores ? operand(in, 1) : claimed(in);
    if (indexed && value.lanes != offset.lanes) return fail("as many offsets as values");
    WEFT_RETURN_IF_ERROR(check_element(value, *touched));
    const auto mask = mask_operand(in);
    if (mask && operand(in, *mask) != KernelType{DType::kBool, value.lanes}) {
      return fail("a mask that does not fit");
    }
    if (!stores) {
      return mask ? check_filler(in.as<LoadPayload>().filler, *touched) : Status{};
    }
    if (touched->kind == KernelBuffer::Kind::kInput) return fail("stores to an input");
    stored_[static_cast<size_t>(number)] = true;
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
    if (in.regions.size() != 1) return fail("needs bounds and a body");
    std::vector<KernelType> parameters{kIndex};
    for (size_t i = 0; i < in.operands.size(); ++i) {
      if (i < 3 && operand(in, i) != kIndex) return fail("bounds are i64");
      if (i >= 3) types.push_back(operand(in, i));
    }
    if (step_[static_cast<size_t>(in.operands[2])] <= 0)
      return fail("a step is a positive constant");
    parameters.insert(parameters.end(), types.begin(), types.end());
    WEFT_RETURN_IF_ERROR(check_block(in.regions[0], parameters, depth + 1));
    at_ = &in;
    return check_yields(in.regions[0], types);
  }

  Status check_if(const KernelInstruction& in, std::vector<KernelType>& types, int depth) {
    if (in.regions.size() != 2) return fail("needs two branches");
    if (operand(in, 0) != KernelType{DType::kBool, 1}) return fail("needs a scalar condition");
    for (const KernelBlock& region : in.regions) {
      WEFT_RETURN_IF_ERROR(check_block(region, {}, depth + 1));
      at_ = &in;
    }
    for (const Reg r : in.regions[0].yields) types.push_back(kernel_.type(r));
    return check_yields(in.regions[1], types);
  }

  const KernelFunction& kernel_;
  std::vector<bool> visible_, ever_defined_, stored_;
  std::vector<int64_t> step_;              ///< value of an i64 constant, by register
  const KernelInstruction* at_ = nullptr;  ///< what errors name
};

}  // namespace

Status verify_kernel(const KernelFunction& kernel) { return KernelVerifier(kernel).run(); }

}  // namespace weft
