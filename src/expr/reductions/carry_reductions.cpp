#include "expr/reductions/carry_reductions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "expr/reductions/homomorphism.h"
#include "expr/reductions/variables_along.h"

namespace weft {

namespace {

using Part = CarriedProgram::Part;

/// What a later reduction is carried relative to, of an earlier one's value.
enum class Reference : uint8_t { kNone, kRunning, kPostponed };

ScalarRef number(DType type, double value) { return scalar_constant(float_value(type, value)); }

/// x / 1, x * 1 and x - 0 are x, and the logarithm of 1 is 0.
ScalarRef without_neutral(const ScalarRef& s) {
  const auto is_number = [](const ScalarRef& o, double value) {
    return o->kind == Scalar::Kind::kConstant && is_float(o->type) && o->value.f == value;
  };
  if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kLog && is_number(s->operands[0], 1))
    return number(s->type, 0);
  if (s->kind != Scalar::Kind::kApply || s->operands.size() != 2) return s;
  const ScalarRef &a = s->operands[0], &b = s->operands[1];
  if ((s->op == ScalarOp::kDiv || s->op == ScalarOp::kMul) && is_number(b, 1)) return a;
  if (s->op == ScalarOp::kMul && is_number(a, 1)) return b;
  if (s->op == ScalarOp::kSub && is_number(b, 0) && !std::signbit(b->value.f)) return a;
  return s;
}

/// The same over a whole tree whose reads were replaced.
ScalarRef simplified(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply) return s;
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(simplified(o));
  return without_neutral(scalar_apply(s->op, std::move(operands), s->type));
}

class Carrier {
 public:
  Carrier(const TensorProgram& program, std::vector<int> along, int64_t splits)
      : program_(program), along_(std::move(along)), held_(program.exprs.size()) {
    out_.splits = splits;
    for (size_t e = 0; e < program.exprs.size(); ++e)
      producer_[program.exprs[e].output] = static_cast<ExprId>(e);
    out_.program.tensors = program.tensors;
    out_.program.inputs = program.inputs;
    out_.program.outputs = program.outputs;
    out_.program.output_names = program.output_names;
    out_.program.origins = program.origins;
  }

  Result<CarriedProgram> run(ExprId root, int axis) {
    out_.extent = expr(root).range(axis).hi + 1;
    WEFT_RETURN_IF_ERROR(classify());
    WEFT_RETURN_IF_ERROR(split_all());
    WEFT_RETURN_IF_ERROR(check_references());
    for (ExprId e = 0; e < count(); ++e) WEFT_RETURN_IF_ERROR(write(e));
    put_in_order();
    drop_unread();
    find_reaches();
    return std::move(out_);
  }

 private:
  /// What is known of an expression of the program.
  struct Held {
    bool carried = false;     ///< a reduction along the axis
    bool waits = false;       ///< depends on a carried one
    Homomorphism of_earlier;  ///< of a carried one that waits
    Reference reference = Reference::kNone;
    double postponed_as = 0;  ///< what stands for it in the step
    TensorId part = -1, after = -1, running = -1;
    TensorId whole = -1;  ///< what is left behind the loop, of all parts
    /// By coefficient: exp(coefficient (reference' - value before)), of a part, and of the end.
    std::map<double, TensorId> steps, joins, rests;
  };
  struct Made {
    TensorExpr expr;
    Part part;
    int along, over_parts;
  };
  /// What a factor corrects: what was carried so far, what a part left, what all left.
  enum class Factor : uint8_t { kStep, kJoin, kRest };

  ExprId count() const { return static_cast<ExprId>(program_.exprs.size()); }
  const TensorExpr& expr(ExprId e) const { return program_.exprs[static_cast<size_t>(e)]; }
  Held& held(ExprId e) { return held_[static_cast<size_t>(e)]; }
  const std::string& name(ExprId e) const {
    return program_.tensors[static_cast<size_t>(expr(e).output)].name;
  }
  ExprId producer(TensorId t) const {
    const auto found = producer_.find(t);
    return found == producer_.end() ? -1 : found->second;
  }
  bool is_inside(ExprId e) const {
    const int a = along_[static_cast<size_t>(e)];
    return a >= 0 && a < expr(e).output_rank();
  }

  Status classify();
  ScalarRef written_out(const ScalarRef& body) const;
  SplitQuestion question(ExprId e) const;
  Status split_all();
  Status split(ExprId e);
  Status refer(ExprId e, const Homomorphism::Exponent& exponent);
  bool is_bound(LinearForm a, LinearForm b, double factor) const;
  LinearForm terms_written_out(const LinearForm& form) const;
  Status refer_to(const ScalarRef& value, Reference reference, double as);
  Status check_references() const;

