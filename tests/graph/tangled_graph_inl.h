#pragma once

// The definitions of tangled_graph.h, inline so that every test binary can include them without a
// library of tests.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "tests/graph/random_graph.h"
#include "tests/graph/tangled_graph.h"

namespace weft {

inline TangledGraphOptions small_tangled_graphs() {
  TangledGraphOptions options;
  options.least_nodes = 6;
  options.most_nodes = 30;
  options.extents = {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 33};
  options.most_elements = 1500;
  options.most_terms = 12000;
  return options;
}

/// Adds random nodes to a graph. Each add_… picks operands among the values that exist and returns
/// what it made, or kNoValue when nothing fits.
class TangledGraphBuilder {
 public:
  TangledGraphBuilder(uint64_t seed, const TangledGraphOptions& options)
      : random_(seed), options_(options) {}

  Graph build() {
    for (int64_t i = random_.between(2, 4); i > 0; --i) {
      extents_.push_back(random_.pick(options_.extents));
    }
    const int64_t kind = random_.between(0, 9);
    types_ = kind < 6   ? std::vector{DType::kF32}
             : kind < 8 ? std::vector{DType::kF32, DType::kF32, DType::kF16}
                        : std::vector{DType::kF16};
    for (int64_t i = random_.between(1, 3); i > 0; --i) {
      const int64_t more = options_.convolutions ? 1 : 0;
      add_input({random_.pick(types_), random_shape(2 + more, 3 + more)});
    }
    const auto nodes =
        static_cast<size_t>(random_.between(options_.least_nodes, options_.most_nodes));
    for (int attempt = 0; graph_.nodes.size() < nodes && attempt < 4000; ++attempt) add_some();
    choose_outputs();
    return std::move(graph_);
  }

 private:
  using Ids = std::vector<ValueId>;

  /// What is known of a value's numbers.
  struct Numbers {
    double bound = 4;    ///< none is larger in magnitude
    double typical = 2;  ///< how large they are
    /// All are computed without rounding, as multiples of 2^step.
    bool exact = false;
    int step = 0;
  };

