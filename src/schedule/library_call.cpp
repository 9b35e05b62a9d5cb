#include "schedule/library_call.h"

#include <algorithm>
#include <array>

#include "schedule/tile_builder.h"

namespace weft {
namespace {

class Product {
 public:
  Product(const TensorProgram& program, const Group& group, const GroupAxes& axes)
      : program_(program), group_(group), axes_(axes) {}

  std::optional<LibraryCall> match(const std::vector<TensorId>& parameters) {
    if (axes_.reductions.size() != 1 || group_.outputs.size() != 1) return std::nullopt;
    root_ = axes_.reductions[0];
    last_ = static_cast<int>(group_.exprs.size()) - 1;
    if (root_ != 0 || expr(last_).output != group_.outputs[0]) return std::nullopt;
    if (!operands() || !sort_axes()) return std::nullopt;
    // C is stored by rows; where its columns lie together, the transposed product is asked for.
    if (output_stride(n_) != 1 && axes_.axes[at(m_)].extent > 1 && output_stride(m_) == 1) {
      std::swap(a_, b_);
      std::swap(m_, n_);
    }
    if (!epilogue() || !describe()) return std::nullopt;
    const auto position = [&](TensorId t) {
      return static_cast<int32_t>(std::ranges::find(parameters, t) - parameters.begin());
    };
    call_.a = position(a_->symbol);
    call_.b = position(b_->symbol);
    call_.c = position(group_.outputs[0]);
    if (bias_ != nullptr) call_.bias = position(bias_->symbol);
    if (!verify_library_call(call_, static_cast<int64_t>(parameters.size())).ok())
      return std::nullopt;
    return call_;
  }

 private:
  static size_t at(int axis) { return static_cast<size_t>(axis); }
  const TensorExpr& expr(int p) const {
    return program_.exprs[static_cast<size_t>(group_.exprs[static_cast<size_t>(p)])];
  }
  DType type_of(TensorId t) const { return program_.tensors[static_cast<size_t>(t)].type.dtype; }
  int64_t extent(int axis) const { return axis < 0 ? 1 : axes_.axes[at(axis)].extent; }
  int64_t stride(const Scalar& read, int axis) const {
    return axis < 0 ? 0 : stride_along(program_, axes_, root_, read, axis);
  }
  int64_t output_stride(int axis) const {
    return axis < 0 ? 0 : output_stride_along(program_, axes_, group_, last_, axis);
  }

  /// The read under conversions to a wider float type.
  static const Scalar* widened_read(const ScalarRef& s) {
    const Scalar* node = s.get();
    while (node->kind == Scalar::Kind::kApply && node->op == ScalarOp::kConvert &&
           node->type == DType::kF32)
      node = node->operands[0].get();
    return node->kind == Scalar::Kind::kRead ? node : nullptr;
  }

  /// Starts at the tensor's first element and always stays inside it.
  static bool is_plain(const Scalar& read) {
    if (!read.operands.empty() || read.fill != nullptr) return false;
    return std::ranges::all_of(read.indices, [](const IndexExpr& i) {
      return evaluate(i, [](int) { return int64_t{0}; }) == 0;
    });
  }

  bool operands() {
    const TensorExpr& e = expr(root_);
    const Scalar& body = *e.body;
    if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32 ||
        body.kind != Scalar::Kind::kApply || body.op != ScalarOp::kMul)
      return false;
    a_ = widened_read(body.operands[0]);
    b_ = widened_read(body.operands[1]);
    if (a_ == nullptr || b_ == nullptr || !is_plain(*a_) || !is_plain(*b_)) return false;
    call_.operands = type_of(a_->symbol);
    return type_of(b_->symbol) == call_.operands;
  }

  /// One axis each of rows, columns and depth, and at most one of the batch.
  bool sort_axes() {
    for (size_t i = 0; i < axes_.axes.size(); ++i) {
      if (axes_.axes[i].extent == 1) continue;
      const int axis = static_cast<int>(i);
      const int64_t a = stride(*a_, axis), b = stride(*b_, axis);
      if (a < 0 || b < 0) return false;
      int* kind = axes_.axes[i].reduced ? &k_ : a > 0 && b > 0 ? &batch_ : a > 0 ? &m_ : &n_;
      if (axes_.axes[i].reduced ? a == 0 || b == 0 : a == 0 && b == 0) return false;
      if (*kind >= 0) return false;
      *kind = axis;
    }
    return m_ >= 0 && n_ >= 0 && k_ >= 0;
  }