  Status write(ExprId e);
  void write_carried(ExprId e);
  void write_position(ExprId e);
  void write_whole_position(ExprId e, CarriedProgram::Carry* best, CarriedProgram::Carry* where);
  CarriedProgram::Carry add_carry(ExprId e, const std::string& suffix, ScalarValue first);
  TensorId write_factor(ExprId state, double coefficient, Factor kind);
  ScalarRef finite_of(ExprId state, TensorId of) const;
  ScalarRef in_step(const ScalarRef& body) const;
  ScalarRef factors(const Homomorphism& of, Factor kind, DType type, int over_parts = -1);
  void write_whole(ExprId e, CarriedProgram::Carry* carry);
  void write_behind(ExprId e);
  TensorId add_tensor(ExprId like, const std::string& suffix, DType type);
  TensorId add_parts(ExprId like, const std::string& suffix, DType type);
  TensorExpr elementwise(ExprId like, TensorId output, ScalarRef body) const;
  ScalarRef read_own(ExprId like, TensorId t) const;
  ScalarRef read_part(ExprId like, TensorId t, int over_parts, int first) const;
  void put(TensorExpr e, Part part, int along, int over_parts = -1) {
    made_.push_back({std::move(e), part, along, over_parts});
  }
  void put_in_order();
  void drop_unread();
  void find_reaches();

  const TensorProgram& program_;
  const std::vector<int> along_;
  std::map<TensorId, ExprId> producer_;
  std::vector<Held> held_;
  std::vector<Made> made_;
  CarriedProgram out_;
};

Status Carrier::classify() {
  for (ExprId e = 0; e < count(); ++e) {
    Held& own = held(e);
    const int a = along_[static_cast<size_t>(e)];
    own.carried = a >= expr(e).output_rank();
    visit(expr(e).body, [&](const Scalar& s) {
      const ExprId from = s.kind == Scalar::Kind::kRead ? producer(s.symbol) : -1;
      if (from >= 0) own.waits |= held(from).waits || held(from).carried;
    });
    const bool leaves =
        std::ranges::find(program_.outputs, expr(e).output) != program_.outputs.end();
    if (is_inside(e) && own.waits && leaves)
      return unsupported(name(e) + " must reach memory and is known only behind the loop");
    if (is_inside(e) && own.waits && !expr(e).reduce_extents.empty())
      return unsupported(name(e) + " reduces what is known only behind the loop");
    if (!own.carried) continue;
    const Combiner c = expr(e).combiner;
    const bool combines = c == Combiner::kSum || c == Combiner::kMax || c == Combiner::kMin;
    if (combiner_is_arg(c) && !own.waits && is_float(expr(e).body->type)) continue;
    if (!combines || !is_float(expr(e).accumulator))
      return unsupported(name(e) + " reduces in a way that is not carried");
  }
  return {};
}

/// A body with what waits for carried reductions, and is no reduction, written out.
ScalarRef Carrier::written_out(const ScalarRef& body) const {
  return rewrite(body, nullptr, [&](const ScalarRef& read) -> ScalarRef {
    const ExprId from = producer(read->symbol);
    if (from < 0) return read;
    const Held& h = held_[static_cast<size_t>(from)];
    if (h.carried || !h.waits || !expr(from).reduce_extents.empty()) return read;
    const ScalarRef inner = rewrite(expr(from).body, [&](int var) -> IndexExpr {
      return var < kRuntimeIndexBase ? read->indices[static_cast<size_t>(var)]
                                     : IndexExpr::var(var);
    });
    return written_out(inner);
  });
}

SplitQuestion Carrier::question(ExprId e) const {
  // Along any axis that it reduces: what differs there stands for no one result.
  const int first = expr(e).output_rank(), last = expr(e).axis_count();
  const auto is_reduced = [first, last](const IndexExpr& index) {
    return std::ranges::any_of(variables(index), [&](int v) { return v >= first && v < last; });
  };
  return {[this](const Scalar& read) {
            const ExprId from = producer(read.symbol);
            return from >= 0 && held_[static_cast<size_t>(from)].carried;
          },
          [is_reduced](const Scalar& node) {
            if (node.kind == Scalar::Kind::kIndex) return is_reduced(node.index);
            return std::ranges::any_of(node.indices, is_reduced);
          }};
}

Status Carrier::split_all() {
  for (ExprId e = 0; e < count(); ++e) {
    if (!held(e).carried || !held(e).waits) continue;
    WEFT_RETURN_IF_ERROR(split(e));
    out_.depends = true;
  }
  return {};
}

