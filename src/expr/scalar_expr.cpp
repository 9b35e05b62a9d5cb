#include "expr/scalar_expr.h"

#include <bit>
#include <set>

#include "expr/node_map.h"
#include "support/check.h"

namespace weft {
namespace {

bool is_bool_constant(const ScalarRef& s, bool value) {
  return s->kind == Scalar::Kind::kConstant && s->type == DType::kBool &&
         (s->value.i != 0) == value;
}

bool all_constant(const std::vector<ScalarRef>& operands) {
  for (const ScalarRef& o : operands) {
    if (o->kind != Scalar::Kind::kConstant) return false;
  }
  return true;
}

/// What selects and the logical operations are without being evaluated; null if they stay.
ScalarRef folded(ScalarOp op, const std::vector<ScalarRef>& operands) {
  if (op == ScalarOp::kSelect) {
    if (is_bool_constant(operands[0], true) || operands[1] == operands[2]) return operands[1];
    if (is_bool_constant(operands[0], false)) return operands[2];
  }
  if (op != ScalarOp::kAnd && op != ScalarOp::kOr) return nullptr;
  // The constant that leaves the other operand as it is; its opposite decides alone.
  const bool neutral = op == ScalarOp::kAnd;
  for (const size_t i : {0, 1}) {
    if (is_bool_constant(operands[i], neutral)) return operands[1 - i];
    if (is_bool_constant(operands[i], !neutral)) return operands[i];
  }
  return nullptr;
}

bool same_value(const ScalarValue& a, const ScalarValue& b) {
  return a.type == b.type && a.i == b.i &&
         std::bit_cast<uint64_t>(a.f) == std::bit_cast<uint64_t>(b.f);
}

size_t mix(size_t seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdULL;
}

}  // namespace

ScalarRef scalar_constant(ScalarValue value) {
  auto s = std::make_shared<Scalar>();
  s->kind = Scalar::Kind::kConstant;
  s->type = value.type;
  s->value = value;
  return s;
}

ScalarRef scalar_index(IndexExpr index, DType type) {
  if (index.is_const()) {
    return scalar_constant(convert_value(int_value(DType::kI64, index.constant()), type));
  }
  auto s = std::make_shared<Scalar>();
  s->kind = Scalar::Kind::kIndex;
  s->type = type;
  s->index = std::move(index);
  return s;
}

ScalarRef scalar_read(int symbol, DType type, std::vector<IndexExpr> indices,
                      std::vector<ScalarRef> runtime_indices, ScalarRef fill) {
  auto s = std::make_shared<Scalar>();
  s->kind = Scalar::Kind::kRead;
  s->type = type;
  s->symbol = symbol;
  s->indices = std::move(indices);
  s->operands = std::move(runtime_indices);
  s->fill = std::move(fill);
  return s;
}

ScalarRef scalar_apply(ScalarOp op, std::vector<ScalarRef> operands, DType result_type) {
  WEFT_CHECK(operands.size() == static_cast<size_t>(scalar_op_arity(op)),
             std::string(scalar_op_name(op)) + ": number of operands");
  if (ScalarRef same = folded(op, operands)) return same;
  if (all_constant(operands)) {
    std::vector<ScalarValue> values;
    for (const ScalarRef& o : operands) values.push_back(o->value);
    return scalar_constant(evaluate_scalar(op, values, result_type));
  }
  auto s = std::make_shared<Scalar>();
  s->kind = Scalar::Kind::kApply;
  s->type = result_type;
  s->op = op;
  s->operands = std::move(operands);
  return s;
}

ScalarRef scalar_convert(const ScalarRef& operand, DType to) {
  if (operand->type == to) return operand;
  if (operand->kind == Scalar::Kind::kIndex && operand->type == DType::kI64) {
    return scalar_index(operand->index, to);
  }
  return scalar_apply(ScalarOp::kConvert, {operand}, to);
}

ScalarRef scalar_of_index(const IndexExpr& index, const std::vector<ScalarRef>& operands,
                          const RangeOf& range) {
  bool is_static = true;
  for (const int id : variables(index)) is_static = is_static && id < kRuntimeIndexBase;
  if (is_static) return scalar_index(index);
  if (index.is_var()) {
    return scalar_convert(operands[static_cast<size_t>(index.var_id() - kRuntimeIndexBase)],
                          DType::kI64);
  }
  const ScalarRef a = scalar_of_index(index.lhs(), operands, range);
  const ScalarRef b = scalar_of_index(index.rhs(), operands, range);
  if (!a || !b) return nullptr;
  const auto apply = [&](ScalarOp op) { return scalar_apply(op, {a, b}, DType::kI64); };
  switch (index.op()) {
    case IndexOp::kAdd:
      return apply(ScalarOp::kAdd);
    case IndexOp::kMul:
      return apply(ScalarOp::kMul);
    case IndexOp::kMin:
      return apply(ScalarOp::kMin);
    case IndexOp::kMax:
      return apply(ScalarOp::kMax);
    default:
      if (range_of(index.lhs(), range).lo < 0) return nullptr;
      return apply(index.op() == IndexOp::kFloorDiv ? ScalarOp::kDiv : ScalarOp::kRem);
  }
}

ScalarRef scalar_in_range(const IndexExpr& index, int64_t extent, const RangeOf& range) {
  const Interval r = range_of(index, range);
  const auto boolean = [](bool v) { return scalar_constant(int_value(DType::kBool, v ? 1 : 0)); };
  const auto compare = [&](ScalarOp op, int64_t with) {
    return scalar_apply(op, {scalar_index(index), scalar_constant(int_value(DType::kI64, with))},
                        DType::kBool);
  };
  if (r.hi < 0 || r.lo >= extent) return boolean(false);
  const ScalarRef low = r.lo >= 0 ? boolean(true) : compare(ScalarOp::kGe, 0);
  const ScalarRef high = r.hi < extent ? boolean(true) : compare(ScalarOp::kLt, extent);
  return scalar_apply(ScalarOp::kAnd, {low, high}, DType::kBool);
}

namespace {

/// Structural equality of graphs of shared nodes: pairs found equal are not compared again.
class Comparison {
 public:
  bool equal(const ScalarRef& a, const ScalarRef& b) {
    if (a == b) return true;
    if (!a || !b || !same_node(*a, *b)) return false;
    if (a->operands.empty() && !a->fill) return true;
    const auto pair = std::make_pair(a.get(), b.get());
    if (equal_.count(pair) != 0) return true;
    for (size_t i = 0; i < a->operands.size(); ++i) {
      if (!equal(a->operands[i], b->operands[i])) return false;
    }
    if (!equal(a->fill, b->fill)) return false;
    equal_.insert(pair);
    return true;
  }

