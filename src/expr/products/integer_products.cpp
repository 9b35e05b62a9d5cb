#include "expr/products/integer_products.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "expr/new_tensors.h"
#include "expr/products/constant_axes.h"
#include "expr/products/pack_factors.h"
#include "support/rounding.h"

namespace weft {

namespace {

constexpr int64_t kSignOffset = 128;  ///< between a signed byte and the unsigned one of its order
/// Shortest part of a sum along one axis that is worth multiplying in bytes.
constexpr int64_t kShortest = 4;
/// Shortest sum for which an axis of two or three steps is filled up.
constexpr int64_t kWorthFilling = 16;
/// Parts of a sum that is too long, relative to those that it needs, at most.
constexpr int64_t kMostParts = 16;
/// Elements of a scale that is made at compile time, at most.
constexpr int64_t kFoldedElements = int64_t{1} << 20;

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

bool is_apply(const ScalarRef& s, ScalarOp op) {
  return s->kind == Scalar::Kind::kApply && s->op == op;
}

bool is_zero(const ScalarRef& s) {
  return s->kind == Scalar::Kind::kConstant && s->value.f == 0 && s->value.i == 0;
}

ScalarRef int32(int64_t value) { return scalar_constant(int_value(DType::kI32, value)); }

ScalarRef combined(ScalarOp op, const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(op, {a, b}, a->type);
}

/// Values of a scalar of 32 bits, as far as its form tells.
Interval values_of(const ScalarRef& s) {
  if (s == nullptr) return {0, 0};
  if (s->kind == Scalar::Kind::kConstant) return {s->value.i, s->value.i};
  if (s->type == DType::kU8) return {0, 255};
  if (s->type == DType::kI8) return {-128, 127};
  if (is_apply(s, ScalarOp::kConvert)) return values_of(s->operands[0]);
  if (is_apply(s, ScalarOp::kAdd) || is_apply(s, ScalarOp::kSub)) {
    const Interval a = values_of(s->operands[0]), b = values_of(s->operands[1]);
    return s->op == ScalarOp::kAdd ? Interval{a.lo + b.lo, a.hi + b.hi}
                                   : Interval{a.lo - b.hi, a.hi - b.lo};
  }
  return {-(int64_t{1} << 32), int64_t{1} << 32};
}

/// (value - zero) * scale where `inside` holds, else 0.
struct Factor {
  ScalarRef value;   ///< a read of 8 bits, over the variables of the sum
  ScalarRef inside;  ///< null: always
  ScalarRef zero;    ///< int32; null: 0
  ScalarRef scale;   ///< float32; null: 1

