#include "import/onnx/bind_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "import/builder/refusal.h"

namespace weft::onnx {
namespace {

constexpr size_t kMaxRank = 64;

/// The dimension's name in the model, empty where it has none. Exporters write "?" for any
/// dimension they know nothing about: two of those are not one.
std::string_view name_of(const DimDef& dim) {
  if (dim.extent || dim.symbol == "?") return {};
  return dim.symbol;
}

/// "N", or "x.0" where the model has no name; empty for a fixed extent.
std::string symbol_of(const ValueDef& def, size_t axis) {
  const DimDef& dim = def.dims[axis];
  if (dim.extent && *dim.extent >= 0) return {};
  const std::string_view name = name_of(dim);
  return name.empty() ? fmt::format("{}.{}", def.name, axis) : std::string(name);
}

class InputBinder {
 public:
  InputBinder(const GraphDef& graph, const ImportOptions& options) : options_(options) {
    std::set<std::string_view> initialised;
    for (const TensorDef& tensor : graph.initializers) initialised.insert(tensor.name);
    std::set<std::string_view> seen;
    for (const ValueDef& input : graph.inputs) {
      if (!seen.insert(input.name).second) {
        refuse_invalid(fmt::format("two inputs are called '{}'", input.name));
      }
      if (!initialised.contains(input.name)) inputs_.push_back(&input);
    }
  }

  std::vector<ImportedInput> run() {
    check_names();
    for (const auto& [symbol, extent] : options_.bind) bind(symbol, extent, "--bind");
    for (const ValueDef* def : inputs_) bind_given(*def);
    std::vector<ImportedInput> result;
    for (const ValueDef* def : inputs_) result.push_back(resolve(*def));
    if (!unbound_.empty()) {
      refuse_invalid(fmt::format("these dimensions need a value (--bind NAME=N, or inputs): {}",
                                 fmt::join(unbound_, ", ")));
    }
    return result;
  }

 private:
  const Shape* given_shape(const ValueDef& def) const {
    const std::string name(def.name);
    const auto value = options_.known_inputs.find(name);
    if (value != options_.known_inputs.end()) return &value->second.shape();
    const auto shape = options_.shapes.find(name);
    return shape != options_.shapes.end() ? &shape->second : nullptr;
  }

  void check_names() const {
    const auto check = [&](const std::string& name) {
      if (std::any_of(inputs_.begin(), inputs_.end(),
                      [&](const ValueDef* def) { return def->name == name; })) {
        return;
      }
      std::vector<std::string_view> names;
      for (const ValueDef* def : inputs_) names.push_back(def->name);
      refuse_invalid(fmt::format("the model has no input '{}'; its inputs are: {}", name,
                                 fmt::join(names, ", ")));
    };
    for (const auto& [name, value] : options_.known_inputs) check(name);
    for (const auto& [name, shape] : options_.shapes) check(name);
    std::set<std::string> symbols;
    for (const ValueDef* def : inputs_) {
      for (size_t axis = 0; axis < def->dims.size(); ++axis) {
        symbols.insert(symbol_of(*def, axis));
        if (!symbol_of(*def, axis).empty()) symbols.insert(fmt::format("{}.{}", def->name, axis));
      }
    }
    symbols.erase("");
    for (const auto& [name, extent] : options_.bind) {
      if (symbols.contains(name)) continue;
      refuse_invalid(
          fmt::format("the model has no dimension '{}' to bind; it has: {}", name,
                      symbols.empty() ? "none" : fmt::format("{}", fmt::join(symbols, ", "))));
    }
  }

  void bind(const std::string& symbol, int64_t extent, std::string_view source) {
    if (extent < 0) refuse_invalid(fmt::format("dimension '{}' cannot be {}", symbol, extent));
    const auto [found, fresh] = bound_.emplace(symbol, extent);
    if (!fresh && found->second != extent) {
      refuse_invalid(fmt::format("dimension '{}' is {} and, by {}, {}", symbol, found->second,
                                 source, extent));
    }
  }

