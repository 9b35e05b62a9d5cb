#include <fmt/format.h>

#include <algorithm>

#include "import/builder/graph_builder.h"
#include "import/builder/prune_graph.h"

namespace weft::onnx {
namespace {

/// A constant of the parent that the region repeats rather than captures: it folds there, and the
/// bytes are shared.
constexpr int64_t kRepeatedBytes = 64 << 10;
/// Between places along an axis and their form that a region repeats.
constexpr int kMostMoves = 4;

}  // namespace

ValueId GraphBuilder::capture(ValueId parent_value) {
  WEFT_CHECK(parent_ != nullptr, "only a region captures");
  for (const auto& [outer, inner] : captures_) {
    if (outer == parent_value) return inner;
  }
  const ValueId places = repeat_places(parent_value, kMostMoves);
  if (places != kNoValue) return places;
  const TensorType& type = parent_->type(parent_value);
  const bool small = checked_byte_size(type.dtype, type.shape).value_or(0) <= kRepeatedBytes;
  const bool repeats = parent_->is_constant(parent_value) && small;
  const HostTensor* value = repeats ? parent_->constant_value(parent_value) : nullptr;
  if (value != nullptr) return constant(*value);
  const ValueId inner = input(type);
  captures_.emplace_back(parent_value, inner);
  return inner;
}

ValueId GraphBuilder::repeat_places(ValueId parent_value, int most_moves) {
  const Node* made = parent_->maker(parent_value);
  if (made == nullptr) return kNoValue;
  const TensorType& type = parent_->type(parent_value);
  if (made->op == GraphOp::kIota) {
    return iota(type.dtype, type.shape, std::get<IotaAttrs>(made->attrs).axis);
  }
  const bool moves = made->op == GraphOp::kBroadcast || made->op == GraphOp::kReshape;
  if (!moves || most_moves == 0) return kNoValue;
  const ValueId places = repeat_places(made->operands[0], most_moves - 1);
  if (places == kNoValue) return kNoValue;
  if (made->op == GraphOp::kReshape) return reshape(places, type.shape);
  return broadcast_in_dim(places, type.shape, std::get<BroadcastAttrs>(made->attrs).dims);
}

ValueId GraphBuilder::seed() {
  if (parent_ != nullptr) return capture(parent_->seed());
  if (seed_ == kNoValue) seed_ = input({DType::kU64, {}}, "seed");
  return seed_;
}

std::vector<ValueId> GraphBuilder::iterations() {
  std::vector<ValueId> numbers;
  if (parent_ != nullptr) {
    for (const ValueId outer : parent_->iterations()) numbers.push_back(capture(outer));
  }
  if (iteration_ == kNoValue)
    refuse_unsupported("random numbers in a loop that does not number its iterations");
  if (iteration_) numbers.push_back(*iteration_);
  return numbers;
}

std::vector<ValueId> GraphBuilder::unite_captures(const std::vector<GraphBuilder*>& regions) const {
  std::vector<ValueId> united;
  for (const GraphBuilder* region : regions) {
    WEFT_CHECK(region->parent_ == this, "a region of another graph");
    for (const auto& capture : region->captures_) {
      if (std::find(united.begin(), united.end(), capture.first) == united.end()) {
        united.push_back(capture.first);
      }
    }
  }
  return united;
}

std::shared_ptr<const Graph> GraphBuilder::finish_region(const std::vector<ValueId>& captures) {
  std::vector<ValueId> ordered;
  for (ValueId v : graph_.inputs) {
    const bool captured = std::any_of(captures_.begin(), captures_.end(),
                                      [&](const auto& pair) { return pair.second == v; });
    if (!captured) ordered.push_back(v);
  }
  for (ValueId outer : captures) {
    const auto found = std::find_if(captures_.begin(), captures_.end(),
                                    [&](const auto& pair) { return pair.first == outer; });
    ordered.push_back(found != captures_.end() ? found->second : input(parent_->type(outer)));
  }
  graph_.inputs = std::move(ordered);
  for (size_t i = 0; i < results_.size(); ++i) {
    graph_.add_output(results_[i], fmt::format("out{}", i));
  }
  return std::make_shared<const Graph>(prune_graph(graph_, names_));
}

std::vector<ValueId> GraphBuilder::make_if(ValueId condition, GraphBuilder& then,
                                           GraphBuilder& otherwise) {
  std::vector<ValueId> operands = unite_captures({&then, &otherwise});
  std::vector<std::shared_ptr<const Graph>> regions{then.finish_region(operands),
                                                    otherwise.finish_region(operands)};
  operands.insert(operands.begin(), condition);
  return node(GraphOp::kIf, IfAttrs{}, std::move(operands), {}, std::move(regions));
}

std::vector<ValueId> GraphBuilder::make_while(const std::vector<ValueId>& carries,
                                              GraphBuilder& condition, GraphBuilder& body) {
  std::vector<ValueId> operands = unite_captures({&condition, &body});
  std::vector<std::shared_ptr<const Graph>> regions{condition.finish_region(operands),
                                                    body.finish_region(operands)};
  operands.insert(operands.begin(), carries.begin(), carries.end());
  return node(GraphOp::kWhile, WhileAttrs{static_cast<int64_t>(carries.size())},
              std::move(operands), {}, std::move(regions));
}

std::vector<ValueId> GraphBuilder::make_scan(const std::vector<ValueId>& carries,
                                             const std::vector<ValueId>& xs, GraphBuilder& body,
                                             std::vector<bool> x_reverse,
                                             std::vector<bool> y_reverse) {
  WEFT_CHECK(!xs.empty() && x_reverse.size() == xs.size(), "a scan has slices to run over");
  WEFT_CHECK(body.results_.size() == carries.size() + y_reverse.size(),
             "one result per carry and stacked output");
  std::vector<ValueId> operands = unite_captures({&body});
  std::vector<std::shared_ptr<const Graph>> regions{body.finish_region(operands)};
  operands.insert(operands.begin(), xs.begin(), xs.end());
  operands.insert(operands.begin(), carries.begin(), carries.end());
  ScanAttrs attrs{static_cast<int64_t>(carries.size()), static_cast<int64_t>(xs.size()),
                  std::move(x_reverse), std::move(y_reverse)};
  return node(GraphOp::kScan, std::move(attrs), std::move(operands), {}, std::move(regions));
}

}  // namespace weft::onnx