Status Carrier::split(ExprId e) {
  const ScalarRef body = written_out(expr(e).body);
  const bool is_sum = expr(e).combiner == Combiner::kSum;
  auto split = is_sum ? split_product(body, question(e)) : split_sum(body, question(e));
  if (!split.ok()) return unsupported(name(e) + ": " + split.error().message);
  held(e).of_earlier = std::move(*split);
  const Homomorphism& of = held(e).of_earlier;
  for (const Homomorphism::Exponent& exponent : of.exponents)
    WEFT_RETURN_IF_ERROR(refer(e, exponent));
  for (const Homomorphism::Power& power : of.powers) {
    Status status;
    visit(power.base, [&](const Scalar& s) {
      if (!status.ok() || s.kind != Scalar::Kind::kRead || !question(e).is_value(s)) return;
      status = refer_to(std::make_shared<const Scalar>(s), Reference::kPostponed, 1);
      const std::pair pair(e, producer(s.symbol));
      if (std::ranges::find(out_.postponed, pair) == out_.postponed.end())
        out_.postponed.push_back(pair);
    });
    WEFT_RETURN_IF_ERROR(std::move(status));
  }
  for (const LinearForm::Term& term : of.summands)
    WEFT_RETURN_IF_ERROR(refer_to(term.atom, Reference::kPostponed, 0));
  return {};
}

/// exp(k (x - s)) with s the extremum of the same x: never above 1, and 0 while s has met nothing.
Status Carrier::refer(ExprId e, const Homomorphism::Exponent& exponent) {
  const ExprId state = producer(exponent.value->symbol);
  const Combiner c = expr(state).combiner;
  const bool falls = exponent.coefficient < 0;
  const auto refuse = [&](const std::string& why) {
    return unsupported(name(e) + " has " + name(state) + " in an exponent, " + why);
  };
  if (c != (falls ? Combiner::kMax : Combiner::kMin) || held(state).waits)
    return refuse("which it is no bound of");
  const int own = along_[static_cast<size_t>(e)], theirs = along_[static_cast<size_t>(state)];
  const ScalarRef bound = rewrite(expr(state).body, [&](int var) -> IndexExpr {
    if (var >= kRuntimeIndexBase) return IndexExpr::var(var);
    if (var == theirs) return IndexExpr::var(own);
    return var < expr(state).output_rank() ? exponent.value->indices[static_cast<size_t>(var)]
                                           : IndexExpr::var(var);
  });
  if (expr(state).reduce_extents.size() != 1 ||
      !is_bound(exponent.beside, linear_form(bound), -exponent.coefficient))
    return refuse("beside something that it is no bound of");
  if (exponent.unless && *exponent.unless != combiner_identity(c, DType::kF32).f)
    return refuse("and something stands in its place that is not where it has met nothing");
  return refer_to(exponent.value, Reference::kRunning, 0);
}

/// Whether a = factor * b, also once what the steps compute element by element is written out.
bool Carrier::is_bound(LinearForm a, LinearForm b, double factor) const {
  constexpr int kMostRounds = 4;
  for (int round = 0; !is_multiple(a, b, factor); ++round) {
    LinearForm more = terms_written_out(a), others = terms_written_out(b);
    const bool same = is_multiple(more, a, 1) && is_multiple(others, b, 1);
    if (round == kMostRounds || same) return false;
    a = std::move(more), b = std::move(others);
  }
  return true;
}

/// With the expressions of the program that its atoms read in their place, each once.
LinearForm Carrier::terms_written_out(const LinearForm& form) const {
  LinearForm out;
  out.constant = form.constant;
  for (const LinearForm::Term& term : form.terms) {
    const ExprId from = term.atom->kind == Scalar::Kind::kRead && term.atom->operands.empty()
                            ? producer(term.atom->symbol)
                            : -1;
    if (from < 0 || !expr(from).reduce_extents.empty()) {
      add_to(out, linear_form(term.atom), term.coefficient);
      continue;
    }
    const ScalarRef inner = rewrite(expr(from).body, [&](int var) -> IndexExpr {
      return var < kRuntimeIndexBase ? term.atom->indices[static_cast<size_t>(var)]
                                     : IndexExpr::var(var);
    });
    add_to(out, linear_form(inner), term.coefficient);
  }
  return out;
}

Status Carrier::refer_to(const ScalarRef& value, Reference reference, double as) {
  Held& state = held(producer(value->symbol));
  if (state.reference != Reference::kNone &&
      (state.reference != reference || state.postponed_as != as))
    return unsupported(name(producer(value->symbol)) + " is carried in two ways");
  state.reference = reference;
  state.postponed_as = as;
  return {};
}