 private:
  static bool same_node(const Scalar& a, const Scalar& b) {
    if (a.kind != b.kind || a.type != b.type || a.operands.size() != b.operands.size() ||
        !a.fill != !b.fill) {
      return false;
    }
    switch (a.kind) {
      case Scalar::Kind::kConstant:
        return same_value(a.value, b.value);
      case Scalar::Kind::kIndex:
        return a.index == b.index;
      case Scalar::Kind::kRead:
        return a.symbol == b.symbol && a.next == b.next && a.indices == b.indices;
      case Scalar::Kind::kApply:
        return a.op == b.op;
    }
    return false;
  }
  std::set<std::pair<const Scalar*, const Scalar*>> equal_;
};

class ScalarHash {
 public:
  size_t of(const ScalarRef& s) {
    if (!s) return 7;
    if (const size_t* known = known_.find(s.get())) return *known;
    const size_t h = compute(*s);
    known_.insert(s.get(), h);
    return h;
  }

 private:
  size_t compute(const Scalar& s) {
    size_t h = mix(static_cast<size_t>(s.kind) + 1, static_cast<size_t>(s.type));
    switch (s.kind) {
      case Scalar::Kind::kConstant:
        h = mix(mix(h, std::bit_cast<uint64_t>(s.value.f)), static_cast<size_t>(s.value.i));
        break;
      case Scalar::Kind::kIndex:
        h = mix(h, s.index.hash());
        break;
      case Scalar::Kind::kRead:
        h = mix(mix(h, static_cast<size_t>(s.symbol)), s.next ? 1 : 0);
        for (const IndexExpr& i : s.indices) h = mix(h, i.hash());
        break;
      case Scalar::Kind::kApply:
        h = mix(h, static_cast<size_t>(s.op));
        break;
    }
    for (const ScalarRef& o : s.operands) h = mix(h, of(o));
    return s.fill ? mix(h, of(s.fill)) : h;
  }
  NodeMap<size_t> known_;
};

class Rewriter {
 public:
  Rewriter(const std::function<IndexExpr(int)>& index_of,
           const std::function<ScalarRef(const ScalarRef&)>& read_of)
      : renames_(index_of != nullptr),
        index_of_([&index_of](int id) {
          return id >= kRuntimeIndexBase ? IndexExpr::var(id) : index_of(id);
        }),
        read_of_(read_of) {}

