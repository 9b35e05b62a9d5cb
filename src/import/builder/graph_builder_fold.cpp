#include <algorithm>
#include <cstring>

#include "graph/contraction_depth.h"
#include "import/builder/graph_builder.h"
#include "interp/interpreter.h"

// Folding while importing. Small results are computed at once; larger ones only when a translator
// asks for the value (a shape that went through something big), within a budget, so that no model
// makes the import slow or large.

namespace weft::onnx {
namespace {

constexpr int64_t kEagerBytes = 64 << 10;
constexpr int64_t kDemandBytes = int64_t{256} << 20;
constexpr int kDemandDepth = 1000;
/// Far above any model's; keeps the work per node bounded.
constexpr size_t kMaxRank = 64;

bool has_regions(GraphOp op) {
  return op == GraphOp::kIf || op == GraphOp::kWhile || op == GraphOp::kScan;
}

/// Ops whose result says no more than their operands, only larger: kept, unless something needs the
/// value.
bool only_spreads(GraphOp op) {
  return op == GraphOp::kConstant || op == GraphOp::kIota || op == GraphOp::kBroadcast;
}

/// Tensors of bytes from so many elements on are left for the passes to fold, which know whether
/// something multiplies the bytes themselves (rewrite/fold_constants.h).
constexpr int64_t kFewBytes = 64;

/// Whether the node makes bytes wider, or goes on with what another has made of them.
bool dequantizes(GraphOp op, const Attributes& attrs) {
  const auto* applied = std::get_if<ElementwiseAttrs>(&attrs);
  return op == GraphOp::kReshape || op == GraphOp::kTranspose ||
         (applied != nullptr && (applied->op == ScalarOp::kConvert ||
                                 applied->op == ScalarOp::kSub || applied->op == ScalarOp::kMul));
}

bool is_contraction(GraphOp op) {
  return op == GraphOp::kDotGeneral || op == GraphOp::kConvolution;
}

/// Whether all elements have the same bytes.
bool is_uniform(const HostTensor& tensor) {
  const auto step = static_cast<size_t>(byte_size(tensor.dtype()));
  const auto bytes = static_cast<size_t>(tensor.bytes());
  return bytes > step && std::memcmp(tensor.raw(), tensor.raw() + step, bytes - step) == 0;
}

int64_t bytes_of(const TensorType& type) {
  return checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX);
}

/// Rough cost of computing a node, in bytes touched.
int64_t work_of(const Graph& graph, const Node& node) {
  int64_t in = 0, out = 0;
  for (ValueId v : node.operands) in += std::min(bytes_of(graph.type(v)), kDemandBytes);
  for (ValueId v : node.results) out += std::min(bytes_of(graph.type(v)), kDemandBytes);
  if (!is_contraction(node.op)) return in + out;
  // Both operands of each product.
  int64_t products = 0;
  if (__builtin_mul_overflow(2 * out, contraction_depth(graph, node), &products)) return INT64_MAX;
  return in + products;
}

}  // namespace

std::vector<ValueId> GraphBuilder::node(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                                        TensorType hint,
                                        std::vector<std::shared_ptr<const Graph>> regions) {
  for (ValueId v : operands) type(v);
  const bool foldable = !has_regions(op) && std::all_of(operands.begin(), operands.end(),
                                                        [&](ValueId v) { return is_constant(v); });
  std::vector<ValueId> results = take(
      graph_.add(op, std::move(attrs), std::move(operands), std::move(hint), std::move(regions)));
  for (ValueId v : results) {
    if (type(v).shape.size() > kMaxRank) refuse_unsupported("a tensor of more than 64 axes");
  }
  known_.resize(graph_.values.size());
  defined_.resize(graph_.values.size(), static_cast<int32_t>(graph_.nodes.size()) - 1);
  for (ValueId v : results) known_[static_cast<size_t>(v)].foldable = foldable;
  if (op == GraphOp::kConstant) {
    known_[static_cast<size_t>(results[0])].value =
        std::get<ConstantAttrs>(graph_.nodes.back().attrs).value;
  }
  if (foldable && !only_spreads(op) && !is_made_of_bytes(results[0])) fold_small(results);
  return results;
}

bool GraphBuilder::is_made_of_bytes(ValueId v) const {
  while (byte_size(type(v).dtype) > 1) {
    const Node* made = maker(v);
    if (made == nullptr || !dequantizes(made->op, made->attrs)) return false;
    v = made->operands[0];
  }
  return is_integer(type(v).dtype) && size(v) >= kFewBytes;
}

void GraphBuilder::fold_small(std::vector<ValueId>& results) {
  const Node& node = graph_.nodes[static_cast<size_t>(defined_[static_cast<size_t>(results[0])])];
  if (work_of(graph_, node) > 4 * kEagerBytes) return;
  for (ValueId v : results) {
    if (bytes_of(type(v)) > kEagerBytes) return;
  }
  if (!evaluate_within(16 * kEagerBytes, results[0])) return;
  for (ValueId& v : results) {
    const HostTensor value = *known_[static_cast<size_t>(v)].value;
    // A splat stays a broadcast of its scalar: an immediate in every kernel that reads it.
    if (is_uniform(value)) {
      HostTensor one(value.dtype(), {});
      std::memcpy(one.mutable_raw(), value.raw(), static_cast<size_t>(byte_size(value.dtype())));
      v = broadcast_to(constant(std::move(one)), value.shape());
      known_[static_cast<size_t>(v)].value = value;
    } else {
      v = constant(value);
    }
  }
}

bool GraphBuilder::evaluate(ValueId v, int64_t* budget, int depth) {
  Known& known = known_[static_cast<size_t>(v)];
  if (known.value) return true;
  if (!known.foldable || depth > kDemandDepth || *budget <= known.too_little) return false;
  const Node& node = graph_.nodes[static_cast<size_t>(defined_[static_cast<size_t>(v)])];
  const int64_t work = work_of(graph_, node);
  const int64_t given = *budget;
  // What is not computed costs nothing, and is not tried again with as little.
  const auto give_up = [&] {
    known.too_little = given;
    return false;
  };
  if (work > given) return give_up();
  std::vector<HostTensor> operands;
  for (ValueId operand : node.operands) {
    if (!evaluate(operand, budget, depth + 1)) return give_up();
    operands.push_back(*known_[static_cast<size_t>(operand)].value);
  }
  if (work > *budget) return give_up();
  *budget -= work;
  auto results = interpret_node(graph_, node, operands);
  if (!results.ok()) return false;
  for (size_t i = 0; i < node.results.size(); ++i) {
    known_[static_cast<size_t>(node.results[i])].value = std::move((*results)[i]);
  }
  return true;
}

bool GraphBuilder::evaluate_within(int64_t budget, ValueId v) {
  budget = std::min(budget, fold_budget());
  const int64_t before = budget;
  const bool known = evaluate(v, &budget, 0);
  fold_budget() -= before - budget;
  return known;
}

const HostTensor* GraphBuilder::constant_value(ValueId v) {
  type(v);
  if (!evaluate_within(kDemandBytes, v)) return nullptr;
  return &*known_[static_cast<size_t>(v)].value;
}

const Node* GraphBuilder::maker(ValueId v) const {
  type(v);
  const int32_t n = defined_[static_cast<size_t>(v)];
  return n < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(n)];
}

bool GraphBuilder::is_constant(ValueId v) const {
  type(v);
  return known_[static_cast<size_t>(v)].foldable;
}

}  // namespace weft::onnx