/// What a step reads of carried reductions has something that stands for it. A value that cancels
/// in the terms of every reduction behind has not; what is reduced of such values is known behind
/// the loop alone.
Status Carrier::check_references() const {
  for (ExprId e = 0; e < count(); ++e) {
    const bool in_steps = is_inside(e) || held_[static_cast<size_t>(e)].carried;
    if (!in_steps) continue;
    std::string unknown;
    visit(written_out(expr(e).body), [&](const Scalar& s) {
      const ExprId from = s.kind == Scalar::Kind::kRead ? producer(s.symbol) : -1;
      if (from < 0) return;
      const Held& read = held_[static_cast<size_t>(from)];
      const bool stands = read.carried ? read.reference != Reference::kNone : !read.waits;
      if (!stands) unknown = name(from);
    });
    if (!unknown.empty())
      return unsupported(name(e) + " reads " + unknown + ", for which nothing stands in a step");
  }
  return {};
}

TensorId Carrier::add_tensor(ExprId like, const std::string& suffix, DType type) {
  Tensor t;
  t.name = name(like) + suffix;
  t.type = {type, expr(like).extents};
  t.kind = Tensor::Kind::kIntermediate;
  out_.program.tensors.push_back(std::move(t));
  return static_cast<TensorId>(out_.program.tensors.size()) - 1;
}

/// The same of every part, which are the outermost axis.
TensorId Carrier::add_parts(ExprId like, const std::string& suffix, DType type) {
  const TensorId t = add_tensor(like, suffix, type);
  Shape& shape = out_.program.tensors[static_cast<size_t>(t)].type.shape;
  shape.insert(shape.begin(), out_.splits);
  return t;
}

TensorExpr Carrier::elementwise(ExprId like, TensorId output, ScalarRef body) const {
  TensorExpr out;
  out.output = output;
  out.extents = expr(like).extents;
  out.body = std::move(body);
  out.origins = expr(like).origins;
  if (!expr(like).open.empty()) {
    out.open.assign(expr(like).open.begin(), expr(like).open.begin() + expr(like).output_rank());
  }
  return out;
}

ScalarRef Carrier::read_own(ExprId like, TensorId t) const {
  std::vector<IndexExpr> indices;
  for (int d = 0; d < expr(like).output_rank(); ++d) {
    const bool single = expr(like).extents[static_cast<size_t>(d)] == 1;
    indices.push_back(single ? IndexExpr(0) : IndexExpr::var(d));
  }
  return scalar_read(t, out_.program.tensors[static_cast<size_t>(t)].type.dtype,
                     std::move(indices));
}

/// Of the part that variable `over_parts` counts, whose own axes are variables from `first` on.
ScalarRef Carrier::read_part(ExprId like, TensorId t, int over_parts, int first) const {
  std::vector<IndexExpr> indices{IndexExpr::var(over_parts)};
  for (int d = 0; d < expr(like).output_rank(); ++d) {
    const bool single = expr(like).extents[static_cast<size_t>(d)] == 1;
    indices.push_back(single ? IndexExpr(0) : IndexExpr::var(first + d));
  }
  return scalar_read(t, out_.program.tensors[static_cast<size_t>(t)].type.dtype,
                     std::move(indices));
}

/// What was left of an extremum; 0 where that has met nothing.
ScalarRef Carrier::finite_of(ExprId state, TensorId of) const {
  const ScalarRef after = read_own(state, of);
  const ScalarRef nothing = scalar_apply(
      ScalarOp::kEq, {after, scalar_constant(combiner_identity(expr(state).combiner, after->type))},
      DType::kBool);
  return scalar_apply(ScalarOp::kSelect, {nothing, number(after->type, 0), after}, after->type);
}

/// A body as a step makes it: what it reads of carried reductions is what they are referred to.
ScalarRef Carrier::in_step(const ScalarRef& body) const {
  const auto between = [&](ExprId from) {
    const Held& h = held_[static_cast<size_t>(from)];
    return h.waits && !h.carried && !is_inside(from);
  };
  ScalarRef own = rewrite(body, nullptr, [&](const ScalarRef& read) -> ScalarRef {
    const ExprId from = producer(read->symbol);
    return from >= 0 && between(from) ? written_out(read) : read;
  });
  own = rewrite(own, nullptr, [&](const ScalarRef& read) -> ScalarRef {
    const ExprId from = producer(read->symbol);
    if (from < 0 || !held_[static_cast<size_t>(from)].carried) return read;
    const Held& state = held_[static_cast<size_t>(from)];
    if (state.reference == Reference::kPostponed) return number(read->type, state.postponed_as);
    auto copy = std::make_shared<Scalar>(*read);
    copy->symbol = state.running;
    copy->type = expr(from).accumulator;
    return scalar_convert(copy, read->type);
  });
  return simplified(own);
}

