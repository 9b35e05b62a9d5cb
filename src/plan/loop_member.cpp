#include "plan/loop_member.h"

#include <algorithm>

#include "expr/movement/lend_constants.h"

namespace weft {

namespace {

/// What a tensor of the body is around it.
std::optional<TensorId> around(const TensorProgram& program, const OpaqueExpr& scan, TensorId t) {
  const TensorProgram& body = *scan.regions.back();
  const Tensor& tensor = body.tensors[static_cast<size_t>(t)];
  if (tensor.kind == Tensor::Kind::kConstant) return lent_constant(program, tensor);
  const bool is_input = tensor.kind == Tensor::Kind::kInput;
  const std::vector<TensorId>& inside = is_input ? body.inputs : body.outputs;
  const std::vector<TensorId>& outside = is_input ? scan.operands : scan.results;
  const auto at = static_cast<size_t>(std::ranges::find(inside, t) - inside.begin());
  return at < outside.size() ? std::optional(outside[at]) : std::nullopt;
}

}  // namespace

Result<WholeLoop> whole_loop(const TensorProgram& program, int32_t opaque, const FusionPlan& body) {
  const OpaqueExpr& scan = program.opaques[static_cast<size_t>(opaque)];
  if (scan.node.op != GraphOp::kScan || body.kernels.size() != 1 || !body.kernels[0].loop)
    return unsupported("no kernel runs all iterations of opaque step " + std::to_string(opaque));
  WholeLoop out{{{}, scan.results}, body.kernels[0].schedule};
  for (TensorId& t : out.kernel.parameters) {
    const auto outer = around(program, scan, t);
    if (!outer) {
      const TensorProgram& inside = *scan.regions.back();
      return unsupported("the program around a loop lacks its " +
                         inside.tensors[static_cast<size_t>(t)].name);
    }
    t = *outer;
  }
  return out;
}

}  // namespace weft