  /// Largest magnitude of value - zero.
  int64_t reach() const {
    const Interval q = values_of(value), z = values_of(zero);
    return std::max(q.hi - z.lo, z.hi - q.lo);
  }
  /// Makes the factor `value` + offset, whose zero point is as far on.
  void move(ScalarRef moved, int64_t offset) {
    value = std::move(moved);
    if (offset == 0) return;
    zero = zero ? combined(ScalarOp::kAdd, zero, int32(offset)) : int32(offset);
  }
};

/// Whether the scalar is the same along the sum of `e`.
bool is_invariant(const TensorExpr& e, const ScalarRef& s) {
  bool invariant = true;
  const auto look = [&](const IndexExpr& index) {
    for (const int v : variables(index)) {
      invariant &= v < e.output_rank() || v >= kRuntimeIndexBase;
    }
  };
  visit(s, [&](const Scalar& n) {
    if (n.kind == Scalar::Kind::kIndex) look(n.index);
    for (const IndexExpr& index : n.indices) look(index);
  });
  return invariant;
}

std::set<int> variables_of(const ScalarRef& s) {
  std::set<int> used;
  visit(s, [&](const Scalar& n) {
    const auto add = [&](const IndexExpr& index) {
      for (const int v : variables(index)) used.insert(v);
    };
    if (n.kind == Scalar::Kind::kIndex) add(n.index);
    for (const IndexExpr& index : n.indices) add(index);
  });
  return used;
}

/// Adds bytes of a shape to the sums at which they stand, `step` from element to element of an
/// axis.
template <typename T>
void add_rows(const T* bytes, const Shape& shape, const std::vector<int64_t>& step,
              std::vector<int32_t>* sums) {
  const size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const int64_t run = shape.empty() ? 1 : shape[outer], apart = shape.empty() ? 0 : step[outer];
  const int64_t rows = run == 0 ? 0 : *element_count(shape) / run;
  std::vector<int64_t> at(outer, 0);
  int64_t to = 0;
  for (int64_t row = 0; row < rows; ++row, bytes += run) {
    int32_t* const first = sums->data() + to;
    if (apart == 0) {
      *first = std::accumulate(bytes, bytes + run, *first);
    } else {
      for (int64_t i = 0; i < run; ++i) first[i * apart] += bytes[i];
    }
    for (size_t d = outer; d-- > 0;) {
      to += step[d];
      if (++at[d] < shape[d]) break;
      to -= step[d] * at[d];
      at[d] = 0;
    }
  }
}

/// Sums of a constant of bytes over the axes of `e` that it is reduced along, by the output axes
/// `kept` that it runs along. Its indices are variables, each once, or 0.
HostTensor column_sums(const TensorExpr& e, const Scalar& read, const HostTensor& value,
                       const std::vector<int>& kept) {
  Shape shape;
  for (const int v : kept) shape.push_back(e.extents[static_cast<size_t>(v)]);
  std::vector<int64_t> step(read.indices.size(), 0);  // in the sums, by axis of the constant
  int64_t stride = 1;
  for (size_t k = kept.size(); k-- > 0;) {
    for (size_t d = 0; d < step.size(); ++d) {
      if (read.indices[d].is_var() && read.indices[d].var_id() == kept[k]) step[d] = stride;
    }
    stride *= shape[k];
  }
  std::vector<int32_t> sums(static_cast<size_t>(stride), 0);
  if (value.dtype() == DType::kI8)
    add_rows(value.data<int8_t>(), value.shape(), step, &sums);
  else
    add_rows(value.data<uint8_t>(), value.shape(), step, &sums);
  HostTensor out(DType::kI32, shape);
  std::ranges::copy(sums, out.mutable_data<int32_t>());
  return out;
}

class IntegerProducts {
 public:
  IntegerProducts(TensorProgram& program, int64_t depth)
      : program_(program),
        depth_(depth),
        made_by_(program.tensors.size(), -1),
        before_(program.steps.size()),
        new_tensors_(program),
        constant_axes_(program, new_tensors_) {
    for (size_t x = 0; x < program.exprs.size(); ++x) {
      made_by_[static_cast<size_t>(program.exprs[x].output)] = static_cast<int>(x);
    }
  }

  const std::vector<TensorId>& in_parts() const { return in_parts_; }

  bool run() {
    bool changed = false;
    for (step_ = 0; step_ < before_.size(); ++step_) {
      const TensorProgram::Step at = program_.steps[step_];
      if (!at.opaque) changed |= take_apart(static_cast<size_t>(at.index));
    }
    if (!changed) return false;
    std::vector<TensorProgram::Step> steps;
    for (size_t s = 0; s < before_.size(); ++s) {
      steps.insert(steps.end(), before_[s].begin(), before_[s].end());
      steps.push_back(program_.steps[s]);
    }
    program_.steps = std::move(steps);
    return true;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }

  bool resolve(const TensorExpr& e, const ScalarRef& s, Factor* out) const;
  bool resolve_read(const TensorExpr& e, const ScalarRef& s, Factor* out) const;
  bool is_weight(const TensorExpr& e, const Factor& f) const;
  bool ends_in(const TensorExpr& e, const Scalar& s, int v) const;
  bool has_depth(const TensorExpr& e, const Scalar& left, const Scalar& right) const;
  std::optional<int> fillable_axis(const TensorExpr& e, const Scalar& left,
                                   const Scalar& right) const;
  void fill_up(TensorExpr* sum, int v, Factor* q, Factor* w);
  TensorId filled(TensorId from, size_t dim);
  bool may_both_vary(const TensorExpr& e, const Factor& q, const Factor& w) const;
  bool take_apart(size_t expr);
  bool take_parts_apart(size_t expr, int64_t fewest);
  ScalarRef summed(const TensorExpr& e, const ScalarRef& factor, const std::string& name);
  ScalarRef columns_of(const TensorExpr& e, const Factor& w);
  ScalarRef without_zero_points(const TensorExpr& e, const Factor& q, const Factor& w,
                                const ScalarRef& left, ScalarRef total);
  void make_unsigned(Factor* q);
  void make_signed(Factor* w);
  ScalarRef folded(const TensorExpr& e, const ScalarRef& s, const std::string& name);
  ScalarRef constant_along(const std::vector<int>& axes, const std::string& name, HostTensor value);

