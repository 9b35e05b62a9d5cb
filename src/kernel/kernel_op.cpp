#include "kernel/kernel_op.h"

#include <array>

namespace weft {
namespace {

constexpr std::array<std::string_view, 27> kOps = {
    "const",           "argument",     "apply",      "fma",          "broadcast",  "ramp",
    "lane_mask",       "reduce_lanes", "extract",    "shuffle",      "load",       "gather",
    "store",           "scatter",      "prefetch",   "position",     "warp_xor",   "warp_pick",
    "barrier",         "load_cluster", "copy_async", "commit_async", "wait_async", "load_matrix",
    "matrix_multiply", "for",          "if"};
static_assert(kOps.size() == static_cast<size_t>(KernelOp::kIf) + 1);

constexpr std::array<std::string_view, 5> kKinds = {"input", "output", "workspace", "scratch",
                                                    "shared"};
constexpr std::array<std::string_view, 3> kPositions = {"lane", "warp", "block"};
constexpr std::array<std::string_view, 4> kBarriers = {"warp", "block", "cluster", "grid"};
constexpr std::array<std::string_view, 3> kUnits = {"m16n8k16_f16", "m16n8k16_bf16",
                                                    "m16n8k8_tf32"};

template <typename E, size_t kCount>
std::optional<E> find_name(const std::array<std::string_view, kCount>& names,
                           std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view kernel_op_name(KernelOp op) { return kOps[static_cast<size_t>(op)]; }

std::optional<KernelOp> parse_kernel_op(std::string_view name) {
  return find_name<KernelOp>(kOps, name);
}

std::string_view position_name(KernelPosition p) { return kPositions[static_cast<size_t>(p)]; }
std::optional<KernelPosition> parse_position(std::string_view name) {
  return find_name<KernelPosition>(kPositions, name);
}
std::string_view barrier_name(KernelBarrier b) { return kBarriers[static_cast<size_t>(b)]; }
std::optional<KernelBarrier> parse_barrier(std::string_view name) {
  return find_name<KernelBarrier>(kBarriers, name);
}
std::string_view unit_name(KernelUnit u) { return kUnits[static_cast<size_t>(u)]; }
std::optional<KernelUnit> parse_unit(std::string_view name) {
  return find_name<KernelUnit>(kUnits, name);
}

bool is_warp_operation(KernelOp op) {
  return op == KernelOp::kWarpXor || op == KernelOp::kWarpPick || op == KernelOp::kLoadMatrix ||
         op == KernelOp::kMatrixMultiply;
}

bool is_pure(KernelOp op) {
  switch (op) {
    case KernelOp::kLoad:
    case KernelOp::kGather:
    case KernelOp::kStore:
    case KernelOp::kScatter:
    case KernelOp::kPrefetch:
    case KernelOp::kBarrier:
    case KernelOp::kLoadCluster:
    case KernelOp::kCopyAsync:
    case KernelOp::kCommitAsync:
    case KernelOp::kWaitAsync:
    case KernelOp::kLoadMatrix:
    case KernelOp::kFor:
    case KernelOp::kIf:
      return false;
    default:
      return true;
  }
}

std::optional<size_t> mask_operand(const KernelInstruction& in) {
  size_t position = 0;
  if (in.op == KernelOp::kLoad || in.op == KernelOp::kGather) position = 1;
  if (in.op == KernelOp::kStore || in.op == KernelOp::kScatter || in.op == KernelOp::kCopyAsync ||
      in.op == KernelOp::kLoadCluster) {
    position = 2;
  }
  if (position == 0 || in.operands.size() <= position) return std::nullopt;
  return position;
}

std::string_view buffer_kind_name(KernelBuffer::Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name) {
  return find_name<KernelBuffer::Kind>(kKinds, name);
}

}  // namespace weft
