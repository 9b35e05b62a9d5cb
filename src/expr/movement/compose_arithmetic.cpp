#include "expr/movement/compose_arithmetic.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "expr/movement/element_by_element.h"
#include "expr/movement/read_composer.h"
#include "expr/movement/remove_dead_expressions.h"

namespace weft {
namespace {

/// Beyond these a body is more than registers hold.
constexpr int64_t kMostOperations = 128;
constexpr size_t kMostReads = 16;

/// Points at which an expression evaluates the reads of a tensor: equal reads once, those in the
/// branch of a select where its condition may hold.
class Evaluations {
 public:
  Evaluations(const TensorExpr& e, TensorId tensor) : axes_(e.axis_count()), tensor_(tensor) {
    std::vector<Interval> ranges;
    for (int v = 0; v < axes_; ++v) ranges.push_back(e.range(v));
    walk(e.body, KnownRanges(std::move(ranges)));
  }
  /// Nothing where a read cannot be composed: what lies outside of the tensor is not computed.
  std::optional<double> points() const {
    if (fills_ || visits_left_ < 0) return std::nullopt;
    double sum = 0;
    for (const auto& [read, points] : reads_) sum += points;
    return sum;
  }

 private:
  void walk(const ScalarRef& s, const KnownRanges& known) {
    if (--visits_left_ < 0) return;
    if (s->kind == Scalar::Kind::kRead && s->symbol == tensor_) note(s, known);
    const bool selects = s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kSelect;
    for (size_t i = 0; i < s->operands.size(); ++i) {
      KnownRanges inside = known;
      if (selects && i > 0) inside.assume(s->operands[0], i == 1);
      walk(s->operands[i], inside);
    }
    if (s->fill) walk(s->fill, known);
  }
  void note(const ScalarRef& read, const KnownRanges& known) {
    fills_ = fills_ || read->fill != nullptr;
    double points = 1;
    for (int v = 0; v < axes_; ++v) {
      const Interval r = known.range(v);
      points *= static_cast<double>(std::max<int64_t>(r.hi - r.lo + 1, 0));
    }
    const auto same =
        std::ranges::find_if(reads_, [&](const auto& other) { return equal(other.first, read); });
    if (same != reads_.end()) {
      same->second = std::max(same->second, points);
    } else {
      reads_.emplace_back(read, points);
    }
  }

  int axes_;
  TensorId tensor_;
  std::vector<std::pair<ScalarRef, double>> reads_;
  bool fills_ = false;
  int visits_left_ = 4000;
};

/// A read element by element but for one axis, of which the reader has a part.
bool is_part(const TensorExpr& reader, const Scalar& read, const Shape& shape) {
  int last = -1, parted = 0;
  for (size_t a = 0; a < shape.size(); ++a) {
    const IndexExpr& index = read.indices[a];
    if (shape[a] == 1 && index.is_const(0)) continue;
    AffineForm form;
    if (!as_affine(index, &form) || form.terms.size() != 1 || form.terms.begin()->second != 1)
      return false;
    const int var = form.terms.begin()->first;
    if (var >= reader.axis_count() || var <= last) return false;
    last = var;
    parted += reader.range(var).hi + 1 != shape[a] ? 1 : 0;
  }
  return parted == 1;
}

/// An axis that is in parts where the tensor is made, and whole where it is read.
bool takes_apart(const Scalar& read) {
  AffineForm form;
  return std::ranges::any_of(read.indices,
                             [&](const IndexExpr& index) { return !as_affine(index, &form); });
}

/// What is composed: what some reader reads otherwise than element by element and no reduction's
/// kernel makes; or what some reader takes apart.
enum class Composed : uint8_t { kMoved, kTakenApart };

class Composing {
 public:
  Composing(TensorProgram& program, Composed what, double recompute, bool parts)
      : program_(program),
        what_(what),
        recompute_(recompute),
        parts_(parts),
        uses_(tensor_uses(program)),
        in_reductions_(program.tensors.size(), false) {}

