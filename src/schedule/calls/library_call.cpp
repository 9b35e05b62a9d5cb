#include "schedule/calls/library_call.h"

#include <algorithm>
#include <numeric>

#include "group/collapse_axes.h"
#include "schedule/calls/match_convolution.h"
#include "schedule/calls/match_product.h"

namespace weft {
namespace {

bool names(const Target& target, std::string_view library) {
  return std::ranges::find(target.libraries, library) != target.libraries.end();
}

double peak_gflops(const Target& target, DType operands) {
  switch (operands) {
    case DType::kF16:
      return target.peak_f16_gflops;
    case DType::kBF16:
      return target.peak_bf16_gflops;
    default:
      return target.peak_gflops;
  }
}

double compute_us(const Estimate& estimate, DType operands, const Target& target) {
  return static_cast<double>(estimate.flops) / (1e3 * peak_gflops(target, operands));
}

double memory_us(const Estimate& estimate, const Target& target) {
  const int64_t bytes = estimate.bytes_read + estimate.bytes_written;
  return static_cast<double>(bytes) / (1e3 * target.bandwidth_gb_per_s(bytes));
}

bool is_bound_by_memory(const Estimate& estimate, DType operands, const Target& target) {
  return compute_us(estimate, operands, target) < memory_us(estimate, target);
}

/// Weights of the group's contraction that lie as the model has them.
std::vector<TensorId> constant_factors(const TensorProgram& program, const Group& group) {
  std::vector<TensorId> found;
  const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs.front())];
  if (!e.is_contraction) return found;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const Tensor& tensor = program.tensors[static_cast<size_t>(s.symbol)];
    if (tensor.kind == Tensor::Kind::kConstant && tensor.layout.is_row_major() &&
        tensor.type.shape.size() > 2)
      found.push_back(s.symbol);
  });
  return found;
}

std::optional<MatchedConvolution> convolution_of(const Result<CollapsedGroup>& group) {
  if (!group.ok()) return std::nullopt;
  return match_convolution(LibraryGroup(group->view.program, group->view.group, group->axes));
}

}  // namespace

std::optional<LibraryCall> library_call(const TensorProgram& program, const Group& group,
                                        const GroupAxes& axes, const Estimate& estimate,
                                        const std::vector<TensorId>& parameters,
                                        const Target& target) {
  if (target.libraries.empty()) return std::nullopt;
  const LibraryGroup seen(program, group, axes);
  const auto position = [&](TensorId t) {
    if (t < 0) return -1;
    return static_cast<int32_t>(std::ranges::find(parameters, t) - parameters.begin());
  };
  std::optional<LibraryCall> call;
  DType operands = DType::kF32;
  if (const auto matched = names(target, "cublaslt") ? match_product(seen, axes) : std::nullopt) {
    ProductCall product = matched->call;
    product.a = position(matched->a);
    product.b = position(matched->b);
    product.c = position(seen.result());
    product.bias = position(matched->bias);
    operands = product.operands;
    call = product;
  } else if (const auto image = names(target, "cudnn") ? match_convolution(seen) : std::nullopt) {
    ConvolutionCall convolution = image->call;
    convolution.x = position(image->x);
    convolution.w = position(image->w);
    convolution.y = position(seen.result());
    convolution.bias = position(image->bias);
    convolution.residual = position(image->residual);
    operands = convolution.type;
    call = convolution;
  }
  if (!call || is_bound_by_memory(estimate, operands, target)) return std::nullopt;
  if (!verify_library_call(*call, static_cast<int64_t>(parameters.size())).ok())
    return std::nullopt;
  return call;
}

double library_us(const LibraryCall& call, const Estimate& estimate, const Target& target) {
  constexpr double kShareOfPeak = 0.8;
  const auto* product = std::get_if<ProductCall>(&call);
  const DType operands =
      product != nullptr ? product->operands : std::get<ConvolutionCall>(call).type;
  return target.launch_us + std::max(memory_us(estimate, target),
                                     compute_us(estimate, operands, target) / kShareOfPeak);
}

std::map<TensorId, Layout> library_orders(const TensorProgram& program, const Group& group,
                                          const Target& target) {
  if (!names(target, "cudnn")) return {};
  std::map<TensorId, Layout> orders;
  for (const TensorId t : constant_factors(program, group)) {
    const Shape& shape = program.tensors[static_cast<size_t>(t)].type.shape;
    std::vector<int64_t> order(shape.size() - 1);
    std::iota(order.begin() + 1, order.end(), 2);
    order.push_back(1);
    orders[t] = permuted_layout(shape, order);
  }
  if (orders.empty() || convolution_of(collapse_axes(program, group))) return {};
  const auto ordered = collapse_axes(program, group, {.orders = &orders});
  const auto matched = convolution_of(ordered);
  if (!matched) return {};
  const GroupView& view = ordered->view;
  const Estimate estimate =
      CostModel(view.program, target).estimate(view.group.exprs, view.group.outputs);
  if (is_bound_by_memory(estimate, matched->call.type, target)) return {};
  return orders;
}

}  // namespace weft