  static constexpr int kMostReaders = 4;
  static int64_t elements(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  /// Those of random_tensor.
  static constexpr Numbers kRandom = {4, 2, true, -4};

  // Values.

  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  DType dtype(ValueId v) const { return graph_.type(v).dtype; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(shape(v).size()); }
  int64_t extent(ValueId v, int64_t axis) const { return shape(v)[static_cast<size_t>(axis)]; }
  bool is_real(ValueId v) const { return is_float(dtype(v)); }
  Numbers numbers(ValueId v) const {
    return v == kNoValue ? Numbers{} : numbers_[static_cast<size_t>(v)];
  }

  /// Of a value in that type: exact where it has the digits.
  static Numbers in_type(Numbers n, DType type) {
    const int digits = type == DType::kF16 ? 11 : 24;
    n.exact = n.exact && n.bound <= std::exp2(n.step + digits) && n.step >= -20;
    return n;
  }

  /// None where one of the operands is none, or the operation does not take them.
  ValueId add(GraphOp op, Attributes attrs, const Ids& operands, TensorType hint, Numbers n) {
    if (std::ranges::find(operands, kNoValue) != operands.end()) return kNoValue;
    const Result<ValueId> made = graph_.add1(op, std::move(attrs), operands, std::move(hint));
    if (!made.ok()) return kNoValue;
    numbers_.resize(graph_.values.size());
    readers_.resize(graph_.values.size(), 0);
    numbers_[static_cast<size_t>(*made)] = in_type(n, dtype(*made));
    for (const ValueId v : operands) ++readers_[static_cast<size_t>(v)];
    return *made;
  }
  ValueId elementwise(ScalarOp op, const Ids& operands, Numbers n, DType type = DType::kF32) {
    return add(GraphOp::kElementwise, ElementwiseAttrs{op}, operands, {type, {}}, n);
  }
  /// The same numbers in other places.
  ValueId move(GraphOp op, Attributes attrs, ValueId x, Shape result = {}) {
    const bool large = !result.empty() && elements(result) > options_.most_elements;
    if (x == kNoValue || large) return kNoValue;
    return add(op, std::move(attrs), {x}, {dtype(x), std::move(result)}, numbers(x));
  }

  ValueId add_input(TensorType type) {
    const ValueId v = graph_.add_input("x" + std::to_string(graph_.inputs.size()), type);
    numbers_.resize(graph_.values.size());
    readers_.resize(graph_.values.size(), 0);
    numbers_[static_cast<size_t>(v)] = kRandom;
    return v;
  }
  ValueId add_constant(const TensorType& type) {
    if (elements(type.shape) > 64) return add_input(type);
    return add(GraphOp::kConstant, ConstantAttrs{random_tensor(random_, type, false)}, {}, {},
               kRandom);
  }
  /// A number for all elements of a shape.
  ValueId splat(double number, const TensorType& type) {
    HostTensor value(type.dtype, {});
    value.set_double(0, number);
    const Numbers n{std::abs(number), std::abs(number)};
    const ValueId scalar = add(GraphOp::kConstant, ConstantAttrs{std::move(value)}, {}, {}, n);
    readers_[static_cast<size_t>(scalar)] = kMostReaders;
    if (type.shape.empty()) return scalar;
    const ValueId wide = add(GraphOp::kBroadcast, BroadcastAttrs{}, {scalar}, type, n);
    readers_[static_cast<size_t>(wide)] = kMostReaders;
    return wide;
  }
  /// x with a number beside each element.
  ValueId with(ScalarOp op, ValueId x, double number, Numbers n) {
    if (x == kNoValue) return x;
    const TensorType type = graph_.type(x);
    return elementwise(op, {x, splat(number, type)}, n);
  }

  Shape random_shape(int64_t least, int64_t most) {
    Shape result;
    for (int64_t i = random_.between(least, most); i > 0; --i) {
      result.push_back(random_.pick(extents_));
      if (elements(result) > options_.most_elements) result.back() = 1;
    }
    return result;
  }

  // Operands.

  ValueId any() {
    const auto last = static_cast<int64_t>(graph_.values.size()) - 1;
    for (int attempt = 0;; ++attempt) {
      const int64_t first = random_.chance(55) ? std::max<int64_t>(0, last - 4) : 0;
      const auto v = static_cast<ValueId>(random_.between(first, last));
      const int readers = readers_[static_cast<size_t>(v)];
      if (attempt > 8 || readers == 0 || (readers < kMostReaders && random_.chance(60))) return v;
    }
  }
  template <typename Fits>
  ValueId any_that(Fits&& fits) {
    for (int attempt = 0; attempt < 16; ++attempt) {
      const ValueId v = any();
      if (fits(v)) return v;
    }
    return kNoValue;
  }
  ValueId any_real(int64_t least_rank = 0) {
    return any_that([&](ValueId v) { return is_real(v) && rank(v) >= least_rank; });
  }

  /// A value of the type beside `not_this`: one that exists, one that is broadcast along axes that
  /// it lacks, or an input. By value, since types move as values are added.
  ValueId of_type(TensorType type, ValueId not_this = kNoValue) {
    const ValueId same =
        any_that([&](ValueId v) { return v != not_this && graph_.type(v) == type; });
    if (same != kNoValue && random_.chance(80)) return same;
    if (type.shape.empty()) return add_constant(type);
    BroadcastAttrs attrs;
    const ValueId narrow = any_that([&](ValueId v) {
      return dtype(v) == type.dtype && rank(v) < static_cast<int64_t>(type.shape.size()) &&
             lies_in(shape(v), type.shape, &attrs.dims);
    });
    if (narrow != kNoValue && random_.chance(85)) {
      return move(GraphOp::kBroadcast, attrs, narrow, type.shape);
    }
    if (same != kNoValue) return same;
    if (random_.chance(40)) return add_input(type);
    // A bias or a scale along one axis.
    const int64_t axis = random_.between(0, static_cast<int64_t>(type.shape.size()) - 1);
    const ValueId vector = add_constant({type.dtype, {type.shape[static_cast<size_t>(axis)]}});
    return move(GraphOp::kBroadcast, BroadcastAttrs{{axis}}, vector, type.shape);
  }

  /// Whether some axes of `wide`, in order, are `narrow`; `dims` are they.
  static bool lies_in(const Shape& narrow, const Shape& wide, std::vector<int64_t>* dims) {
    dims->clear();
    for (size_t a = 0; a < wide.size() && dims->size() < narrow.size(); ++a) {
      if (wide[a] == narrow[dims->size()]) dims->push_back(static_cast<int64_t>(a));
    }
    return dims->size() == narrow.size();
  }

  // Nodes.

  void add_some() {
    static const std::vector<ValueId (TangledGraphBuilder::*)()> kKinds = {
        &TangledGraphBuilder::add_unary,         &TangledGraphBuilder::add_unary,
        &TangledGraphBuilder::add_unary,         &TangledGraphBuilder::add_binary,
        &TangledGraphBuilder::add_binary,        &TangledGraphBuilder::add_binary,
        &TangledGraphBuilder::add_binary,        &TangledGraphBuilder::add_reduction,
        &TangledGraphBuilder::add_reduction,     &TangledGraphBuilder::add_reduction,
        &TangledGraphBuilder::add_normalisation, &TangledGraphBuilder::add_product,
        &TangledGraphBuilder::add_product,       &TangledGraphBuilder::add_transpose,
        &TangledGraphBuilder::add_transpose,     &TangledGraphBuilder::add_reshape,
        &TangledGraphBuilder::add_reshape,       &TangledGraphBuilder::add_broadcast,
        &TangledGraphBuilder::add_rarely};
    if (options_.convolutions && random_.chance(15)) {
      add_convolution();
    } else {
      (this->*random_.pick(kKinds))();
    }
  }
  ValueId add_rarely() {
    static const std::vector<ValueId (TangledGraphBuilder::*)()> kKinds = {
        &TangledGraphBuilder::add_slice,    &TangledGraphBuilder::add_concat,
        &TangledGraphBuilder::add_pad,      &TangledGraphBuilder::add_gather,
        &TangledGraphBuilder::add_position, &TangledGraphBuilder::add_choice,
        &TangledGraphBuilder::add_convert,  &TangledGraphBuilder::add_window,
        &TangledGraphBuilder::add_running};
    return (this->*random_.pick(kKinds))();
  }

  /// Scaled down by a power of two where the numbers have grown.
  ValueId tamed(ValueId x) {
    if (x == kNoValue) return x;
    Numbers n = numbers(x);
    const double most = dtype(x) == DType::kF16 ? 1000 : 1e6;
    if (n.typical <= 16 && n.bound <= most) return x;
    const double power = std::ceil(std::log2(std::max(n.typical / 2, n.bound / most)));
    const double factor = std::exp2(-power);
    n.bound *= factor;
    n.typical *= factor;
    n.step -= static_cast<int>(power);
    return with(ScalarOp::kMul, x, factor, n);
  }

  ValueId plus_one(ValueId x) {
    return with(ScalarOp::kAdd, x, 1, {numbers(x).bound + 1, numbers(x).typical + 1});
  }
  ValueId magnitude(ValueId x) { return elementwise(ScalarOp::kAbs, {x}, numbers(x)); }

  ValueId add_unary() {
    ValueId x = any_real();
    if (x == kNoValue) return x;
    const Numbers n = numbers(x);
    switch (random_.between(0, 9)) {
      case 0:
        return elementwise(ScalarOp::kNeg, {x}, n);
      case 1:
        return magnitude(x);
      case 2:
        return elementwise(ScalarOp::kTanh, {x}, {1, std::min(0.8, n.typical)});
      case 3:
        return elementwise(ScalarOp::kSigmoid, {x}, {1, 0.5});
      case 4:
        return elementwise(ScalarOp::kErf, {x}, {1, std::min(0.8, n.typical)});
      case 5:
        return elementwise(ScalarOp::kSqrt, {plus_one(magnitude(x))},
                           {std::sqrt(n.bound + 1), std::sqrt(n.typical + 1)});
      case 6:
        return elementwise(ScalarOp::kRsqrt, {plus_one(magnitude(x))}, {1, 0.6});
      case 7:
        return with(ScalarOp::kMax, x, 0, n);
      case 8:
        return elementwise(ScalarOp::kSin, {x}, {1, 0.6});
      default:
        if (n.bound > 6) x = elementwise(ScalarOp::kTanh, {x}, {1, 0.8});
        return tamed(elementwise(ScalarOp::kExp, {x},
                                 {std::exp(numbers(x).bound), std::exp(numbers(x).typical)}));
    }
  }

  ValueId combine(ValueId a, ValueId b) {
    const Numbers x = numbers(a), y = numbers(b);
    const bool exact = x.exact && y.exact;
    const int step = std::min(x.step, y.step);
    const Numbers sum{x.bound + y.bound, x.typical + y.typical, exact, step};
    const Numbers either{std::max(x.bound, y.bound), std::max(x.typical, y.typical), exact, step};
    const Numbers product{x.bound * y.bound, x.typical * y.typical, exact, x.step + y.step};
    switch (random_.between(0, 8)) {
      case 0:
      case 1:
      case 2:
        return tamed(elementwise(ScalarOp::kAdd, {a, b}, sum));
      case 3:
        return tamed(elementwise(ScalarOp::kSub, {a, b}, sum));
      case 4:
      case 5:
        return tamed(elementwise(ScalarOp::kMul, {a, b}, product));
      case 6:
        return elementwise(ScalarOp::kMax, {a, b}, either);
      case 7:
        return elementwise(ScalarOp::kMin, {a, b}, either);
      default:
        return elementwise(ScalarOp::kDiv, {a, plus_one(magnitude(b))}, {x.bound, x.typical});
    }
  }
  ValueId add_binary() {
    const ValueId a = any_real();
    if (a == kNoValue) return a;
    const ValueId b = random_.chance(5) ? a : of_type(graph_.type(a), a);
    if (b == kNoValue) return b;
    return random_.chance(50) ? combine(a, b) : combine(b, a);
  }

  /// Sum (often the mean), largest or smallest along some axes.
  ValueId reduced(ValueId x, const std::vector<int64_t>& axes, Combiner combiner) {
    Numbers n = numbers(x);
    int64_t terms = 1;
    for (const int64_t a : axes) terms *= extent(x, a);
    if (combiner == Combiner::kSum) {
      n.bound *= static_cast<double>(terms);
      n.typical *= static_cast<double>(terms);
      if (n.bound > 30000 && dtype(x) == DType::kF16) return kNoValue;
    }
    const ValueId y = add(GraphOp::kReduce, ReduceAttrs{axes, combiner}, {x}, {}, n);
    if (y == kNoValue || combiner != Combiner::kSum || random_.chance(40)) return tamed(y);
    const double factor = 1 / static_cast<double>(terms);
    return with(ScalarOp::kMul, y, factor, {numbers(x).bound, numbers(x).typical});
  }
  ValueId back(ValueId y, ValueId x, const std::vector<int64_t>& without) {
    if (x == kNoValue || y == kNoValue) return kNoValue;
    BroadcastAttrs attrs;
    for (int64_t a = 0; a < rank(x); ++a) {
      if (std::ranges::find(without, a) == without.end()) attrs.dims.push_back(a);
    }
    return move(GraphOp::kBroadcast, attrs, y, shape(x));
  }
  ValueId add_reduction() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    std::vector<int64_t> axes = {random_.between(0, rank(x) - 1)};
    if (random_.chance(15) && axes[0] + 1 < rank(x)) axes.push_back(axes[0] + 1);
    const Combiner combiner = random_.pick(std::vector{
        Combiner::kSum, Combiner::kSum, Combiner::kSum, Combiner::kMax, Combiner::kMin});
    const ValueId y = reduced(x, axes, combiner);
    if (y == kNoValue || random_.chance(35)) return y;
    const ValueId wide = back(y, x, axes);
    if (wide == kNoValue || random_.chance(15)) return wide;
    return combine(random_.chance(70) ? x : of_type(graph_.type(x)), wide);
  }

