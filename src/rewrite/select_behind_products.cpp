#include "rewrite/select_behind_products.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "rewrite/graph_rebuilder.h"

namespace weft {

namespace {

class SelectBehindProducts {
 public:
  explicit SelectBehindProducts(Graph& graph) : graph_(graph), rebuild_(graph) {}

  std::vector<std::string> run() {
    for (Node& node : rebuild_.take_nodes()) {
      rebuild_.forward_operands(node);
      if (node.op == GraphOp::kDotGeneral) {
        if (const auto value = without_choice(node)) {
          rebuild_.replace(node, {&*value, 1});
          continue;
        }
      }
      rebuild_.keep(std::move(node));
    }
    rebuild_.finish();
    return std::move(names_);
  }

 private:
  /// A value whose elements are NaN together where `total` is: along `axes`, which it has not.
  struct Rows {
    ValueId total = -1;
    std::vector<int64_t> axes;
  };

  /// What `v` repeats along the axes that a reduction by `combiner` of `of` ran over.
  const Node* reduction_over(ValueId v, Combiner combiner, ValueId of) const {
    const Node* repeated = rebuild_.made_by(v, GraphOp::kBroadcast);
    if (repeated == nullptr) return nullptr;
    const Node* reduced = rebuild_.made_by(repeated->operands[0], GraphOp::kReduce);
    if (reduced == nullptr || reduced->operands[0] != of) return nullptr;
    const auto& attrs = std::get<ReduceAttrs>(reduced->attrs);
    const std::vector<int64_t>& dims = std::get<BroadcastAttrs>(repeated->attrs).dims;
    std::vector<int64_t> rest;
    for (int64_t a = 0; a < static_cast<int64_t>(graph_.type(of).shape.size()); ++a) {
      if (!std::ranges::binary_search(attrs.axes, a)) rest.push_back(a);
    }
    return attrs.combiner == combiner && dims == rest ? reduced : nullptr;
  }

  std::optional<Rows> rows_of_nan(ValueId p) const {
    while (const Node* converted = rebuild_.made_by(p, ScalarOp::kConvert)) {
      if (!is_float(graph_.type(converted->operands[0]).dtype)) return std::nullopt;
      p = converted->operands[0];
    }
    const Node* quotient = rebuild_.made_by(p, ScalarOp::kDiv);
    if (quotient == nullptr) return std::nullopt;
    const ValueId e = quotient->operands[0];
    const Node* total = reduction_over(quotient->operands[1], Combiner::kSum, e);
    const Node* power = rebuild_.made_by(e, ScalarOp::kExp);
    if (total == nullptr || power == nullptr) return std::nullopt;
    const Node* distance = rebuild_.made_by(power->operands[0], ScalarOp::kSub);
    if (distance == nullptr) return std::nullopt;
    const Node* most = reduction_over(distance->operands[1], Combiner::kMax, distance->operands[0]);
    const auto& axes = std::get<ReduceAttrs>(total->attrs).axes;
    if (most == nullptr || std::get<ReduceAttrs>(most->attrs).axes != axes) return std::nullopt;
    return Rows{total->results[0], axes};
  }

  bool is_zero(ValueId v) const {
    const auto element = rebuild_.uniform_element(v);
    return element && is_float(element->dtype()) && element->at_double(0) == 0;
  }

  /// p, where `q` is p with 0 for NaN.
  std::optional<ValueId> chosen(ValueId q) const {
    const Node* choice = rebuild_.made_by(q, ScalarOp::kSelect);
    if (choice == nullptr || !is_zero(choice->operands[1])) return std::nullopt;
    const Node* test = rebuild_.made_by(choice->operands[0], ScalarOp::kIsNan);
    const ValueId p = choice->operands[2];
    return test != nullptr && test->operands[0] == p ? std::optional(p) : std::nullopt;
  }