/// exp(coefficient (reference' - value before)) of a step, exp(coefficient (reference - value)) of
/// a part, exp(coefficient (value - reference)) of the end.
TensorId Carrier::write_factor(ExprId state, double coefficient, Factor kind) {
  Held& own = held(state);
  std::map<double, TensorId>& known = kind == Factor::kStep   ? own.steps
                                      : kind == Factor::kJoin ? own.joins
                                                              : own.rests;
  if (const auto found = known.find(coefficient); found != known.end()) return found->second;
  const DType type = expr(state).accumulator;
  const std::string suffix = (kind == Factor::kStep   ? "_step"
                              : kind == Factor::kJoin ? "_join"
                                                      : "_rest") +
                             (known.empty() ? std::string() : std::to_string(known.size() + 1));
  const bool joins = kind == Factor::kJoin;
  const TensorId t = joins ? add_parts(state, suffix, type) : add_tensor(state, suffix, type);
  const auto carry = std::ranges::find(out_.carries, own.after, &CarriedProgram::Carry::after);
  ScalarRef from, to;
  if (kind == Factor::kStep) {
    from = read_own(state, carry->before);
    to = read_own(state, own.running);
  } else if (kind == Factor::kRest) {
    from = finite_of(state, own.whole);
    to = read_own(state, own.whole);
  } else {
    // Variable 0 counts the parts.
    from = read_part(state, carry->parts, 0, 1);
    to = rewrite(finite_of(state, own.whole), [](int var) { return IndexExpr::var(var + 1); });
  }
  if (coefficient < 0) std::swap(from, to);
  ScalarRef exponent = scalar_apply(ScalarOp::kSub, {to, from}, type);
  if (std::abs(coefficient) != 1)
    exponent = scalar_apply(ScalarOp::kMul, {exponent, number(type, std::abs(coefficient))}, type);
  TensorExpr made = elementwise(state, t, scalar_apply(ScalarOp::kExp, {exponent}, type));
  if (joins) {
    made.extents.insert(made.extents.begin(), out_.splits);
    if (!made.open.empty()) made.open.insert(made.open.begin(), false);
  }
  put(std::move(made), kind == Factor::kStep ? Part::kStep : Part::kBehind, -1, joins ? 0 : -1);
  known[coefficient] = t;
  return t;
}

/// The product of the factors by running references, in the coordinates of the reduction that has
/// them (with a variable that counts the parts, where they are joined); null: none.
ScalarRef Carrier::factors(const Homomorphism& of, Factor kind, DType type, int over_parts) {
  ScalarRef out;
  for (const Homomorphism::Exponent& e : of.exponents) {
    // What is finite by itself is the reference in the end.
    if (kind == Factor::kRest && e.unless) continue;
    auto read = std::make_shared<Scalar>(*e.value);
    const ExprId state = producer(e.value->symbol);
    read->symbol = write_factor(state, e.coefficient, kind);
    if (kind == Factor::kJoin)
      read->indices.insert(read->indices.begin(), IndexExpr::var(over_parts));
    read->type = expr(state).accumulator;
    const ScalarRef factor = scalar_convert(read, type);
    out = out ? scalar_apply(ScalarOp::kMul, {out, factor}, type) : factor;
  }
  return out;
}

void Carrier::write_carried(ExprId e) {
  Held& own = held(e);
  const DType type = expr(e).accumulator;
  TensorExpr part = expr(e);
  part.output = add_tensor(e, "_part", type);
  part.body = in_step(expr(e).body);
  const TensorId part_tensor = own.part = part.output;
  put(std::move(part), Part::kStep, along_[static_cast<size_t>(e)]);

  CarriedProgram::Carry carry;
  carry.reduction = e;
  carry.before = add_tensor(e, "_before", type);
  out_.program.tensors[static_cast<size_t>(carry.before)].kind = Tensor::Kind::kInput;
  carry.after = own.after = add_tensor(e, "_after", type);
  carry.first = combiner_identity(expr(e).combiner, type);
  own.whole = own.after;
  if (out_.splits > 1) write_whole(e, &carry);
  out_.carries.push_back(carry);
  ScalarRef before = read_own(e, carry.before);
  if (const ScalarRef factor = factors(own.of_earlier, Factor::kStep, type))
    before = scalar_apply(ScalarOp::kMul, {before, factor}, type);
  const std::optional<ScalarOp> op = combiner_op(expr(e).combiner);
  put(elementwise(e, carry.after, scalar_apply(*op, {before, read_own(e, part_tensor)}, type)),
      Part::kStep, -1);
  if (own.reference == Reference::kRunning) {
    own.running = add_tensor(e, "_near", type);
    put(elementwise(e, own.running, finite_of(e, own.after)), Part::kStep, -1);
  }
  write_behind(e);
}

