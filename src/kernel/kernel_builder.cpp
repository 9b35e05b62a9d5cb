#include "kernel/kernel_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernel/kernel_op.h"
#include "support/check.h"

namespace weft {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDULL;
}

uint64_t hash_of(const KernelInstruction& in, KernelType type) {
  uint64_t h = mix(static_cast<uint64_t>(in.op),
                   static_cast<uint64_t>(type.dtype) << 32 | static_cast<uint64_t>(type.lanes));
  for_each_word(in.payload, [&](uint64_t word) { h = mix(h, word); });
  for (const Reg r : in.operands) h = mix(h, static_cast<uint64_t>(r));
  return h ^ h >> 32;
}

bool same_instruction(const KernelInstruction& a, const KernelInstruction& b) {
  return a.op == b.op && a.operands == b.operands && same_payload(a.payload, b.payload);
}

bool is_commutative(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kMul:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return true;
    default:
      return false;
  }
}

bool is_number(const ScalarValue* value, int64_t number) {
  if (value == nullptr || value->type == DType::kBool) return false;
  return is_float(value->type) ? value->f == static_cast<double>(number) : value->i == number;
}

}  // namespace

std::pair<Reg, Reg> KernelBuilder::begin_phase(int64_t work_items) {
  WEFT_CHECK(scopes_.empty(), "a phase inside a phase");
  KernelPhase phase;
  phase.work_items = work_items;
  kernel_.phases.push_back(std::move(phase));
  open_scope();
  const Reg begin = new_reg({DType::kI64, 1}), end = new_reg({DType::kI64, 1});
  scopes_.back().block.parameters = {begin, end};
  return {begin, end};
}

void KernelBuilder::end_phase() {
  WEFT_CHECK(scopes_.size() == 1, "end_phase inside a loop");
  kernel_.phases.back().body = close_scope();
}

void KernelBuilder::open_scope() { scopes_.emplace_back(); }

KernelBlock KernelBuilder::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  // Inner scopes are gone already, so of equal keys the ones added last are this scope's.
  for (const uint64_t key : scope.keys) {
    auto [it, last] = known_.equal_range(key);
    auto newest = it;
    for (; it != last; ++it) {
      if (it->second.result > newest->second.result) newest = it;
    }
    known_.erase(newest);
  }
  return std::move(scope.block);
}

Reg KernelBuilder::new_reg(KernelType type) {
  kernel_.types.push_back(type);
  facts_.resize(kernel_.types.size());
  return static_cast<Reg>(kernel_.types.size()) - 1;
}

Reg KernelBuilder::emit_result(KernelInstruction in, KernelType type) {
  const Reg result = new_reg(type);
  in.results = {result};
  emit(std::move(in));
  return result;
}

Reg KernelBuilder::emit_pure(KernelInstruction in, KernelType type) {
  WEFT_CHECK(!scopes_.empty(), "an instruction outside of a phase");
  const uint64_t key = hash_of(in, type);
  for (auto [it, last] = known_.equal_range(key); it != last; ++it) {
    if (it->second.type == type && same_instruction(it->second.instruction, in)) {
      return it->second.result;
    }
  }
  Known entry{in, type, kNoReg};
  entry.result = emit_result(std::move(in), type);
  const Reg result = entry.result;
  known_.emplace(key, std::move(entry));
  scopes_.back().keys.push_back(key);
  return result;
}

const ScalarValue* KernelBuilder::constant_of(Reg r) const {
  const Fact& f = fact(r);
  return f.kind == Fact::Kind::kConstant ? &f.value : nullptr;
}

Reg KernelBuilder::constant(KernelType type, ScalarValue value) {
  if (value.type != type.dtype) value = convert_value(value, type.dtype);
  const Reg r = emit_pure({KernelOp::kConst, ConstPayload{value}}, type);
  facts_[static_cast<size_t>(r)] = {Fact::Kind::kConstant, kNoReg, value, kNoReg};
  return r;
}

Reg KernelBuilder::int_constant(int64_t value) {
  return constant({DType::kI64, 1}, int_value(DType::kI64, value));
}

Reg KernelBuilder::argument(int32_t index) {
  kernel_.argument_count = std::max(kernel_.argument_count, index + 1);
  return emit_pure({KernelOp::kArgument, ArgumentPayload{index}}, {DType::kI64, 1});
}

