#include "kernel/divide_by_invariants.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "kernel/clone_block.h"

namespace weft {

namespace {

/// Between them 1/b, a/b and the products' remainders keep all their bits.
constexpr double kSmallestDivisor = 0x1p-100, kLargestDivisor = 0x1p100;

class Divider {
 public:
  Divider(KernelFunction& kernel, bool fast_math) : kernel_(kernel), fast_math_(fast_math) {}

  int run() {
    const bool divides = std::ranges::any_of(
        kernel_.phases, [&](const KernelPhase& phase) { return has_division(phase.body); });
    if (!divides) return 0;
    for (KernelPhase& phase : kernel_.phases) find_divisors(phase.body);
    for (KernelPhase& phase : kernel_.phases) walk(phase.body);
    return replaced_;
  }

 private:
  /// What vectors that are one scalar in every lane hold.
  struct Divisor {
    Reg scalar = kNoReg;
    std::optional<double> constant;
  };
  /// A divisor's float32 registers before the loop: b, 1/b and -1/b, as vectors by lane count.
  struct Vectors {
    Reg divisor = kNoReg, reciprocal = kNoReg, negated = kNoReg;
  };
  struct Reciprocal {
    Reg divisor = kNoReg, scalar = kNoReg;
    std::map<int32_t, Vectors> vectors;
  };

  void find_divisors(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) {
      if (in.op == KernelOp::kBroadcast) divisors_[in.results[0]] = {in.operands[0], {}};
      if (in.op == KernelOp::kConst) {
        divisors_[in.results[0]] = {in.results[0], in.as<ConstPayload>().value.f};
      }
      for (const KernelBlock& region : in.regions) find_divisors(region);
    }
  }

  void walk(KernelBlock& block) {
    std::vector<KernelInstruction> body;
    for (KernelInstruction& in : block.body) {
      for (KernelBlock& region : in.regions) walk(region);
      if (in.op == KernelOp::kFor) {
        rewrite_loop(std::move(in), body);
      } else {
        body.push_back(std::move(in));
      }
    }
    block.body = std::move(body);
  }

  static void collect_definitions(const KernelBlock& block, std::set<Reg>& out) {
    out.insert(block.parameters.begin(), block.parameters.end());
    for (const KernelInstruction& in : block.body) {
      out.insert(in.results.begin(), in.results.end());
      for (const KernelBlock& region : in.regions) collect_definitions(region, out);
    }
  }

  bool is_division(const KernelInstruction& in) const {
    if (in.op != KernelOp::kApply || in.as<ApplyPayload>().op != ScalarOp::kDiv) return false;
    const KernelType type = kernel_.type(in.results[0]);
    return is_float(type.dtype) && type.dtype != DType::kF64 && type.lanes > 1;
  }

  bool has_division(const KernelBlock& block) const {
    return std::ranges::any_of(block.body, [&](const KernelInstruction& in) {
      return is_division(in) || std::ranges::any_of(in.regions, [&](const KernelBlock& region) {
               return has_division(region);
             });
    });
  }

  /// The divisor of a division whose value the loop does not change; null for others. What is a
  /// power of two is a product already.
  const Divisor* invariant_divisor(const KernelInstruction& in, const std::set<Reg>& inside) const {
    if (!is_division(in)) return nullptr;
    const auto it = divisors_.find(in.operands[1]);
    if (it == divisors_.end()) return nullptr;
    const Divisor& d = it->second;
    if (d.constant) {
      int exponent = 0;
      const bool fits = *d.constant >= kSmallestDivisor && *d.constant <= kLargestDivisor;
      return fits && std::frexp(*d.constant, &exponent) != 0.5 ? &d : nullptr;
    }
    return inside.count(d.scalar) == 0 ? &d : nullptr;
  }

  void rewrite_loop(KernelInstruction loop, std::vector<KernelInstruction>& out) {
    const auto divides = [&](const KernelInstruction& in) { return is_division(in); };
    if (std::ranges::none_of(loop.regions[0].body, divides)) {
      out.push_back(std::move(loop));
      return;
    }
    std::set<Reg> inside;
    collect_definitions(loop.regions[0], inside);
    std::map<Reg, Reciprocal> reciprocals;  // by scalar
    std::vector<Reg> unknown;               // divisors to be tested
    for (const KernelInstruction& in : loop.regions[0].body) {
      const Divisor* d = invariant_divisor(in, inside);
      if (d == nullptr) continue;
      const bool first = reciprocals.count(d->scalar) == 0;
      if (first && !d->constant) unknown.push_back(d->scalar);
      prepare(*d, kernel_.type(in.results[0]).lanes, reciprocals[d->scalar], out);
    }
    if (reciprocals.empty()) {
      out.push_back(std::move(loop));
      return;
    }
    if (unknown.empty() || fast_math_) {
      multiply(loop.regions[0], inside, reciprocals);
      out.push_back(std::move(loop));
      return;
    }
    Reg fits = kNoReg;
    for (const Reg b : unknown) {
      const Reg one = in_range(reciprocals.at(b).divisor, out);
      fits = fits == kNoReg ? one
                            : append_apply(kernel_, out, ScalarOp::kAnd, {fits, one}, DType::kBool);
    }
    KernelInstruction choice{KernelOp::kIf, NoPayload{}, {fits}};
    choice.results = loop.results;
    choice.regions.resize(2);
    std::map<Reg, Reg> renamed;
    KernelInstruction exact = clone_instruction(kernel_, loop, renamed);
    multiply(loop.regions[0], inside, reciprocals);
    loop.results.clear();
    for (const Reg r : choice.results)
      loop.results.push_back(new_register(kernel_, kernel_.type(r)));
    choice.regions[0].yields = loop.results;
    choice.regions[1].yields = exact.results;
    choice.regions[0].body.push_back(std::move(loop));
    choice.regions[1].body.push_back(std::move(exact));
    out.push_back(std::move(choice));
  }

