#include "schedule/calls/match_product.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class Product {
 public:
  Product(const LibraryGroup& group, const GroupAxes& axes) : group_(group), axes_(axes) {}

  std::optional<MatchedProduct> match() {
    if (!operands() || !sort_axes()) return std::nullopt;
    // C is stored by rows; where its columns lie together, the transposed product is asked for.
    if (group_.result_stride(n_) != 1 && extent(m_) > 1 && group_.result_stride(m_) == 1) {
      std::swap(a_, b_);
      std::swap(m_, n_);
    }
    const auto epilogue = group_.epilogue(n_);
    if (!epilogue || epilogue->residual != nullptr || !describe()) return std::nullopt;
    MatchedProduct matched;
    call_.clamps = epilogue->clamps;
    matched.call = call_;
    matched.a = a_->symbol;
    matched.b = b_->symbol;
    if (epilogue->bias != nullptr) matched.bias = epilogue->bias->symbol;
    return matched;
  }

 private:
  int64_t extent(int axis) const {
    return axis < 0 ? 1 : axes_.axes[static_cast<size_t>(axis)].extent;
  }

  bool operands() {
    a_ = &under_widening(group_.factor(0));
    b_ = &under_widening(group_.factor(1));
    if (!is_plain_read(*a_) || !is_plain_read(*b_)) return false;
    call_.operands = group_.type_of(a_->symbol);
    call_.result = group_.result_type();
    return group_.type_of(b_->symbol) == call_.operands;
  }

  /// One axis each of rows, columns and depth, and at most one of the batch.
  bool sort_axes() {
    for (size_t i = 0; i < axes_.axes.size(); ++i) {
      if (axes_.axes[i].extent == 1) continue;
      const int axis = static_cast<int>(i);
      const int64_t a = group_.stride(*a_, axis), b = group_.stride(*b_, axis);
      if (a < 0 || b < 0) return false;
      int* kind = axes_.axes[i].reduced ? &k_ : a > 0 && b > 0 ? &batch_ : a > 0 ? &m_ : &n_;
      if (axes_.axes[i].reduced ? a == 0 || b == 0 : a == 0 && b == 0) return false;
      if (*kind >= 0) return false;
      *kind = axis;
    }
    return m_ >= 0 && n_ >= 0 && k_ >= 0;
  }

  bool describe() {
    const auto a = [&](int axis) { return group_.stride(*a_, axis); };
    const auto b = [&](int axis) { return group_.stride(*b_, axis); };
    call_.batch = extent(batch_);
    call_.m = extent(m_);
    call_.n = extent(n_);
    call_.k = extent(k_);
    call_.a_transposed = a(k_) != 1;
    call_.b_transposed = b(n_) != 1;
    if (a(call_.a_transposed ? m_ : k_) != 1) return false;
    if (b(call_.b_transposed ? k_ : n_) != 1 || group_.result_stride(n_) != 1) return false;
    call_.a_row = a(call_.a_transposed ? k_ : m_);
    call_.b_row = b(call_.b_transposed ? n_ : k_);
    call_.c_row = group_.result_stride(m_);
    call_.a_matrix = a(batch_);
    call_.b_matrix = b(batch_);
    call_.c_matrix = group_.result_stride(batch_);
    return true;
  }

  const LibraryGroup& group_;
  const GroupAxes& axes_;
  ProductCall call_;
  const Scalar* a_ = nullptr;
  const Scalar* b_ = nullptr;
  int batch_ = -1, m_ = -1, n_ = -1, k_ = -1;
};

}  // namespace

std::optional<MatchedProduct> match_product(const LibraryGroup& group, const GroupAxes& axes) {
  if (!group.is_contraction()) return std::nullopt;
  return Product(group, axes).match();
}

}  // namespace weft