Reg KernelBuilder::apply(ScalarOp op, std::vector<Reg> operands, DType result_type) {
  WEFT_CHECK(static_cast<int>(operands.size()) == scalar_op_arity(op),
             "operands of " + std::string(scalar_op_name(op)));
  int32_t lanes = 1;
  for (const Reg r : operands) lanes = std::max(lanes, type(r).lanes);
  for (Reg& r : operands) r = broadcast(r, lanes);
  if (is_commutative(op) && constant_of(operands[0]) != nullptr &&
      constant_of(operands[1]) == nullptr) {
    std::swap(operands[0], operands[1]);
  }
  const KernelType t{result_type, lanes};
  if (const auto folded = fold_constants(op, operands, t)) return *folded;
  if (const auto folded = fold_identity(op, operands, t)) return *folded;
  const Reg r = emit_pure({KernelOp::kApply, ApplyPayload{op}, operands}, t);
  const bool is_sum = op == ScalarOp::kAdd && !is_float(result_type);
  if (const ScalarValue* c = is_sum ? constant_of(operands[1]) : nullptr) {
    facts_[static_cast<size_t>(r)] = {Fact::Kind::kSum, operands[0], *c, kNoReg};
  }
  if (op == ScalarOp::kMul && is_float(result_type)) {
    facts_[static_cast<size_t>(r)] = {Fact::Kind::kProduct, operands[0], {}, operands[1]};
  }
  if (op == ScalarOp::kConvert && fact(operands[0]).kind == Fact::Kind::kMasked)
    facts_[static_cast<size_t>(r)] = Fact(fact(operands[0]));
  return r;
}

std::optional<Reg> KernelBuilder::fold_constants(ScalarOp op, const std::vector<Reg>& operands,
                                                 KernelType t) {
  ScalarValue values[3];
  for (size_t i = 0; i < operands.size(); ++i) {
    const ScalarValue* c = constant_of(operands[i]);
    if (c == nullptr) return std::nullopt;
    values[i] = *c;
  }
  const ScalarValue result = evaluate_scalar(op, {values, operands.size()}, t.dtype);
  // Which of the NaNs an operation yields is the machine's choice.
  if (is_float(result.type) && std::isnan(result.f)) return std::nullopt;
  return constant(t, result);
}

std::optional<Reg> KernelBuilder::fold_identity(ScalarOp op, const std::vector<Reg>& operands,
                                                KernelType t) {
  const Reg a = operands[0];
  if (op == ScalarOp::kConvert) return type(a) == t ? std::optional(a) : std::nullopt;
  if (op == ScalarOp::kSelect) return fold_select(operands);
  if (operands.size() < 2) return std::nullopt;
  const Reg b = operands[1];
  const ScalarValue* right = constant_of(b);
  const bool is_exact = !is_float(type(a).dtype);
  switch (op) {
    case ScalarOp::kMul:
      if (is_number(right, 1)) return a;
      return is_exact && is_number(right, 0) ? std::optional(b) : std::nullopt;
    case ScalarOp::kDiv:
      return is_number(right, 1) ? std::optional(a) : std::nullopt;
    case ScalarOp::kRem:
      if (!is_exact || !is_number(right, 1)) return std::nullopt;
      return constant(t, int_value(t.dtype, 0));
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
      return is_exact ? fold_sum(op, a, b, t) : std::nullopt;
    case ScalarOp::kMin:
    case ScalarOp::kMax:
      return a == b ? std::optional(a) : std::nullopt;
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
      return fold_logic(op, a, b);
    default:
      return std::nullopt;
  }
}

std::optional<Reg> KernelBuilder::fold_select(const std::vector<Reg>& operands) {
  if (operands[1] == operands[2]) return operands[1];
  if (const ScalarValue* condition = constant_of(operands[0]))
    return operands[condition->i != 0 ? 1 : 2];
  // The load has put the 0 there.
  const Fact& chosen = fact(operands[1]);
  const ScalarValue* other = constant_of(operands[2]);
  const bool masked = chosen.kind == Fact::Kind::kMasked && chosen.base == operands[0];
  return masked && other != nullptr && is_plain_zero(*other) ? std::optional(operands[1])
                                                             : std::nullopt;
}

std::optional<Reg> KernelBuilder::fold_logic(ScalarOp op, Reg a, Reg b) {
  if (a == b) return a;
  const ScalarValue* right = constant_of(b);
  if (right == nullptr || right->type != DType::kBool) return std::nullopt;
  const bool absorbs = (right->i != 0) == (op == ScalarOp::kOr);
  return absorbs ? b : a;
}

