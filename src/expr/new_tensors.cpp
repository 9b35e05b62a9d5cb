#include "expr/new_tensors.h"

namespace weft {

TensorId NewTensors::add(const std::string& base, TensorType type, Tensor::Kind kind) {
  if (names_.empty()) {
    for (const Tensor& t : program_.tensors) names_.insert(t.name);
  }
  Tensor t;
  t.name = base;
  for (int number = 1; !names_.insert(t.name).second; ++number)
    t.name = base + "_" + std::to_string(number);
  t.type = std::move(type);
  t.kind = kind;
  program_.tensors.push_back(std::move(t));
  return static_cast<TensorId>(program_.tensors.size()) - 1;
}

}  // namespace weft
