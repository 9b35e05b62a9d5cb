#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel/kernel_function.h"

namespace weft {

/// Writes instructions of one phase: folds constants and identities, and reuses equal pure
/// instructions of the enclosing blocks (so that callers may ask for the same offset twice).
///
/// What it is given must be well typed; a mistake there is a defect of the caller (WEFT_CHECK).
///     (%i + 4) + 8, asked for twice  ->  %7: i64 = apply add %i, %c12, once
class KernelBuilder {
 public:
  explicit KernelBuilder(KernelFunction& kernel) : kernel_(kernel) {}
  KernelBuilder(const KernelBuilder&) = delete;

  /// Opens a phase; returns (begin, end). end_phase() closes it.
  std::pair<Reg, Reg> begin_phase(int64_t work_items);
  void end_phase();

  Reg constant(KernelType type, ScalarValue value);
  Reg int_constant(int64_t value);  ///< i64 scalar
  Reg argument(int32_t index);
  /// Lanes from the operands; scalars broadcast.
  Reg apply(ScalarOp op, std::vector<Reg> operands, DType result_type);
  Reg fma(Reg a, Reg b, Reg c);
  Reg dot(Reg sums, Reg a, Reg b);
  Reg broadcast(Reg scalar, int32_t lanes);  ///< the operand itself when lanes is 1
  Reg ramp(DType dtype, int32_t lanes);
  Reg lane_mask(Reg count, int32_t lanes);
  Reg reduce_lanes(Combiner combiner, Reg vector);
  Reg extract(Reg vector, int32_t lane);
  Reg shuffle(Reg a, Reg b, std::vector<int32_t> lanes_picked);
  Reg load(int32_t buffer, Reg offset, int32_t lanes, Reg mask = kNoReg, ScalarValue other = {});
  Reg gather(int32_t buffer, Reg offsets, Reg mask = kNoReg, ScalarValue other = {});
  void store(int32_t buffer, Reg offset, Reg value, Reg mask = kNoReg, bool non_temporal = false);
  void scatter(int32_t buffer, Reg offsets, Reg value, Reg mask = kNoReg);
  // Of a GPU's kernels.
  Reg position(KernelPosition position);
  Reg warp_xor(Reg scalar, int32_t mask);
  Reg warp_pick(Reg scalar, Reg lane);
  void barrier(KernelBarrier scope);
  /// From the shared buffer of block `rank` of the cluster.
  Reg load_cluster(int32_t shared, Reg rank, Reg offset, int32_t lanes, Reg mask = kNoReg);
  void copy_async(int32_t shared, Reg to, int32_t from_buffer, Reg from, int32_t count,
                  Reg mask = kNoReg);
  void commit_async();
  void wait_async(int32_t groups_left);
  std::vector<Reg> load_matrix(int32_t shared, Reg row_offset, int32_t matrices, bool transposed);
  std::vector<Reg> matrix_multiply(KernelUnit unit, const std::vector<Reg>& a,
                                   const std::vector<Reg>& b, const std::vector<Reg>& c);
  std::vector<Reg> group_multiply(const GroupMultiplyPayload& payload, Reg left, Reg right,
                                  const std::vector<Reg>& c);
  std::vector<Reg> group_wait(std::vector<Reg> sums);
  /// exp(x) where x <= 0, -inf or NaN.
  Reg exp_nonpositive(Reg x);

  /// `body(iv, carries)` returns the next carries. A loop of one constant trip is written without a
  /// loop, one of none not at all.
  std::vector<Reg> for_loop(
      Reg begin, Reg end, int64_t step, std::vector<Reg> carries,
      const std::function<std::vector<Reg>(Reg iv, const std::vector<Reg>&)>& body);
  std::vector<Reg> if_then_else(Reg condition, const std::function<std::vector<Reg>()>& then_body,
                                const std::function<std::vector<Reg>()>& else_body = {});

  /// The factors of a register that is a product of floats; kNoReg twice for others.
  std::pair<Reg, Reg> factors(Reg r) const {
    return fact(r).kind == Fact::Kind::kProduct ? std::pair(fact(r).base, fact(r).other)
                                                : std::pair(kNoReg, kNoReg);
  }

  const KernelType& type(Reg r) const { return kernel_.type(r); }
  const KernelFunction& kernel() const { return kernel_; }

 private:
  /// What is known of a register for folding.
  struct Fact {
    enum class Kind : uint8_t { kNone, kConstant, kBroadcast, kSum, kProduct, kMasked };
    Kind kind = Kind::kNone;
    /// kBroadcast: the scalar; kSum: of `base` and the integer `value.i`; kMasked: 0 where this
    /// mask is not set, as a load leaves it
    Reg base = kNoReg;
    ScalarValue value;
    Reg other = kNoReg;  ///< kProduct: of the floats `base` and `other`
  };
  struct Scope {
    KernelBlock block;
    std::vector<uint64_t> keys;  ///< instructions that go out of sight with it
  };
  struct Known {
    KernelInstruction instruction;
    KernelType type;
    Reg result = kNoReg;
  };

  Reg new_reg(KernelType type);
  Reg emit_pure(KernelInstruction instruction, KernelType type);
  Reg emit_result(KernelInstruction instruction, KernelType type);
  template <typename P>
  Reg emit_load(KernelOp op, P payload, std::vector<Reg> operands, Reg mask, KernelType type);
  std::vector<Reg> emit_results(KernelInstruction instruction, size_t count, KernelType type);
  void emit(KernelInstruction instruction) {
    scopes_.back().block.body.push_back(std::move(instruction));
  }
  void open_scope();
  KernelBlock close_scope();

  const Fact& fact(Reg r) const { return facts_[static_cast<size_t>(r)]; }
  const ScalarValue* constant_of(Reg r) const;
  // What an instruction would make, where none is needed.
  std::optional<Reg> fold_constants(ScalarOp op, const std::vector<Reg>& operands, KernelType type);
  std::optional<Reg> fold_identity(ScalarOp op, const std::vector<Reg>& operands, KernelType type);
  std::optional<Reg> fold_select(const std::vector<Reg>& operands);
  std::optional<Reg> fold_logic(ScalarOp op, Reg a, Reg b);
  std::optional<Reg> fold_sum(ScalarOp op, Reg a, Reg b, KernelType type);
  ScalarValue filler(int32_t buffer, const ScalarValue& other) const;
  const KernelBuffer& buffer(int32_t number) const;

  KernelFunction& kernel_;
  std::vector<Scope> scopes_;
  std::vector<Fact> facts_;  ///< by register
  /// Pure instructions in sight, by hash; equal hashes of different ones are told apart.
  std::unordered_multimap<uint64_t, Known> known_;
};

}  // namespace weft