/// x + 0, x - x, x - c as x + -c, and (x + c) + d as x + (c + d): offsets that differ by a constant
/// then share their variable part.
std::optional<Reg> KernelBuilder::fold_sum(ScalarOp op, Reg a, Reg b, KernelType t) {
  if (op == ScalarOp::kSub && a == b) return constant(t, int_value(t.dtype, 0));
  const ScalarValue* right = constant_of(b);
  if (right == nullptr) return std::nullopt;
  if (right->i == 0) return a;
  const ScalarValue zero = int_value(t.dtype, 0), amount = *right;
  if (op == ScalarOp::kSub) {
    const ScalarValue parts[2] = {zero, amount};
    const Reg negated = constant(t, evaluate_scalar(ScalarOp::kSub, parts, t.dtype));
    return apply(ScalarOp::kAdd, {a, negated}, t.dtype);
  }
  const Fact left = fact(a);
  if (left.kind != Fact::Kind::kSum) return std::nullopt;
  const ScalarValue parts[2] = {left.value, amount};
  const ScalarValue sum = evaluate_scalar(ScalarOp::kAdd, parts, t.dtype);
  return apply(ScalarOp::kAdd, {left.base, constant(t, sum)}, t.dtype);
}

Reg KernelBuilder::fma(Reg a, Reg b, Reg c) {
  const int32_t lanes = std::max({type(a).lanes, type(b).lanes, type(c).lanes});
  const KernelType t{type(a).dtype, lanes};
  return emit_pure({KernelOp::kFma,
                    NoPayload{},
                    {broadcast(a, lanes), broadcast(b, lanes), broadcast(c, lanes)}},
                   t);
}

Reg KernelBuilder::dot(Reg sums, Reg a, Reg b) {
  return emit_pure({KernelOp::kDot, NoPayload{}, {sums, a, b}}, type(sums));
}

Reg KernelBuilder::broadcast(Reg scalar, int32_t lanes) {
  const KernelType from = type(scalar);
  if (from.lanes == lanes) return scalar;
  WEFT_CHECK(from.lanes == 1, "a broadcast of a vector");
  if (const ScalarValue* c = constant_of(scalar)) return constant({from.dtype, lanes}, *c);
  const Reg r = emit_pure({KernelOp::kBroadcast, NoPayload{}, {scalar}}, {from.dtype, lanes});
  facts_[static_cast<size_t>(r)] = {Fact::Kind::kBroadcast, scalar, {}, kNoReg};
  return r;
}

Reg KernelBuilder::ramp(DType dtype, int32_t lanes) {
  if (lanes == 1) return constant({dtype, 1}, int_value(dtype, 0));
  return emit_pure({KernelOp::kRamp, NoPayload{}}, {dtype, lanes});
}

Reg KernelBuilder::lane_mask(Reg count, int32_t lanes) {
  if (const ScalarValue* c = constant_of(count); c != nullptr && (c->i <= 0 || c->i >= lanes)) {
    return constant({DType::kBool, lanes}, int_value(DType::kBool, c->i > 0 ? 1 : 0));
  }
  return emit_pure({KernelOp::kLaneMask, NoPayload{}, {count}}, {DType::kBool, lanes});
}

Reg KernelBuilder::reduce_lanes(Combiner combiner, Reg vector) {
  if (type(vector).lanes == 1) return vector;
  return emit_pure({KernelOp::kReduceLanes, ReduceLanesPayload{combiner}, {vector}},
                   {type(vector).dtype, 1});
}

Reg KernelBuilder::extract(Reg vector, int32_t lane) {
  if (type(vector).lanes == 1) return vector;
  if (fact(vector).kind == Fact::Kind::kBroadcast) return fact(vector).base;
  if (const ScalarValue* c = constant_of(vector)) return constant({c->type, 1}, *c);
  return emit_pure({KernelOp::kExtract, ExtractPayload{lane}, {vector}}, {type(vector).dtype, 1});
}

Reg KernelBuilder::shuffle(Reg a, Reg b, std::vector<int32_t> lanes_picked) {
  const KernelType t{type(a).dtype, static_cast<int32_t>(lanes_picked.size())};
  return emit_pure({KernelOp::kShuffle, ShufflePayload{std::move(lanes_picked)}, {a, b}}, t);
}

const KernelBuffer& KernelBuilder::buffer(int32_t number) const {
  WEFT_CHECK(number >= 0 && static_cast<size_t>(number) < kernel_.buffers.size(),
             "buffer " + std::to_string(number) + " of " + kernel_.name);
  return kernel_.buffers[static_cast<size_t>(number)];
}

ScalarValue KernelBuilder::filler(int32_t number, const ScalarValue& other) const {
  const DType dtype = buffer(number).dtype;
  return other.type == dtype ? other : convert_value(other, dtype);
}