  bool run() {
    find_in_reductions();
    bool changed = false;
    // Readers first: what they read is then read by what took them.
    for (size_t s = program_.steps.size(); s-- > 0;) {
      if (!program_.steps[s].opaque) changed = compose(s) || changed;
    }
    if (changed) remove_dead_expressions(program_);
    return changed;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  TensorExpr& expr_at(size_t step) {
    return program_.exprs[static_cast<size_t>(program_.steps[step].index)];
  }

  /// Whether the kernel that makes what is read makes the expression as well. Where reads are taken
  /// apart it does if the expression is as large: a reader would have to read the other in its
  /// place.
  bool is_made_with(const TensorExpr& e, const Scalar& read) const {
    const Shape& shape = tensor(read.symbol).type.shape;
    if (what_ == Composed::kTakenApart)
      return element_count(shape) == element_count(e.extents) &&
             is_element_by_element(e, read, shape);
    const bool alone = uses_.consumers[static_cast<size_t>(read.symbol)].size() == 1;
    return (alone && is_element_by_element(e, read, shape)) || (parts_ && is_part(e, read, shape));
  }

  /// Tensors that the kernel of a reduction makes at no cost: reductions, and what is made with the
  /// like.
  void find_in_reductions() {
    for (const TensorProgram::Step& step : program_.steps) {
      if (step.opaque) continue;
      const TensorExpr& e = program_.exprs[static_cast<size_t>(step.index)];
      bool found = !e.reduce_extents.empty();
      visit(e.body, [&](const Scalar& s) {
        if (found || s.kind != Scalar::Kind::kRead) return;
        found = in_reductions_[static_cast<size_t>(s.symbol)] && is_made_with(e, s);
      });
      in_reductions_[static_cast<size_t>(e.output)] = found;
    }
  }

  bool may_compose(const TensorExpr& e) const {
    const Tensor& made = tensor(e.output);
    return e.reduce_extents.empty() && !made.is_output &&
           made.kind == Tensor::Kind::kIntermediate && operation_count(e.body) > 0 &&
           !in_reductions_[static_cast<size_t>(e.output)];
  }

  /// Points at which the readers evaluate the tensor; nothing where one of them cannot take what
  /// makes it, or none moves it so.
  std::optional<double> points_of_readers(TensorId t) {
    double points = 0;
    bool moves = false;
    for (const int32_t s : uses_.consumers[static_cast<size_t>(t)]) {
      if (program_.steps[static_cast<size_t>(s)].opaque) return std::nullopt;
      const TensorExpr& reader = expr_at(static_cast<size_t>(s));
      if (reader.is_contraction) return std::nullopt;
      const std::optional<double> own = Evaluations(reader, t).points();
      if (!own) return std::nullopt;
      points += *own;
      visit(reader.body, [&](const Scalar& r) {
        if (moves || r.kind != Scalar::Kind::kRead || r.symbol != t) return;
        moves = what_ == Composed::kTakenApart
                    ? takes_apart(r)
                    : !is_element_by_element(reader, r, tensor(t).type.shape);
      });
    }
    return moves ? std::optional(points) : std::nullopt;
  }

  static bool is_too_large(const ScalarRef& body) {
    std::vector<ScalarRef> reads;
    size_t count = 0;
    visit(body, [&](const Scalar& s) { count += s.kind == Scalar::Kind::kRead ? 1 : 0; });
    return count > kMostReads || operation_count(body) > kMostOperations;
  }

  bool compose(size_t step) {
    const TensorExpr& e = expr_at(step);
    const TensorId t = e.output;
    if (!may_compose(e) || uses_.consumers[static_cast<size_t>(t)].empty()) return false;
    const int64_t elements = element_count(e.extents).value_or(0);
    if (elements == 0) return false;
    const std::optional<double> points = points_of_readers(t);
    if (!points || *points > recompute_ * static_cast<double>(elements)) return false;
    std::vector<ScalarRef> bodies;
    for (const int32_t s : uses_.consumers[static_cast<size_t>(t)]) {
      ReadComposer composer(program_, expr_at(static_cast<size_t>(s)), [&](const Scalar& read) {
        return read.symbol == t ? e.body : nullptr;
      });
      ScalarRef body = composer.run();
      if (!body || reads(body, t) || is_too_large(body)) return false;
      bodies.push_back(std::move(body));
    }
    replace(step, std::move(bodies));
    return true;
  }

  static bool reads(const ScalarRef& body, TensorId t) {
    bool found = false;
    visit(body, [&](const Scalar& s) {
      found = found || (s.kind == Scalar::Kind::kRead && s.symbol == t);
    });
    return found;
  }

  /// Gives the readers of the step's tensor their new bodies, and its inputs those readers.
  void replace(size_t step, std::vector<ScalarRef> bodies) {
    const TensorExpr& e = expr_at(step);
    const std::vector<int32_t> readers =
        std::exchange(uses_.consumers[static_cast<size_t>(e.output)], {});
    for (size_t i = 0; i < readers.size(); ++i) {
      TensorExpr& reader = expr_at(static_cast<size_t>(readers[i]));
      reader.body = std::move(bodies[i]);
      std::vector<int32_t> origins;
      std::ranges::set_union(reader.origins, e.origins, std::back_inserter(origins));
      reader.origins = std::move(origins);
    }
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      std::vector<int32_t>& own = uses_.consumers[static_cast<size_t>(s.symbol)];
      std::erase(own, static_cast<int32_t>(step));
      for (const int32_t r : readers) {
        const auto at = std::ranges::lower_bound(own, r);
        const bool still_reads = reads(expr_at(static_cast<size_t>(r)).body, s.symbol);
        if (still_reads && (at == own.end() || *at != r)) own.insert(at, r);
      }
    });
  }

  TensorProgram& program_;
  Composed what_;
  double recompute_;
  bool parts_;
  TensorUses uses_;
  std::vector<bool> in_reductions_;
};

}  // namespace

bool compose_arithmetic(TensorProgram& program, double recompute, bool parts) {
  return Composing(program, Composed::kMoved, recompute, parts).run();
}

bool compose_across_splits(TensorProgram& program, double recompute) {
  return Composing(program, Composed::kTakenApart, recompute, false).run();
}

}  // namespace weft