CarriedProgram::Carry Carrier::add_carry(ExprId e, const std::string& suffix, ScalarValue first) {
  CarriedProgram::Carry carry;
  carry.reduction = e;
  carry.before = add_tensor(e, suffix + "_before", first.type);
  out_.program.tensors[static_cast<size_t>(carry.before)].kind = Tensor::Kind::kInput;
  carry.after = add_tensor(e, suffix + "_after", first.type);
  carry.first = first;
  return carry;
}

/// A position is carried beside the best value so far, which NaN is. Steps ascend: of equals the
/// first is that of an earlier step, the last that of a later one.
///     i' = b == none || max t > b ? argmax t : i;  b' = max(b, max t)
void Carrier::write_position(ExprId e) {
  Held& own = held(e);
  const bool is_max = expr(e).combiner == Combiner::kArgMax, last = expr(e).last_on_ties;
  const DType type = expr(e).body->type;
  const DType position = program_.tensors[static_cast<size_t>(expr(e).output)].type.dtype;
  TensorExpr best = expr(e), part = expr(e);
  best.combiner = is_max ? Combiner::kMax : Combiner::kMin;
  best.accumulator = type;
  best.output = add_tensor(e, "_best_part", type);
  part.output = own.part = add_tensor(e, "_part", position);
  const TensorId best_part = best.output;
  auto before = add_carry(e, "_best", combiner_identity(best.combiner, type)),
       where = add_carry(e, "", int_value(position, -1));
  own.after = own.whole = where.after;
  const ScalarRef value = read_own(e, best_part), old = read_own(e, before.before),
                  place = read_own(e, where.before);
  const auto truth = [](ScalarOp op, std::vector<ScalarRef> operands) {
    return scalar_apply(op, std::move(operands), DType::kBool);
  };
  const ScalarOp compare =
      is_max ? (last ? ScalarOp::kGe : ScalarOp::kGt) : (last ? ScalarOp::kLe : ScalarOp::kLt);
  const ScalarRef none = truth(ScalarOp::kEq, {place, scalar_constant(int_value(position, -1))}),
                  not_yet = truth(ScalarOp::kNot, {truth(ScalarOp::kIsNan, {old})});
  ScalarRef nan = truth(ScalarOp::kIsNan, {value});
  if (!last) nan = truth(ScalarOp::kAnd, {nan, not_yet});
  const ScalarRef better =
      truth(ScalarOp::kOr, {truth(ScalarOp::kOr, {truth(compare, {value, old}), none}), nan});
  const Combiner combiner = best.combiner;
  for (TensorExpr* made : {&best, &part})
    put(std::move(*made), Part::kStep, along_[static_cast<size_t>(e)]);
  put(elementwise(
          e, where.after,
          scalar_apply(ScalarOp::kSelect, {better, read_own(e, own.part), place}, position)),
      Part::kStep, -1);
  put(elementwise(e, before.after, scalar_apply(*combiner_op(combiner), {old, value}, type)),
      Part::kStep, -1);
  if (out_.splits > 1) write_whole_position(e, &before, &where);
  out_.carries.push_back(before);
  out_.carries.push_back(where);
  out_.positions = true;
  put(elementwise(e, expr(e).output, read_own(e, own.whole)), Part::kBehind, -1);
}