  /// A softmax, or the distance from the mean over its size.
  ValueId add_normalisation() {
    const ValueId x = any_real(1);
    if (x == kNoValue || (dtype(x) == DType::kF16 && numbers(x).bound > 100)) return kNoValue;
    const std::vector<int64_t> axes = {random_.between(0, rank(x) - 1)};
    const int64_t terms = extent(x, axes[0]);
    const Numbers n = numbers(x);
    if (random_.chance(50)) {
      const ValueId largest = add(GraphOp::kReduce, ReduceAttrs{axes, Combiner::kMax}, {x}, {}, n);
      const ValueId below =
          elementwise(ScalarOp::kSub, {x, back(largest, x, axes)}, {2 * n.bound, 2 * n.typical});
      const ValueId e = elementwise(ScalarOp::kExp, {below}, {1, 0.3});
      const Numbers of_sum{static_cast<double>(terms), static_cast<double>(terms) / 3};
      const ValueId sum = add(GraphOp::kReduce, ReduceAttrs{axes, Combiner::kSum}, {e}, {}, of_sum);
      return elementwise(ScalarOp::kDiv, {e, back(sum, e, axes)}, {1, 0.3});
    }
    // A sum of squares beyond float16 is an infinity where it is rounded, and none where it is not.
    const double squares = 4 * n.bound * n.bound * static_cast<double>(terms);
    if (dtype(x) == DType::kF16 && squares > 30000) return kNoValue;
    const auto mean = [&](ValueId v) {
      const double count = static_cast<double>(terms);
      const Numbers s{numbers(v).bound * count, numbers(v).typical * count};
      const ValueId sum = add(GraphOp::kReduce, ReduceAttrs{axes, Combiner::kSum}, {v}, {}, s);
      return with(ScalarOp::kMul, sum, 1 / count, {numbers(v).bound, numbers(v).typical});
    };
    const ValueId far =
        elementwise(ScalarOp::kSub, {x, back(mean(x), x, axes)}, {2 * n.bound, 2 * n.typical});
    const Numbers squared{4 * n.bound * n.bound, 4 * n.typical * n.typical};
    const ValueId variance = mean(elementwise(ScalarOp::kMul, {far, far}, squared));
    const ValueId scale = elementwise(ScalarOp::kRsqrt, {plus_one(variance)}, {1, 0.6});
    return elementwise(ScalarOp::kMul, {far, back(scale, far, axes)}, {2 * n.bound, n.typical});
  }

