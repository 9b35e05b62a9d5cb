#include "kernel/kernel_op.h"

#include <array>

namespace weft {
namespace {

constexpr std::array<std::string_view, 16> kOps = {
    "const",   "argument", "apply", "fma",    "broadcast", "ramp",    "lane_mask", "reduce_lanes",
    "extract", "shuffle",  "load",  "gather", "store",     "scatter", "for",       "if"};
static_assert(kOps.size() == static_cast<size_t>(KernelOp::kIf) + 1);

constexpr std::array<std::string_view, 4> kKinds = {"input", "output", "workspace", "scratch"};

}  // namespace

std::string_view kernel_op_name(KernelOp op) { return kOps[static_cast<size_t>(op)]; }

std::optional<KernelOp> parse_kernel_op(std::string_view name) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i] == name) return static_cast<KernelOp>(i);
  }
  return std::nullopt;
}

std::optional<size_t> mask_operand(const KernelInstruction& in) {
  size_t position = 0;
  if (in.op == KernelOp::kLoad || in.op == KernelOp::kGather) position = 1;
  if (in.op == KernelOp::kStore || in.op == KernelOp::kScatter) position = 2;
  if (position == 0 || in.operands.size() <= position) return std::nullopt;
  return position;
}

std::string_view buffer_kind_name(KernelBuffer::Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] == name) return static_cast<KernelBuffer::Kind>(i);
  }
  return std::nullopt;
}

}  // namespace weft