/// With a mask, the filler becomes one of the buffer's type; without one there is none.
template <typename P>
Reg KernelBuilder::emit_load(KernelOp op, P payload, std::vector<Reg> operands, Reg mask,
                             KernelType type) {
  if (mask == kNoReg) {
    payload.filler = {};
  } else {
    operands.push_back(broadcast(mask, type.lanes));
    payload.filler = filler(payload.buffer, payload.filler);
  }
  const Reg set = mask == kNoReg ? kNoReg : operands.back();
  const bool zero = set != kNoReg && is_plain_zero(payload.filler);
  const Reg r = emit_result({op, payload, std::move(operands)}, type);
  if (zero) facts_[static_cast<size_t>(r)] = {Fact::Kind::kMasked, set, {}, kNoReg};
  return r;
}

Reg KernelBuilder::load(int32_t number, Reg offset, int32_t lanes, Reg mask, ScalarValue other) {
  const KernelType t{buffer(number).dtype, lanes};
  if (const ScalarValue* all = mask == kNoReg ? nullptr : constant_of(mask)) {
    if (all->i == 0) return constant(t, filler(number, other));
    mask = kNoReg;
  }
  return emit_load(KernelOp::kLoad, LoadPayload{number, other}, {offset}, mask, t);
}

Reg KernelBuilder::gather(int32_t number, Reg offsets, Reg mask, ScalarValue other) {
  const int32_t lanes = type(offsets).lanes;
  if (lanes == 1) return load(number, offsets, 1, mask, other);
  const KernelType t{buffer(number).dtype, lanes};
  return emit_load(KernelOp::kGather, LoadPayload{number, other}, {offsets}, mask, t);
}

void KernelBuilder::store(int32_t number, Reg offset, Reg value, Reg mask, bool non_temporal) {
  if (const ScalarValue* all = mask == kNoReg ? nullptr : constant_of(mask)) {
    if (all->i == 0) return;
    mask = kNoReg;
  }
  std::vector<Reg> operands{offset, value};
  if (mask != kNoReg) operands.push_back(broadcast(mask, type(value).lanes));
  const StorePayload payload{number, non_temporal && mask == kNoReg};
  emit({KernelOp::kStore, payload, std::move(operands)});
}

void KernelBuilder::scatter(int32_t number, Reg offsets, Reg value, Reg mask) {
  const int32_t lanes = type(offsets).lanes;
  if (lanes == 1) return store(number, offsets, value, mask);
  std::vector<Reg> operands{offsets, broadcast(value, lanes)};
  if (mask != kNoReg) operands.push_back(broadcast(mask, lanes));
  emit({KernelOp::kScatter, StorePayload{number}, std::move(operands)});
}

Reg KernelBuilder::position(KernelPosition position) {
  return emit_pure({KernelOp::kPosition, PositionPayload{position}}, {DType::kI64, 1});
}

Reg KernelBuilder::warp_xor(Reg scalar, int32_t mask) {
  return emit_pure({KernelOp::kWarpXor, WarpXorPayload{mask}, {scalar}}, type(scalar));
}

Reg KernelBuilder::warp_pick(Reg scalar, Reg lane) {
  return emit_pure({KernelOp::kWarpPick, NoPayload{}, {scalar, lane}}, type(scalar));
}

void KernelBuilder::barrier(KernelBarrier scope) {
  emit({KernelOp::kBarrier, BarrierPayload{scope}});
}

Reg KernelBuilder::load_cluster(int32_t shared, Reg rank, Reg offset, int32_t lanes, Reg mask) {
  return emit_load(KernelOp::kLoadCluster, LoadClusterPayload{shared, {}}, {rank, offset}, mask,
                   {buffer(shared).dtype, lanes});
}

void KernelBuilder::copy_async(int32_t shared, Reg to, int32_t from_buffer, Reg from, int32_t count,
                               Reg mask) {
  std::vector<Reg> operands{to, from};
  if (mask != kNoReg) operands.push_back(mask);
  emit({KernelOp::kCopyAsync, CopyAsyncPayload{shared, from_buffer, count}, std::move(operands)});
}

void KernelBuilder::commit_async() { emit({KernelOp::kCommitAsync, NoPayload{}}); }

void KernelBuilder::wait_async(int32_t groups_left) {
  emit({KernelOp::kWaitAsync, WaitAsyncPayload{groups_left}});
}

std::vector<Reg> KernelBuilder::emit_results(KernelInstruction in, size_t count, KernelType type) {
  for (size_t i = 0; i < count; ++i) in.results.push_back(new_reg(type));
  std::vector<Reg> results = in.results;
  emit(std::move(in));
  return results;
}