  /// What the last value of `p` reads of the expression before it, under conversions.
  bool reads_previous(const ScalarRef& s, int p) const {
    const Scalar* node = s.get();
    while (node->kind == Scalar::Kind::kApply && node->op == ScalarOp::kConvert)
      node = node->operands[0].get();
    return node->kind == Scalar::Kind::kRead && node->symbol == expr(p - 1).output;
  }

  static bool is_zero(const ScalarRef& s) {
    return s->kind == Scalar::Kind::kConstant && s->value.f == 0 && s->value.i == 0;
  }

  /// A bias once, a clamp once after it; conversions anywhere.
  bool epilogue() {
    for (int p = root_ + 1; p <= last_; ++p) {
      const Scalar& body = *expr(p).body;
      if (body.kind != Scalar::Kind::kApply) return false;
      if (body.op == ScalarOp::kConvert) {
        if (!reads_previous(expr(p).body, p)) return false;
        continue;
      }
      if (body.operands.size() != 2 || call_.clamps) return false;
      const bool first = reads_previous(body.operands[0], p);
      if (!first && !reads_previous(body.operands[1], p)) return false;
      const ScalarRef& other = body.operands[first ? 1 : 0];
      if (body.op == ScalarOp::kMax && is_zero(other)) {
        call_.clamps = true;
      } else if (body.op != ScalarOp::kAdd || bias_ != nullptr || !is_bias(other, p)) {
        return false;
      }
    }
    call_.result = type_of(group_.outputs[0]);
    return bias_ == nullptr || type_of(bias_->symbol) == call_.result;
  }

  bool is_bias(const ScalarRef& s, int p) {
    if (s->kind != Scalar::Kind::kRead || axes_.producer(s->symbol) >= 0 || !is_plain(*s))
      return false;
    for (size_t i = 0; i < axes_.axes.size(); ++i) {
      if (axes_.axes[i].extent == 1 || axes_.axes[i].reduced) continue;
      const int64_t want = static_cast<int>(i) == n_ ? 1 : 0;
      if (stride_along(program_, axes_, p, *s, static_cast<int>(i)) != want) return false;
    }
    bias_ = s.get();
    return true;
  }

  bool describe() {
    call_.batch = extent(batch_);
    call_.m = extent(m_);
    call_.n = extent(n_);
    call_.k = extent(k_);
    call_.a_transposed = stride(*a_, k_) != 1;
    call_.b_transposed = stride(*b_, n_) != 1;
    if (stride(*a_, call_.a_transposed ? m_ : k_) != 1) return false;
    if (stride(*b_, call_.b_transposed ? k_ : n_) != 1 || output_stride(n_) != 1) return false;
    call_.a_row = stride(*a_, call_.a_transposed ? k_ : m_);
    call_.b_row = stride(*b_, call_.b_transposed ? n_ : k_);
    call_.c_row = output_stride(m_);
    call_.a_matrix = stride(*a_, batch_);
    call_.b_matrix = stride(*b_, batch_);
    call_.c_matrix = output_stride(batch_);
    return true;
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  LibraryCall call_{.library = "cublaslt"};
  int root_ = 0, last_ = 0;
  const Scalar* a_ = nullptr;
  const Scalar* b_ = nullptr;
  const Scalar* bias_ = nullptr;
  int batch_ = -1, m_ = -1, n_ = -1, k_ = -1;
};

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

}  // namespace

std::optional<LibraryCall> library_call(const TensorProgram& program, const Group& group,
                                        const GroupAxes& axes, const Estimate& estimate,
                                        const std::vector<TensorId>& parameters,
                                        const Target& target) {
  if (std::ranges::find(target.libraries, "cublaslt") == target.libraries.end())
    return std::nullopt;
  std::optional<LibraryCall> call = Product(program, group, axes).match(parameters);
  if (!call) return std::nullopt;
  const int64_t bytes = estimate.bytes_read + estimate.bytes_written;
  const double compute_us =
      static_cast<double>(estimate.flops) / (1e3 * peak_gflops(target, call->operands));
  const double memory_us = static_cast<double>(bytes) / (1e3 * target.bandwidth_gb_per_s(bytes));
  if (compute_us < memory_us) return std::nullopt;
  return call;
}

}  // namespace weft