  /// Before the step at hand.
  void add_expr(TensorExpr e) {
    before_[step_].push_back({false, static_cast<int32_t>(program_.exprs.size())});
    program_.exprs.push_back(std::move(e));
  }

  TensorProgram& program_;
  int64_t depth_;
  std::vector<int> made_by_;  ///< by tensor of the model: its expression, -1 for others
  std::vector<std::vector<TensorProgram::Step>> before_;  ///< by step: what is made for it
  size_t step_ = 0;
  NewTensors new_tensors_;
  ConstantAxes constant_axes_;
  std::vector<TensorId> in_parts_;                          ///< what sums of parts make
  std::map<TensorId, TensorId> moved_;                      ///< bytes of the other sign
  std::map<std::pair<TensorId, size_t>, TensorId> filled_;  ///< by tensor and axis
};

/// A read of bytes, or of what an element-wise expression makes of bytes.
bool IntegerProducts::resolve_read(const TensorExpr& e, const ScalarRef& s, Factor* out) const {
  if (!s->operands.empty() || s->fill) return false;
  if (is_byte(s->type)) {
    out->value = s;
    return true;
  }
  if (static_cast<size_t>(s->symbol) >= made_by_.size()) return false;
  const int producer = made_by_[static_cast<size_t>(s->symbol)];
  if (producer < 0 || tensor(s->symbol).type.dtype == DType::kF64) return false;
  const TensorExpr& made = program_.exprs[static_cast<size_t>(producer)];
  if (!made.reduce_extents.empty()) return false;
  const ScalarRef body = rewrite(made.body, [&](int v) {
    return v < kRuntimeIndexBase ? s->indices[static_cast<size_t>(v)] : IndexExpr::var(v);
  });
  return body->type == s->type && resolve(e, body, out);
}

bool IntegerProducts::resolve(const TensorExpr& e, const ScalarRef& s, Factor* out) const {
  if (s->kind == Scalar::Kind::kRead) return resolve_read(e, s, out);
  if (s->kind != Scalar::Kind::kApply) return false;
  if (s->type != DType::kF32 && s->type != DType::kI32) return false;
  const std::vector<ScalarRef>& operands = s->operands;
  switch (s->op) {
    case ScalarOp::kConvert:
      // Differences of bytes are exact in float32.
      return (is_byte(operands[0]->type) || operands[0]->type == DType::kI32) &&
             resolve(e, operands[0], out);
    case ScalarOp::kSub:
      if (s->type != DType::kI32 || !is_invariant(e, operands[1]) ||
          !resolve(e, operands[0], out) || out->inside)
        return false;
      out->zero = out->zero ? combined(ScalarOp::kAdd, out->zero, operands[1]) : operands[1];
      return true;
    case ScalarOp::kMul:
      for (const size_t side : {size_t{1}, size_t{0}}) {
        const ScalarRef& scale = operands[side];
        if (s->type != DType::kF32 || !is_invariant(e, scale)) continue;
        if (!resolve(e, operands[1 - side], out)) return false;
        out->scale = out->scale ? combined(ScalarOp::kMul, out->scale, scale) : scale;
        return true;
      }
      return false;
    case ScalarOp::kSelect:
      if (!is_zero(operands[2]) || !resolve(e, operands[1], out) || out->inside) return false;
      out->inside = operands[0];
      return true;
    default:
      return false;
  }
}

/// A constant whose axes are axes of the sum, each once and whole.
bool IntegerProducts::is_weight(const TensorExpr& e, const Factor& f) const {
  const Tensor& t = tensor(f.value->symbol);
  if (t.kind != Tensor::Kind::kConstant || f.inside) return false;
  std::set<int> seen;
  for (size_t d = 0; d < f.value->indices.size(); ++d) {
    const IndexExpr& index = f.value->indices[d];
    if (index.is_const(0) && t.type.shape[d] == 1) continue;
    if (!index.is_var() || !seen.insert(index.var_id()).second) return false;
    const Interval range = e.range(index.var_id());
    if (range.hi + 1 != t.type.shape[d]) return false;
  }
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    if (e.range(v).hi > 0 && !seen.contains(v)) return false;  // its sums would count others
  }
  return true;
}

bool runs_along(const Scalar& s, int v) {
  return std::ranges::any_of(
      s.indices, [&](const IndexExpr& index) { return index.is_var() && index.var_id() == v; });
}

/// Whether some axis is walked by a variable, alone or behind others that walk it by whole rounds.
bool IntegerProducts::ends_in(const TensorExpr& e, const Scalar& s, int v) const {
  for (size_t d = 0; d < s.indices.size(); ++d) {
    const std::vector<int> digits = digits_of(e, s.indices[d], tensor(s.symbol).type.shape[d]);
    if (s.indices[d].is_var() ? s.indices[d].var_id() == v : !digits.empty() && digits.back() == v)
      return true;
  }
  return false;
}

/// Whether both factors run along a reduced axis that is long enough, one step at a time.
bool IntegerProducts::has_depth(const TensorExpr& e, const Scalar& left,
                                const Scalar& right) const {
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    if (e.range(v).hi + 1 >= kShortest && ends_in(e, left, v) && ends_in(e, right, v)) return true;
  }
  return false;
}

