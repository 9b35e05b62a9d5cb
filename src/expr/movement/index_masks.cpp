#include "expr/movement/index_masks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

namespace weft {

namespace {

/// Smaller constants are not worth comparing for.
constexpr int64_t kLeastElements = 64;
/// Nodes of a condition that is written into its readers, at most.
constexpr int kMostNodes = 16;
/// Numbers that 32 bits hold, sums of two of them, too.
constexpr int64_t kLargest = int64_t{1} << 29;

/// Holds where low <= column - row <= high, or where it does not.
struct Band {
  int rows = -1, columns = -1;  ///< axes
  std::optional<int64_t> low, high;
  bool inside = true;
  /// Of a mask of numbers: the one where it holds, and where it does not.
  ScalarRef where, elsewhere;
};

/// The axes along which a tensor of bools changes.
std::vector<int> changing_axes(const HostTensor& mask) {
  const Shape& shape = mask.shape();
  const auto* bytes = reinterpret_cast<const char*>(mask.raw());
  std::vector<int> out;
  int64_t inner = mask.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t around = mask.size() / inner;
    inner /= shape[d];
    const int64_t block = inner * shape[d];
    bool changes = false;
    // What does not change is the same, moved by one along the axis.
    for (int64_t o = 0; o < around && !changes; ++o) {
      const char* at = bytes + o * block;
      changes = std::memcmp(at, at + inner, static_cast<size_t>(block - inner)) != 0;
    }
    if (changes) out.push_back(static_cast<int>(d));
  }
  return out;
}

/// One plane of a mask that changes along its rows and columns alone.
struct Plane {
  const bool* values = nullptr;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
};

Plane plane_of(const HostTensor& mask, int row_axis, int column_axis) {
  const Shape& shape = mask.shape();
  const auto stride = [&](int axis) {
    int64_t n = 1;
    for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) n *= shape[d];
    return n;
  };
  return {mask.data<bool>(), shape[static_cast<size_t>(row_axis)],
          shape[static_cast<size_t>(column_axis)], stride(row_axis), stride(column_axis)};
}

/// Whether the elements that are `inside` lie on a band.
bool fits(const Plane& p, Band* band) {
  int64_t low = p.columns, high = -p.rows, count = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.columns; ++c) {
      if (p.values[r * p.row_stride + c * p.column_stride] != band->inside) continue;
      low = std::min(low, c - r), high = std::max(high, c - r);
      ++count;
    }
  }
  int64_t within = 0;
  for (int64_t r = 0; r < p.rows; ++r)
    within +=
        std::max<int64_t>(std::min(p.columns - 1, r + high) - std::max<int64_t>(0, r + low) + 1, 0);
  if (count == 0 || count != within || count == p.rows * p.columns) return false;
  if (low > 1 - p.rows) band->low = low;
  if (high < p.columns - 1) band->high = high;
  return band->low || band->high;
}

/// Of a tensor of two numbers: which elements are the first of them; empty: it has others.
HostTensor first_of_two(const HostTensor& numbers, int64_t* other) {
  const auto width = static_cast<size_t>(byte_size(numbers.dtype()));
  const std::byte* bytes = numbers.raw();
  const auto at = [&](int64_t i) { return bytes + static_cast<size_t>(i) * width; };
  const auto same = [&](int64_t a, int64_t b) { return std::memcmp(at(a), at(b), width) == 0; };
  *other = -1;
  for (int64_t i = 1; i < numbers.size(); ++i) {
    if (same(i, 0)) continue;
    if (*other < 0) *other = i;
    if (!same(i, *other)) return {};
  }
  if (*other < 0) return {};
  HostTensor out(DType::kBool, numbers.shape());
  for (int64_t i = 0; i < out.size(); ++i) out.mutable_data<bool>()[i] = same(i, 0);
  return out;
}

std::optional<Band> band_of(const Tensor& tensor) {
  const bool is_number = is_float(tensor.type.dtype);
  if (tensor.kind != Tensor::Kind::kConstant || (tensor.type.dtype != DType::kBool && !is_number) ||
      tensor.value.size() < kLeastElements)
    return std::nullopt;
  int64_t other = -1;
  const HostTensor mask = is_number ? first_of_two(tensor.value, &other) : tensor.value;
  const std::vector<int> axes = changing_axes(mask);
  if (axes.size() != 2) return std::nullopt;
  for (const bool inside : {true, false}) {
    Band band{axes[0], axes[1], {}, {}, inside, nullptr, nullptr};
    if (!fits(plane_of(mask, band.rows, band.columns), &band)) continue;
    const auto number = [&](int64_t at) {
      return scalar_constant(float_value(tensor.type.dtype, tensor.value.at_double(at)));
    };
    if (is_number) band.where = number(0), band.elsewhere = number(other);
    return band;
  }
  return std::nullopt;
}