/// Of the parts that left the best value, and have met a term, the position of the first, or of the
/// last: positions ascend with the parts.
///     b = max[p] b_p;  i = min[p] (b_p == b && i_p >= 0 ? i_p : none)
void Carrier::write_whole_position(ExprId e, CarriedProgram::Carry* best,
                                   CarriedProgram::Carry* where) {
  const auto parts_of = [&](CarriedProgram::Carry* carry, const std::string& suffix) {
    carry->parts = add_parts(e, suffix, carry->first.type);
    out_.program.tensors[static_cast<size_t>(carry->parts)].kind = Tensor::Kind::kInput;
    return read_part(e, carry->parts, expr(e).output_rank(), 0);
  };
  const ScalarRef value = parts_of(best, "_best_parts"), place = parts_of(where, "_parts");
  const auto put_whole = [&](const std::string& suffix, Combiner combiner, const ScalarRef& of) {
    TensorExpr whole = elementwise(e, add_tensor(e, suffix, of->type), of);
    whole.reduce_extents = {out_.splits};
    whole.combiner = combiner;
    whole.accumulator = of->type;
    if (!whole.open.empty()) whole.open.push_back(false);
    const TensorId made = whole.output;
    put(std::move(whole), Part::kBehind, -1, expr(e).output_rank());
    return made;
  };
  const bool last = expr(e).last_on_ties;
  const ScalarRef total = read_own(
      e, put_whole("_best_whole",
                   expr(e).combiner == Combiner::kArgMax ? Combiner::kMax : Combiner::kMin, value));
  const auto truth = [](ScalarOp op, std::vector<ScalarRef> operands) {
    return scalar_apply(op, std::move(operands), DType::kBool);
  };
  const ScalarRef both_nan =
      truth(ScalarOp::kAnd, {truth(ScalarOp::kIsNan, {value}), truth(ScalarOp::kIsNan, {total})});
  const ScalarRef same = truth(ScalarOp::kOr, {truth(ScalarOp::kEq, {value, total}), both_nan});
  const ScalarRef met = truth(ScalarOp::kGe, {place, scalar_constant(int_value(place->type, 0))});
  const Combiner pick = last ? Combiner::kMax : Combiner::kMin;
  const ScalarRef none = scalar_constant(combiner_identity(pick, place->type));
  const ScalarRef has_it = truth(ScalarOp::kAnd, {same, met});
  held(e).whole = put_whole("_whole", pick,
                            scalar_apply(ScalarOp::kSelect, {has_it, place, none}, place->type));
}

/// What the loops over all parts left together.
void Carrier::write_whole(ExprId e, CarriedProgram::Carry* carry) {
  Held& own = held(e);
  const DType type = expr(e).accumulator;
  carry->parts = add_parts(e, "_parts", type);
  out_.program.tensors[static_cast<size_t>(carry->parts)].kind = Tensor::Kind::kInput;
  own.whole = add_tensor(e, "_whole", type);
  const int over = expr(e).output_rank();
  ScalarRef left = read_part(e, carry->parts, over, 0);
  if (const ScalarRef factor = factors(own.of_earlier, Factor::kJoin, type, over))
    left = scalar_apply(ScalarOp::kMul, {left, factor}, type);
  TensorExpr whole = elementwise(e, own.whole, left);
  whole.reduce_extents = {out_.splits};
  whole.combiner = expr(e).combiner;
  whole.accumulator = type;
  if (!whole.open.empty()) whole.open.push_back(false);
  put(std::move(whole), Part::kBehind, -1, over);
}

/// The reduction's own tensor: what the loop left, with all that was taken out of its terms.
void Carrier::write_behind(ExprId e) {
  Held& own = held(e);
  const DType type = expr(e).accumulator;
  ScalarRef value = read_own(e, own.whole);
  if (const ScalarRef factor = factors(own.of_earlier, Factor::kRest, type))
    value = scalar_apply(ScalarOp::kMul, {value, factor}, type);
  for (const Homomorphism::Power& power : own.of_earlier.powers) {
    const ScalarRef in_steps = in_step(power.base);
    const ScalarRef top = scalar_convert(power.inverse ? in_steps : power.base, type),
                    bottom = scalar_convert(power.inverse ? power.base : in_steps, type);
    value = without_neutral(scalar_apply(ScalarOp::kMul, {value, top}, type));
    value = without_neutral(scalar_apply(ScalarOp::kDiv, {value, bottom}, type));
  }
  for (const LinearForm::Term& term : own.of_earlier.summands) {
    ScalarRef summand = scalar_convert(term.atom, type);
    if (std::abs(term.coefficient) != 1)
      summand =
          scalar_apply(ScalarOp::kMul, {summand, number(type, std::abs(term.coefficient))}, type);
    value = scalar_apply(term.coefficient < 0 ? ScalarOp::kSub : ScalarOp::kAdd, {value, summand},
                         type);
  }
  const DType declared = program_.tensors[static_cast<size_t>(expr(e).output)].type.dtype;
  put(elementwise(e, expr(e).output, scalar_convert(value, declared)), Part::kBehind, -1);
}

Status Carrier::write(ExprId e) {
  Held& own = held(e);
  if (own.carried) {
    combiner_is_arg(expr(e).combiner) ? write_position(e) : write_carried(e);
  } else if (is_inside(e)) {
    TensorExpr step = expr(e);
    if (own.waits) step.body = in_step(step.body);
    put(std::move(step), Part::kStep, along_[static_cast<size_t>(e)]);
  } else {
    put(expr(e), own.waits ? Part::kBehind : Part::kBefore, -1);
  }
  return {};
}

