#include <cmath>
#include <cstring>

#include "expr/element_program.h"
#include "interp/interpreter.h"

namespace weft {
namespace {

/// Loops that never end are a user's input.
constexpr int64_t kMaxIterations = int64_t{1} << 32;

/// Counts through a box in row-major order.
class BoxCounter {
 public:
  BoxCounter(std::vector<int64_t>& point, size_t first, const std::vector<int64_t>& extents)
      : point_(point), first_(first), extents_(extents) {
    for (size_t i = 0; i < extents.size(); ++i) point_[first_ + i] = 0;
  }
  bool next() {
    for (size_t i = extents_.size(); i-- > 0;) {
      if (++point_[first_ + i] < extents_[i]) return true;
      point_[first_ + i] = 0;
    }
    return false;
  }

 private:
  std::vector<int64_t>& point_;
  size_t first_;
  const std::vector<int64_t>& extents_;
};

/// One reduction; floats are kept as double until the end, as in the interpreter.
class Reduction {
 public:
  explicit Reduction(const TensorExpr& e)
      : expr_(e), wide_(is_float(e.accumulator) ? DType::kF64 : e.accumulator) {}

  void start() {
    first_ = true;
    position_ = best_position_ = 0;
    if (!combiner_is_arg(expr_.combiner)) total_ = combiner_identity(expr_.combiner, wide_);
  }
  void add(const ScalarValue& value) {
    if (combiner_is_arg(expr_.combiner)) {
      add_candidate(value);
    } else {
      total_ = combine(expr_.combiner, total_, convert_value(value, wide_));
    }
  }
  ScalarValue result(DType type) const {
    if (combiner_is_arg(expr_.combiner)) return int_value(type, best_position_);
    return convert_value(total_, type);
  }

 private:
  void add_candidate(const ScalarValue& value) {
    if (first_ || beats(value, best_)) {
      best_ = value;
      best_position_ = position_;
    }
    first_ = false;
    ++position_;
  }
  bool beats(const ScalarValue& a, const ScalarValue& b) const {
    const bool a_nan = is_float(a.type) && std::isnan(a.f);
    const bool b_nan = is_float(b.type) && std::isnan(b.f);
    if (a_nan || b_nan) return a_nan && (!b_nan || expr_.last_on_ties);
    const ScalarValue operands[] = {a, b};
    const bool is_max = expr_.combiner == Combiner::kArgMax;
    const ScalarOp op = is_max ? (expr_.last_on_ties ? ScalarOp::kGe : ScalarOp::kGt)
                               : (expr_.last_on_ties ? ScalarOp::kLe : ScalarOp::kLt);
    return evaluate_scalar(op, operands, DType::kBool).i != 0;
  }

  const TensorExpr& expr_;
  DType wide_;
  bool first_ = true;
  int64_t position_ = 0, best_position_ = 0;
  ScalarValue best_, total_;
};

void store(HostTensor& to, int64_t i, const ScalarValue& value) {
  if (is_float(to.dtype())) {
    to.set_double(i, value.f);
  } else {
    to.set_int(i, value.i);
  }
}

class Evaluation {
 public:
  Evaluation(const TensorProgram& program, const std::vector<HostTensor>& inputs)
      : program_(program), values_(program.tensors.size()) {
    for (size_t t = 0; t < values_.size(); ++t) {
      if (program.tensors[t].kind == Tensor::Kind::kConstant) values_[t] = program.tensors[t].value;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[static_cast<size_t>(program.inputs[i])] = inputs[i];
    }
  }

  Result<std::vector<HostTensor>> run() {
    for (const TensorProgram::Step& step : program_.steps) {
      const auto index = static_cast<size_t>(step.index);
      if (step.opaque) {
        WEFT_RETURN_IF_ERROR(opaque(program_.opaques[index]));
      } else {
        WEFT_RETURN_IF_ERROR(expression(program_.exprs[index]));
      }
    }
    std::vector<HostTensor> outputs;
    for (const TensorId t : program_.outputs) {
      const TensorType known = declared_type(program_.tensors[static_cast<size_t>(t)]);
      outputs.push_back(values_[static_cast<size_t>(t)].reshaped(known.shape));
    }
    return outputs;
  }

 private:
  const TensorType& type(TensorId t) const { return program_.tensors[static_cast<size_t>(t)].type; }

  Status expression(const TensorExpr& e) {
    const TensorType& out = type(e.output);
    HostTensor result(out.dtype, out.shape);
    ElementProgram body(e, values_);
    Reduction reduction(e);
    std::vector<int64_t> point(static_cast<size_t>(e.axis_count()), 0);
    BoxCounter outer(point, 0, e.extents);
    for (int64_t i = 0; i < result.size(); ++i, outer.next()) {
      if (e.reduce_extents.empty()) {
        store(result, i, body.at(point));
        continue;
      }
      reduction.start();
      BoxCounter inner(point, e.extents.size(), e.reduce_extents);
      do {
        reduction.add(body.at(point));
      } while (inner.next());
      store(result, i, reduction.result(out.dtype));
    }
    if (body.went_outside()) {
      return Error{ErrorCode::kInternal, "a read of " +
                                             program_.tensors[static_cast<size_t>(e.output)].name +
                                             " leaves its tensor"};
    }
    values_[static_cast<size_t>(e.output)] = std::move(result);
    return {};
  }

