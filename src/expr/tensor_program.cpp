#include "expr/tensor_program.h"

#include <set>

#include "fmt/format.h"
#include "graph/attribute_fields.h"

namespace weft {

Interval TensorExpr::range(int var) const {
  const auto v = static_cast<size_t>(var);
  if (var < 0 || v >= extents.size() + reduce_extents.size()) return kUnbounded;
  const int64_t extent = v < extents.size() ? extents[v] : reduce_extents[v - extents.size()];
  return {0, extent - 1};
}

TensorType declared_type(const Tensor& tensor) {
  return tensor.declared.empty() ? tensor.type : TensorType{tensor.type.dtype, tensor.declared};
}

TensorUses tensor_uses(const TensorProgram& program) {
  TensorUses uses;
  uses.producer.assign(program.tensors.size(), -1);
  uses.consumers.resize(program.tensors.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const auto step = static_cast<int32_t>(i);
    const auto index = static_cast<size_t>(program.steps[i].index);
    const auto reads = [&](TensorId t) {
      std::vector<int32_t>& list = uses.consumers[static_cast<size_t>(t)];
      if (list.empty() || list.back() != step) list.push_back(step);
    };
    if (program.steps[i].opaque) {
      const OpaqueExpr& o = program.opaques[index];
      for (const TensorId t : o.operands) reads(t);
      for (const TensorId t : o.results) uses.producer[static_cast<size_t>(t)] = step;
    } else {
      const TensorExpr& e = program.exprs[index];
      visit(e.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) reads(s.symbol);
      });
      uses.producer[static_cast<size_t>(e.output)] = step;
    }
  }
  return uses;
}

namespace {

Error defect(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const TensorProgram& program)
      : program_(program), defined_(program.tensors.size(), false) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(tensors());
    for (const TensorProgram::Step& step : program_.steps) {
      const auto index = static_cast<size_t>(step.index);
      if (step.index < 0 ||
          index >= (step.opaque ? program_.opaques.size() : program_.exprs.size())) {
        return defect("a step is out of range");
      }
      if (step.opaque) {
        WEFT_RETURN_IF_ERROR(opaque(program_.opaques[index]));
      } else {
        WEFT_RETURN_IF_ERROR(expression(program_.exprs[index]));
      }
    }
    return outputs();
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  bool in_range(TensorId t) const {
    return t >= 0 && static_cast<size_t>(t) < program_.tensors.size();
  }