/// A shorter one (the three channels of a picture) of a long sum.
std::optional<int> IntegerProducts::fillable_axis(const TensorExpr& e, const Scalar& left,
                                                  const Scalar& right) const {
  int64_t depth = 1;
  for (const int64_t n : e.reduce_extents) depth *= n;
  if (depth < kWorthFilling) return std::nullopt;
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    const int64_t extent = e.range(v).hi + 1;
    if (extent >= 2 && extent < kShortest && !e.is_open(v) && runs_along(left, v) &&
        runs_along(right, v))
      return v;
  }
  return std::nullopt;
}

/// The bytes with zeros behind them along an axis, kShortest in all.
TensorId IntegerProducts::filled(TensorId from, size_t dim) {
  const auto [found, is_new] = filled_.try_emplace({from, dim}, -1);
  if (!is_new) return found->second;
  const TensorType type = tensor(from).type;
  TensorExpr e;
  e.extents = type.shape;
  e.extents[dim] = kShortest;
  std::vector<IndexExpr> own;
  for (size_t d = 0; d < e.extents.size(); ++d) own.push_back(IndexExpr::var(static_cast<int>(d)));
  const ScalarRef there = scalar_in_range(own[dim], type.shape[dim], [&](int v) {
    return Interval{0, e.extents[static_cast<size_t>(v)] - 1};
  });
  e.body = scalar_apply(
      ScalarOp::kSelect,
      {there, scalar_read(from, type.dtype, own), scalar_constant(int_value(type.dtype, 0))},
      type.dtype);
  e.accumulator = type.dtype;
  const bool constant = tensor(from).kind == Tensor::Kind::kConstant;
  e.output = new_tensors_.add(tensor(from).name + "_filled", {type.dtype, e.extents},
                              constant ? Tensor::Kind::kConstant : Tensor::Kind::kIntermediate);
  found->second = e.output;
  if (!constant) {
    add_expr(std::move(e));
    return found->second;
  }
  const HostTensor value = tensor(from).value;
  HostTensor out(type.dtype, e.extents);
  int64_t inner = 1;
  for (size_t d = dim + 1; d < e.extents.size(); ++d) inner *= e.extents[d];
  const int64_t run = type.shape[dim] * inner;
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t within = i % (kShortest * inner);
    out.mutable_raw()[i] =
        within < run ? value.raw()[i / (kShortest * inner) * run + within] : std::byte{0};
  }
  program_.tensors[static_cast<size_t>(found->second)].value = std::move(out);
  return found->second;
}