  Reg in_range(Reg b, std::vector<KernelInstruction>& out) {
    const Reg low =
        append_apply(kernel_, out, ScalarOp::kGe, {b, number(kSmallestDivisor, out)}, DType::kBool);
    const Reg high =
        append_apply(kernel_, out, ScalarOp::kLe, {b, number(kLargestDivisor, out)}, DType::kBool);
    return append_apply(kernel_, out, ScalarOp::kAnd, {low, high}, DType::kBool);
  }

  Reg number(double value, std::vector<KernelInstruction>& out) {
    return append_constant(kernel_, out, {DType::kF32, 1}, float_value(DType::kF32, value));
  }

  Reg widened(Reg r, std::vector<KernelInstruction>& out) {
    return kernel_.type(r).dtype == DType::kF32
               ? r
               : append_apply(kernel_, out, ScalarOp::kConvert, {r}, DType::kF32);
  }

  void prepare(const Divisor& d, int32_t lanes, Reciprocal& r,
               std::vector<KernelInstruction>& out) {
    if (r.vectors.count(lanes) != 0) return;
    if (r.scalar == kNoReg) {
      r.divisor = d.constant ? number(*d.constant, out) : widened(d.scalar, out);
      r.scalar =
          append_apply(kernel_, out, ScalarOp::kDiv, {number(1, out), r.divisor}, DType::kF32);
    }
    const auto spread = [&](Reg scalar) {
      return append(kernel_, out, {KernelOp::kBroadcast, NoPayload{}, {scalar}},
                    {DType::kF32, lanes});
    };
    Vectors v{spread(r.divisor), spread(r.scalar), kNoReg};
    v.negated = append_apply(kernel_, out, ScalarOp::kNeg, {v.reciprocal}, DType::kF32);
    r.vectors[lanes] = v;
  }

  void multiply(KernelBlock& block, const std::set<Reg>& inside,
                const std::map<Reg, Reciprocal>& reciprocals) {
    std::vector<KernelInstruction> body;
    for (KernelInstruction& in : block.body) {
      const Divisor* d = invariant_divisor(in, inside);
      if (d == nullptr) {
        body.push_back(std::move(in));
        continue;
      }
      const KernelType type{DType::kF32, kernel_.type(in.results[0]).lanes};
      const Vectors& v = reciprocals.at(d->scalar).vectors.at(type.lanes);
      const Reg a = widened(in.operands[0], body);
      const auto apply = [&](ScalarOp op, std::vector<Reg> operands, DType result) {
        return append_apply(kernel_, body, op, std::move(operands), result);
      };
      const auto fused = [&](Reg x, Reg y, Reg z) {
        return append(kernel_, body, {KernelOp::kFma, NoPayload{}, {x, y, z}}, type);
      };
      ++replaced_;
      const Reg q = apply(ScalarOp::kMul, {a, v.reciprocal}, type.dtype);
      if (fast_math_) {
        finish(std::move(in), q, body);
        continue;
      }
      const Reg minus_a = apply(ScalarOp::kNeg, {a}, type.dtype);
      const Reg c = fused(fused(q, v.divisor, minus_a), v.negated, q);
      const Reg invalid = apply(ScalarOp::kIsNan, {c}, DType::kBool);
      finish(std::move(in), apply(ScalarOp::kSelect, {invalid, q, c}, type.dtype), body);
    }
    block.body = std::move(body);
  }

  /// `quotient` in the place of a division.
  void finish(KernelInstruction division, Reg quotient, std::vector<KernelInstruction>& body) {
    KernelInstruction& in = body.emplace_back(std::move(division));
    in.payload = ApplyPayload{ScalarOp::kConvert};
    in.operands = {quotient};
  }

  KernelFunction& kernel_;
  std::map<Reg, Divisor> divisors_;  ///< by vector register
  bool fast_math_;
  int replaced_ = 0;
};

}  // namespace

int divide_by_invariants(KernelFunction& kernel, bool fast_math) {
  return Divider(kernel, fast_math).run();
}

}  // namespace weft
