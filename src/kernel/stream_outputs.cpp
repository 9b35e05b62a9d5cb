#include "kernel/stream_outputs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

#include "kernel/definitions.h"

namespace weft {

namespace {

class Streamer {
 public:
  explicit Streamer(KernelFunction& kernel) : kernel_(kernel), loaded_(kernel.buffers.size()) {}

  bool run(const std::vector<bool>& streamed) {
    for (KernelPhase& phase : kernel_.phases) {
      for (const Reg r : phase.body.parameters) divisor_[r] = 1;
      collect(phase.body);
    }
    bool changed = false;
    for (KernelInstruction* store : stores_) {
      auto& payload = store->as<StorePayload>();
      const auto number = static_cast<size_t>(payload.buffer);
      const KernelType type = kernel_.type(store->operands[1]);
      if (!streamed[number] || loaded_[number]) continue;
      if (type.lanes * byte_size(type.dtype) != kLineBytes ||
          divisor_of(store->operands[0]) % type.lanes != 0)
        continue;
      payload.non_temporal = true;
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

  void collect(KernelBlock& block) {
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
      if (in.op == KernelOp::kStore && in.operands.size() == 2) stores_.push_back(&in);
      for (KernelBlock& region : in.regions) collect(region);
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
  std::map<Reg, int64_t> divisor_;
  std::vector<bool> loaded_;  ///< by buffer
  std::vector<KernelInstruction*> stores_;
};

}  // namespace

std::vector<bool> streamed_buffers(const KernelFunction& kernel, const Target& target) {
  int64_t all = 0;
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind != KernelBuffer::Kind::kScratch) all += b.elements * byte_size(b.dtype);
  }
  std::vector<bool> streamed;
  for (const KernelBuffer& b : kernel.buffers) {
    streamed.push_back(all >= target.l3_bytes && b.kind == KernelBuffer::Kind::kOutput &&
                       b.elements * byte_size(b.dtype) >= target.l3_bytes / 4);
  }
  return streamed;
}

bool stream_outputs(KernelFunction& kernel, const Target& target) {
  const std::vector<bool> streamed = streamed_buffers(kernel, target);
  return std::find(streamed.begin(), streamed.end(), true) != streamed.end() &&
         Streamer(kernel).run(streamed);
}

}  // namespace weft
