#include "graph/attribute_fields.h"
#include "graph/type_inference.h"

namespace weft {
namespace {

TypeInference::Types dispatch(const TypeInference& t) {
  switch (t.op) {
    case GraphOp::kConstant: {
      WEFT_RETURN_IF_ERROR(t.expect_operands(0));
      const HostTensor& value = std::get<ConstantAttrs>(t.attrs).value;
      if (value.raw() == nullptr) return t.fail("the constant has no value");
      return std::vector<TensorType>{{value.dtype(), value.shape()}};
    }
    case GraphOp::kElementwise:
      return t.elementwise();
    case GraphOp::kIota:
      return t.iota();
    case GraphOp::kBroadcast:
      return t.broadcast();
    case GraphOp::kReshape:
      return t.reshape();
    case GraphOp::kTranspose:
      return t.transpose();
    case GraphOp::kSlice:
      return t.slice();
    case GraphOp::kPad:
      return t.pad();
    case GraphOp::kConcat:
      return t.concat();
    case GraphOp::kGather:
      return t.gather();
    case GraphOp::kGatherElements:
      return t.gather_elements();
    case GraphOp::kGatherNd:
      return t.gather_nd();
    case GraphOp::kScatterElements:
      return t.scatter_elements();
    case GraphOp::kScatterNd:
      return t.scatter_nd();
    case GraphOp::kReduce:
      return t.reduce();
    case GraphOp::kArgReduce:
      return t.arg_reduce();
    case GraphOp::kReduceWindow:
      return t.reduce_window();
    case GraphOp::kCumulative:
      return t.cumulative();
    case GraphOp::kDotGeneral:
      return t.dot_general();
    case GraphOp::kConvolution:
      return t.convolution();
    case GraphOp::kSort:
      return t.sort();
    case GraphOp::kTopK:
      return t.top_k();
    case GraphOp::kIf:
      return t.if_();
    case GraphOp::kWhile:
      return t.while_();
    case GraphOp::kScan:
      return t.scan();
  }
  throw_internal_error(__FILE__, __LINE__, "graph op", "out of range");
}

}  // namespace

std::string TypeInference::op_label() const {
  if (const auto* elementwise = std::get_if<ElementwiseAttrs>(&attrs)) {
    return std::string(scalar_op_name(elementwise->op));
  }
  return std::string(graph_op_name(op));
}

Error TypeInference::fail(const std::string& reason) const {
  std::string text = op_label() + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == 8) {  // a concat of thousands stays one readable line
      text += "… " + std::to_string(operands.size() - i) + " more";
      break;
    }
    text += print(operands[i]);
  }
  return invalid_input(text + "): " + reason);
}

Status TypeInference::expect_operands(size_t count) const {
  if (operands.size() == count) return {};
  return fail("takes " + std::to_string(count) + " operands");
}

Status TypeInference::expect_axis(int64_t axis, size_t i) const {
  if (axis >= 0 && axis < rank(i)) return {};
  return fail("axis " + std::to_string(axis) + " is not below the rank " + std::to_string(rank(i)));
}

Status TypeInference::expect_axes(const std::vector<int64_t>& axes, size_t i,
                                  const char* what) const {
  std::vector<bool> seen(static_cast<size_t>(rank(i)));
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank(i)) {
      return fail(std::string(what) + ": axis " + std::to_string(axis) + " is not below the rank " +
                  std::to_string(rank(i)));
    }
    if (seen[static_cast<size_t>(axis)]) {
      return fail(std::string(what) + ": axis " + std::to_string(axis) + " appears twice");
    }
    seen[static_cast<size_t>(axis)] = true;
  }
  return {};
}

Status TypeInference::expect_length(const std::vector<int64_t>& values, int64_t length,
                                    const char* what) const {
  if (static_cast<int64_t>(values.size()) == length) return {};
  return fail(std::string(what) + " has " + std::to_string(values.size()) + " entries, not " +
              std::to_string(length));
}

Status TypeInference::expect_offsets(const std::vector<int64_t>& values, const char* what) const {
  for (int64_t value : values) {
    if (value > kMaxOffset || value < -kMaxOffset) {
      return fail(std::string(what) + " " + std::to_string(value) + " is beyond 2^40");
    }
  }
  return {};
}

Status TypeInference::expect_indices(size_t i) const {
  const DType type = operand(i).dtype;
  if (type == DType::kI32 || type == DType::kI64) return {};
  return fail("indices must be i32 or i64");
}

Status TypeInference::expect_combiner(Combiner combiner, DType type) const {
  const std::optional<ScalarOp> scalar = combiner_op(combiner);
  if (!scalar) return fail(std::string(combiner_name(combiner)) + " is not a combiner here");
  if (scalar_op_accepts(*scalar, type)) return {};
  return fail(std::string(combiner_name(combiner)) + " is not defined on " +
              std::string(dtype_name(type)));
}

Result<std::vector<TensorType>> infer_types(
    GraphOp op, const Attributes& attrs, const std::vector<TensorType>& operands,
    const TensorType& hint, const std::vector<std::shared_ptr<const Graph>>& regions) {
  const TypeInference inference{op, attrs, operands, hint, regions};
  WEFT_CHECK(attributes_match(op, attrs),
             "attributes of another op given to " + std::string(graph_op_name(op)));
  const bool takes_regions = op == GraphOp::kIf || op == GraphOp::kWhile || op == GraphOp::kScan;
  if (!takes_regions && !regions.empty()) return inference.fail("takes no regions");
  WEFT_ASSIGN_OR_RETURN(std::vector<TensorType> results, dispatch(inference));
  if (results.empty()) return inference.fail("has no result");
  for (const TensorType& type : results) {
    if (type.shape.size() > kMaxRank) {
      return inference.fail("the result's rank " + std::to_string(type.shape.size()) +
                            " is above " + std::to_string(kMaxRank));
    }
    const std::optional<int64_t> bytes = checked_byte_size(type.dtype, type.shape);
    if (!bytes || *bytes > kMaxTensorBytes) {
      return inference.fail("the result " + print(type) +
                            " is larger than 2^40 bytes or has a negative extent");
    }
  }
  return results;
}

}  // namespace weft
