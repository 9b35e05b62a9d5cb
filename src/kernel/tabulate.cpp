#include "kernel/tabulate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "graph/scalar_math.h"

namespace weft {

namespace {

/// A register whose lanes are a function of the low four bits of those of `places`.
struct Tabulated {
  Reg places = kNoReg;
  std::array<ScalarValue, kLookUpEntries> entries;
  int operations = 0;  ///< of the chain from `places` on
};

bool is_of_32_bits(DType type) { return type == DType::kF32 || type == DType::kI32; }

class Tabulator {
 public:
  Tabulator(KernelFunction& kernel, std::map<int32_t, int> shortest)
      : kernel_(kernel), shortest_(std::move(shortest)) {}

  int run() {
    for (KernelPhase& phase : kernel_.phases) find(phase.body);
    for (KernelPhase& phase : kernel_.phases) find_needed(phase.body);
    const bool any = std::ranges::any_of(tables_, [&](const auto& of) {
      return needed_.contains(of.first) && is_replaced(of.first);
    });
    if (!any) return 0;
    for (KernelPhase& phase : kernel_.phases) replace(phase.body);
    return replaced_;
  }

 private:
  void find(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) {
      if (in.op == KernelOp::kConst) constants_[in.results[0]] = in.as<ConstPayload>().value;
      if (in.op == KernelOp::kApply) {
        if (std::optional<Tabulated> made = tabulated(in)) tables_[in.results[0]] = *made;
      }
      for (const KernelBlock& region : in.regions) find(region);
    }
  }

  std::optional<Tabulated> tabulated(const KernelInstruction& in) const {
    const KernelType type = kernel_.type(in.results[0]);
    if (!shortest_.contains(type.lanes) || !is_of_32_bits(type.dtype)) return std::nullopt;
    if (std::optional<Tabulated> masked = masked_bits(in)) return masked;
    Tabulated out;
    for (const Reg r : in.operands) {
      if (constants_.contains(r)) continue;
      const auto table = tables_.find(r);
      if (table == tables_.end()) return std::nullopt;
      if (out.places != kNoReg && out.places != table->second.places) return std::nullopt;
      out.places = table->second.places;
      out.operations += table->second.operations;
    }
    if (out.places == kNoReg) return std::nullopt;
    ++out.operations;
    for (size_t i = 0; i < kLookUpEntries; ++i) {
      std::vector<ScalarValue> values;
      for (const Reg r : in.operands) {
        const auto constant = constants_.find(r);
        values.push_back(constant != constants_.end() ? constant->second
                                                      : tables_.at(r).entries[i]);
      }
      out.entries[i] = evaluate_scalar(in.as<ApplyPayload>().op, values, type.dtype);
      if (is_float(type.dtype) && std::isnan(out.entries[i].f)) return std::nullopt;
    }
    return out;
  }

  /// Bits below the fourth, where the chain begins.
  std::optional<Tabulated> masked_bits(const KernelInstruction& in) const {
    if (in.as<ApplyPayload>().op != ScalarOp::kAnd) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto mask = constants_.find(in.operands[side]);
      const Reg places = in.operands[1 - side];
      if (mask == constants_.end() || kernel_.type(places).dtype != DType::kI32) continue;
      const int64_t bits = mask->second.i;
      if (bits < 0 || bits >= static_cast<int64_t>(kLookUpEntries)) continue;
      Tabulated out{places, {}, 1};
      for (size_t i = 0; i < kLookUpEntries; ++i)
        out.entries[i] = int_value(DType::kI32, static_cast<int64_t>(i) & bits);
      return out;
    }
    return std::nullopt;
  }

  /// Registers that something else than a replaced chain reads: users before what they use.
  void find_needed(const KernelBlock& block) {
    needed_.insert(block.yields.begin(), block.yields.end());
    for (auto in = block.body.rbegin(); in != block.body.rend(); ++in) {
      for (const KernelBlock& region : in->regions) find_needed(region);
      const bool in_chain = !in->results.empty() && tables_.contains(in->results[0]);
      if (!in_chain || !is_replaced(in->results[0]))
        needed_.insert(in->operands.begin(), in->operands.end());
    }
  }

  /// Whether it goes, for a look-up or altogether.
  bool is_replaced(Reg r) const {
    const Tabulated& table = tables_.at(r);
    return table.operations >= shortest_.at(kernel_.type(r).lanes) || !needed_.contains(r);
  }

  void replace(KernelBlock& block) {
    std::vector<KernelInstruction> body;
    for (KernelInstruction& in : block.body) {
      for (KernelBlock& region : in.regions) replace(region);
      const auto table = in.results.empty() ? tables_.end() : tables_.find(in.results[0]);
      if (table == tables_.end() || !is_replaced(in.results[0])) {
        body.push_back(std::move(in));
        continue;
      }
      if (!needed_.contains(in.results[0])) continue;
      LookUpPayload payload;
      for (const ScalarValue& entry : table->second.entries) {
        payload.entries.push_back(is_float(entry.type)
                                      ? std::bit_cast<int32_t>(static_cast<float>(entry.f))
                                      : static_cast<int32_t>(entry.i));
      }
      KernelInstruction& look_up = body.emplace_back(std::move(in));
      look_up.op = KernelOp::kLookUp;
      look_up.payload = std::move(payload);
      look_up.operands = {table->second.places};
      ++replaced_;
    }
    block.body = std::move(body);
  }

  KernelFunction& kernel_;
  std::map<int32_t, int> shortest_;  ///< chain that is worth it, by lanes
  std::map<Reg, ScalarValue> constants_;
  std::map<Reg, Tabulated> tables_;
  std::set<Reg> needed_;
  int replaced_ = 0;
};

}  // namespace

int tabulate(KernelFunction& kernel, const Target& target) {
  const auto has = [&](const char* feature) {
    return std::ranges::find(target.features, feature) != target.features.end();
  };
  constexpr int kOneInstruction = 2, kFourInstructions = 5;
  std::map<int32_t, int> shortest;
  for (const int32_t lanes : {8, 16}) {
    if (lanes > target.lanes(4)) continue;
    if (has("avx512vl")) {
      shortest[lanes] = kOneInstruction;
    } else if (has("avx2")) {
      shortest[lanes] = kFourInstructions;
    }
  }
  return shortest.empty() ? 0 : Tabulator(kernel, std::move(shortest)).run();
}

}  // namespace weft
