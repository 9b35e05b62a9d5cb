#include "kernel/uniformity.h"

#include <algorithm>
#include <optional>

#include "kernel/kernel_op.h"

namespace weft {
namespace {

class UniformityWalk {
 public:
  explicit UniformityWalk(const KernelFunction& kernel)
      : kernel_(kernel),
        out_(kernel.types.size(), most()),
        constants_(kernel.types.size()),
        is_block_(kernel.types.size(), false) {}

  std::vector<Uniformity> run() {
    // Carries feed back: values only become less uniform, so this ends.
    do {
      changed_ = false;
      for (const KernelPhase& phase : kernel_.phases) {
        const Reg begin = phase.body.parameters[0];
        is_block_[static_cast<size_t>(begin)] = phase.work_items == kernel_.blocks;
        for (const Reg r : phase.body.parameters) lower(r, Uniformity::kBlock);
        walk(phase.body, most());
      }
    } while (changed_);
    return std::move(out_);
  }

 private:
  Uniformity most() const {
    return kernel_.cluster > 1 ? Uniformity::kCluster : Uniformity::kBlock;
  }
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
        const KernelPosition position = in.as<PositionPayload>().position;
        if (position == KernelPosition::kLane) made = Uniformity::kThread;
        if (position == KernelPosition::kWarp) made = std::max(made, Uniformity::kWarp);
        if (position == KernelPosition::kBlock) {
          made = std::max(made, Uniformity::kBlock);
          is_block_[static_cast<size_t>(in.results[0])] = true;
        }
      }
      if (in.op == KernelOp::kConst) {
        constants_[static_cast<size_t>(in.results[0])] = in.as<ConstPayload>().value.i;
      }
      if (in.op == KernelOp::kApply && of_cluster(in)) made = around;
      const auto buffer = buffer_of(in);
      if (buffer && in.op != KernelOp::kLoadCluster && is_own(*buffer)) {
        made = std::max(made, Uniformity::kBlock);
      }
      if (in.op == KernelOp::kLoadMatrix || in.op == KernelOp::kMatrixMultiply ||
          in.op == KernelOp::kGroupMultiply || in.op == KernelOp::kGroupWait) {
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

  /// Memory that every block has for itself.
  bool is_own(int32_t buffer) const {
    return kernel_.buffers[static_cast<size_t>(buffer)].kind == KernelBuffer::Kind::kShared;
  }

  /// Whether it makes the same of the numbers of a cluster's blocks: a quotient by a multiple of
  /// how many they are. What is left of that division tells them apart as the number itself does.
  bool of_cluster(const KernelInstruction& in) {
    if (kernel_.cluster == 1 || in.operands.size() != 2) return false;
    const auto divisor = constants_[static_cast<size_t>(in.operands[1])];
    if (!is_block_[static_cast<size_t>(in.operands[0])] || !divisor ||
        *divisor % kernel_.cluster != 0) {
      return false;
    }
    const ScalarOp op = in.as<ApplyPayload>().op;
    if (op == ScalarOp::kRem) is_block_[static_cast<size_t>(in.results[0])] = true;
    return op == ScalarOp::kDiv;
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
  std::vector<std::optional<int64_t>> constants_;  ///< by register
  std::vector<bool> is_block_;  ///< by register: the block's number, or as far within its cluster
  bool changed_ = false;
};

}  // namespace

std::vector<Uniformity> derive_uniformity(const KernelFunction& kernel) {
  return UniformityWalk(kernel).run();
}

}  // namespace weft