  void bind_given(const ValueDef& def) {
    const Shape* given = given_shape(def);
    if (given == nullptr || !def.has_shape) return;
    if (given->size() != def.dims.size()) {
      refuse_invalid(fmt::format("input '{}' has {} axes in the model and {} as given", def.name,
                                 def.dims.size(), given->size()));
    }
    for (size_t axis = 0; axis < given->size(); ++axis) {
      const std::string symbol = symbol_of(def, axis);
      const int64_t extent = (*given)[axis];
      if (!symbol.empty()) {
        bind(symbol, extent, fmt::format("input '{}'", def.name));
      } else if (*def.dims[axis].extent != extent) {
        refuse_invalid(fmt::format("axis {} of input '{}' is {} in the model and {} as given", axis,
                                   def.name, *def.dims[axis].extent, extent));
      }
    }
  }

  int64_t extent_of(const ValueDef& def, size_t axis) {
    const std::string symbol = symbol_of(def, axis);
    if (symbol.empty()) return *def.dims[axis].extent;
    auto found = bound_.find(symbol);
    if (found == bound_.end()) found = bound_.find(fmt::format("{}.{}", def.name, axis));
    if (found != bound_.end()) return found->second;
    if (std::find(unbound_.begin(), unbound_.end(), symbol) == unbound_.end()) {
      unbound_.push_back(symbol);
    }
    return 0;
  }

  ImportedInput resolve(const ValueDef& def) {
    if (def.name.empty()) refuse_invalid("an input has no name");
    ImportedInput input;
    input.name = def.name;
    input.type.dtype = check_is_tensor(def);
    check_type(input);
    if (def.has_shape) {
      for (size_t axis = 0; axis < def.dims.size(); ++axis) {
        input.type.shape.push_back(extent_of(def, axis));
        input.symbols.emplace_back(name_of(def.dims[axis]));
        input.open.push_back(!symbol_of(def, axis).empty());
      }
    } else if (const Shape* given = given_shape(def)) {
      input.type.shape = *given;
      input.symbols.resize(given->size());
      input.open.resize(given->size());
    } else {
      unbound_.push_back(fmt::format("the whole shape of input '{}'", def.name));
    }
    if (input.type.shape.size() > kMaxRank) {
      refuse_unsupported(fmt::format("input '{}' has more than 64 axes", def.name));
    }
    return input;
  }

  void check_type(const ImportedInput& input) const {
    const auto value = options_.known_inputs.find(input.name);
    if (value == options_.known_inputs.end() || value->second.dtype() == input.type.dtype) return;
    refuse_invalid(fmt::format("input '{}' is {} in the model and {} as given", input.name,
                               dtype_name(input.type.dtype), dtype_name(value->second.dtype())));
  }

  const ImportOptions& options_;
  std::vector<const ValueDef*> inputs_;
  std::map<std::string, int64_t> bound_;
  std::vector<std::string> unbound_;
};

}  // namespace

DType check_is_tensor(const ValueDef& def) {
  if (def.kind != ValueDef::Kind::kTensor) {
    refuse_unsupported(fmt::format("'{}' is not a tensor", def.name));
  }
  try {
    return to_dtype(def.element_type);
  } catch (const Refusal& refusal) {
    throw Refusal(
        {refusal.error().code, fmt::format("'{}': {}", def.name, refusal.error().message)});
  }
}

DeclaredTensor declared(const ValueDef& def) {
  DeclaredTensor tensor{std::string(def.name), check_is_tensor(def), std::nullopt};
  if (!def.has_shape) return tensor;
  tensor.dims.emplace();
  for (const DimDef& dim : def.dims) {
    const bool fixed = dim.extent && *dim.extent >= 0;
    tensor.dims->push_back({fixed ? *dim.extent : -1, std::string(name_of(dim))});
  }
  return tensor;
}

std::vector<ImportedInput> bind_inputs(const GraphDef& graph, const ImportOptions& options) {
  return InputBinder(graph, options).run();
}

}  // namespace weft::onnx
