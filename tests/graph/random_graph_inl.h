#pragma once

// The definitions of random_graph.h, inline so that every test binary can include them without a
// library of tests.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/graph/random_graph.h"
#include "tile/check/fits.h"

namespace weft {

inline HostTensor random_tensor(TestRandom& random, const TensorType& type, bool special_values) {
  HostTensor value(type.dtype, type.shape);
  constexpr double kSpecial[] = {0.0, -0.0, std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  for (int64_t i = 0; i < value.size(); ++i) {
    if (!is_float(type.dtype)) {
      value.set_int(i, type.dtype == DType::kBool ? random.between(0, 1) : random.between(-4, 9));
    } else if (special_values && random.chance(8)) {
      value.set_double(i, kSpecial[random.between(0, 4)]);
    } else {
      value.set_double(i, static_cast<double>(random.between(-64, 64)) / 16);
    }
  }
  return value;
}

inline std::vector<HostTensor> random_inputs(const Graph& graph, uint64_t seed,
                                             bool special_values) {
  TestRandom random(seed ^ 0x5bd1e995);
  std::vector<HostTensor> inputs;
  for (ValueId v : graph.inputs) {
    inputs.push_back(random_tensor(random, graph.type(v), special_values));
  }
  return inputs;
}

inline std::string difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  if (a.size() != b.size()) return "another number of tensors";
  for (size_t k = 0; k < a.size(); ++k) {
    const std::string where = "tensor " + std::to_string(k);
    if (a[k].dtype() != b[k].dtype() || a[k].shape() != b[k].shape()) return where + ": type";
    const int64_t width = byte_size(a[k].dtype());
    for (int64_t i = 0; i < a[k].size(); ++i) {
      const double x = a[k].at_double(i);
      const double y = b[k].at_double(i);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (std::memcmp(a[k].raw() + i * width, b[k].raw() + i * width, static_cast<size_t>(width)) !=
          0) {
        return where + " element " + std::to_string(i) + ": " + std::to_string(x) + " and " +
               std::to_string(y);
      }
    }
  }
  return "";
}

/// Adds random nodes to a graph. Each add_… picks operands among the values that exist and returns
/// what it made, or kNoValue when nothing fits.
class RandomGraphBuilder {
 public:
  RandomGraphBuilder(uint64_t seed, const RandomGraphOptions& options, int depth)
      : random_(seed), options_(options), depth_(depth) {}

  Graph build(const std::vector<TensorType>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_.add_input("x" + std::to_string(i), inputs[i]);
    }
    for (int i = 0; i < options_.nodes; ++i) add_node();
    return std::move(graph_);
  }

  /// The outputs: some late values, and one that may be read as well.
  static void choose_outputs(Graph& graph, TestRandom& random) {
    const auto last = static_cast<int64_t>(graph.values.size()) - 1;
    for (int i = 0; i < 3; ++i) {
      const auto v = static_cast<ValueId>(random.between(std::max<int64_t>(0, last - 5), last));
      graph.add_output(v, "y" + std::to_string(i));
    }
  }

  static TensorType random_type(TestRandom& random, const RandomGraphOptions& options) {
    TensorType type{random.pick(options.types), {}};
    const int64_t rank = random.between(0, 4);
    for (int64_t i = 0; i < rank; ++i) {
      type.shape.push_back(random.chance(4) ? 0 : random.between(1, options.longest));
    }
    return type;
  }

 private:
  using Ids = std::vector<ValueId>;

  ValueId add(GraphOp op, Attributes attrs, Ids operands, TensorType hint = {}) {
    Result<Ids> results = graph_.add(op, std::move(attrs), std::move(operands), std::move(hint));
    return results.ok() ? random_.pick(*results) : kNoValue;
  }
  ValueId add_elementwise(ScalarOp op, Ids operands, DType type) {
    return add(GraphOp::kElementwise, ElementwiseAttrs{op}, std::move(operands), {type, {}});
  }

  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  DType dtype(ValueId v) const { return graph_.type(v).dtype; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(shape(v).size()); }