  std::optional<ValueId> without_choice(const Node& product) {
    const auto& attrs = std::get<DotAttrs>(product.attrs);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto p = chosen(product.operands[side]);
      const auto rows = p ? rows_of_nan(*p) : std::nullopt;
      if (!rows) continue;
      const auto& contracted = side == 0 ? attrs.lhs_contract : attrs.rhs_contract;
      const bool whole = std::ranges::all_of(
          contracted, [&](int64_t a) { return std::ranges::binary_search(rows->axes, a); });
      if (whole) return choose_behind(product, side, *p, *rows);
    }
    return std::nullopt;
  }

  /// Where the axes of an operand are in the product's result; -1 for what is contracted.
  std::vector<int64_t> axes_in_result(const Node& product, size_t side) const {
    const auto& a = std::get<DotAttrs>(product.attrs);
    const auto rank = [&](size_t s) {
      return static_cast<int64_t>(graph_.type(product.operands[s]).shape.size());
    };
    const auto& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
    const auto& contract = side == 0 ? a.lhs_contract : a.rhs_contract;
    auto next = static_cast<int64_t>(a.lhs_batch.size());
    if (side == 1) next = rank(0) - static_cast<int64_t>(a.lhs_contract.size());
    std::vector<int64_t> out;
    for (int64_t axis = 0; axis < rank(side); ++axis) {
      const auto at = std::ranges::find(batch, axis);
      if (at != batch.end()) {
        out.push_back(at - batch.begin());
      } else {
        out.push_back(std::ranges::find(contract, axis) == contract.end() ? next++ : -1);
      }
    }
    return out;
  }

  ValueId choose_behind(const Node& product, size_t side, ValueId p, const Rows& rows) {
    const TensorType type = graph_.type(product.results[0]);
    names_.push_back(graph_.values[static_cast<size_t>(product.results[0])].name);
    std::vector<ValueId> operands = product.operands;
    operands[side] = p;
    const std::vector<int64_t> places = axes_in_result(product, side);
    std::vector<std::pair<int64_t, int64_t>> kept;  // axis of the result, of the total
    for (size_t axis = 0; axis < places.size(); ++axis) {
      if (!std::ranges::binary_search(rows.axes, static_cast<int64_t>(axis)))
        kept.emplace_back(places[axis], static_cast<int64_t>(kept.size()));
    }
    std::vector<int64_t> dims, order;
    std::ranges::sort(kept);
    for (const auto& [of_result, of_total] : kept) {
      dims.push_back(of_result);
      order.push_back(of_total);
    }
    const int32_t origin = product.origin;
    const auto add = [&](GraphOp op, Attributes attributes, std::vector<ValueId> from,
                         const TensorType& made) {
      return rebuild_.add(op, std::move(attributes), std::move(from), origin, made);
    };
    const ValueId z = add(GraphOp::kDotGeneral, product.attrs, std::move(operands), type);
    ValueId total = rows.total;
    if (!std::ranges::is_sorted(order)) {
      TensorType turned = graph_.type(total);
      for (size_t i = 0; i < order.size(); ++i)
        turned.shape[i] = graph_.type(total).shape[static_cast<size_t>(order[i])];
      total = add(GraphOp::kTranspose, TransposeAttrs{order}, {total}, turned);
    }
    const TensorType flags{DType::kBool, graph_.type(total).shape};
    const ValueId is_nan =
        add(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kIsNan}, {total}, flags);
    const ValueId everywhere =
        add(GraphOp::kBroadcast, BroadcastAttrs{dims}, {is_nan}, {DType::kBool, type.shape});
    HostTensor nought(type.dtype, {});
    std::memset(nought.mutable_raw(), 0, static_cast<size_t>(byte_size(type.dtype)));
    const ValueId zero = add(GraphOp::kBroadcast, BroadcastAttrs{},
                             {rebuild_.add_constant(std::move(nought), origin)}, type);
    return add(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kSelect}, {everywhere, zero, z},
               type);
  }

  Graph& graph_;
  GraphRebuilder rebuild_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> select_behind_products(Graph& graph) {
  return SelectBehindProducts(graph).run();
}

}  // namespace weft
