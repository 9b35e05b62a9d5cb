#include "kernel/stream_outputs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel/definitions.h"

namespace weft {

namespace {

class Streamer {
 public:
  explicit Streamer(KernelFunction& kernel)
      : kernel_(kernel), definitions_(definitions_of(kernel)), loaded_(kernel.buffers.size()) {}

  bool run(const std::vector<bool>& streamed) {
    for (KernelPhase& phase : kernel_.phases) {
      for (const Reg r : phase.body.parameters) divisor_[r] = 1;
      collect(phase.body);
    }
    bool changed = false;
    for (const auto& [number, stores] : lines_) {
      if (!streamed[static_cast<size_t>(number)] || loaded_[static_cast<size_t>(number)]) continue;
      int64_t bytes = 0;
      for (const KernelInstruction* store : stores) bytes += bytes_of(*store);
      if (bytes != kLineBytes) continue;
      for (KernelInstruction* store : stores) store->as<StorePayload>().non_temporal = true;
      changed = true;
    }
    return changed;
  }

 private:
  /// The largest number known to divide a register; 0 for zero.
  int64_t divisor_of(Reg r) const {
    const auto it = divisor_.find(r);
    return it == divisor_.end() ? 1 : it->second;
  }

  /// A register as a number more than another.
  struct Sum {
    Reg base = kNoReg;
    int64_t more = 0;
  };
  Sum sum_in(Reg r) const {
    Sum sum{r, 0};
    for (auto it = definitions_.find(r); it != definitions_.end();
         it = definitions_.find(sum.base)) {
      const KernelInstruction& in = it->second;
      if (in.op != KernelOp::kApply || in.as<ApplyPayload>().op != ScalarOp::kAdd) break;
      const auto left = number_in(definitions_, in.operands[0]);
      const auto right = number_in(definitions_, in.operands[1]);
      if (!left && !right) break;
      sum = {in.operands[right ? 0 : 1], sum.more + (right ? *right : *left)};
    }
    return sum;
  }

  int64_t bytes_of(const KernelInstruction& store) const {
    const KernelType type = kernel_.type(store.operands[1]);
    return type.lanes * byte_size(type.dtype);
  }

  /// Stores of a block by the cache line that they write to: the elements of one that are written
  /// there, each once, where a line begins at a multiple of its length.
  void collect(KernelBlock& block) {
    std::map<std::tuple<int32_t, Reg, int64_t>, std::map<int64_t, KernelInstruction*>> lines;
    for (KernelInstruction& in : block.body) {
      if (in.op == KernelOp::kConst) {
        const ScalarValue& value = in.as<ConstPayload>().value;
        if (!is_float(value.type)) divisor_[in.results[0]] = std::abs(value.i);
      }
      if (in.op == KernelOp::kApply) divisor_[in.results[0]] = divisor_of_result(in);
      if (in.op == KernelOp::kLoad || in.op == KernelOp::kGather)
        loaded_[static_cast<size_t>(in.as<LoadPayload>().buffer)] = true;
      if (in.op == KernelOp::kFor) {
        divisor_[in.regions[0].parameters[0]] =
            std::gcd(divisor_of(in.operands[0]), divisor_of(in.operands[2]));
      }
      if (in.op == KernelOp::kStore && in.operands.size() == 2) {
        const int64_t bytes = bytes_of(in), lanes = kernel_.type(in.operands[1]).lanes;
        const auto [base, more] = sum_in(in.operands[0]);
        const int64_t line = kLineBytes * lanes / bytes;  // elements
        if (bytes <= kLineBytes && divisor_of(base) % line == 0 && more >= 0 && more % lanes == 0)
          lines[{in.as<StorePayload>().buffer, base, more / line}].emplace(more, &in);
      }
      for (KernelBlock& region : in.regions) collect(region);
    }
    for (const auto& [where, stores] : lines) {
      auto& line = lines_.emplace_back(std::get<0>(where), std::vector<KernelInstruction*>());
      for (const auto& [more, store] : stores) line.second.push_back(store);
    }
  }

  int64_t divisor_of_result(const KernelInstruction& in) const {
    const int64_t a = divisor_of(in.operands[0]);
    switch (in.as<ApplyPayload>().op) {
      case ScalarOp::kMul: {
        int64_t product = 1;
        return __builtin_mul_overflow(a, divisor_of(in.operands[1]), &product) ? 1 : product;
      }
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
      case ScalarOp::kMin:
      case ScalarOp::kMax:
        return std::gcd(a, divisor_of(in.operands[1]));
      default:
        return 1;
    }
  }

  KernelFunction& kernel_;
  const Definitions definitions_;
  std::map<Reg, int64_t> divisor_;
  std::vector<bool> loaded_;                                                ///< by buffer
  std::vector<std::pair<int32_t, std::vector<KernelInstruction*>>> lines_;  ///< with their buffer
};

}  // namespace

bool is_streamed(int64_t output, int64_t all, const Target& target) {
  return all >= target.l3_bytes && output >= target.l3_bytes / 4;
}

std::vector<bool> streamed_buffers(const KernelFunction& kernel, const Target& target) {
  int64_t all = 0;
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind != KernelBuffer::Kind::kScratch) all += b.elements * byte_size(b.dtype);
  }
  std::vector<bool> streamed;
  for (const KernelBuffer& b : kernel.buffers) {
    streamed.push_back(b.kind == KernelBuffer::Kind::kOutput &&
                       is_streamed(b.elements * byte_size(b.dtype), all, target));
  }
  return streamed;
}

bool stream_outputs(KernelFunction& kernel, const Target& target) {
  const std::vector<bool> streamed = streamed_buffers(kernel, target);
  return std::find(streamed.begin(), streamed.end(), true) != streamed.end() &&
         Streamer(kernel).run(streamed);
}

}  // namespace weft
