#include "assemble/host_operation.h"

#include <string>

namespace weft {

Result<HostStep> host_operation(const Node& node) {
  HostStep step;
  const auto scatter = [&](HostStep::Op op) {
    const auto& a = std::get<ScatterAttrs>(node.attrs);
    step.op = op;
    step.axis = a.axis;
    step.combines = a.combines;
    step.combiner = static_cast<uint8_t>(a.combiner);
  };
  switch (node.op) {
    case GraphOp::kSort: {
      const auto& a = std::get<SortAttrs>(node.attrs);
      step.op = HostStep::Op::kSort;
      step.axis = a.axis;
      step.descending = a.descending;
      return step;
    }
    case GraphOp::kTopK: {
      const auto& a = std::get<TopKAttrs>(node.attrs);
      step.op = HostStep::Op::kTopK;
      step.axis = a.axis;
      step.k = a.k;
      step.descending = a.largest;
      return step;
    }
    case GraphOp::kScatterElements:
      scatter(HostStep::Op::kScatterElements);
      return step;
    case GraphOp::kScatterNd:
      scatter(HostStep::Op::kScatterNd);
      return step;
    case GraphOp::kCumulative: {
      const auto& a = std::get<CumulativeAttrs>(node.attrs);
      step.op = HostStep::Op::kCumulative;
      step.axis = a.axis;
      step.combiner = static_cast<uint8_t>(a.combiner);
      step.exclusive = a.exclusive;
      step.reverse = a.reverse;
      return step;
    }
    default:
      return Error{ErrorCode::kInternal,
                   "no host operation for " + std::string(graph_op_name(node.op))};
  }
}

}  // namespace weft
