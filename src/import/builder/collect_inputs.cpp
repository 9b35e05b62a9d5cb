#include "import/builder/collect_inputs.h"

#include <vector>

namespace weft::onnx {
namespace {

/// The inputs of this builder's graph that the value follows from.
std::set<ValueId> leaves_of(const GraphBuilder& builder, ValueId v) {
  std::set<ValueId> seen{v}, leaves;
  std::vector<ValueId> todo{v};
  while (!todo.empty()) {
    const ValueId at = todo.back();
    todo.pop_back();
    const Node* node = builder.maker(at);
    if (node == nullptr) {
      leaves.insert(at);
      continue;
    }
    for (ValueId operand : node->operands) {
      if (seen.insert(operand).second) todo.push_back(operand);
    }
  }
  return leaves;
}

}  // namespace

bool collect_inputs(const GraphBuilder& builder, ValueId v, std::set<std::string>& names) {
  bool only_inputs = true;
  for (ValueId leaf : leaves_of(builder, v)) {
    if (builder.parent() == nullptr) {
      names.insert(builder.graph().values[static_cast<size_t>(leaf)].name);
      continue;
    }
    const ValueId* outer = nullptr;
    for (const auto& capture : builder.captures()) {
      if (capture.second == leaf) outer = &capture.first;
    }
    only_inputs =
        only_inputs && outer != nullptr && collect_inputs(*builder.parent(), *outer, names);
  }
  return only_inputs;
}

}  // namespace weft::onnx
