#include "plan/kernel_times.h"

#include <algorithm>
#include <limits>
#include <set>

namespace weft {

namespace {

int64_t moved(const Estimate& e) { return e.bytes_read + e.bytes_written; }

/// The axis whose elements lie beside each other.
size_t innermost_axis(const Tensor& tensor) {
  if (tensor.layout.is_row_major()) return tensor.type.shape.size() - 1;
  return static_cast<size_t>(tensor.layout.axes.back().axis);
}

}  // namespace

KernelTimes::Saving KernelTimes::saved(std::span<const Group> parts, const Group& merged) {
  // Results that are reduced ask for a tile that may be slower than the one without, and what is no
  // call of a library any more for a kernel that may be slower than the library's.
  const bool by_products = target_.is_gpu() && (reduces_behind_product(program_, merged) ||
                                                is_choice_of_library(parts, merged));
  const bool across = !target_.is_gpu() && stores_across(merged);
  const auto taken = [&](const Group& group) {
    Estimate out = estimate(group);
    if (across) out.microseconds = latency(group);
    if (!by_products) return out;
    if (const auto us = of_product(group)) out.microseconds = *us;
    return out;
  };
  Saving saving;
  for (const Group& part : parts) {
    const Estimate apart = taken(part);
    saving.microseconds += apart.microseconds;
    saving.bytes += moved(apart);
  }
  const Estimate together = taken(merged);
  saving.microseconds -= together.microseconds;
  saving.bytes -= moved(together);
  return saving;
}

KernelTimes::Saving KernelTimes::most_saved(std::span<const Group> parts, const Group& merged) {
  constexpr double kTraffic = 2, kUsual = 1.5;  // over what the cost model says
  const Estimate together = estimate(merged);
  Saving out{.microseconds = std::numeric_limits<double>::infinity(), .bytes = -moved(together)};
  for (const Group& part : parts) out.bytes += moved(estimate(part));
  if (target_.is_gpu()) return out;
  double apart = 0;
  for (const Group& part : parts) apart += latency(part);
  const double launches = static_cast<double>(parts.size() - 1) * target_.start_us();
  out.microseconds = std::max(kTraffic * (launches + roofline_us(out.bytes, 0, target_)),
                              apart - kUsual * together.microseconds);
  return out;
}

double KernelTimes::latency(const Group& group) {
  if (!known_.can_be_leaf(group)) {
    const Result<double> block = known_.block_us(group);
    return block.ok() ? *block : estimate(group).microseconds;
  }
  // Some products have no tiles that the model knows: these, too, take what their programs do.
  std::optional<double> us;
  if (target_.is_gpu() && holds_product(group)) us = of_product(group);
  if (!us) us = known_.built_us(group);
  return us ? *us : estimate(group).microseconds;
}

bool KernelTimes::holds_product(const Group& group) const {
  return std::ranges::any_of(
      group.exprs, [&](ExprId e) { return program_.exprs[static_cast<size_t>(e)].is_contraction; });
}

/// Whether a member's values lie in another order than a member's that it reads: what lanes hold
/// beside each other may then be stored far apart.
bool KernelTimes::stores_across(const Group& group) const {
  const auto expr = [&](ExprId e) -> const TensorExpr& {
    return program_.exprs[static_cast<size_t>(e)];
  };
  std::set<TensorId> made;
  for (const ExprId e : group.exprs) made.insert(expr(e).output);
  bool across = false;
  for (const ExprId e : group.exprs) {
    const Tensor& stored = program_.tensors[static_cast<size_t>(expr(e).output)];
    if (stored.type.shape.empty() || !expr(e).reduce_extents.empty()) continue;
    const auto lanes = static_cast<int>(innermost_axis(stored));
    visit(expr(e).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || s.indices.empty() || !made.contains(s.symbol)) return;
      const size_t beside = innermost_axis(program_.tensors[static_cast<size_t>(s.symbol)]);
      for (size_t d = 0; d < s.indices.size(); ++d)
        across |= d != beside && uses_var(s.indices[d], lanes);
    });
  }
  return across;
}

/// As a library call; nothing where it is none.
std::optional<double> KernelTimes::of_library(const Group& group) {
  if (target_.libraries.empty() || !holds_product(group)) return std::nullopt;
  return known_.library_us(group);
}

/// Whether one of the groups is a library call, and of all that hold a product a model says what
/// they take.
bool KernelTimes::is_choice_of_library(std::span<const Group> parts, const Group& merged) {
  if (target_.libraries.empty()) return false;
  bool called = false;
  const auto is_priced = [&](const Group& group) {
    if (holds_product(group) && !of_product(group)) return false;
    called |= of_library(group).has_value();
    return true;
  };
  return std::ranges::all_of(parts, is_priced) && is_priced(merged) && called;
}

/// As a library call, or through tiles of its own. The choice of a tile tries thousands, so each
/// group's is made once.
std::optional<double> KernelTimes::of_product(const Group& group) {
  if (const auto us = of_library(group)) return us;
  if (!holds_product(group)) return std::nullopt;
  return known_.product_us(group);
}

}  // namespace weft
