#include "codegen/cpu/emit_kernel.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cstddef>

#include "codegen/cpu/elementary.h"
#include "codegen/cpu/emit_dot.h"
#include "codegen/cpu/emit_look_up.h"
#include "codegen/cpu/lane_builder.h"
#include "codegen/cpu/scalar_emitter.h"
#include "kernel/kernel_op.h"
#include "runtime/kernel_image.h"
#include "support/check.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

/// Of the base of a buffer that non-temporal stores go to.
constexpr uint64_t kStreamAlignment = 64;

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const KernelFunction& kernel, const Target& target)
      : module_(module),
        context_(module.getContext()),
        kernel_(kernel),
        target_(target),
        isa_(target),
        b_(module.getContext()),
        values_(kernel.types.size()),
        definitions_(kernel.types.size(), nullptr) {
    make_alias_scopes();
  }

  void run() {
    for (size_t p = 0; p < kernel_.phases.size(); ++p) emit_phase(p);
  }

 private:
  LaneBuilder lanes(int32_t count) { return LaneBuilder(b_, isa_, count); }
  LaneBuilder lanes_of(Reg r) { return lanes(kernel_.type(r).lanes); }
  V value(Reg r) const { return values_[static_cast<size_t>(r)]; }
  void define(Reg r, V v) { values_[static_cast<size_t>(r)] = v; }
  const KernelBuffer& buffer(int32_t number) const {
    return kernel_.buffers[static_cast<size_t>(number)];
  }

  /// Scratch is shared by values that do not live at once, or that are made in the place of others.
  static bool share_bytes(const KernelBuffer& a, const KernelBuffer& b) {
    const auto end = [](const KernelBuffer& k) {
      return k.scratch_offset + k.elements * byte_size(k.dtype);
    };
    const bool in_scratch = a.kind == KernelBuffer::Kind::kScratch && b.kind == a.kind;
    return &a == &b || (in_scratch && a.scratch_offset < end(b) && b.scratch_offset < end(a));
  }

  void make_alias_scopes() {
    llvm::MDBuilder metadata(context_);
    llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain("buffers");
    std::vector<llvm::Metadata*> scopes;
    for (const KernelBuffer& buffer : kernel_.buffers) {
      scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer.name));
    }
    for (size_t i = 0; i < scopes.size(); ++i) {
      std::vector<llvm::Metadata*> others;
      for (size_t o = 0; o < scopes.size(); ++o) {
        if (!share_bytes(kernel_.buffers[i], kernel_.buffers[o])) others.push_back(scopes[o]);
      }
      own_scope_.push_back(llvm::MDNode::get(context_, {scopes[i]}));
      other_scopes_.push_back(llvm::MDNode::get(context_, others));
    }
  }

  void annotate(llvm::Instruction* access, int32_t number) {
    const auto i = static_cast<size_t>(number);
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, own_scope_[i]);
    access->setMetadata(llvm::LLVMContext::MD_noalias, other_scopes_[i]);
  }

  void emit_phase(size_t number) {
    const KernelBlock& body = kernel_.phases[number].body;
    llvm::Type* ptr = b_.getPtrTy();
    llvm::Type* i64 = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, i64, i64, ptr}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, phase_symbol(number),
                                       module_);
    function_->setDSOLocal(true);
    set_attributes();
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
    define(body.parameters[0], function_->getArg(2));
    define(body.parameters[1], function_->getArg(3));
    bind_buffers(body);
    emit_body(body);
    b_.CreateRetVoid();
  }

  /// Non-temporal stores need an aligned base, which a caller's tensor may not have: the body is
  /// then written twice. They reach memory in no order that another thread could rely on until a
  /// fence.
  void emit_body(const KernelBlock& body) {
    std::vector<bool> streamed(kernel_.buffers.size(), false);
    find_streamed(body, streamed);
    V aligned = nullptr;
    for (size_t i = 0; i < streamed.size(); ++i) {
      if (!streamed[i]) continue;
      V low = b_.CreateAnd(b_.CreatePtrToInt(pointers_[i], b_.getInt64Ty()),
                           b_.getInt64(kStreamAlignment - 1));
      V fits = b_.CreateICmpEQ(low, b_.getInt64(0));
      aligned = aligned == nullptr ? fits : b_.CreateAnd(aligned, fits);
    }
    streams_ = false;
    if (aligned == nullptr) return emit_block(body);
    llvm::BasicBlock* streaming = llvm::BasicBlock::Create(context_, "streaming", function_);
    llvm::BasicBlock* plain = llvm::BasicBlock::Create(context_, "plain", function_);
    b_.CreateCondBr(aligned, streaming, plain);
    b_.SetInsertPoint(streaming);
    streams_ = true;
    emit_block(body);
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, llvm::ArrayRef<V>());
    b_.CreateRetVoid();
    b_.SetInsertPoint(plain);
    streams_ = false;
    emit_block(body);
  }

  static void find_streamed(const KernelBlock& block, std::vector<bool>& streamed) {
    for (const KernelInstruction& in : block.body) {
      const auto* store = std::get_if<StorePayload>(&in.payload);
      if (store != nullptr && store->non_temporal) {
        streamed[static_cast<size_t>(store->buffer)] = true;
      }
      for (const KernelBlock& region : in.regions) find_streamed(region, streamed);
    }
  }

  void emit_prefetch(const KernelInstruction& in) {
    constexpr uint32_t kKeepInAllCaches = 3, kData = 1;
    const auto& [number, for_write] = in.as<PrefetchPayload>();
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                       {address(number, in.operands[0]), b_.getInt32(for_write ? 1 : 0),
                        b_.getInt32(kKeepInAllCaches), b_.getInt32(kData)});
  }

  /// A call of the PhaseBarrier behind the buffers; where the run stops, the kernel ends.
  void emit_barrier() {
    const auto named = std::ranges::count_if(kernel_.buffers, [](const KernelBuffer& b) {
      return b.kind != KernelBuffer::Kind::kScratch;
    });
    llvm::Type* ptr = b_.getPtrTy();
    const auto entry = [&](V table, uint64_t number) {
      return b_.CreateLoad(ptr, b_.CreateConstInBoundsGEP1_64(ptr, table, number));
    };
    V barrier = entry(function_->getArg(0), static_cast<uint64_t>(named));
    static_assert(offsetof(PhaseBarrier, wait) == 0 && offsetof(PhaseBarrier, context) == 8);
    V wait = entry(barrier, 0), context = entry(barrier, 1);
    auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {ptr}, false);
    llvm::CallInst* goes_on = b_.CreateCall(type, wait, {context});
    goes_on->setDoesNotThrow();
    llvm::BasicBlock* next = llvm::BasicBlock::Create(context_, "together", function_);
    llvm::BasicBlock* stop = llvm::BasicBlock::Create(context_, "stop", function_);
    b_.CreateCondBr(b_.CreateICmpNE(goes_on, b_.getInt32(0)), next, stop);
    b_.SetInsertPoint(stop);
    b_.CreateRetVoid();
    b_.SetInsertPoint(next);
  }

  void set_attributes() {
    const std::string width = std::to_string(target_.vector_bytes * 8);
    function_->addFnAttr("prefer-vector-width", width);
    function_->addFnAttr("min-legal-vector-width", width);
    function_->addFnAttr("no-jump-tables", "true");
    if (!target_.cpu.empty() && target_.cpu != "generic") {
      function_->addFnAttr("tune-cpu", target_.cpu);
    }
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    for (const unsigned i : {0u, 1u, 4u}) {
      function_->addParamAttr(i, llvm::Attribute::NoAlias);
      function_->addParamAttr(
          i, llvm::Attribute::getWithCaptureInfo(context_, llvm::CaptureInfo::none()));
    }
    function_->addParamAttr(0, llvm::Attribute::ReadOnly);
    function_->addParamAttr(1, llvm::Attribute::ReadOnly);
    function_->addParamAttr(4, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
  }

  static void find_buffers(const KernelBlock& block, std::vector<bool>& used) {
    for (const KernelInstruction& in : block.body) {
      if (const auto number = buffer_of(in)) used[static_cast<size_t>(*number)] = true;
      for (const KernelBlock& region : in.regions) find_buffers(region, used);
    }
  }

  void bind_buffers(const KernelBlock& body) {
    std::vector<bool> used(kernel_.buffers.size(), false);
    find_buffers(body, used);
    pointers_.assign(used.size(), nullptr);
    llvm::MDNode* empty = llvm::MDNode::get(context_, {});
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const KernelBuffer& buffer = kernel_.buffers[i];
      if (buffer.kind == KernelBuffer::Kind::kScratch) {
        pointers_[i] = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), function_->getArg(4),
                                                     static_cast<uint64_t>(buffer.scratch_offset));
        continue;
      }
      V entry = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), i);
      llvm::LoadInst* pointer = b_.CreateLoad(b_.getPtrTy(), entry);
      pointer->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
      auto* alignment = llvm::ConstantAsMetadata::get(
          b_.getInt64(static_cast<uint64_t>(std::max(1, buffer.alignment))));
      pointer->setMetadata(llvm::LLVMContext::MD_align, llvm::MDNode::get(context_, {alignment}));
      pointers_[i] = pointer;
    }
  }

  void emit_block(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) {
      for (const Reg r : in.results) definitions_[static_cast<size_t>(r)] = &in;
      emit(in);
    }
  }

  void emit(const KernelInstruction& in) {
    switch (in.op) {
      case KernelOp::kLoad:
      case KernelOp::kGather:
        return emit_load(in);
      case KernelOp::kStore:
      case KernelOp::kScatter:
        return emit_store(in);
      case KernelOp::kPrefetch:
        return emit_prefetch(in);
      case KernelOp::kBarrier:
        return emit_barrier();
      case KernelOp::kFor:
        return emit_for(in);
      case KernelOp::kIf:
        return emit_if(in);
      default:
        define(in.results[0], emit_pure(in));
    }
  }

  V emit_pure(const KernelInstruction& in) {
    const LaneBuilder k = lanes_of(in.results[0]);
    const KernelType type = kernel_.type(in.results[0]);
    switch (in.op) {
      case KernelOp::kConst:
        return constant_of(k, in.as<ConstPayload>().value);
      case KernelOp::kArgument:
        return emit_argument(in.as<ArgumentPayload>().number);
      case KernelOp::kApply:
        return emit_apply(in, k);
      case KernelOp::kFma:
        return round_to(
            k, type.dtype,
            k.fused(value(in.operands[0]), value(in.operands[1]), value(in.operands[2])));
      case KernelOp::kDot:
        return emit_dot(k, value(in.operands[0]), value(in.operands[1]), value(in.operands[2]));
      case KernelOp::kBroadcast:
        return type.lanes == 1 ? value(in.operands[0]) : splat(k, value(in.operands[0]));
      case KernelOp::kRamp:
        return ramp(register_type(lanes(1), type.dtype), type.lanes);
      case KernelOp::kLaneMask:
        return emit_lane_mask(value(in.operands[0]), k);
      case KernelOp::kReduceLanes:
        return emit_reduction(in);
      case KernelOp::kExtract:
        return kernel_.type(in.operands[0]).lanes == 1
                   ? value(in.operands[0])
                   : b_.CreateExtractElement(value(in.operands[0]),
                                             static_cast<uint64_t>(in.as<ExtractPayload>().lane));
      case KernelOp::kShuffle:
        return emit_shuffle(in);
      case KernelOp::kLookUp:
        return emit_look_up(k, value(in.operands[0]), in.as<LookUpPayload>().entries,
                            register_type(k, type.dtype));
      default:
        throw_internal_error(__FILE__, __LINE__, "instruction", "out of range");
    }
  }

  V emit_argument(int32_t index) {
    V address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(1),
                                              static_cast<uint64_t>(index));
    llvm::LoadInst* load = b_.CreateLoad(b_.getInt64Ty(), address);
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return load;
  }

  V emit_apply(const KernelInstruction& in, const LaneBuilder& k) {
    std::vector<V> operands;
    for (const Reg r : in.operands) operands.push_back(value(r));
    const DType from = kernel_.type(in.operands.back()).dtype;
    const DType to = kernel_.type(in.results[0]).dtype;
    const auto& [op, exponent_nonpositive] = in.as<ApplyPayload>();
    if (exponent_nonpositive && from != DType::kF64)
      return round_to(k, to, exp_nonpositive(k, operands[0]));
    return emit_scalar_op(k, op, from, to, operands);
  }

  V ramp(llvm::Type* element, int32_t count) {
    if (count == 1) return llvm::ConstantInt::get(element, 0);
    std::vector<llvm::Constant*> numbers;
    for (int32_t i = 0; i < count; ++i) {
      numbers.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(i)));
    }
    return llvm::ConstantVector::get(numbers);
  }

  V emit_lane_mask(V count, const LaneBuilder& k) {
    if (k.lanes() == 1) return b_.CreateICmpSGT(count, b_.getInt64(0));
    // In 32 bits, where one comparison covers 16 lanes.
    V limited = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, b_.getInt64(k.lanes()));
    limited = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limited, b_.getInt64(0));
    V narrow = b_.CreateTrunc(limited, b_.getInt32Ty());
    V all = b_.CreateVectorSplat(static_cast<unsigned>(k.lanes()), narrow);
    return b_.CreateICmpSGT(all, ramp(b_.getInt32Ty(), k.lanes()));
  }

  /// Halves first, as execute_kernel does it.
  V emit_reduction(const KernelInstruction& in) {
    const KernelType type = kernel_.type(in.operands[0]);
    const ScalarOp op = *combiner_op(in.as<ReduceLanesPayload>().combiner);
    V v = value(in.operands[0]);
    for (int32_t count = type.lanes; count > 1; count /= 2) {
      const int32_t half = count / 2;
      V parts[2];
      for (int32_t side = 0; side < 2; ++side) {
        std::vector<int> picked;
        for (int32_t l = 0; l < half; ++l) picked.push_back(side * half + l);
        parts[side] = half == 1 ? b_.CreateExtractElement(v, static_cast<uint64_t>(side))
                                : b_.CreateShuffleVector(v, picked);
      }
      v = emit_scalar_op(lanes(half), op, type.dtype, type.dtype, parts);
    }
    return v;
  }

  /// A shuffle that repeats a short vector of bytes, as the broadcast of one number; null for
  /// others.
  V repeat(V a, const std::vector<int32_t>& from) {
    auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
    const size_t width = type->getNumElements();
    const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
    if (from.size() <= width || from.size() % width != 0 || bits != 32) return nullptr;
    for (size_t l = 0; l < from.size(); ++l) {
      if (static_cast<size_t>(from[l]) != l % width) return nullptr;
    }
    V word = b_.CreateBitCast(a, b_.getInt32Ty());
    V splat = b_.CreateVectorSplat(static_cast<unsigned>(from.size() / width), word);
    return b_.CreateBitCast(splat, llvm::FixedVectorType::get(type->getElementType(),
                                                              static_cast<unsigned>(from.size())));
  }

  V emit_shuffle(const KernelInstruction& in) {
    const int32_t width = kernel_.type(in.operands[0]).lanes;
    V a = value(in.operands[0]), c = value(in.operands[1]);
    const std::vector<int32_t>& from = in.as<ShufflePayload>().lanes;
    if (width == 1) {
      V out = llvm::PoisonValue::get(
          register_type(lanes_of(in.results[0]), kernel_.type(in.results[0]).dtype));
      if (from.size() == 1) return from[0] == 0 ? a : c;
      for (size_t l = 0; l < from.size(); ++l) {
        out = b_.CreateInsertElement(out, from[l] == 0 ? a : c, l);
      }
      return out;
    }
    if (V repeated = repeat(a, from)) return repeated;
    const std::vector<int> picked(from.begin(), from.end());
    if (picked.size() == 1) {
      const int lane = picked[0];
      return b_.CreateExtractElement(lane < width ? a : c, static_cast<uint64_t>(lane % width));
    }
    return b_.CreateShuffleVector(a, c, picked);
  }

  /// The summands of a register that is a sum; otherwise null.
  const KernelInstruction* sum_of(Reg r) const {
    const KernelInstruction* in = definitions_[static_cast<size_t>(r)];
    const bool is_sum =
        in != nullptr && in->op == KernelOp::kApply && in->as<ApplyPayload>().op == ScalarOp::kAdd;
    return is_sum ? in : nullptr;
  }

  /// base[offset], a sum summand by summand: what does not change in a loop becomes a pointer
  /// outside of it.
  V element_address(llvm::Type* element, V base, Reg offset) {
    if (const KernelInstruction* sum = sum_of(offset)) {
      V left = element_address(element, base, sum->operands[0]);
      return element_address(element, left, sum->operands[1]);
    }
    return b_.CreateGEP(element, base, value(offset));
  }

  V address(int32_t number, Reg offset) {
    V base = pointers_[static_cast<size_t>(number)];
    return element_address(memory_type(lanes(1), buffer(number).dtype), base, offset);
  }

  /// Vector offsets of which the scalar summands have gone into a pointer.
  struct SplitOffsets {
    V base;
    V rest = nullptr;
  };

  void split_offsets(llvm::Type* element, Reg offsets, SplitOffsets& split) {
    const KernelInstruction* in = definitions_[static_cast<size_t>(offsets)];
    if (const KernelInstruction* sum = sum_of(offsets)) {
      split_offsets(element, sum->operands[0], split);
      split_offsets(element, sum->operands[1], split);
    } else if (in != nullptr && in->op == KernelOp::kBroadcast) {
      split.base = element_address(element, split.base, in->operands[0]);
    } else {
      V v = value(offsets);
      split.rest = split.rest == nullptr ? v : b_.CreateAdd(split.rest, v);
    }
  }

  /// One address for each lane. Offsets that are constants of 32 bits stay that narrow: the machine
  /// gathers twice as many at a time.
  V lane_addresses(int32_t number, Reg offsets) {
    llvm::Type* element = memory_type(lanes(1), buffer(number).dtype);
    SplitOffsets split{pointers_[static_cast<size_t>(number)]};
    split_offsets(element, offsets, split);
    const auto count = static_cast<unsigned>(kernel_.type(offsets).lanes);
    if (split.rest == nullptr) split.rest = lanes_of(offsets).integer(64, 0);
    if (V narrow = narrowed(split.rest, count)) split.rest = narrow;
    return b_.CreateGEP(element, split.base, split.rest);
  }

  V narrowed(V offsets, unsigned count) {
    const auto* constant = llvm::dyn_cast<llvm::Constant>(offsets);
    if (constant == nullptr) return nullptr;
    std::vector<llvm::Constant*> narrow;
    for (unsigned l = 0; l < count; ++l) {
      const auto* lane =
          llvm::dyn_cast_or_null<llvm::ConstantInt>(constant->getAggregateElement(l));
      if (lane == nullptr || !lane->getValue().isSignedIntN(32)) return nullptr;
      narrow.push_back(llvm::ConstantInt::getSigned(b_.getInt32Ty(), lane->getSExtValue()));
    }
    return llvm::ConstantVector::get(narrow);
  }

  llvm::Align element_alignment(int32_t number) const {
    return llvm::Align(static_cast<uint64_t>(byte_size(buffer(number).dtype)));
  }

  /// Bytes of a table; lanes that the mask leaves out look at the first one.
  V emit_bytes_looked_up(const LaneBuilder& k, int32_t number, V offsets, V mask, V filler) {
    if (mask != nullptr) offsets = k.select(mask, offsets, k.integer(64, 0));
    V bytes = emit_look_up(k, pointers_[static_cast<size_t>(number)], offsets,
                           [&](llvm::Instruction* i) { annotate(i, number); });
    return mask == nullptr ? bytes : k.select(mask, bytes, filler);
  }

  void emit_load(const KernelInstruction& in) {
    const auto& [number, fill] = in.as<LoadPayload>();
    const DType dtype = buffer(number).dtype;
    const LaneBuilder k = lanes_of(in.results[0]);
    llvm::Type* type = memory_type(k, dtype);
    const auto mask = mask_operand(in);
    const llvm::Align align = element_alignment(number);
    V filler = mask ? to_memory(k, dtype, constant_of(k, fill)) : nullptr;
    const bool indexed = in.op == KernelOp::kGather && k.lanes() > 1;
    if (indexed && byte_size(dtype) == 1 && looks_up(isa_, buffer(number).elements, k.lanes())) {
      V found = emit_bytes_looked_up(k, number, value(in.operands[0]),
                                     mask ? value(in.operands[*mask]) : nullptr, filler);
      return define(in.results[0], to_register(k, dtype, found));
    }
    V at = indexed ? lane_addresses(number, in.operands[0]) : address(number, in.operands[0]);
    V loaded = nullptr;
    const auto plain = [&] { return b_.CreateAlignedLoad(type, at, align); };
    if (indexed) {
      llvm::CallInst* gather = b_.CreateMaskedGather(
          type, at, align, mask ? value(in.operands[*mask]) : nullptr, filler);
      annotate(gather, number);
      loaded = gather;
    } else if (!mask) {
      llvm::LoadInst* load = plain();
      annotate(load, number);
      loaded = load;
    } else if (k.lanes() == 1) {
      loaded = k.branch(value(in.operands[*mask]), filler, [&] {
        llvm::LoadInst* load = plain();
        annotate(load, number);
        return load;
      });
    } else {
      llvm::CallInst* load =
          b_.CreateMaskedLoad(type, at, align, value(in.operands[*mask]), filler);
      annotate(load, number);
      loaded = load;
    }
    define(in.results[0], to_register(k, dtype, loaded));
  }

  void emit_store(const KernelInstruction& in) {
    const auto& [number, non_temporal] = in.as<StorePayload>();
    const DType dtype = buffer(number).dtype;
    const LaneBuilder k = lanes_of(in.operands[1]);
    const auto mask = mask_operand(in);
    V stored = to_memory(k, dtype, value(in.operands[1]));
    const bool indexed = in.op == KernelOp::kScatter && k.lanes() > 1;
    V at = indexed ? lane_addresses(number, in.operands[0]) : address(number, in.operands[0]);
    llvm::Align align = element_alignment(number);
    llvm::Instruction* store = nullptr;
    if (indexed) {
      store = b_.CreateMaskedScatter(stored, at, align, mask ? value(in.operands[*mask]) : nullptr);
    } else if (mask && k.lanes() > 1) {
      store = b_.CreateMaskedStore(stored, at, align, value(in.operands[*mask]));
    } else if (mask) {
      return emit_guarded_store(stored, at, align, value(in.operands[*mask]), number);
    } else {
      const bool stream = non_temporal && streams_;
      if (stream) align = natural_alignment(k, dtype);
      store = b_.CreateAlignedStore(stored, at, align);
      if (stream) {
        store->setMetadata(
            llvm::LLVMContext::MD_nontemporal,
            llvm::MDNode::get(context_, {llvm::ConstantAsMetadata::get(b_.getInt32(1))}));
      }
    }
    annotate(store, number);
  }

  static llvm::Align natural_alignment(const LaneBuilder& k, DType dtype) {
    return llvm::Align(static_cast<uint64_t>(std::min<int64_t>(64, k.lanes() * byte_size(dtype))));
  }

  void emit_guarded_store(V stored, V at, llvm::Align align, V condition, int32_t number) {
    llvm::BasicBlock* then = llvm::BasicBlock::Create(context_, "store", function_);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "stored", function_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    annotate(b_.CreateAlignedStore(stored, at, align), number);
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  /// Tested once before, then at the end of each round: the form that LICM and strength reduction
  /// want.
  void emit_for(const KernelInstruction& in) {
    const KernelBlock& body = in.regions[0];
    V begin = value(in.operands[0]), end = value(in.operands[1]), step = value(in.operands[2]);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* inside = llvm::BasicBlock::Create(context_, "for", function_);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "done", function_);
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), inside, after);
    b_.SetInsertPoint(inside);
    std::vector<llvm::PHINode*> phis;
    for (size_t i = 0; i < body.parameters.size(); ++i) {
      V first = i == 0 ? begin : value(in.operands[i + 2]);
      phis.push_back(b_.CreatePHI(first->getType(), 2));
      phis.back()->addIncoming(first, before);
      define(body.parameters[i], phis.back());
    }
    emit_block(body);
    llvm::BasicBlock* last = b_.GetInsertBlock();
    V next = b_.CreateNSWAdd(phis[0], step);
    phis[0]->addIncoming(next, last);
    for (size_t i = 0; i < body.yields.size(); ++i) {
      phis[i + 1]->addIncoming(value(body.yields[i]), last);
    }
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, after);
    b_.SetInsertPoint(after);
    for (size_t i = 0; i < in.results.size(); ++i) {
      V initial = value(in.operands[i + 3]);
      llvm::PHINode* phi = b_.CreatePHI(initial->getType(), 2);
      phi->addIncoming(initial, before);
      phi->addIncoming(value(body.yields[i]), last);
      define(in.results[i], phi);
    }
  }

  void emit_if(const KernelInstruction& in) {
    llvm::BasicBlock* sides[2];
    llvm::BasicBlock* ends[2];
    for (llvm::BasicBlock*& side : sides) {
      side = llvm::BasicBlock::Create(context_, "branch", function_);
    }
    llvm::BasicBlock* after = llvm::BasicBlock::Create(context_, "joined", function_);
    b_.CreateCondBr(value(in.operands[0]), sides[0], sides[1]);
    for (size_t i = 0; i < 2; ++i) {
      b_.SetInsertPoint(sides[i]);
      emit_block(in.regions[i]);
      ends[i] = b_.GetInsertBlock();
      b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
    for (size_t r = 0; r < in.results.size(); ++r) {
      llvm::PHINode* phi = b_.CreatePHI(value(in.regions[0].yields[r])->getType(), 2);
      for (size_t i = 0; i < 2; ++i) phi->addIncoming(value(in.regions[i].yields[r]), ends[i]);
      define(in.results[r], phi);
    }
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const KernelFunction& kernel_;
  const Target& target_;
  const Isa isa_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  bool streams_ = false;   ///< non-temporal stores are made as such in the body being written
  std::vector<V> values_;  ///< by register
  std::vector<const KernelInstruction*> definitions_;  ///< by register, those met so far
  std::vector<V> pointers_;                            ///< by buffer, those that the phase uses
  std::vector<llvm::MDNode*> own_scope_, other_scopes_;
};

}  // namespace

std::string phase_symbol(size_t phase) { return "phase" + std::to_string(phase); }

std::unique_ptr<llvm::Module> emit_kernel(llvm::LLVMContext& context, const KernelFunction& kernel,
                                          const Target& target) {
  auto module = std::make_unique<llvm::Module>("kernel", context);
  KernelEmitter(*module, kernel, target).run();
  return module;
}

}  // namespace weft::cpu
