#include "expr/analysis/dependence.h"

#include <algorithm>
#include <set>
#include <span>

#include "graph/transcendental.h"

namespace weft {
namespace {

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
int64_t saturating_add(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

int64_t point_count(const TensorExpr& e) {
  int64_t points = 1;
  for (int v = 0; v < e.axis_count(); ++v) points = saturating_mul(points, e.range(v).hi + 1);
  return points;
}

int64_t size_of(const TensorProgram& program, TensorId t) {
  return element_count(program.tensors[static_cast<size_t>(t)].type.shape).value_or(INT64_MAX);
}

bool counts_as_work(const Scalar& s) {
  return s.kind == Scalar::Kind::kApply && s.op != ScalarOp::kConvert &&
         s.op != ScalarOp::kBitcast && s.op != ScalarOp::kSelect && s.type != DType::kBool;
}

int64_t multiply_add_slots(ScalarOp op) {
  switch (op) {
    case ScalarOp::kDiv:
    case ScalarOp::kRem:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
      return 10;
    case ScalarOp::kThreefry:
      return 75;
    default:
      return is_transcendental(op) ? 15 : 1;
  }
}

}  // namespace

DependenceClass dependence_class(const TensorExpr& expr, TensorId read) {
  bool many = false;
  visit(expr.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || s.symbol != read) return;
    for (const IndexExpr& index : s.indices) {
      for (const int id : variables(index)) {
        many =
            many || (id >= expr.output_rank() && (id < kRuntimeIndexBase || !s.operands.empty()));
      }
    }
  });
  return many ? DependenceClass::kOneToMany : DependenceClass::kOneToOne;
}

double ExprCost::intensity() const {
  return elements == 0 ? 0 : static_cast<double>(flops) / static_cast<double>(elements);
}

int64_t distinct_elements(const TensorProgram& program, const TensorExpr& expr,
                          const Scalar& read) {
  const Shape& shape = program.tensors[static_cast<size_t>(read.symbol)].type.shape;
  int64_t count = 1;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    const IndexExpr& index = read.indices[a];
    if (index.is_var() && index.var_id() < kRuntimeIndexBase) {
      count = saturating_mul(count, std::min(shape[a], expr.range(index.var_id()).hi + 1));
      continue;
    }
    int64_t combinations = 1;
    bool runtime = false;
    for (const int id : variables(index)) {
      runtime = runtime || id >= kRuntimeIndexBase;
      if (!runtime) combinations = saturating_mul(combinations, expr.range(id).hi + 1);
    }
    if (runtime) combinations = point_count(expr);
    int64_t reach = shape[a];
    if (!runtime) {
      const Interval r = range_of(index, [&](int id) { return expr.range(id); });
      reach = std::min(shape[a], std::max<int64_t>(0, std::min(r.hi, shape[a] - 1) -
                                                          std::max<int64_t>(r.lo, 0) + 1));
    }
    count = saturating_mul(count, std::min(reach, combinations));
  }
  return std::min(count, point_count(expr));
}

std::map<TensorId, int64_t> bytes_read_by_tensor(const TensorProgram& program,
                                                 const TensorExpr& expr) {
  std::map<TensorId, int64_t> touched;
  visit(expr.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    int64_t& elements = touched[s.symbol];
    elements = std::min(size_of(program, s.symbol),
                        saturating_add(elements, distinct_elements(program, expr, s)));
  });
  for (auto& [t, amount] : touched) {
    amount = saturating_mul(amount, byte_size(program.tensors[static_cast<size_t>(t)].type.dtype));
  }
  return touched;
}

int64_t flops_of(const TensorExpr& expr) {
  int64_t work = expr.reduce_extents.empty() ? 0 : 1;
  visit(expr.body, [&](const Scalar& s) { work += counts_as_work(s) ? 1 : 0; });
  return saturating_mul(work, point_count(expr));
}

ExprCost expr_cost(const TensorProgram& program, const TensorExpr& expr) {
  ExprCost cost;
  cost.flops = flops_of(expr);
  for (const auto& [t, bytes] : bytes_read_by_tensor(program, expr)) {
    cost.bytes_read = saturating_add(cost.bytes_read, bytes);
    const DType type = program.tensors[static_cast<size_t>(t)].type.dtype;
    cost.elements = saturating_add(cost.elements, bytes / byte_size(type));
  }
  const DType type = program.tensors[static_cast<size_t>(expr.output)].type.dtype;
  cost.bytes_written = saturating_mul(size_of(program, expr.output), byte_size(type));
  cost.elements = saturating_add(cost.elements, size_of(program, expr.output));
  return cost;
}

int64_t flops_at_peak(const TensorExpr& expr) {
  if (expr.is_contraction) return flops_of(expr);
  int64_t slots = expr.reduce_extents.empty() ? 0 : 1;
  visit(expr.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kApply) slots += multiply_add_slots(s.op);
  });
  return saturating_mul(2 * slots, point_count(expr));
}

namespace {

std::span<const TensorId> made_by(const TensorProgram& program, int32_t step) {
  const TensorProgram::Step& s = program.steps[static_cast<size_t>(step)];
  const auto index = static_cast<size_t>(s.index);
  if (s.opaque) return program.opaques[index].results;
  return {&program.exprs[index].output, 1};
}

/// Whether a path leads from one of the steps (ascending) to another of them.
bool depend_on_each_other(const TensorProgram& program, const TensorUses& uses,
                          const std::vector<int32_t>& steps) {
  std::set<int32_t> behind;  // steps that depend on a member, and are looked at in their order
  const auto add_readers = [&](int32_t step) {
    for (TensorId t : made_by(program, step)) {
      for (int32_t reader : uses.consumers[static_cast<size_t>(t)]) {
        if (reader <= steps.back()) behind.insert(reader);
      }
    }
  };
  for (int32_t step : steps) add_readers(step);
  while (!behind.empty()) {
    const int32_t step = *behind.begin();
    if (std::ranges::binary_search(steps, step)) return true;
    behind.erase(behind.begin());
    add_readers(step);
  }
  return false;
}

}  // namespace

std::vector<ReuseSet> reuse_sets(const TensorProgram& program) {
  const TensorUses uses = tensor_uses(program);
  std::vector<ReuseSet> sets;
  for (size_t t = 0; t < uses.consumers.size(); ++t) {
    const std::vector<int32_t>& readers = uses.consumers[t];
    if (readers.size() < 2) continue;
    sets.push_back(
        {static_cast<TensorId>(t), readers, depend_on_each_other(program, uses, readers)});
  }
  return sets;
}

std::vector<LiveRange> live_ranges(const TensorProgram& program) {
  const TensorUses uses = tensor_uses(program);
  std::vector<LiveRange> ranges(program.tensors.size());
  for (size_t t = 0; t < ranges.size(); ++t) {
    ranges[t].first = std::max(0, uses.producer[t]);
    ranges[t].last = uses.consumers[t].empty() ? ranges[t].first : uses.consumers[t].back();
    if (program.tensors[t].is_output) ranges[t].last = static_cast<int32_t>(program.steps.size());
  }
  return ranges;
}

}  // namespace weft
