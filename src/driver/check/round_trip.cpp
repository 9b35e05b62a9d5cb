#include "driver/check/round_trip.h"

#include <algorithm>
#include <unordered_map>

#include "support/hash.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft {

namespace {

/// Constants of one level under the hash that their text shows.
class ConstantsByHash {
 public:
  void collect(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      if (const auto* constant = std::get_if<ConstantAttrs>(&node.attrs)) add(constant->value);
      for (const auto& region : node.regions) collect(*region);
    }
  }
  void collect(const TensorProgram& program) {
    for (const Tensor& tensor : program.tensors) {
      if (tensor.kind == Tensor::Kind::kConstant) add(tensor.value);
    }
    for (const OpaqueExpr& opaque : program.opaques) {
      for (const auto& region : opaque.regions) collect(*region);
    }
  }

  Result<HostTensor> find(std::string_view hash, const TensorType& type) const {
    const auto [begin, end] = values_.equal_range(std::string(hash));
    for (auto it = begin; it != end; ++it) {
      if (it->second->dtype() == type.dtype && it->second->shape() == type.shape)
        return *it->second;
    }
    return invalid_input("no constant has the hash " + std::string(hash));
  }

 private:
  void add(const HostTensor& value) { values_.emplace(to_hex(content_hash(value)), &value); }

  std::unordered_multimap<std::string, const HostTensor*> values_;
};

Status same_text(const std::string& level, const std::string& first, const std::string& second) {
  if (first == second) return {};
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < std::min(first.size(), second.size()) && first[i] == second[i]; ++i) {
    if (first[i] != '\n') continue;
    ++line;
    begin = i + 1;
  }
  const auto line_of = [&](const std::string& text) {
    return begin < text.size() ? text.substr(begin, text.find('\n', begin) - begin) : "";
  };
  return Error{ErrorCode::kInternal, level + ": line " + std::to_string(line) + " reads back as '" +
                                         line_of(second) + "', not '" + line_of(first) + "'"};
}

Error unread(const std::string& level, const Error& error) {
  return {ErrorCode::kInternal, level + ": its own text does not read: " + error.message};
}

Status check_graph(const Graph& graph) {
  ConstantsByHash constants;
  constants.collect(graph);
  const auto find = [&](std::string_view hash, const TensorType& type) {
    return constants.find(hash, type);
  };
  const std::string text = print(graph);
  const auto parsed = parse_graph(text, find);
  if (!parsed.ok()) return unread("graph", parsed.error());
  return same_text("graph", text, print(*parsed));
}

/// The program as its text gives it, which the plan is then read against.
Result<TensorProgram> reread(const TensorProgram& program) {
  ConstantsByHash constants;
  constants.collect(program);
  const auto find = [&](std::string_view hash, const TensorType& type) {
    return constants.find(hash, type);
  };
  const std::string text = print(program);
  auto parsed = parse_tensor_program(text, find);
  if (!parsed.ok()) return unread("tensor-program", parsed.error());
  WEFT_RETURN_IF_ERROR(same_text("tensor-program", text, print(*parsed)));
  return parsed;
}

Status check_tiles(const FusionPlan& plan) {
  for (const PlannedKernel& kernel : plan.kernels) {
    const std::string level = "tile-program " + kernel.name;
    const std::string text = print(kernel.schedule.program);
    const auto parsed = parse_tile_program(text);
    if (!parsed.ok()) return unread(level, parsed.error());
    if (Status status = verify_tile_program(*parsed); !status.ok())
      return unread(level, status.error());
    WEFT_RETURN_IF_ERROR(same_text(level, text, print(*parsed)));
  }
  for (const auto& regions : plan.regions) {
    for (const auto& region : regions) WEFT_RETURN_IF_ERROR(check_tiles(*region));
  }
  return {};
}

Status check_kernels(const Compilation& c) {
  for (const KernelFunction* kernel : functions_of(c)) {
    const std::string level = "kernel " + kernel->name;
    const std::string text = print(*kernel);
    const auto parsed = parse_kernel(text);
    if (!parsed.ok()) return unread(level, parsed.error());
    if (Status status = verify_kernel(*parsed); !status.ok()) return unread(level, status.error());
    WEFT_RETURN_IF_ERROR(same_text(level, text, print(*parsed)));
  }
  return {};
}

}  // namespace

Status check_round_trips(const Compilation& c) {
  WEFT_RETURN_IF_ERROR(check_graph(c.graph));
  WEFT_ASSIGN_OR_RETURN(const TensorProgram tensors, reread(c.tensors));
  const std::string text = print(c.plan, c.tensors);
  const auto plan = parse_plan(text, tensors, c.target);
  if (!plan.ok()) return unread("plan", plan.error());
  WEFT_RETURN_IF_ERROR(same_text("plan", text, print(*plan, tensors)));
  WEFT_RETURN_IF_ERROR(check_tiles(c.plan));
  return check_kernels(c);
}

}  // namespace weft