void Carrier::put_in_order() {
  std::vector<Made> sorted;
  for (const Part part : {Part::kBefore, Part::kStep, Part::kBehind}) {
    for (Made& m : made_) {
      if (m.part == part) sorted.push_back(std::move(m));
    }
  }
  made_ = std::move(sorted);
}

/// Keeps what an output depends on.
void Carrier::drop_unread() {
  std::vector<bool> wanted(out_.program.tensors.size(), false);
  const auto want = [&](TensorId t) {
    const bool is_new = !wanted[static_cast<size_t>(t)];
    wanted[static_cast<size_t>(t)] = true;
    return is_new;
  };
  for (const TensorId t : program_.outputs) want(t);
  for (bool more = true; more;) {
    more = false;
    for (const CarriedProgram::Carry& c : out_.carries) {
      if (wanted[static_cast<size_t>(c.before)] ||
          (c.parts >= 0 && wanted[static_cast<size_t>(c.parts)]))
        more |= want(c.after);
    }
    for (const Made& m : made_) {
      if (!wanted[static_cast<size_t>(m.expr.output)]) continue;
      visit(m.expr.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) more |= want(s.symbol);
      });
    }
  }
  for (Made& m : made_) {
    if (!wanted[static_cast<size_t>(m.expr.output)]) continue;
    out_.program.steps.push_back({false, static_cast<int32_t>(out_.program.exprs.size())});
    out_.program.exprs.push_back(std::move(m.expr));
    out_.parts.push_back(m.part);
    out_.along.push_back(m.along);
    out_.over_parts.push_back(m.over_parts);
  }
  std::erase_if(out_.carries, [&](const CarriedProgram::Carry& c) {
    return !wanted[static_cast<size_t>(c.after)];
  });
}

/// A body with what the step makes element by element written out; what it has of carries stays.
ScalarRef step_written_out(const CarriedProgram& carried, const std::map<TensorId, size_t>& made,
                           const ScalarRef& body) {
  return rewrite(body, nullptr, [&](const ScalarRef& read) -> ScalarRef {
    const auto found = made.find(read->symbol);
    if (found == made.end() || !read->operands.empty()) return read;
    const TensorExpr& e = carried.program.exprs[found->second];
    if (carried.along[found->second] < 0 || !e.reduce_extents.empty()) return read;
    const ScalarRef inner = rewrite(e.body, [&](int var) -> IndexExpr {
      return var < kRuntimeIndexBase ? read->indices[static_cast<size_t>(var)]
                                     : IndexExpr::var(var);
    });
    return step_written_out(carried, made, inner);
  });
}

void Carrier::find_reaches() {
  std::map<TensorId, size_t> made;
  for (size_t e = 0; e < out_.program.exprs.size(); ++e) made[out_.program.exprs[e].output] = e;
  for (CarriedProgram::Carry& c : out_.carries) {
    const Held& own = held(c.reduction);
    const auto part = made.find(own.part);
    if (part == made.end()) continue;
    const TensorExpr& e = out_.program.exprs[part->second];
    TermQuestion question;
    question.along = out_.along[part->second];
    question.axes = e.output_rank();
    question.combiner = e.combiner;
    question.range = [&e](int var) {
      return var >= 0 && var < e.axis_count() ? e.range(var) : kUnbounded;
    };
    question.is_reference = [&](const Scalar& read) {
      return std::ranges::any_of(held_, [&](const Held& h) { return h.running == read.symbol; });
    };
    question.is_outside = [&](const Scalar& read) {
      return made.count(read.symbol) == 0 &&
             std::ranges::find(out_.carries, read.symbol, &CarriedProgram::Carry::before) ==
                 out_.carries.end();
    };
    c.reach = reach_of(step_written_out(out_, made, e.body), question);
  }
}

}  // namespace

Result<CarriedProgram> carry_reductions(const TensorProgram& program, ExprId root, int axis,
                                        int64_t splits) {
  if (root < 0 || static_cast<size_t>(root) >= program.exprs.size() ||
      axis < program.exprs[static_cast<size_t>(root)].output_rank() ||
      axis >= program.exprs[static_cast<size_t>(root)].axis_count())
    return unsupported("a chain goes through an axis that its root reduces");
  WEFT_ASSIGN_OR_RETURN(std::vector<int> along, variables_along(program, root, axis));
  return Carrier(program, std::move(along), splits).run(root, axis);
}

}  // namespace weft