  ValueId add_product() {
    const ValueId a = any_real(1);
    if (a == kNoValue) return a;
    const int64_t depth_axis = random_.between(0, rank(a) - 1);
    const int64_t depth = extent(a, depth_axis);
    DotAttrs attrs;
    attrs.lhs_contract = {depth_axis};
    // One that exists, with equal extents as batches; or weights.
    ValueId b = kNoValue;
    if (random_.chance(55)) {
      b = any_that([&](ValueId v) {
        return dtype(v) == dtype(a) && v != a && std::ranges::count(shape(v), depth) > 0;
      });
    }
    if (b != kNoValue) {
      match_axes(a, b, depth, &attrs);
    } else {
      Shape other = {depth};
      if (random_.chance(85)) other.push_back(random_.pick(extents_));
      attrs.rhs_contract = {0};
      if (other.size() == 2 && random_.chance(50)) {
        std::swap(other[0], other[1]);
        attrs.rhs_contract = {1};
      }
      b = add_constant({dtype(a), other});
    }
    double terms = static_cast<double>(elements(shape(a)));
    for (int64_t i = 0; i < rank(b); ++i) {
      const auto holds = [&](const std::vector<int64_t>& axes) {
        return std::ranges::find(axes, i) != axes.end();
      };
      if (!holds(attrs.rhs_batch) && !holds(attrs.rhs_contract)) {
        terms *= static_cast<double>(extent(b, i));
      }
    }
    if (terms > static_cast<double>(options_.most_terms) ||
        terms / static_cast<double>(depth) > static_cast<double>(options_.most_elements)) {
      return kNoValue;
    }
    const Numbers x = numbers(a), y = numbers(b);
    const double k = static_cast<double>(depth);
    const Numbers n{x.bound * y.bound * k, x.typical * y.typical * std::sqrt(k), x.exact && y.exact,
                    x.step + y.step};
    const bool half = dtype(a) == DType::kF16 && n.bound < 30000 && random_.chance(70);
    Ids operands = {a, b};
    if (random_.chance(50)) {
      std::swap(operands[0], operands[1]);
      std::swap(attrs.lhs_batch, attrs.rhs_batch);
      std::swap(attrs.lhs_contract, attrs.rhs_contract);
    }
    return tamed(
        add(GraphOp::kDotGeneral, attrs, operands, {half ? DType::kF16 : DType::kF32, {}}, n));
  }
  /// Contracts an axis of b of that extent; sometimes others of equal extents become batches.
  void match_axes(ValueId a, ValueId b, int64_t depth, DotAttrs* attrs) {
    std::vector<int64_t> fitting;
    for (int64_t i = 0; i < rank(b); ++i) {
      if (extent(b, i) == depth) fitting.push_back(i);
    }
    attrs->rhs_contract = {random_.pick(fitting)};
    for (int64_t i = 0; i < rank(a); ++i) {
      for (int64_t j = 0; j < rank(b); ++j) {
        const bool used = i == attrs->lhs_contract[0] || j == attrs->rhs_contract[0] ||
                          std::ranges::find(attrs->rhs_batch, j) != attrs->rhs_batch.end();
        if (used || extent(a, i) != extent(b, j) || random_.chance(30)) continue;
        attrs->lhs_batch.push_back(i);
        attrs->rhs_batch.push_back(j);
        break;
      }
    }
  }