/// Both factors have zeros where axis `v` of the sum becomes longer.
void IntegerProducts::fill_up(TensorExpr* sum, int v, Factor* q, Factor* w) {
  sum->reduce_extents[static_cast<size_t>(v - sum->output_rank())] = kShortest;
  for (Factor* f : {q, w}) {
    const std::vector<IndexExpr>& indices = f->value->indices;
    const auto dim = static_cast<size_t>(
        std::ranges::find_if(indices,
                             [&](const IndexExpr& i) { return i.is_var() && i.var_id() == v; }) -
        indices.begin());
    f->value =
        scalar_read(filled(static_cast<TensorId>(f->value->symbol), dim), f->value->type, indices);
  }
}

/// The left factor as int32, and its zero point where it is left out.
ScalarRef left_factor(const Factor& q) {
  ScalarRef left = scalar_convert(q.value, DType::kI32);
  if (!q.inside) return left;
  return scalar_apply(ScalarOp::kSelect, {q.inside, left, q.zero ? q.zero : int32(0)}, DType::kI32);
}

void IntegerProducts::make_unsigned(Factor* q) {
  if (q->value->type == DType::kU8) return;
  const TensorId from = q->value->symbol;
  const auto [found, is_new] = moved_.try_emplace(from, -1);
  if (is_new) {
    TensorExpr e;
    e.extents = tensor(from).type.shape;
    std::vector<IndexExpr> own;
    for (size_t d = 0; d < e.extents.size(); ++d)
      own.push_back(IndexExpr::var(static_cast<int>(d)));
    const ScalarRef wide =
        scalar_convert(scalar_read(from, DType::kI8, std::move(own)), DType::kI32);
    e.body = scalar_convert(combined(ScalarOp::kAdd, wide, int32(kSignOffset)), DType::kU8);
    e.output = new_tensors_.add(tensor(from).name + "_u8", {DType::kU8, e.extents},
                                Tensor::Kind::kIntermediate);
    e.accumulator = DType::kU8;
    found->second = e.output;
    add_expr(std::move(e));
  }
  q->move(scalar_read(found->second, DType::kU8, q->value->indices), kSignOffset);
}

void IntegerProducts::make_signed(Factor* w) {
  if (w->value->type == DType::kI8) return;
  const TensorId from = w->value->symbol;
  const auto [found, is_new] = moved_.try_emplace(from, -1);
  if (is_new) {
    const HostTensor bytes = tensor(from).value;
    HostTensor moved(DType::kI8, bytes.shape());
    std::ranges::transform(bytes.raw(), bytes.raw() + bytes.size(), moved.mutable_raw(),
                           [](std::byte b) { return b ^ std::byte{kSignOffset}; });
    found->second = new_tensors_.add(tensor(from).name + "_i8", {DType::kI8, bytes.shape()},
                                     Tensor::Kind::kConstant);
    program_.tensors.back().value = std::move(moved);
  }
  w->move(scalar_read(found->second, DType::kI8, w->value->indices), -kSignOffset);
}

/// The same of what varies, where it is laid out for the product.
void make_signed_on_the_way(Factor* w) {
  if (w->value->type == DType::kI8) return;
  const ScalarRef moved =
      combined(ScalarOp::kAdd, scalar_convert(w->value, DType::kI32), int32(-kSignOffset));
  w->move(scalar_convert(moved, DType::kI8), -kSignOffset);
}

ScalarRef IntegerProducts::constant_along(const std::vector<int>& axes, const std::string& name,
                                          HostTensor value) {
  std::vector<IndexExpr> own;
  for (const int v : axes) own.push_back(IndexExpr::var(v));
  const DType type = value.dtype();
  const TensorId t = new_tensors_.add(name, {type, value.shape()}, Tensor::Kind::kConstant);
  program_.tensors.back().value = std::move(value);
  return scalar_read(t, type, std::move(own));
}