ScalarRef compared(const Band& band, const IndexExpr& row, const IndexExpr& column) {
  const auto at_most = [](const IndexExpr& a, const IndexExpr& b) {
    return scalar_apply(ScalarOp::kLe, {scalar_index(a, DType::kI32), scalar_index(b, DType::kI32)},
                        DType::kBool);
  };
  ScalarRef out;
  if (band.low) out = at_most(row + *band.low, column);
  if (band.high) {
    const ScalarRef high = at_most(column, row + *band.high);
    out = out ? scalar_apply(ScalarOp::kAnd, {out, high}, DType::kBool) : high;
  }
  if (band.where) {
    const auto& [yes, no] =
        band.inside ? std::tie(band.where, band.elsewhere) : std::tie(band.elsewhere, band.where);
    return scalar_apply(ScalarOp::kSelect, {out, yes, no}, yes->type);
  }
  return band.inside ? out : scalar_apply(ScalarOp::kNot, {out}, DType::kBool);
}

/// first + step * index along an axis.
struct Count {
  int axis = -1;
  int64_t first = 0, step = 0;
};

std::optional<Count> count_of(const Tensor& tensor) {
  if (tensor.kind != Tensor::Kind::kConstant || !is_integer(tensor.type.dtype)) return std::nullopt;
  Count count;
  const Shape& shape = tensor.type.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (count.axis >= 0) return std::nullopt;
    count.axis = static_cast<int>(d);
  }
  const int64_t size = tensor.value.size();
  if (count.axis < 0 || size < 2 || size > kLargest) return std::nullopt;
  count.first = tensor.value.at_int(0);
  const int64_t last = tensor.value.at_int(size - 1);
  if (std::abs(count.first) > kLargest || std::abs(last) > kLargest) return std::nullopt;
  count.step = tensor.value.at_int(1) - count.first;
  for (int64_t i = 0; i < size; ++i) {
    if (tensor.value.at_int(i) != count.first + i * count.step) return std::nullopt;
  }
  return count;
}

bool is_plain_read(const ScalarRef& s) {
  return s->kind == Scalar::Kind::kRead && s->operands.empty() && !s->fill;
}

/// Whether an expression is a condition, an integer, or a choice of numbers, of few operations on
/// indices alone.
bool is_of_indices(const TensorExpr& e) {
  if (!e.reduce_extents.empty()) return false;
  int nodes = 0;
  bool reads = false;
  visit(e.body, [&](const Scalar& s) {
    const bool chooses = s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect;
    reads |= s.kind == Scalar::Kind::kRead ||
             (is_float(s.type) && s.kind != Scalar::Kind::kConstant && !chooses);
    ++nodes;
  });
  return !reads && nodes <= kMostNodes && e.body->kind == Scalar::Kind::kApply;
}

class MaskIndexer {
 public:
  explicit MaskIndexer(TensorProgram& program) : program_(program) {
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      const auto id = static_cast<TensorId>(t);
      if (const auto band = band_of(program.tensors[t])) bands_.emplace(id, *band);
      if (const auto count = count_of(program.tensors[t])) counts_.emplace(id, *count);
    }
  }

  bool run() {
    bool changed = false;
    for (TensorExpr& e : program_.exprs) {
      // A factor of a product is better read than chosen.
      numbers_ = e.reduce_extents.empty();
      ScalarRef body = indexed(e.body);
      changed |= body != e.body;
      e.body = std::move(body);
      if (is_of_indices(e)) written_.emplace(e.output, e.body);
    }
    return changed;
  }

 private:
  ScalarRef indexed(const ScalarRef& s) const {
    if (is_plain_read(s)) {
      if (const auto band = bands_.find(s->symbol);
          band != bands_.end() && (numbers_ || !band->second.where))
        return compared(band->second, s->indices[static_cast<size_t>(band->second.rows)],
                        s->indices[static_cast<size_t>(band->second.columns)]);
      if (const auto body = written_.find(s->symbol); body != written_.end())
        return rewrite(body->second, [&](int var) -> IndexExpr {
          return var < kRuntimeIndexBase ? s->indices[static_cast<size_t>(var)]
                                         : IndexExpr::var(var);
        });
      return s;
    }
    if (s->kind != Scalar::Kind::kApply) return s;
    const bool compares = scalar_op_is_comparison(s->op) && is_integer(s->operands[0]->type);
    std::vector<ScalarRef> operands;
    bool changed = false;
    for (const ScalarRef& o : s->operands) {
      operands.push_back(compares ? counted(o) : indexed(o));
      changed |= operands.back() != o;
    }
    return changed ? scalar_apply(s->op, std::move(operands), s->type) : s;
  }

  /// An operand of a comparison.
  ScalarRef counted(const ScalarRef& s) const {
    const auto count = is_plain_read(s) ? counts_.find(s->symbol) : counts_.end();
    if (count == counts_.end()) return indexed(s);
    const IndexExpr& at = s->indices[static_cast<size_t>(count->second.axis)];
    return scalar_index(at * count->second.step + count->second.first, s->type);
  }

  TensorProgram& program_;
  std::map<TensorId, Band> bands_;
  bool numbers_ = true;  ///< masks of numbers become choices, too
  std::map<TensorId, Count> counts_;
  std::map<TensorId, ScalarRef> written_;  ///< bodies that go into readers
};

}  // namespace

bool index_masks(TensorProgram& program) { return MaskIndexer(program).run(); }

}  // namespace weft
