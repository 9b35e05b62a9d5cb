#include "kernel/uniformity.h"

#include <algorithm>

namespace weft {
namespace {

class UniformityWalk {
 public:
  explicit UniformityWalk(const KernelFunction& kernel)
      : kernel_(kernel), out_(kernel.types.size(), Uniformity::kBlock) {}

  std::vector<Uniformity> run() {
    // Carries feed back: values only become less uniform, so this ends.
    do {
      changed_ = false;
      for (const KernelPhase& phase : kernel_.phases) walk(phase.body, Uniformity::kBlock);
    } while (changed_);
    return std::move(out_);
  }

 private:
  Uniformity& at(Reg r) { return out_[static_cast<size_t>(r)]; }
  void lower(Reg r, Uniformity to) {
    if (at(r) >= to) return;
    at(r) = to;
    changed_ = true;
  }

  void walk(const KernelBlock& block, Uniformity around) {
    for (const KernelInstruction& in : block.body) {
      Uniformity made = around;
      for (const Reg r : in.operands) made = std::max(made, at(r));
      if (in.op == KernelOp::kPosition) {
        const auto position = static_cast<KernelPosition>(in.index);
        if (position == KernelPosition::kLane) made = Uniformity::kThread;
        if (position == KernelPosition::kWarp) made = std::max(made, Uniformity::kWarp);
      }
      if (in.op == KernelOp::kLoadMatrix || in.op == KernelOp::kMatrixMultiply) {
        made = Uniformity::kThread;
      }
      if (in.op == KernelOp::kFor) {
        walk_for(in, around);
      } else if (in.op == KernelOp::kIf) {
        const Uniformity inside = std::max(around, at(in.operands[0]));
        for (const KernelBlock& region : in.regions) {
          walk(region, inside);
          for (size_t i = 0; i < in.results.size(); ++i) {
            lower(in.results[i], std::max(inside, at(region.yields[i])));
          }
        }
      } else {
        for (const Reg r : in.results) lower(r, made);
      }
    }
  }

  void walk_for(const KernelInstruction& in, Uniformity around) {
    const KernelBlock& body = in.regions[0];
    Uniformity trips = around;
    for (size_t i = 0; i < 3; ++i) trips = std::max(trips, at(in.operands[i]));
    lower(body.parameters[0], trips);
    for (size_t i = 0; i < in.results.size(); ++i) {
      const Uniformity carried =
          std::max({trips, at(in.operands[i + 3]), at(body.yields[i]), at(body.parameters[i + 1])});
      lower(body.parameters[i + 1], carried);
      lower(in.results[i], carried);
    }
    walk(body, trips);
  }

  const KernelFunction& kernel_;
  std::vector<Uniformity> out_;
  bool changed_ = false;
};

}  // namespace

std::vector<Uniformity> derive_uniformity(const KernelFunction& kernel) {
  return UniformityWalk(kernel).run();
}

}  // namespace weft