  Status opaque(const OpaqueExpr& o) {
    std::vector<HostTensor> operands;
    for (const TensorId t : o.operands) operands.push_back(values_[static_cast<size_t>(t)]);
    Result<std::vector<HostTensor>> results = o.node.op == GraphOp::kIf      ? branch(o, operands)
                                              : o.node.op == GraphOp::kWhile ? loop(o, operands)
                                              : o.node.op == GraphOp::kScan  ? scan(o, operands)
                                                                             : node(o, operands);
    if (!results.ok()) return results.take_error();
    for (size_t i = 0; i < o.results.size(); ++i) {
      values_[static_cast<size_t>(o.results[i])] = std::move((*results)[i]);
    }
    return {};
  }

  using Tensors = Result<std::vector<HostTensor>>;

  Tensors node(const OpaqueExpr& o, const std::vector<HostTensor>& operands) const {
    Graph graph;
    Node node = o.node;
    node.operands.clear();
    node.results.clear();
    for (const TensorId t : o.operands) node.operands.push_back(graph.new_value("", type(t)));
    for (const TensorId t : o.results) node.results.push_back(graph.new_value("", type(t)));
    return interpret_node(graph, node, operands);
  }

  static Tensors branch(const OpaqueExpr& o, const std::vector<HostTensor>& operands) {
    const size_t taken = operands[0].at_int(0) != 0 ? 0 : 1;
    return evaluate(*o.regions[taken], {operands.begin() + 1, operands.end()});
  }

  static Tensors loop(const OpaqueExpr& o, std::vector<HostTensor> values) {
    const int64_t carries = std::get<WhileAttrs>(o.node.attrs).carry_count;
    for (int64_t i = 0;; ++i) {
      if (i == kMaxIterations) return invalid_input("a while loop does not end");
      WEFT_ASSIGN_OR_RETURN(const std::vector<HostTensor> go, evaluate(*o.regions[0], values));
      if (go[0].at_int(0) == 0) break;
      WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> next, evaluate(*o.regions[1], values));
      for (int64_t c = 0; c < carries; ++c) {
        values[static_cast<size_t>(c)] = std::move(next[static_cast<size_t>(c)]);
      }
    }
    values.resize(static_cast<size_t>(carries));
    return values;
  }

  static HostTensor slice_of(const HostTensor& x, int64_t t) {
    HostTensor slice(x.dtype(), Shape(x.shape().begin() + 1, x.shape().end()));
    std::memcpy(slice.mutable_raw(), x.raw() + t * slice.bytes(),
                static_cast<size_t>(slice.bytes()));
    return slice;
  }

  Tensors scan(const OpaqueExpr& o, const std::vector<HostTensor>& operands) const {
    const auto& attrs = std::get<ScanAttrs>(o.node.attrs);
    const auto carries = static_cast<size_t>(attrs.carry_count);
    const int64_t trips = operands[carries].shape()[0];
    std::vector<HostTensor> results(operands.begin(), operands.begin() + attrs.carry_count);
    for (size_t i = carries; i < o.results.size(); ++i) {
      results.emplace_back(type(o.results[i]).dtype, type(o.results[i]).shape);
    }
    std::vector<HostTensor> inputs = operands;
    for (int64_t t = 0; t < trips; ++t) {
      for (size_t i = 0; i < static_cast<size_t>(attrs.scanned_count); ++i) {
        inputs[carries + i] =
            slice_of(operands[carries + i], attrs.x_reverse[i] ? trips - 1 - t : t);
      }
      WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> next, evaluate(*o.regions[0], inputs));
      for (size_t i = carries; i < results.size(); ++i) {
        const int64_t slice = attrs.y_reverse[i - carries] ? trips - 1 - t : t;
        std::memcpy(results[i].mutable_raw() + slice * next[i].bytes(), next[i].raw(),
                    static_cast<size_t>(next[i].bytes()));
      }
      for (size_t i = 0; i < carries; ++i) inputs[i] = results[i] = std::move(next[i]);
    }
    return results;
  }

  const TensorProgram& program_;
  std::vector<HostTensor> values_;
};

}  // namespace

Result<std::vector<HostTensor>> evaluate(const TensorProgram& program,
                                         const std::vector<HostTensor>& inputs) {
  if (inputs.size() != program.inputs.size()) {
    return invalid_input("the program takes " + std::to_string(program.inputs.size()) +
                         " inputs, not " + std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = program.tensors[static_cast<size_t>(program.inputs[i])];
    if (inputs[i].dtype() != t.type.dtype || inputs[i].shape() != t.type.shape) {
      return invalid_input("input " + t.name + " must be " + print(t.type));
    }
  }
  return Evaluation(program, inputs).run();
}

}  // namespace weft