  Status tensors() {
    std::set<std::string> names;
    for (const Tensor& t : program_.tensors) {
      if (!names.insert(t.name).second) return defect("two tensors are named " + t.name);
      if (!checked_byte_size(t.type.dtype, t.type.shape)) return defect(t.name + " is too large");
      if (!t.declared.empty() && element_count(t.declared) != element_count(t.type.shape)) {
        return defect(t.name + " is declared as something else");
      }
      if (t.kind == Tensor::Kind::kConstant &&
          (t.value.dtype() != t.type.dtype || t.value.shape() != t.type.shape)) {
        return defect("the value of constant " + t.name + " has another type");
      }
    }
    for (const TensorId t : program_.inputs) {
      if (!in_range(t) || tensor(t).kind != Tensor::Kind::kInput) {
        return defect("an input is not an input tensor");
      }
      defined_[static_cast<size_t>(t)] = true;
    }
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      if (program_.tensors[t].kind == Tensor::Kind::kConstant) defined_[t] = true;
    }
    return {};
  }

  Status use(TensorId t, const std::string& by) const {
    if (!in_range(t)) return defect(by + " reads a tensor out of range");
    if (!defined_[static_cast<size_t>(t)])
      return defect(by + " reads " + tensor(t).name + " too early");
    return {};
  }
  Status define(TensorId t) {
    if (!in_range(t)) return defect("a step writes a tensor out of range");
    if (defined_[static_cast<size_t>(t)] || tensor(t).kind != Tensor::Kind::kIntermediate) {
      return defect(tensor(t).name + " is written twice");
    }
    defined_[static_cast<size_t>(t)] = true;
    return {};
  }

  Status opaque(const OpaqueExpr& o) {
    const std::string name(graph_op_name(o.node.op));
    for (const TensorId t : o.operands) WEFT_RETURN_IF_ERROR(use(t, name));
    for (const TensorId t : o.results) WEFT_RETURN_IF_ERROR(define(t));
    std::vector<std::shared_ptr<const Graph>> signatures;
    for (const auto& region : o.regions) {
      if (!region) return defect(name + " lacks a region");
      WEFT_RETURN_IF_ERROR(verify_tensor_program(*region));
      signatures.push_back(signature(*region));
    }
    if (!attributes_match(o.node.op, o.node.attrs))
      return defect(name + " has attributes of another op");
    std::vector<TensorType> operands, results;
    for (const TensorId t : o.operands) operands.push_back(tensor(t).type);
    for (const TensorId t : o.results) results.push_back(tensor(t).type);
    if (results.empty()) return defect(name + " gives nothing");
    const Result<std::vector<TensorType>> inferred =
        infer_types(o.node.op, o.node.attrs, operands, results[0], signatures);
    if (!inferred.ok()) return defect(inferred.error().message);
    return *inferred == results ? Status{} : defect(name + " gives other types than its results");
  }

  /// A graph with the types of a region's inputs and outputs: what the inference of types looks at.
  static std::shared_ptr<const Graph> signature(const TensorProgram& region) {
    auto graph = std::make_shared<Graph>();
    const auto type = [&](TensorId t) {
      return declared_type(region.tensors[static_cast<size_t>(t)]);
    };
    for (const TensorId t : region.inputs) graph->add_input("", type(t));
    for (const TensorId t : region.outputs) graph->outputs.push_back(graph->new_value("", type(t)));
    return graph;
  }

  Status expression(const TensorExpr& e) {
    if (!in_range(e.output)) return defect("an expression writes a tensor out of range");
    const Tensor& out = tensor(e.output);
    const std::string& name = out.name;
    if (!e.body) return defect(name + " has no body");
    if (e.extents != out.type.shape) return defect(name + " has other extents than its tensor");
    for (const int64_t extent : e.reduce_extents) {
      if (extent < 1) return defect(name + " reduces over nothing");
    }
    const bool reduces = !e.reduce_extents.empty();
    if (reduces && e.body->type != e.accumulator) {
      return defect(name + " accumulates in another type than its body's");
    }
    if (!reduces && e.body->type != out.type.dtype) {
      return defect(name + " is " + print(out.type) + " but its body " +
                    std::string(dtype_name(e.body->type)));
    }
    if (reduces && combiner_is_arg(e.combiner) &&
        (e.reduce_extents.size() != 1 || out.type.dtype != DType::kI64)) {
      return defect(name + ": an arg reduction has one axis and gives i64");
    }
    std::string trouble;
    visit(e.body, [&](const Scalar& s) {
      if (trouble.empty()) trouble = scalar(e, s);
    });
    if (!trouble.empty()) return defect(name + ": " + trouble);
    if (reduces && !combiner_fits(e)) {
      return defect(name + ": " + std::string(combiner_name(e.combiner)) + " is not defined on " +
                    std::string(dtype_name(e.accumulator)));
    }
    const bool empty = *element_count(e.extents) == 0;
    if (!empty) WEFT_RETURN_IF_ERROR(inside(e));
    return define(e.output);
  }

  static bool combiner_fits(const TensorExpr& e) {
    const ScalarOp op = combiner_op(e.combiner).value_or(ScalarOp::kMax);
    return scalar_op_accepts(op, e.accumulator);
  }

  std::string variables_of(const TensorExpr& e, const IndexExpr& index, size_t operands) const {
    for (const int id : variables(index)) {
      if (id >= kRuntimeIndexBase) {
        if (static_cast<size_t>(id - kRuntimeIndexBase) >= operands)
          return "a runtime index lacks its value";
        if (!index.is_var()) return "a runtime index does not stand alone on its axis";
      } else if (id < 0 || id >= e.axis_count()) {
        return fmt::format("index variable {} is not one of its axes", id);
      }
    }
    return {};
  }

  std::string scalar(const TensorExpr& e, const Scalar& s) const {
    if (s.kind == Scalar::Kind::kIndex) return variables_of(e, s.index, 0);
    if (s.kind == Scalar::Kind::kApply) return operation_mismatch(s.op, s.operands, s.type);
    if (s.kind != Scalar::Kind::kRead) return {};
    const Status readable = use(s.symbol, "it");
    if (!readable.ok()) return readable.error().message;
    const Tensor& from = tensor(s.symbol);
    if (s.type != from.type.dtype) return "reads " + from.name + " as another type";
    if (s.next) return "reads a next value";
    if (s.indices.size() != from.type.shape.size())
      return "reads " + from.name + " with another rank";
    if (s.fill && s.fill->type != s.type) return "a fill has another type than its read";
    for (const ScalarRef& o : s.operands) {
      if (!is_integer(o->type)) return "a runtime index is not an integer";
    }
    for (const IndexExpr& index : s.indices) {
      std::string trouble = variables_of(e, index, s.operands.size());
      if (!trouble.empty()) return trouble;
    }
    return {};
  }

  /// Reads that stand under no select and have no fill must be inside by their ranges alone.
  Status inside(const TensorExpr& e) const {
    std::set<const Scalar*> seen;
    return inside(e, *e.body, seen);
  }
  Status inside(const TensorExpr& e, const Scalar& s, std::set<const Scalar*>& seen) const {
    if (!seen.insert(&s).second) return {};
    if (s.kind == Scalar::Kind::kRead && !s.fill) {
      const Tensor& from = tensor(s.symbol);
      for (size_t a = 0; a < s.indices.size(); ++a) {
        const IndexExpr& index = s.indices[a];
        if (index.is_var() && index.var_id() >= kRuntimeIndexBase) continue;
        const Interval r = range_of(index, [&](int id) { return e.range(id); });
        if (r.lo < 0 || r.hi >= from.type.shape[a]) {
          return defect(fmt::format("{} reads {} at {}..{} on axis {}, outside",
                                    tensor(e.output).name, from.name, r.lo, r.hi, a));
        }
      }
    }
    const bool select = s.kind == Scalar::Kind::kApply && s.op == ScalarOp::kSelect;
    for (size_t i = 0; i < (select ? 1 : s.operands.size()); ++i) {
      WEFT_RETURN_IF_ERROR(inside(e, *s.operands[i], seen));
    }
    return {};
  }

  Status outputs() const {
    if (program_.outputs.size() != program_.output_names.size()) {
      return defect("outputs and their names differ in number");
    }
    std::vector<bool> is_output(program_.tensors.size(), false);
    for (const TensorId t : program_.outputs) {
      WEFT_RETURN_IF_ERROR(use(t, "the caller"));
      is_output[static_cast<size_t>(t)] = true;
    }
    for (size_t t = 0; t < is_output.size(); ++t) {
      if (program_.tensors[t].is_output != is_output[t]) {
        return defect(program_.tensors[t].name + " is wrongly marked as an output or not");
      }
    }
    return {};
  }

  const TensorProgram& program_;
  std::vector<bool> defined_;
};

}  // namespace

Status verify_tensor_program(const TensorProgram& program) {
  return ProgramVerifier(program).run();
}

}  // namespace weft