/// A scalar over output axes of `e` that is made of constants alone, as one constant.
ScalarRef IntegerProducts::folded(const TensorExpr& e, const ScalarRef& s,
                                  const std::string& name) {
  if (s->kind != Scalar::Kind::kApply) return s;
  TensorProgram program;
  std::map<TensorId, TensorId> copies;
  bool constant = true;
  visit(s, [&](const Scalar& n) {
    constant &= n.kind != Scalar::Kind::kIndex;
    if (n.kind != Scalar::Kind::kRead) return;
    constant &= tensor(n.symbol).kind == Tensor::Kind::kConstant && n.operands.empty();
    if (!constant || !copies.emplace(n.symbol, program.tensors.size()).second) return;
    program.tensors.push_back(tensor(n.symbol));
    program.tensors.back().is_output = false;
  });
  const std::set<int> used = variables_of(s);
  const std::vector<int> axes(used.begin(), used.end());
  TensorExpr made;
  for (const int v : axes) made.extents.push_back(e.extents[static_cast<size_t>(v)]);
  const std::optional<int64_t> elements = element_count(made.extents);
  if (!constant || !elements || *elements > kFoldedElements) return s;
  made.body = rewrite(
      s,
      [&](int v) {
        const auto at = std::ranges::find(axes, v);
        return IndexExpr::var(static_cast<int>(at - axes.begin()));
      },
      [&](const ScalarRef& read) {
        return scalar_read(copies.at(read->symbol), read->type, read->indices, {}, read->fill);
      });
  made.accumulator = s->type;
  made.output = static_cast<TensorId>(program.tensors.size());
  Tensor result;
  result.name = "scale";
  result.type = {s->type, made.extents};
  result.is_output = true;
  for (const Tensor& t : program.tensors) {
    if (t.name == result.name) result.name += "_";
  }
  program.tensors.push_back(result);
  program.outputs = {made.output};
  program.output_names = {result.name};
  program.exprs.push_back(std::move(made));
  program.steps.push_back({false, 0});
  Result<std::vector<HostTensor>> values = evaluate(program, {});
  if (!values.ok()) return s;
  return constant_along(axes, name, std::move((*values)[0]));
}

/// Sums of the right factor, of a constant made here.
ScalarRef IntegerProducts::columns_of(const TensorExpr& e, const Factor& w) {
  const std::string name = tensor(e.output).name + "_columns";
  if (w.value->kind != Scalar::Kind::kRead ||
      tensor(w.value->symbol).kind != Tensor::Kind::kConstant)
    return summed(e, scalar_convert(w.value, DType::kI32), name);
  std::vector<int> kept;
  for (const int v : variables_of(w.value)) {
    if (v < e.output_rank()) kept.push_back(v);
  }
  return constant_along(kept, name, column_sums(e, *w.value, tensor(w.value->symbol).value, kept));
}

/// Sums of a factor alone, by the output axes that it runs along.
ScalarRef IntegerProducts::summed(const TensorExpr& e, const ScalarRef& factor,
                                  const std::string& name) {
  TensorExpr sums;
  std::vector<int> kept;
  for (const int v : variables_of(factor)) {
    if (v < e.output_rank()) kept.push_back(v);
  }
  for (const int v : kept) sums.extents.push_back(e.extents[static_cast<size_t>(v)]);
  sums.reduce_extents = e.reduce_extents;
  sums.accumulator = DType::kI32;
  sums.origins = e.origins;
  sums.body = rewrite(factor, [&](int v) {
    if (v >= e.output_rank()) return IndexExpr::var(v - e.output_rank() + sums.output_rank());
    return IndexExpr::var(static_cast<int>(std::ranges::find(kept, v) - kept.begin()));
  });
  sums.output = new_tensors_.add(name, {DType::kI32, sums.extents}, Tensor::Kind::kIntermediate);
  std::vector<IndexExpr> own;
  for (const int v : kept) own.push_back(IndexExpr::var(v));
  ScalarRef sum = scalar_read(sums.output, DType::kI32, std::move(own));
  add_expr(std::move(sums));
  return sum;
}

/// sum (q - x) (w - y) = sum q w - x sum w - y (sum q - depth x)
ScalarRef IntegerProducts::without_zero_points(const TensorExpr& e, const Factor& q,
                                               const Factor& w, const ScalarRef& left,
                                               ScalarRef total) {
  const std::string name = tensor(e.output).name;
  if (q.zero && !is_zero(q.zero)) {
    const ScalarRef columns = columns_of(e, w);
    total = combined(ScalarOp::kSub, total,
                     folded(e, combined(ScalarOp::kMul, columns, q.zero), name + "_zero"));
  }
  if (!w.zero || is_zero(w.zero)) return total;
  ScalarRef sum = summed(e, left, name + "_rows");
  if (q.zero) {
    int64_t depth = 1;
    for (const int64_t n : e.reduce_extents) depth *= n;
    sum = combined(ScalarOp::kSub, sum, combined(ScalarOp::kMul, q.zero, int32(depth)));
  }
  return combined(ScalarOp::kSub, total, combined(ScalarOp::kMul, sum, w.zero));
}

