#include "codegen/cuda/index_facts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace weft {
namespace {

/// Beyond these a bound is no bound: products of two stay inside int64.
bool is_bounded(const Interval& r) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  return r.lo >= -kLimit && r.hi <= kLimit;
}

class FactWalk {
 public:
  explicit FactWalk(const KernelFunction& kernel) : kernel_(kernel), facts_(kernel.types.size()) {}

  std::vector<IndexFact> run() {
    for (const KernelPhase& phase : kernel_.phases) {
      const bool one_each = phase.work_items == kernel_.blocks;
      set(phase.body.parameters[0], {{0, one_each ? kernel_.blocks - 1 : phase.work_items}, 1});
      set(phase.body.parameters[1], {{one_each ? 1 : 0, phase.work_items}, 1});
      walk(phase.body);
    }
    return std::move(facts_);
  }

 private:
  const IndexFact& of(Reg r) const { return facts_[static_cast<size_t>(r)]; }
  void set(Reg r, IndexFact fact) {
    if (!is_bounded(fact.range)) fact.range = kUnbounded;
    facts_[static_cast<size_t>(r)] = fact;
  }

  void walk(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) {
      if (in.op == KernelOp::kFor) {
        walk_for(in);
      } else if (in.op == KernelOp::kIf) {
        for (const KernelBlock& region : in.regions) walk(region);
      } else if (in.results.size() == 1 && kernel_.type(in.results[0]).dtype == DType::kI64) {
        set(in.results[0], made(in));
      }
    }
  }

  void walk_for(const KernelInstruction& in) {
    const IndexFact &begin = of(in.operands[0]), &end = of(in.operands[1]);
    IndexFact iv;
    iv.divisor = std::gcd(begin.divisor, of(in.operands[2]).divisor);
    if (is_bounded(begin.range) && is_bounded(end.range)) {
      iv.range = {begin.range.lo, std::max(begin.range.lo, end.range.hi - 1)};
    }
    set(in.regions[0].parameters[0], iv);
    walk(in.regions[0]);
  }

  IndexFact made(const KernelInstruction& in) const {
    switch (in.op) {
      case KernelOp::kConst:
        return of_constant(in.as<ConstPayload>().value.i);
      case KernelOp::kPosition: {
        const int64_t counts[] = {32, kernel_.warps, kernel_.blocks};
        const auto position = static_cast<size_t>(in.as<PositionPayload>().position);
        return {{0, counts[position] - 1}, 1};
      }
      case KernelOp::kRamp:
        return {{0, kernel_.type(in.results[0]).lanes - 1}, 0};
      case KernelOp::kBroadcast:
        return of(in.operands[0]);
      case KernelOp::kApply:
        return applied(in);
      case KernelOp::kWarpXor:
      case KernelOp::kWarpPick:
      case KernelOp::kExtract:
        return {of(in.operands[0]).range, 1};
      default:
        return {};
    }
  }

  static IndexFact of_constant(int64_t value) {
    constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
    return {{value, value}, value == kLowest ? 1 : std::abs(value)};
  }

  IndexFact applied(const KernelInstruction& in) const {
    const ScalarOp op = in.as<ApplyPayload>().op;
    const IndexFact a = of(in.operands[0]);
    if (in.operands.size() == 1) {
      if (op == ScalarOp::kConvert) return converted(in);
      if (op != ScalarOp::kNeg || !is_bounded(a.range)) return {};
      return {{-a.range.hi, -a.range.lo}, a.divisor};
    }
    if (op == ScalarOp::kSelect) {
      const IndexFact &x = of(in.operands[1]), &y = of(in.operands[2]);
      return {{std::min(x.range.lo, y.range.lo), std::max(x.range.hi, y.range.hi)},
              std::gcd(x.divisor, y.divisor)};
    }
    return combined(op, a, of(in.operands[1]));
  }

  /// Of a narrow integer or a truth value.
  IndexFact converted(const KernelInstruction& in) const {
    const DType from = kernel_.type(in.operands[0]).dtype;
    if (from == DType::kBool) return {{0, 1}, 1};
    if (!is_integer(from) || byte_size(from) > 2) return {};
    const int64_t span = int64_t{1} << (8 * byte_size(from));
    return is_signed_integer(from) ? IndexFact{{-span / 2, span / 2 - 1}, 1}
                                   : IndexFact{{0, span - 1}, 1};
  }

  /// The largest power of two in a divisor; zero has all of them.
  static int64_t low_bit(int64_t divisor) {
    constexpr int64_t kAll = int64_t{1} << 30;
    return divisor == 0 ? kAll : divisor & -divisor;
  }

  static IndexFact combined(ScalarOp op, const IndexFact& a, const IndexFact& b) {
    const bool bounded = is_bounded(a.range) && is_bounded(b.range);
    IndexFact out;
    switch (op) {
      case ScalarOp::kAdd:
        out.divisor = std::gcd(a.divisor, b.divisor);
        if (bounded) out.range = {a.range.lo + b.range.lo, a.range.hi + b.range.hi};
        return out;
      case ScalarOp::kSub:
        out.divisor = std::gcd(a.divisor, b.divisor);
        if (bounded) out.range = {a.range.lo - b.range.hi, a.range.hi - b.range.lo};
        return out;
      case ScalarOp::kMul: {
        constexpr int64_t kLargest = int64_t{1} << 30;
        out.divisor = std::min(a.divisor, kLargest) * std::min(b.divisor, kLargest);
        if (a.divisor > kLargest || b.divisor > kLargest) out.divisor = 1;
        if (!bounded) return out;
        const int64_t corners[] = {a.range.lo * b.range.lo, a.range.lo * b.range.hi,
                                   a.range.hi * b.range.lo, a.range.hi * b.range.hi};
        out.range = {*std::min_element(corners, corners + 4),
                     *std::max_element(corners, corners + 4)};
        return out;
      }
      case ScalarOp::kDiv:
        if (!bounded || b.range.lo != b.range.hi || b.range.lo <= 0) return out;
        out.range = {a.range.lo / b.range.lo, a.range.hi / b.range.lo};
        if (a.divisor % b.range.lo == 0) out.divisor = a.divisor / b.range.lo;
        return out;
      case ScalarOp::kRem:
        if (b.range.lo != b.range.hi || b.range.lo <= 0) return out;
        out.divisor = std::gcd(a.divisor, b.range.lo);
        out.range = {a.range.lo < 0 ? -(b.range.lo - 1) : 0, b.range.lo - 1};
        if (is_bounded(a.range) && a.range.lo >= 0) {
          out.range.hi = std::min(out.range.hi, a.range.hi);
        }
        return out;
      case ScalarOp::kAnd:
        // Both sides' low zero bits stay, and no bit appears.
        out.divisor = std::max(low_bit(a.divisor), low_bit(b.divisor));
        if (a.range.lo >= 0 && b.range.lo >= 0) out.range = {0, std::min(a.range.hi, b.range.hi)};
        return out;
      case ScalarOp::kOr:
      case ScalarOp::kXor:
        out.divisor = std::gcd(low_bit(a.divisor), low_bit(b.divisor));
        if (bounded && a.range.lo >= 0 && b.range.lo >= 0) {
          const auto top = static_cast<uint64_t>(std::max(a.range.hi, b.range.hi));
          out.range = {0, static_cast<int64_t>(std::bit_ceil(top + 1)) - 1};
        }
        return out;
      case ScalarOp::kMin:
        out.divisor = std::gcd(a.divisor, b.divisor);
        out.range = {std::min(a.range.lo, b.range.lo), std::min(a.range.hi, b.range.hi)};
        return out;
      case ScalarOp::kMax:
        out.divisor = std::gcd(a.divisor, b.divisor);
        out.range = {std::max(a.range.lo, b.range.lo), std::max(a.range.hi, b.range.hi)};
        return out;
      default:
        return out;
    }
  }

  const KernelFunction& kernel_;
  std::vector<IndexFact> facts_;
};

}  // namespace

bool IndexFact::narrow() const {
  return range.lo >= std::numeric_limits<int32_t>::min() &&
         range.hi <= std::numeric_limits<int32_t>::max();
}

std::vector<IndexFact> derive_index_facts(const KernelFunction& kernel) {
  return FactWalk(kernel).run();
}

}  // namespace weft