  // Movement.

  ValueId add_transpose() {
    const ValueId x = any_real(2);
    if (x == kNoValue) return x;
    TransposeAttrs attrs;
    for (int64_t i = 0; i < rank(x); ++i) attrs.permutation.push_back(i);
    for (int64_t i = rank(x) - 1; i > 0; --i) {
      std::swap(attrs.permutation[static_cast<size_t>(i)],
                attrs.permutation[static_cast<size_t>(random_.between(0, i))]);
    }
    const ValueId y = move(GraphOp::kTranspose, attrs, x);
    return y != kNoValue && random_.chance(40) ? reshaped(y) : y;
  }
  ValueId add_reshape() {
    const ValueId x = any_real(1);
    return x == kNoValue ? x : reshaped(x);
  }
  ValueId reshaped(ValueId x) {
    Shape result = shape(x);
    const auto at = static_cast<size_t>(random_.between(0, rank(x) - 1));
    switch (random_.between(0, 3)) {
      case 0:  // axes exchanged, elements left where they are
        std::swap(result[at], result[static_cast<size_t>(random_.between(0, rank(x) - 1))]);
        break;
      case 1: {  // split
        std::vector<int64_t> factors;
        for (int64_t f = 2; f < result[at]; ++f) {
          if (result[at] % f == 0) factors.push_back(f);
        }
        if (factors.empty() || result.size() >= 4) return kNoValue;
        const int64_t factor = random_.pick(factors);
        result[at] /= factor;
        result.insert(result.begin() + static_cast<std::ptrdiff_t>(at) + 1, factor);
        break;
      }
      case 2:  // merge
        if (at + 1 >= result.size()) return kNoValue;
        result[at] *= result[at + 1];
        result.erase(result.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        break;
      default:
        result = {elements(result) / result[at], result[at]};
    }
    if (result == shape(x)) return kNoValue;
    return move(GraphOp::kReshape, ReshapeAttrs{}, x, result);
  }
  ValueId add_broadcast() {
    const ValueId x = any_that([&](ValueId v) { return is_real(v) && rank(v) <= 2; });
    if (x == kNoValue) return x;
    BroadcastAttrs attrs;
    Shape result;
    const int64_t at = random_.between(0, rank(x));
    for (int64_t i = 0; i <= rank(x); ++i) {
      if (i == at) result.push_back(random_.pick(extents_));
      if (i == rank(x)) break;
      attrs.dims.push_back(static_cast<int64_t>(result.size()));
      result.push_back(extent(x, i));
    }
    return move(GraphOp::kBroadcast, attrs, x, result);
  }
  ValueId add_slice() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    SliceAttrs attrs{std::vector<int64_t>(shape(x).size(), 0),
                     std::vector<int64_t>(shape(x).size(), 1)};
    Shape result = shape(x);
    const auto at = static_cast<size_t>(random_.between(0, rank(x) - 1));
    const int64_t full = result[at];
    switch (random_.between(0, 2)) {
      case 0:  // a half
        result[at] = (full + 1) / 2;
        attrs.start[at] = random_.chance(50) ? 0 : full - result[at];
        break;
      case 1:  // every second
        result[at] = (full + 1) / 2;
        attrs.step[at] = 2;
        break;
      default:  // backwards
        attrs.start[at] = full - 1;
        attrs.step[at] = -1;
    }
    return move(GraphOp::kSlice, attrs, x, result);
  }
  ValueId add_concat() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    const int64_t axis = random_.between(0, rank(x) - 1);
    const ValueId y = of_type(graph_.type(x), x);
    if (y == kNoValue || 2 * elements(shape(x)) > options_.most_elements) return kNoValue;
    const Numbers a = numbers(x), b = numbers(y);
    return add(GraphOp::kConcat, ConcatAttrs{axis}, {x, y}, {},
               {std::max(a.bound, b.bound), std::max(a.typical, b.typical), a.exact && b.exact,
                std::min(a.step, b.step)});
  }
  ValueId add_pad() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    PadAttrs attrs{std::vector<int64_t>(shape(x).size(), 0),
                   std::vector<int64_t>(shape(x).size(), 0)};
    const auto at = static_cast<size_t>(random_.between(0, rank(x) - 1));
    attrs.low[at] = random_.between(0, 2);
    attrs.high[at] = random_.between(0, 2);
    if (2 * elements(shape(x)) > options_.most_elements) return kNoValue;
    return add(GraphOp::kPad, attrs, {x, splat(0, {dtype(x), {}})}, {}, numbers(x));
  }
  ValueId add_gather() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    const int64_t axis = random_.between(0, rank(x) - 1);
    ValueId index = any_that([&](ValueId v) { return dtype(v) == DType::kI64 && rank(v) <= 1; });
    if (index == kNoValue) index = add_constant({DType::kI64, {random_.pick(extents_)}});
    if (elements(shape(x)) * elements(shape(index)) > options_.most_elements) {
      return kNoValue;
    }
    return add(GraphOp::kGather, GatherAttrs{axis}, {x, index}, {}, numbers(x));
  }

  // What is not continuous, or no float.

  /// What no order of evaluation rounds: a value that has been moved and added up, or an input.
  ValueId any_exact(int64_t least_rank) {
    const auto fits = [&](ValueId v) {
      return is_real(v) && rank(v) >= least_rank && numbers(v).exact;
    };
    const ValueId x = any_that(fits);
    return x == kNoValue && fits(graph_.inputs[0]) ? graph_.inputs[0] : x;
  }
  ValueId add_position() {
    const ValueId x = any_exact(1);
    if (x == kNoValue) return x;
    const int64_t axis = random_.between(0, rank(x) - 1);
    const auto terms = static_cast<double>(extent(x, axis));
    const Numbers n{terms, terms / 2, true};
    const ValueId y =
        add(GraphOp::kArgReduce,
            ArgReduceAttrs{axis, random_.chance(50) ? Combiner::kArgMax : Combiner::kArgMin,
                           random_.chance(30)},
            {x}, {}, n);
    if (y == kNoValue || random_.chance(40)) return y;
    return tamed(elementwise(ScalarOp::kConvert, {y}, n, dtype(x)));
  }
  ValueId add_choice() {
    const ValueId x = any_exact(0);
    if (x == kNoValue) return x;
    const ScalarOp compare = random_.pick(std::vector{ScalarOp::kLt, ScalarOp::kGe, ScalarOp::kEq});
    const ValueId condition = with(compare, x, 0.5, {1, 1, true});
    const TensorType type{random_.pick(types_), shape(x)};
    const ValueId a = of_type(type, x);
    const ValueId b = of_type(type, a);
    if (a == kNoValue || b == kNoValue) return kNoValue;
    return elementwise(ScalarOp::kSelect, {condition, a, b},
                       {std::max(numbers(a).bound, numbers(b).bound),
                        std::max(numbers(a).typical, numbers(b).typical)});
  }
  ValueId add_convert() {
    const ValueId x = any_real();
    if (x == kNoValue) return x;
    const DType to = random_.pick(types_);
    if (to == dtype(x) || (to == DType::kF16 && numbers(x).bound > 30000)) return kNoValue;
    return elementwise(ScalarOp::kConvert, {x}, numbers(x), to);
  }
  ValueId add_window() {
    const ValueId x = any_real(2);
    if (x == kNoValue) return x;
    WindowAttrs attrs;
    for (int64_t i = 0; i < rank(x); ++i) {
      const bool slides = extent(x, i) > 2 && random_.chance(60);
      attrs.window.push_back(slides ? random_.between(2, 3) : 1);
      attrs.strides.push_back(slides ? random_.between(1, 2) : 1);
      attrs.dilations.push_back(1);
      attrs.low.push_back(slides ? random_.between(0, 1) : 0);
      attrs.high.push_back(slides ? random_.between(0, 1) : 0);
    }
    attrs.combiner = random_.chance(50) ? Combiner::kMax : Combiner::kSum;
    Numbers n = numbers(x);
    if (attrs.combiner == Combiner::kSum) {
      const double most = std::pow(3.0, static_cast<double>(rank(x)));
      n = {n.bound * most, n.typical * 3};
      if (dtype(x) == DType::kF16 && n.bound > 30000) return kNoValue;
    }
    return tamed(add(GraphOp::kReduceWindow, attrs, {x}, {}, n));
  }

  /// Of constant weights, or of weights that are an input.
  ValueId add_convolution() {
    const ValueId x = any_real(3);
    if (x == kNoValue) return x;
    ConvolutionAttrs attrs;
    const int64_t channels = extent(x, 1);
    std::vector<int64_t> groups;
    for (int64_t g = 1; g <= channels; ++g) {
      if (channels % g == 0) groups.push_back(g);
    }
    attrs.groups = random_.pick(groups);
    const int64_t inputs = channels / attrs.groups;
    const std::vector<int64_t> widths = {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, inputs, inputs};
    Shape weights = {attrs.groups * random_.pick(widths), inputs};
    for (int64_t a = 2; a < rank(x); ++a) {
      const int64_t apart = random_.chance(10) ? 2 : 1;
      const int64_t places =
          extent(x, a) > 2 * apart && random_.chance(70) ? 3 : random_.between(1, 2);
      weights.push_back(extent(x, a) > apart ? places : 1);
      attrs.rhs_dilations.push_back(apart);
      attrs.strides.push_back(random_.chance(20) ? 2 : 1);
      attrs.lhs_dilations.push_back(1);
      attrs.low.push_back(random_.between(0, 1));
      attrs.high.push_back(random_.between(0, 1));
    }
    const int64_t terms = elements(weights) / weights[0];
    Numbers n = numbers(x);
    n = {n.bound * kRandom.bound * static_cast<double>(terms),
         n.typical * kRandom.typical * std::sqrt(static_cast<double>(terms))};
    const int64_t results = elements(shape(x)) / channels * weights[0];
    if (results > options_.most_elements || results * terms > options_.most_terms ||
        (dtype(x) == DType::kF16 && n.bound > 30000))
      return kNoValue;
    const TensorType type{dtype(x), weights};
    const ValueId w = random_.chance(20) ? add_input(type)
                                         : add(GraphOp::kConstant,
                                               ConstantAttrs{random_tensor(random_, type, false)},
                                               {}, {}, kRandom);
    return tamed(add(GraphOp::kConvolution, attrs, {x, w}, {}, n));
  }
  ValueId add_running() {
    const ValueId x = any_real(1);
    if (x == kNoValue) return x;
    return add(
        GraphOp::kCumulative,
        CumulativeAttrs{random_.between(0, rank(x) - 1), Combiner::kMax, false, random_.chance(50)},
        {x}, {}, numbers(x));
  }

  /// Whatever nobody reads, and some that are read as well.
  void choose_outputs() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      const bool input = std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
      if (input || (readers_[v] > 0 && !random_.chance(4))) continue;
      graph_.add_output(id, "y" + std::to_string(graph_.outputs.size()));
    }
    if (graph_.outputs.empty()) graph_.add_output(graph_.inputs[0], "y0");
  }

  TestRandom random_;
  TangledGraphOptions options_;
  Graph graph_;
  std::vector<int64_t> extents_;  ///< of this graph
  std::vector<DType> types_;      ///< of its floats
  std::vector<Numbers> numbers_;  ///< by value
  std::vector<int> readers_;      ///< by value
};

inline Graph tangled_graph(uint64_t seed, const TangledGraphOptions& options) {
  return TangledGraphBuilder(seed, options).build();
}

}  // namespace weft