  ValueId any() {
    if (graph_.values.empty() || random_.chance(5))
      return add_constant(random_type(random_, options_));
    const auto last = static_cast<int64_t>(graph_.values.size()) - 1;
    const int64_t first = random_.chance(60) ? std::max<int64_t>(0, last - 3) : 0;  // chains
    return static_cast<ValueId>(random_.between(first, last));
  }
  template <typename Fits>
  ValueId any_that(Fits&& fits) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const ValueId v = any();
      if (v != kNoValue && fits(v)) return v;
    }
    return kNoValue;
  }
  ValueId any_with_rank(int64_t least) {
    return any_that([&](ValueId v) { return rank(v) >= least; });
  }

  ValueId add_constant(const TensorType& type) {
    HostTensor value = random_tensor(random_, type, options_.special_values);
    if (random_.chance(50)) {
      const int64_t choice = random_.between(-1, 2);
      for (int64_t i = 0; i < value.size(); ++i) value.set_int(i, choice);
    }
    return add(GraphOp::kConstant, ConstantAttrs{std::move(value)}, {});
  }
  /// A value of the type: one that exists, a constant, or a broadcast of a scalar. By value, since
  /// types move as values are added.
  ValueId of_type(TensorType type) {
    if (random_.chance(60)) {
      const ValueId v = any_that([&](ValueId u) { return graph_.type(u) == type; });
      if (v != kNoValue) return v;
    }
    if (random_.chance(50)) return add_constant(type);
    const ValueId scalar = add_constant({type.dtype, {}});
    return add(GraphOp::kBroadcast, BroadcastAttrs{}, {scalar}, type);
  }
  ValueId indices(const Shape& index_shape) {
    return of_type({random_.chance(50) ? DType::kI64 : DType::kI32, index_shape});
  }

  void add_node() {
    const int64_t kind = random_.between(0, options_.control_flow && depth_ < 2 ? 25 : 23);
    switch (kind) {
      case 0:
        add_constant(random_type(random_, options_));
        return;
      case 1:
      case 2:
        return add_unary();
      case 3:
      case 4:
      case 5:
        return add_binary();
      case 6:
        return add_select();
      case 7:
        return add_convert();
      case 8:
      case 9:
        return add_broadcast();
      case 10:
        return add_reshape();
      case 11:
        return add_transpose();
      case 12:
      case 13:
        return add_slice();
      case 14:
        return add_pad();
      case 15:
        return add_concat();
      case 16:
        return add_gather();
      case 17:
        return add_scatter();
      case 18:
        return add_reduce();
      case 19:
        return add_window();
      case 20:
        return add_dot();
      case 21:
        return add_convolution();
      case 22:
        return add_ordering();
      case 23:
        return add_iota();
      case 24:
        return add_if();
      default:
        return random_.chance(60) ? add_scan() : add_while();
    }
  }

  void add_unary() {
    const ValueId x = any();
    std::vector<ScalarOp> ops;
    for (int op = 0; op <= static_cast<int>(ScalarOp::kBitcast); ++op) {
      const auto scalar = static_cast<ScalarOp>(op);
      if (scalar_op_arity(scalar) == 1 && scalar != ScalarOp::kConvert &&
          scalar != ScalarOp::kBitcast && scalar_op_accepts(scalar, dtype(x))) {
        ops.push_back(scalar);
      }
    }
    if (ops.empty()) return;
    const ScalarOp favourite = is_float(dtype(x)) ? ScalarOp::kNeg : ops.back();
    const ValueId y = add_elementwise(random_.chance(30) ? favourite : random_.pick(ops), {x}, {});
    if (random_.chance(20)) add_elementwise(favourite, {y}, {});
  }

  void add_binary() {
    const ValueId a = any();
    const ValueId b = random_.chance(15) ? a : of_type(graph_.type(a));
    std::vector<ScalarOp> ops;
    for (int op = 0; op <= static_cast<int>(ScalarOp::kBitcast); ++op) {
      const auto scalar = static_cast<ScalarOp>(op);
      if (scalar_op_arity(scalar) == 2 && scalar_op_accepts(scalar, dtype(a))) {
        ops.push_back(scalar);
      }
    }
    if (is_integer(dtype(a)) && random_.chance(5)) return add_threefry(a, b);
    const ScalarOp op = random_.pick(ops);
    add_elementwise(op, random_.chance(50) ? Ids{a, b} : Ids{b, a}, {});
    if (random_.chance(15)) add_elementwise(op, {a, b}, {});  // often an equal node
  }

  void add_threefry(ValueId a, ValueId b) {
    const ValueId counter = add_elementwise(ScalarOp::kConvert, {a}, DType::kU64);
    const ValueId key = add_elementwise(ScalarOp::kConvert, {b}, DType::kU64);
    const ValueId drawn = add_elementwise(ScalarOp::kThreefry, {counter, key}, {});
    add_elementwise(ScalarOp::kConvert, {drawn}, dtype(a));
  }

  void add_select() {
    const ValueId a = any();
    const ValueId condition = of_type({DType::kBool, shape(a)});
    const ValueId b = random_.chance(10) ? a : of_type(graph_.type(a));
    add_elementwise(ScalarOp::kSelect, {condition, a, b}, {});
  }

  void add_convert() {
    const ValueId x = any();
    const DType to = random_.pick(options_.types);
    const ValueId y = add_elementwise(ScalarOp::kConvert, {x}, to);
    if (random_.chance(40)) add_elementwise(ScalarOp::kConvert, {y}, random_.pick(options_.types));
    if (random_.chance(20)) add_elementwise(ScalarOp::kBitcast, {x}, random_.pick(options_.types));
  }

  void add_broadcast() {
    const ValueId x = any_that([&](ValueId v) { return rank(v) <= 3; });
    if (x == kNoValue) return;
    BroadcastAttrs attrs;
    Shape result;
    for (int64_t i = 0; i < rank(x); ++i) {
      if (random_.chance(25)) result.push_back(random_.between(1, 3));
      attrs.dims.push_back(static_cast<int64_t>(result.size()));
      const int64_t extent = shape(x)[static_cast<size_t>(i)];
      result.push_back(extent == 1 ? random_.between(1, 3) : extent);
    }
    if (random_.chance(25)) result.push_back(random_.between(1, 3));
    add(GraphOp::kBroadcast, attrs, {x}, {DType::kF32, result});
  }

  void add_reshape() {
    const ValueId x = any();
    Shape result = shape(x);
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<size_t>(random_.between(0, static_cast<int64_t>(result.size())));
      if (random_.chance(50) && result.size() < 5) {
        result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), 1);
      } else if (at + 1 < result.size()) {
        result[at] *= result[at + 1];
        result.erase(result.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      } else if (at < result.size() && result[at] == 1) {
        result.erase(result.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    add(GraphOp::kReshape, ReshapeAttrs{}, {x}, {DType::kF32, result});
  }

  void add_transpose() {
    const ValueId x = any_with_rank(2);
    if (x == kNoValue) return;
    TransposeAttrs attrs;
    for (int64_t i = 0; i < rank(x); ++i) attrs.permutation.push_back(i);
    for (int64_t i = rank(x) - 1; i > 0; --i) {
      std::swap(attrs.permutation[static_cast<size_t>(i)],
                attrs.permutation[static_cast<size_t>(random_.between(0, i))]);
    }
    add(GraphOp::kTranspose, attrs, {x});
  }

  void add_slice() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    SliceAttrs attrs;
    Shape result;
    for (int64_t extent : shape(x)) {
      const int64_t start = extent == 0 || random_.chance(40) ? 0 : random_.between(0, extent - 1);
      int64_t step = random_.chance(60) ? 1 : random_.between(-2, 2);
      if (step == 0) step = -1;
      const int64_t room = step > 0 ? extent - 1 - start : start;
      const int64_t most = extent == 0 ? 0 : room / std::abs(step) + 1;
      attrs.start.push_back(start);
      attrs.step.push_back(step);
      result.push_back(random_.chance(40) ? most
                                          : random_.between(std::min<int64_t>(1, most), most));
    }
    add(GraphOp::kSlice, attrs, {x}, {DType::kF32, result});
  }

  void add_pad() {
    const ValueId x = any();
    PadAttrs attrs;
    for (int64_t extent : shape(x)) {
      const bool plain = random_.chance(40);
      attrs.low.push_back(plain ? 0 : random_.between(extent > 1 ? -1 : 0, 2));
      attrs.high.push_back(plain ? 0 : random_.between(extent > 2 ? -1 : 0, 1));
    }
    add(GraphOp::kPad, attrs, {x, of_type({dtype(x), {}})});
  }

  void add_concat() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    const int64_t axis = random_.between(0, rank(x) - 1);
    Ids operands = {x};
    for (int64_t i = random_.between(0, 2); i > 0; --i) {
      TensorType type = graph_.type(x);
      type.shape[static_cast<size_t>(axis)] = random_.between(0, 3);
      operands.push_back(of_type(type));
    }
    const ValueId y = add(GraphOp::kConcat, ConcatAttrs{axis}, operands);
    if (y == kNoValue || random_.chance(60)) return;
    SliceAttrs attrs{std::vector<int64_t>(shape(y).size(), 0),
                     std::vector<int64_t>(shape(y).size(), 1)};
    attrs.start[static_cast<size_t>(axis)] =
        shape(y)[static_cast<size_t>(axis)] - shape(operands.back())[static_cast<size_t>(axis)];
    add(GraphOp::kSlice, attrs, {y}, graph_.type(operands.back()));
  }

  Shape small_shape(int64_t most_rank) {
    Shape result;
    for (int64_t i = random_.between(0, most_rank); i > 0; --i) {
      result.push_back(random_.between(1, 3));
    }
    return result;
  }

  void add_gather() {
    const ValueId x =
        any_that([&](ValueId v) { return rank(v) >= 1 && element_count(shape(v)) > 0; });
    if (x == kNoValue) return;
    const int64_t axis = random_.between(0, rank(x) - 1);
    switch (random_.between(0, 2)) {
      case 0: {
        const int64_t batch = random_.between(0, axis);
        Shape index_shape(shape(x).begin(), shape(x).begin() + batch);
        for (int64_t extent : small_shape(2)) index_shape.push_back(extent);
        add(GraphOp::kGather, GatherAttrs{axis, batch}, {x, indices(index_shape)});
        return;
      }
      case 1: {
        Shape index_shape = shape(x);
        for (int64_t& extent : index_shape) extent = random_.between(1, extent);
        add(GraphOp::kGatherElements, AxisAttrs{axis}, {x, indices(index_shape)});
        return;
      }
      default: {
        const int64_t batch = random_.between(0, rank(x) - 1);
        Shape index_shape(shape(x).begin(), shape(x).begin() + batch);
        for (int64_t extent : small_shape(2)) index_shape.push_back(extent);
        index_shape.push_back(random_.between(1, rank(x) - batch));
        add(GraphOp::kGatherNd, GatherNdAttrs{batch}, {x, indices(index_shape)});
      }
    }
  }

  Combiner combiner_for(DType type) {
    for (;;) {
      const auto combiner = static_cast<Combiner>(random_.between(0, 5));
      if (scalar_op_accepts(*combiner_op(combiner), type)) return combiner;
    }
  }

  void add_scatter() {
    const ValueId x =
        any_that([&](ValueId v) { return rank(v) >= 1 && element_count(shape(v)) > 0; });
    if (x == kNoValue) return;
    ScatterAttrs attrs{random_.between(0, rank(x) - 1), random_.chance(60), combiner_for(dtype(x))};
    if (random_.chance(50)) {
      Shape index_shape = shape(x);
      for (int64_t& extent : index_shape) extent = random_.between(1, extent);
      add(GraphOp::kScatterElements, attrs,
          {x, indices(index_shape), of_type({dtype(x), index_shape})});
      return;
    }
    attrs.axis = 0;
    Shape index_shape = small_shape(2);
    const int64_t depth = random_.between(1, rank(x));
    Shape update_shape = index_shape;
    update_shape.insert(update_shape.end(), shape(x).begin() + depth, shape(x).end());
    index_shape.push_back(depth);
    add(GraphOp::kScatterNd, attrs, {x, indices(index_shape), of_type({dtype(x), update_shape})});
  }

  void add_reduce() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    const int64_t axis = random_.between(0, rank(x) - 1);
    switch (random_.between(0, 3)) {
      case 0:
        add(GraphOp::kArgReduce,
            ArgReduceAttrs{axis, random_.chance(50) ? Combiner::kArgMax : Combiner::kArgMin,
                           random_.chance(50)},
            {x});
        return;
      case 1:
        add(GraphOp::kCumulative,
            CumulativeAttrs{axis, combiner_for(dtype(x)), random_.chance(50), random_.chance(50)},
            {x});
        return;
      default: {
        ReduceAttrs attrs{{}, combiner_for(dtype(x))};
        for (int64_t i = 0; i < rank(x); ++i) {
          if (random_.chance(50)) attrs.axes.push_back(i);
        }
        add(GraphOp::kReduce, attrs, {x});
      }
    }
  }

  void add_window() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    WindowAttrs attrs;
    attrs.combiner = combiner_for(dtype(x));
    for (int64_t i = 0; i < rank(x); ++i) {
      attrs.window.push_back(random_.between(1, 3));
      attrs.strides.push_back(random_.between(1, 2));
      attrs.dilations.push_back(random_.between(1, 2));
      attrs.low.push_back(random_.between(0, 2));
      attrs.high.push_back(random_.between(0, 2));
    }
    add(GraphOp::kReduceWindow, attrs, {x});
  }

  TensorType accumulation(DType type) {
    if (is_float(type)) return {random_.chance(70) ? type : DType::kF32, {}};
    return {random_.chance(50) ? type : DType::kI32, {}};
  }

  void add_dot() {
    const ValueId a = any_that([&](ValueId v) { return rank(v) >= 1 && dtype(v) != DType::kBool; });
    if (a == kNoValue) return;
    DotAttrs attrs;
    TensorType other{dtype(a), {}};
    for (int64_t i = 0; i < rank(a); ++i) {
      const int64_t role = random_.between(0, 2);
      if (role == 0) continue;
      (role == 1 ? attrs.lhs_batch : attrs.lhs_contract).push_back(i);
      (role == 1 ? attrs.rhs_batch : attrs.rhs_contract)
          .push_back(static_cast<int64_t>(other.shape.size()));
      other.shape.push_back(shape(a)[static_cast<size_t>(i)]);
    }
    for (int64_t extent : small_shape(2)) other.shape.push_back(extent);
    add(GraphOp::kDotGeneral, attrs, {a, of_type(other)}, accumulation(other.dtype));
  }

  void add_convolution() {
    const ValueId x = any_that([&](ValueId v) {
      return rank(v) >= 3 && dtype(v) != DType::kBool && element_count(shape(v)) > 0;
    });
    if (x == kNoValue) return;
    ConvolutionAttrs attrs;
    const int64_t channels = shape(x)[1];
    attrs.groups = random_.chance(30) ? channels : 1;
    TensorType w{dtype(x), {attrs.groups * random_.between(1, 2), channels / attrs.groups}};
    for (int64_t i = 2; i < rank(x); ++i) {
      w.shape.push_back(random_.between(1, 3));
      attrs.strides.push_back(random_.between(1, 2));
      attrs.low.push_back(random_.between(-1, 2));
      attrs.high.push_back(random_.between(0, 2));
      attrs.lhs_dilations.push_back(random_.chance(70) ? 1 : 2);
      attrs.rhs_dilations.push_back(random_.between(1, 2));
    }
    add(GraphOp::kConvolution, attrs, {x, of_type(w)}, accumulation(w.dtype));
  }

  void add_ordering() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    const int64_t axis = random_.between(0, rank(x) - 1);
    if (random_.chance(50)) {
      add(GraphOp::kSort, SortAttrs{axis, random_.chance(50)}, {x});
    } else {
      const int64_t k = random_.between(0, shape(x)[static_cast<size_t>(axis)]);
      add(GraphOp::kTopK, TopKAttrs{axis, k, random_.chance(50)}, {x});
    }
  }

  void add_iota() {
    TensorType type = random_type(random_, options_);
    if (type.shape.empty() || type.dtype == DType::kBool) return;
    add(GraphOp::kIota, IotaAttrs{random_.between(0, static_cast<int64_t>(type.shape.size()) - 1)},
        {}, type);
  }

  /// A closed graph from `inputs` whose first outputs have the types `results`; one more output
  /// when `extra`.
  Graph region(const std::vector<TensorType>& inputs, const std::vector<TensorType>& results,
               bool extra) {
    RandomGraphOptions options = options_;
    options.nodes = 4;
    RandomGraphBuilder builder(random_.bits(), options, depth_ + 1);
    builder.graph_ = builder.build(inputs);
    for (const TensorType& type : results) {
      builder.graph_.add_output(builder.of_type(type),
                                "r" + std::to_string(builder.graph_.outputs.size()));
    }
    if (extra) builder.graph_.add_output(builder.any(), "extra");
    return std::move(builder.graph_);
  }

  std::vector<TensorType> types_of(const Ids& values) const {
    std::vector<TensorType> types;
    for (ValueId v : values) types.push_back(graph_.type(v));
    return types;
  }
  Ids some(int64_t least, int64_t most) {
    Ids values;
    for (int64_t i = random_.between(least, most); i > 0; --i) values.push_back(any());
    return values;
  }
  void add_regions(GraphOp op, Attributes attrs, Ids operands, std::vector<Graph> regions) {
    std::vector<std::shared_ptr<const Graph>> shared;
    for (Graph& graph : regions) shared.push_back(std::make_shared<const Graph>(std::move(graph)));
    const Result<Ids> results =
        graph_.add(op, std::move(attrs), std::move(operands), {}, std::move(shared));
    WEFT_CHECK(results.ok(), results.error().message);
  }

  void add_if() {
    Ids operands = some(0, 3);
    const std::vector<TensorType> captures = types_of(operands);
    operands.insert(operands.begin(), of_type({DType::kBool, {}}));
    const std::vector<TensorType> results = {random_type(random_, options_),
                                             random_type(random_, options_)};
    std::vector<Graph> regions;
    regions.push_back(region(captures, results, false));
    regions.push_back(region(captures, results, false));
    add_regions(GraphOp::kIf, IfAttrs{}, std::move(operands), std::move(regions));
  }

  void add_scan() {
    const ValueId x = any_with_rank(1);
    if (x == kNoValue) return;
    Ids operands = some(0, 2);
    ScanAttrs attrs;
    attrs.carry_count = static_cast<int64_t>(operands.size());
    attrs.scanned_count = 1;
    attrs.x_reverse = {random_.chance(50)};
    attrs.y_reverse = {random_.chance(50)};
    const std::vector<TensorType> carries = types_of(operands);
    operands.push_back(x);
    for (ValueId v : some(0, 2)) operands.push_back(v);
    std::vector<TensorType> inputs = types_of(operands);
    Shape& slice = inputs[carries.size()].shape;
    slice.erase(slice.begin());
    std::vector<Graph> regions;
    regions.push_back(region(inputs, carries, true));
    add_regions(GraphOp::kScan, attrs, std::move(operands), std::move(regions));
  }

  /// A counter that ends the loop, and other carries.
  void add_while() {
    Ids operands = {add_constant({DType::kI64, {}})};
    for (ValueId v : some(0, 2)) operands.push_back(v);
    const auto carries = static_cast<int64_t>(operands.size());
    const std::vector<TensorType> carry_types = types_of(operands);
    for (ValueId v : some(0, 2)) operands.push_back(v);
    const std::vector<TensorType> inputs = types_of(operands);

    RandomGraphOptions few = options_;
    few.nodes = 0;
    RandomGraphBuilder condition(random_.bits(), few, depth_ + 1);
    condition.graph_ = condition.build(inputs);
    HostTensor limit(DType::kI64, {});
    limit.set_int(0, 3);
    const ValueId bound = condition.add(GraphOp::kConstant, ConstantAttrs{limit}, {});
    condition.graph_.add_output(
        condition.add_elementwise(ScalarOp::kLt, {condition.graph_.inputs[0], bound}, {}), "go");

    Graph body = region(inputs, carry_types, false);
    HostTensor one(DType::kI64, {});
    one.set_int(0, 1);
    const ValueId step = *body.add1(GraphOp::kConstant, ConstantAttrs{one}, {});
    body.outputs[0] =
        *body.add1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kAdd}, {body.inputs[0], step});
    std::vector<Graph> regions;
    regions.push_back(std::move(condition.graph_));
    regions.push_back(std::move(body));
    add_regions(GraphOp::kWhile, WhileAttrs{carries}, std::move(operands), std::move(regions));
  }

  TestRandom random_;
  RandomGraphOptions options_;
  int depth_;
  Graph graph_;
};

inline Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  TestRandom random(seed);
  std::vector<TensorType> inputs;
  for (int64_t i = random.between(1, 3); i > 0; --i) {
    inputs.push_back(RandomGraphBuilder::random_type(random, options));
  }
  Graph graph = RandomGraphBuilder(random.bits(), options, 0).build(inputs);
  RandomGraphBuilder::choose_outputs(graph, random);
  return graph;
}

}  // namespace weft