std::vector<Reg> KernelBuilder::load_matrix(int32_t shared, Reg row_offset, int32_t matrices,
                                            bool transposed) {
  const LoadMatrixPayload payload{shared, matrices, transposed};
  return emit_results({KernelOp::kLoadMatrix, payload, {row_offset}}, static_cast<size_t>(matrices),
                      {DType::kU32, 1});
}

std::vector<Reg> KernelBuilder::matrix_multiply(KernelUnit unit, const std::vector<Reg>& a,
                                                const std::vector<Reg>& b,
                                                const std::vector<Reg>& c) {
  std::vector<Reg> operands = a;
  operands.insert(operands.end(), b.begin(), b.end());
  operands.insert(operands.end(), c.begin(), c.end());
  return emit_results({KernelOp::kMatrixMultiply, MatrixMultiplyPayload{unit}, std::move(operands)},
                      4, {DType::kF32, 1});
}

std::vector<Reg> KernelBuilder::group_multiply(const GroupMultiplyPayload& payload, Reg left,
                                               Reg right, const std::vector<Reg>& c) {
  std::vector<Reg> operands{left, right};
  operands.insert(operands.end(), c.begin(), c.end());
  return emit_results({KernelOp::kGroupMultiply, payload, std::move(operands)}, c.size(),
                      {DType::kF32, 1});
}

std::vector<Reg> KernelBuilder::group_wait(std::vector<Reg> sums) {
  KernelInstruction in{KernelOp::kGroupWait, NoPayload{}, std::move(sums)};
  for (const Reg r : in.operands) in.results.push_back(new_reg(type(r)));
  std::vector<Reg> results = in.results;
  emit(std::move(in));
  return results;
}

Reg KernelBuilder::exp_nonpositive(Reg x) {
  const ApplyPayload payload{ScalarOp::kExp, /*exponent_nonpositive=*/true};
  return emit_pure({KernelOp::kApply, payload, {x}}, type(x));
}

std::vector<Reg> KernelBuilder::for_loop(
    Reg begin, Reg end, int64_t step, std::vector<Reg> carries,
    const std::function<std::vector<Reg>(Reg iv, const std::vector<Reg>&)>& body) {
  WEFT_CHECK(step > 0, "a loop of step " + std::to_string(step));
  const ScalarValue* first = constant_of(begin);
  const ScalarValue* last = constant_of(end);
  if (first != nullptr && last != nullptr) {
    if (first->i >= last->i) return carries;
    // The difference of a wrapped range is still right as unsigned.
    const uint64_t extent = static_cast<uint64_t>(last->i) - static_cast<uint64_t>(first->i);
    if (extent <= static_cast<uint64_t>(step)) return body(begin, carries);
  }
  KernelInstruction in{KernelOp::kFor, NoPayload{}, {begin, end, int_constant(step)}};
  in.operands.insert(in.operands.end(), carries.begin(), carries.end());
  open_scope();
  std::vector<Reg> parameters{new_reg({DType::kI64, 1})};
  for (const Reg r : carries) parameters.push_back(new_reg(type(r)));
  scopes_.back().block.parameters = parameters;
  const std::vector<Reg> next = body(parameters[0], {parameters.begin() + 1, parameters.end()});
  WEFT_CHECK(next.size() == carries.size(), "a loop that yields another number of carries");
  scopes_.back().block.yields = next;
  in.regions.push_back(close_scope());
  for (const Reg r : carries) in.results.push_back(new_reg(type(r)));
  std::vector<Reg> results = in.results;
  emit(std::move(in));
  return results;
}

std::vector<Reg> KernelBuilder::if_then_else(Reg condition,
                                             const std::function<std::vector<Reg>()>& then_body,
                                             const std::function<std::vector<Reg>()>& else_body) {
  if (const ScalarValue* c = constant_of(condition)) {
    if (c->i != 0) return then_body();
    return else_body ? else_body() : std::vector<Reg>{};
  }
  KernelInstruction in{KernelOp::kIf, NoPayload{}, {condition}};
  const auto add_region = [&](const std::function<std::vector<Reg>()>& write) {
    open_scope();
    std::vector<Reg> yields;
    if (write) yields = write();
    scopes_.back().block.yields = std::move(yields);
    in.regions.push_back(close_scope());
  };
  add_region(then_body);
  add_region(else_body);
  const std::vector<Reg>& yields = in.regions[0].yields;
  WEFT_CHECK(yields.size() == in.regions[1].yields.size(), "an if whose branches differ");
  for (const Reg r : yields) in.results.push_back(new_reg(type(r)));
  std::vector<Reg> results = in.results;
  emit(std::move(in));
  return results;
}

}  // namespace weft
