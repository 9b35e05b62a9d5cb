#include "driver/check/level_of_difference.h"

#include <algorithm>
#include <optional>
#include <string>

#include "assemble/lay_out_constants.h"
#include "driver/check/logical_order.h"
#include "tile/check/evaluate.h"

namespace weft {

namespace {

/// Scalar operations of a kernel; the evaluation goes through some millions a second.
constexpr int64_t kMostEvaluated = 50'000'000;

/// The elements of `t` in the order and of the type that the kernel's parameter has them. Nothing
/// where no value is known.
std::optional<HostTensor> as_parameter(const TensorProgram& program, const ScheduledKernel& kernel,
                                       TensorId t, const TileSymbol& symbol,
                                       const std::map<TensorId, HostTensor>& values) {
  const Tensor& tensor = program.tensors[static_cast<size_t>(t)];
  const auto given = values.find(t);
  const bool is_constant = tensor.kind == Tensor::Kind::kConstant;
  if (given == values.end() && !is_constant) return std::nullopt;
  const HostTensor& value = given == values.end() ? tensor.value : given->second;
  const auto order = kernel.orders.find(t);
  const Layout& layout = order == kernel.orders.end() ? tensor.layout : order->second;
  const HostTensor laid_out =
      lay_out_constant(value.reshaped(tensor.type.shape), layout, symbol.type);
  Shape shape;
  for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
  if (element_count(shape) != laid_out.size()) return std::nullopt;
  return laid_out.reshaped(shape);
}

/// Whether lengths of what it reads and stores are launch arguments.
bool has_open_sizes(const TileProgram& program) {
  return std::ranges::any_of(program.parameters, [&](TileSymbolId id) {
    const std::vector<IndexExpr>& shape = program.symbols[static_cast<size_t>(id)].shape;
    return std::ranges::any_of(shape, [](const IndexExpr& e) { return !e.is_const(); });
  });
}

}  // namespace

std::string_view phrase(DifferingLevel level) {
  switch (level) {
    case DifferingLevel::kTileProgram:
      return "the kernel's tile program";
    case DifferingLevel::kBelowTileProgram:
      return "what was lowered from the kernel's tile program, which is right";
    case DifferingLevel::kUnknown:
      break;
  }
  return "the kernel's tile program or below it (too large to be evaluated)";
}

DifferingLevel level_of_difference(const TensorProgram& program, const PlannedKernel& kernel,
                                   const std::map<TensorId, HostTensor>& values,
                                   Tolerance tolerance) {
  const ScheduledKernel& schedule = kernel.schedule;
  if (schedule.estimate.flops > kMostEvaluated || has_open_sizes(schedule.program))
    return DifferingLevel::kUnknown;
  std::map<std::string, HostTensor> inputs;
  std::map<TensorId, std::string> stored;
  for (size_t i = 0; i < schedule.parameters.size(); ++i) {
    const TensorId t = schedule.parameters[i];
    const TileSymbol& symbol =
        schedule.program.symbols[static_cast<size_t>(schedule.program.parameters[i])];
    if (symbol.kind == TileSymbol::Kind::kOutput) {
      stored[t] = symbol.name;
      continue;
    }
    std::optional<HostTensor> value = as_parameter(program, schedule, t, symbol, values);
    if (!value) return DifferingLevel::kUnknown;
    inputs.emplace(symbol.name, std::move(*value));
  }
  const auto evaluated = evaluate_tile_program(schedule.program, inputs);
  // What cannot be evaluated is no right program.
  if (!evaluated.ok()) return DifferingLevel::kTileProgram;
  for (const auto& [t, name] : stored) {
    const auto wanted = values.find(t);
    if (wanted == values.end()) continue;
    const HostTensor got =
        in_logical_order(evaluated->outputs.at(name), program.tensors[static_cast<size_t>(t)]);
    if (!compare_tensors(got, wanted->second, tolerance).ok()) return DifferingLevel::kTileProgram;
  }
  return DifferingLevel::kBelowTileProgram;
}

}  // namespace weft
