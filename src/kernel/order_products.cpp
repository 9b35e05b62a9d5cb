#include "kernel/order_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace weft {

namespace {

/// Whether the instruction may move among its like: it neither writes nor waits nor branches.
bool is_movable(const KernelInstruction& in) {
  switch (in.op) {
    case KernelOp::kConst:
    case KernelOp::kArgument:
    case KernelOp::kApply:
    case KernelOp::kFma:
    case KernelOp::kBroadcast:
    case KernelOp::kRamp:
    case KernelOp::kLaneMask:
    case KernelOp::kExtract:
    case KernelOp::kShuffle:
    case KernelOp::kLoad:
    case KernelOp::kGather:
      return true;
    default:
      return false;
  }
}

/// What memory holds, and in which lanes: equal for loads that give the same.
struct Loaded {
  int32_t buffer = 0;
  KernelType type;  ///< of the factor, behind a broadcast or a conversion
  std::vector<Reg> place;

  auto operator<=>(const Loaded& o) const {
    return std::tuple(buffer, type.dtype, type.lanes, place) <=>
           std::tuple(o.buffer, o.type.dtype, o.type.lanes, o.place);
  }
  bool operator==(const Loaded& o) const = default;
};

/// A product of two loaded factors that is added to a sum.
struct Product {
  size_t at = 0;  ///< in the run
  int factors[2] = {0, 0};
};

/// Instructions of a block between two that may not move.
class Run {
 public:
  Run(const KernelFunction& kernel, std::span<KernelInstruction> body)
      : kernel_(kernel), body_(body) {
    for (size_t i = 0; i < body.size(); ++i) {
      for (const Reg r : body[i].results) defined_[r] = i;
    }
    for (size_t i = 0; i < body.size(); ++i) add_product(i);
  }

  /// The order in which fewer values wait, as positions in the body; nothing where the present one
  /// fits into so many registers or is as good.
  std::optional<std::vector<size_t>> better_order(int registers) const {
    if (products_.size() < 2 || factors_.size() == 2 * products_.size()) return std::nullopt;
    std::vector<size_t> present(products_.size());
    for (size_t p = 0; p < present.size(); ++p) present[p] = p;
    int least = pressure(present);
    if (least <= registers) return std::nullopt;
    std::optional<std::vector<size_t>> best;
    for (const int factor : {0, 1}) {
      std::vector<size_t> order = present;
      std::ranges::sort(order, {},
                        [&](size_t p) { return std::pair(products_[p].factors[factor], p); });
      if (!keeps_sums(order)) continue;
      const int waiting = pressure(order);
      if (waiting >= least) continue;
      least = waiting;
      best = std::move(order);
    }
    if (!best) return std::nullopt;
    return with_what_they_need(*best);
  }

 private:
  void add_product(size_t at) {
    const KernelInstruction& in = body_[at];
    if (in.op != KernelOp::kFma || kernel_.type(in.results[0]).lanes == 1) return;
    std::optional<Loaded> loaded[2] = {loaded_in(in.operands[0]), loaded_in(in.operands[1])};
    if (!loaded[0] || !loaded[1]) return;
    Product product{at};
    for (int f = 0; f < 2; ++f) {
      product.factors[f] =
          factors_.try_emplace(std::move(*loaded[f]), static_cast<int>(factors_.size()))
              .first->second;
    }
    product_at_[at] = products_.size();
    products_.push_back(product);
  }

  std::optional<Loaded> loaded_in(Reg r) const {
    const KernelType type = kernel_.type(r);
    for (;;) {
      const auto it = defined_.find(r);
      if (it == defined_.end()) return std::nullopt;
      const KernelInstruction& in = body_[it->second];
      if (in.op == KernelOp::kLoad) return Loaded{in.as<LoadPayload>().buffer, type, in.operands};
      const bool is_converted =
          in.op == KernelOp::kApply && in.as<ApplyPayload>().op == ScalarOp::kConvert;
      if (in.op != KernelOp::kBroadcast && !is_converted) return std::nullopt;
      r = in.operands[0];
    }
  }

  /// The product that makes the sum to which this one is added.
  std::optional<size_t> before(const Product& product) const {
    const auto it = defined_.find(body_[product.at].operands[2]);
    if (it == defined_.end()) return std::nullopt;
    const auto made = product_at_.find(it->second);
    if (made == product_at_.end()) return std::nullopt;
    return made->second;
  }

  bool keeps_sums(const std::vector<size_t>& order) const {
    std::vector<bool> is_done(products_.size());
    for (const size_t p : order) {
      const std::optional<size_t> earlier = before(products_[p]);
      if (earlier && !is_done[*earlier]) return false;
      is_done[p] = true;
    }
    return true;
  }

  /// Sums, and the factors that wait at once: from the first product that needs one to the last.
  int pressure(const std::vector<size_t>& order) const {
    int sums = 0;
    std::vector<std::pair<size_t, size_t>> lives(factors_.size(), {order.size(), 0});
    for (size_t i = 0; i < order.size(); ++i) {
      const Product& product = products_[order[i]];
      if (!before(product)) ++sums;
      for (const int f : product.factors) {
        auto& [first, last] = lives[static_cast<size_t>(f)];
        first = std::min(first, i);
        last = i;
      }
    }
    std::vector<int> begun(order.size() + 1);
    for (const auto& [first, last] : lives) {
      ++begun[first];
      --begun[last + 1];
    }
    int waiting = 0, most = 0;
    for (const int change : begun) most = std::max(most, waiting += change);
    return sums + most;
  }

  /// The whole run: each product behind what it needs, then what is left.
  std::vector<size_t> with_what_they_need(const std::vector<size_t>& order) const {
    std::vector<size_t> out;
    std::vector<bool> is_placed(body_.size());
    const auto place = [&](const auto& self, size_t at) -> void {
      if (is_placed[at]) return;
      is_placed[at] = true;
      for (const Reg r : body_[at].operands) {
        const auto it = defined_.find(r);
        if (it != defined_.end()) self(self, it->second);
      }
      out.push_back(at);
    };
    for (const size_t p : order) place(place, products_[p].at);
    for (size_t at = 0; at < body_.size(); ++at) place(place, at);
    return out;
  }

  const KernelFunction& kernel_;
  std::span<KernelInstruction> body_;
  std::map<Reg, size_t> defined_;
  std::map<Loaded, int> factors_;  ///< numbered by first need
  std::vector<Product> products_;
  std::map<size_t, size_t> product_at_;
};

bool order(const KernelFunction& kernel, KernelBlock& block, int registers) {
  bool changed = false;
  for (size_t begin = 0; begin < block.body.size();) {
    size_t end = begin;
    while (end < block.body.size() && is_movable(block.body[end])) ++end;
    const std::span<KernelInstruction> body(&block.body[begin], end - begin);
    if (const auto better = Run(kernel, body).better_order(registers)) {
      std::vector<KernelInstruction> moved;
      for (const size_t at : *better) moved.push_back(std::move(body[at]));
      std::ranges::move(moved, body.begin());
      changed = true;
    }
    if (end < block.body.size()) {
      for (KernelBlock& region : block.body[end].regions)
        changed |= order(kernel, region, registers);
    }
    begin = end + 1;
  }
  return changed;
}

}  // namespace

bool order_products(KernelFunction& kernel, const Target& target) {
  bool changed = false;
  for (KernelPhase& phase : kernel.phases)
    changed |= order(kernel, phase.body, target.vector_registers);
  return changed;
}

}  // namespace weft