  ScalarRef run(const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kConstant) return s;
    if (!is_shared(s)) return rebuilt(s);
    if (const ScalarRef* known = done_.find(s.get())) return *known;
    ScalarRef result = rebuilt(s);
    done_.insert(s.get(), result);
    return result;
  }

 private:
  ScalarRef rebuilt(const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kIndex) {
      if (!renames_) return s;
      IndexExpr index = substitute(s->index, index_of_);
      return index == s->index ? s : scalar_index(std::move(index), s->type);
    }
    std::vector<ScalarRef> operands;
    operands.reserve(s->operands.size());
    bool same = true;
    for (const ScalarRef& o : s->operands) {
      operands.push_back(run(o));
      same = same && operands.back() == o;
    }
    if (s->kind == Scalar::Kind::kApply) {
      return same ? s : scalar_apply(s->op, std::move(operands), s->type);
    }
    return rebuilt_read(s, std::move(operands), same);
  }
  ScalarRef rebuilt_read(const ScalarRef& s, std::vector<ScalarRef> operands, bool same) {
    ScalarRef fill = s->fill ? run(s->fill) : nullptr;
    std::vector<IndexExpr> indices;
    indices.reserve(s->indices.size());
    for (const IndexExpr& i : s->indices) {
      indices.push_back(renames_ ? substitute(i, index_of_) : i);
    }
    ScalarRef read = s;
    if (!same || fill != s->fill || indices != s->indices) {
      auto changed = std::make_shared<Scalar>(*s);
      changed->operands = std::move(operands);
      changed->indices = std::move(indices);
      changed->fill = std::move(fill);
      read = std::move(changed);
    }
    return read_of_ ? read_of_(read) : read;
  }

  bool renames_;
  std::function<IndexExpr(int)> index_of_;
  const std::function<ScalarRef(const ScalarRef&)>& read_of_;
  NodeMap<ScalarRef> done_;
};

void visit_node(const ScalarRef& s, NodeSet& seen, const std::function<void(const Scalar&)>& call) {
  if (is_shared(s) && !seen.insert(s.get())) return;
  for (const ScalarRef& o : s->operands) visit_node(o, seen, call);
  if (s->fill) visit_node(s->fill, seen, call);
  call(*s);
}

}  // namespace

std::string operation_mismatch(ScalarOp op, const std::vector<ScalarRef>& operands,
                               DType result_type) {
  const std::string name(scalar_op_name(op));
  if (operands.size() != static_cast<size_t>(scalar_op_arity(op))) {
    return name + " has another number of operands";
  }
  if (op == ScalarOp::kConvert) return {};
  if (op == ScalarOp::kBitcast) {
    const bool same = byte_size(result_type) == byte_size(operands[0]->type);
    return same ? "" : name + " changes the size";
  }
  const size_t first = op == ScalarOp::kSelect ? 1 : 0;
  const DType type = operands[first]->type;
  for (const ScalarRef& o : std::vector<ScalarRef>(operands.begin() + first, operands.end())) {
    if (o->type != type) return name + " has operands of different types";
  }
  if (first == 1 && operands[0]->type != DType::kBool) return "select needs a bool";
  if (!scalar_op_accepts(op, type)) {
    return name + " is not defined on " + std::string(dtype_name(type));
  }
  const DType result = scalar_op_is_predicate(op) ? DType::kBool : type;
  return result_type == result ? "" : name + " gives " + std::string(dtype_name(result));
}

bool equal(const ScalarRef& a, const ScalarRef& b) { return Comparison().equal(a, b); }
size_t hash(const ScalarRef& s) { return ScalarHash().of(s); }

int64_t operation_count(const ScalarRef& s) {
  int64_t count = 0;
  visit(s, [&](const Scalar& node) { count += node.kind == Scalar::Kind::kApply ? 1 : 0; });
  return count;
}

ScalarRef rewrite(const ScalarRef& s, const std::function<IndexExpr(int var)>& index_of,
                  const std::function<ScalarRef(const ScalarRef& read)>& read_of) {
  return Rewriter(index_of, read_of).run(s);
}

void visit(const ScalarRef& s, const std::function<void(const Scalar&)>& visit) {
  NodeSet seen;
  visit_node(s, seen, visit);
}

}  // namespace weft