/// Whether products of two factors that vary are worth packing them.
bool IntegerProducts::may_both_vary(const TensorExpr& e, const Factor& q, const Factor& w) const {
  return !q.inside && !w.inside && tensor(q.value->symbol).kind != Tensor::Kind::kConstant &&
         tensor(w.value->symbol).kind != Tensor::Kind::kConstant &&
         can_pack_factors(e, *q.value, w.value);
}

bool IntegerProducts::take_apart(size_t expr) {
  const TensorExpr e = program_.exprs[expr];
  if (as_integer_product(e.body)) return false;  // it is one
  const std::string name = tensor(e.output).name;
  const DType type = tensor(e.output).type.dtype;
  if (!e.is_contraction || e.combiner != Combiner::kSum || !is_apply(e.body, ScalarOp::kMul) ||
      e.body->type != type || e.accumulator != type || (type != DType::kF32 && type != DType::kI32))
    return false;
  Factor q, w;
  if (!resolve(e, e.body->operands[0], &q) || !resolve(e, e.body->operands[1], &w)) return false;
  for (Factor* f : {&q, &w}) f->value = constant_axes_.given(e, f->value);
  if (!is_weight(e, w)) std::swap(q, w);
  const bool varies = !is_weight(e, w);
  if (varies && !may_both_vary(e, q, w)) std::swap(q, w);
  if (varies ? !may_both_vary(e, q, w) : tensor(q.value->symbol).kind == Tensor::Kind::kConstant)
    return false;
  std::optional<int> fillable;
  if (!varies && !has_depth(e, *q.value, *w.value)) {
    fillable = fillable_axis(e, *q.value, *w.value);
    if (!fillable) return false;
  }
  int64_t largest = type == DType::kF32 ? 1 : 0;
  for (const int64_t factor : {q.reach(), w.reach()}) largest *= std::min(factor, int64_t{1} << 20);
  for (const int64_t n : e.reduce_extents) largest = std::min(largest, INT64_MAX / n - 1) * n;
  if (largest > INT32_MAX) return take_parts_apart(expr, ceil_div(largest, INT32_MAX));
  const Interval zero = values_of(q.zero);
  const Interval bytes = values_of(q.value);
  if (q.inside && (zero.lo != zero.hi || zero.lo < bytes.lo || zero.lo > bytes.hi)) return false;

  make_unsigned(&q);
  TensorExpr sum = e;
  sum.accumulator = DType::kI32;
  Factor summed = q, weight = w;
  if (varies) {
    make_signed_on_the_way(&w);
    const auto add = [this](TensorExpr made) { add_expr(std::move(made)); };
    PackedFactors packed = pack_factors(e, q.value, w.value, depth_, name, new_tensors_, add);
    sum.reduce_extents = std::move(packed.reduce_extents);
    summed.value = packed.left;
    weight.value = packed.right;
  } else {
    make_signed(&w);
    weight = w;
    if (fillable) fill_up(&sum, *fillable, &summed, &weight);
  }
  sum.body =
      combined(ScalarOp::kMul, left_factor(summed), scalar_convert(weight.value, DType::kI32));
  const bool bare = type == DType::kI32 && !q.zero && !w.zero && !q.scale && !w.scale;
  if (bare) {
    program_.exprs[expr] = std::move(sum);
    return true;
  }
  sum.output =
      new_tensors_.add(name + "_sums", {DType::kI32, e.extents}, Tensor::Kind::kIntermediate);
  std::vector<IndexExpr> own;
  for (int d = 0; d < e.output_rank(); ++d) own.push_back(IndexExpr::var(d));
  ScalarRef total = scalar_read(sum.output, DType::kI32, std::move(own));
  add_expr(std::move(sum));
  total = without_zero_points(e, q, w, left_factor(q), std::move(total));
  if (type == DType::kF32) {
    ScalarRef scale = q.scale && w.scale ? combined(ScalarOp::kMul, q.scale, w.scale)
                      : q.scale          ? q.scale
                                         : w.scale;
    total = scalar_convert(total, DType::kF32);
    if (scale) total = combined(ScalarOp::kMul, total, folded(e, scale, name + "_scale"));
  }
  TensorExpr& result = program_.exprs[expr];
  result.reduce_extents.clear();
  result.body = std::move(total);
  result.is_contraction = false;
  return true;
}

/// A sum that 32 bits might not hold becomes one in float32 of `fewest` parts or more that they do:
///     sum[100000] x[d0, r0] * w[r0, d1]   ->   p[d0, d1, d2] = sum[25000] x[d0, d2 * 25000 + r0] *
///     …
///                                              sum[4] p[d0, d1, r0]
/// Nothing where no axis of the sum has so many parts of one length.
bool IntegerProducts::take_parts_apart(size_t expr, int64_t fewest) {
  const TensorExpr e = program_.exprs[expr];
  if (e.accumulator != DType::kF32) return false;
  int v = e.output_rank();
  int64_t parts = 0;
  for (; v < e.axis_count() && parts == 0; ++v) {
    const int64_t extent = e.range(v).hi + 1;
    for (int64_t n = fewest; n <= std::min(extent / kShortest, kMostParts * fewest); ++n) {
      if (extent % n != 0) continue;
      parts = n;
      break;
    }
  }
  if (parts == 0) return false;
  --v;
  TensorExpr part = e;
  const int own = e.output_rank();  // the part's number; the variables of the sum come behind it
  const int64_t length = (e.range(v).hi + 1) / parts;
  part.extents.push_back(parts);
  part.reduce_extents[static_cast<size_t>(v - own)] = length;
  part.body = rewrite(e.body, [&](int id) {
    if (id < own || id >= kRuntimeIndexBase) return IndexExpr::var(id);
    const IndexExpr moved = IndexExpr::var(id + 1);
    return id == v ? IndexExpr::var(own) * IndexExpr(length) + moved : moved;
  });
  part.output = new_tensors_.add(tensor(e.output).name + "_parts", {DType::kF32, part.extents},
                                 Tensor::Kind::kIntermediate);
  const TensorId made = part.output;
  const size_t number = program_.exprs.size();
  program_.exprs.push_back(std::move(part));
  const bool taken = take_apart(number);
  if (!taken) {
    program_.exprs.pop_back();
    program_.tensors.pop_back();
    return false;
  }
  before_[step_].push_back({false, static_cast<int32_t>(number)});
  TensorExpr& whole = program_.exprs[expr];
  std::vector<IndexExpr> indices;
  for (int d = 0; d <= own; ++d) indices.push_back(IndexExpr::var(d));
  whole.reduce_extents = {parts};
  whole.body = scalar_read(made, DType::kF32, std::move(indices));
  in_parts_.push_back(whole.output);
  whole.is_contraction = false;
  return true;
}

/// The read below a conversion to int32, if it is of `type`.
ScalarRef widened_read(const ScalarRef& s, DType type) {
  if (!is_apply(s, ScalarOp::kConvert) || s->type != DType::kI32) return nullptr;
  const ScalarRef& read = s->operands[0];
  return read->kind == Scalar::Kind::kRead && read->type == type ? read : nullptr;
}

}  // namespace

bool integer_products(TensorProgram& program, int64_t depth, std::vector<TensorId>* in_parts) {
  IntegerProducts products(program, depth);
  const bool changed = products.run();
  if (in_parts != nullptr) *in_parts = products.in_parts();
  return changed;
}

std::optional<IntegerProduct> as_integer_product(const ScalarRef& product) {
  if (!is_apply(product, ScalarOp::kMul) || product->type != DType::kI32) return std::nullopt;
  IntegerProduct out;
  ScalarRef left = product->operands[0];
  if (is_apply(left, ScalarOp::kSelect)) {
    const ScalarRef& other = left->operands[2];
    if (other->kind != Scalar::Kind::kConstant || other->value.i < 0 || other->value.i > 255)
      return std::nullopt;
    out.inside = left->operands[0];
    out.outside = other->value.i;
    left = left->operands[1];
  }
  out.left = widened_read(left, DType::kU8);
  if (out.left == nullptr) out.left = widened_read(left, DType::kI16);
  out.right = widened_read(product->operands[1], DType::kI8);
  if (out.left == nullptr || out.right == nullptr) return std::nullopt;
  return out;
}

}  // namespace weft
