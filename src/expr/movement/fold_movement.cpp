#include "expr/movement/fold_movement.h"

#include <algorithm>

#include "expr/movement/join_pieces.h"
#include "expr/movement/read_composer.h"
#include "expr/movement/remove_dead_expressions.h"

namespace weft {
namespace {

/// A condition on coordinates alone.
bool is_predicate(const Scalar& s) {
  if (s.kind == Scalar::Kind::kRead) return false;
  for (const ScalarRef& o : s.operands) {
    if (!is_predicate(*o)) return false;
  }
  return true;
}

/// A value that is only fetched: a read, a coordinate, a constant, or a choice between such by
/// coordinates.
bool only_moves(const Scalar& s) {
  switch (s.kind) {
    case Scalar::Kind::kConstant:
    case Scalar::Kind::kIndex:
      return true;
    case Scalar::Kind::kRead:
      return !s.fill;
    case Scalar::Kind::kApply:
      return s.op == ScalarOp::kSelect && is_predicate(*s.operands[0]) &&
             only_moves(*s.operands[1]) && only_moves(*s.operands[2]);
  }
  return false;
}

struct BodyShape {
  int reads = 0;         ///< not counting those that are runtime indices
  bool gathers = false;  ///< some read has a runtime index
};

void measure(const Scalar& s, BodyShape& shape) {
  if (s.kind == Scalar::Kind::kRead) {
    ++shape.reads;
    shape.gathers = shape.gathers || !s.operands.empty();
    return;
  }
  if (s.kind != Scalar::Kind::kApply) return;
  for (const ScalarRef& o : s.operands) measure(*o, shape);
}

class MovementFolder {
 public:
  MovementFolder(TensorProgram& program, const MovementOptions& options)
      : program_(program),
        options_(options),
        moved_(program.tensors.size()),
        readers_(program.tensors.size(), 0),
        feeds_contraction_(program.tensors.size(), false) {}

  bool run() {
    count_readers();
    find_contracted();
    for (const TensorProgram::Step& step : program_.steps) {
      if (!step.opaque) fold(program_.exprs[static_cast<size_t>(step.index)]);
    }
    return changed_;
  }

 private:
  /// Movement expressions by their output.
  struct Moved {
    ScalarRef body;  ///< null: not one
    BodyShape shape;
  };

  void count_readers() {
    const TensorUses uses = tensor_uses(program_);
    for (size_t t = 0; t < readers_.size(); ++t) {
      readers_[t] = static_cast<int>(uses.consumers[t].size());
    }
  }

  /// Tensors that reach a contraction, through movement if at all.
  void find_contracted() {
    for (size_t i = program_.steps.size(); i-- > 0;) {
      if (program_.steps[i].opaque) continue;
      const TensorExpr& e = program_.exprs[static_cast<size_t>(program_.steps[i].index)];
      const bool passes_on = feeds_contraction_[static_cast<size_t>(e.output)] &&
                             e.reduce_extents.empty() && only_moves(*e.body);
      if (!e.is_contraction && !passes_on) continue;
      visit(e.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) feeds_contraction_[static_cast<size_t>(s.symbol)] = true;
      });
    }
  }

  bool is_output(TensorId t) const { return program_.tensors[static_cast<size_t>(t)].is_output; }

  /// Whether `e` permutes the axes of one tensor for a contraction to read: that can follow the
  /// permutation, but not take a join of several tensors in its place. A join that reaches memory
  /// anyway is read from there.
  bool permutes_for_contraction(const TensorExpr& e) const {
    if (!feeds_contraction_[static_cast<size_t>(e.output)] || e.body->kind != Scalar::Kind::kRead)
      return false;
    return std::all_of(e.body->indices.begin(), e.body->indices.end(),
                       [](const IndexExpr& i) { return i.is_const() || i.is_var(); });
  }

  void fold(TensorExpr& e) {
    if (element_count(e.extents).value_or(0) > 0) compose(e);
    if (!e.reduce_extents.empty() || !only_moves(*e.body)) return;
    if (options_.joins_pieces) e.body = join_pieces(e, program_);
    Moved& m = moved_[static_cast<size_t>(e.output)];
    measure(*e.body, m.shape);
    if (m.shape.reads <= options_.max_branches) m.body = e.body;
  }

  bool reads_movement(const TensorExpr& e) const {
    bool found = false;
    visit(e.body, [&](const Scalar& s) {
      found =
          found || (s.kind == Scalar::Kind::kRead && moved_[static_cast<size_t>(s.symbol)].body);
    });
    return found;
  }

  void compose(TensorExpr& e) {
    if (!reads_movement(e)) {
      simplify_reads(e);
      return;
    }
    const bool moves = e.reduce_extents.empty() && only_moves(*e.body);
    const bool keeps_joins = permutes_for_contraction(e);
    int reads = 0;
    const ScalarRef body =
        ReadComposer(program_, e, [&](const Scalar& read) -> ScalarRef {
          const Moved& m = moved_[static_cast<size_t>(read.symbol)];
          if (!m.body || !may_enter(e, moves, read, m)) return nullptr;
          if (keeps_joins && m.shape.reads > 1 && is_output(read.symbol)) return nullptr;
          reads += m.shape.reads;
          return reads <= options_.max_branches || m.shape.reads <= 1 ? m.body : nullptr;
        }).run();
    if (!body || body == e.body) return;
    e.body = body;
    changed_ = true;
  }

  /// Axes of one element become index 0, so that equal reads look equal.
  void simplify_reads(TensorExpr& e) {
    bool has_unit_axis = false;
    for (int v = 0; v < e.axis_count(); ++v) has_unit_axis = has_unit_axis || e.range(v).hi == 0;
    if (!has_unit_axis) return;
    const ScalarRef body =
        ReadComposer(program_, e, [](const Scalar&) -> ScalarRef { return nullptr; }).run();
    if (!body || body == e.body) return;
    e.body = body;
    changed_ = true;
  }

  /// A contraction takes what stays one read, padded or not: its inner loop runs over addresses. A
  /// gather is repeated where it has one reader only.
  bool may_enter(const TensorExpr& e, bool moves, const Scalar& read, const Moved& m) const {
    if (e.is_contraction) {
      return m.shape.reads <= 1 && (!m.shape.gathers || chooses_matrices(e, read, m)) &&
             (options_.into_contractions || !reads_intermediates(m.body));
    }
    if (!m.shape.gathers || moves) return true;
    return readers_[static_cast<size_t>(read.symbol)] == 1;
  }

  /// Whether a sum reads each element of what is gathered once, along rows that lie as they do in
  /// what it is gathered from: a matrix that is chosen at run time, times a vector.
  ///     w[j,n,k] = all[expert[j],n,k];  y[j,n] = sum[k] w[j,n,k] * x[k]
  bool chooses_matrices(const TensorExpr& e, const Scalar& read, const Moved& m) const {
    if (m.body->kind != Scalar::Kind::kRead || read.fill || !read.operands.empty() ||
        readers_[static_cast<size_t>(read.symbol)] != 1)
      return false;
    for (int v = 0; v < e.axis_count(); ++v) {
      const bool reads_along = std::ranges::any_of(
          read.indices, [&](const IndexExpr& index) { return uses_var(index, v); });
      if (!reads_along && e.range(v).hi > 0) return false;
    }
    const int last = static_cast<int>(read.indices.size()) - 1;
    bool chosen_along_rows =
        last < 0 || !m.body->indices.back().is_var() || m.body->indices.back().var_id() != last;
    for (const ScalarRef& index : m.body->operands) {
      visit(index, [&](const Scalar& s) {
        for (const IndexExpr& i : s.indices) chosen_along_rows |= uses_var(i, last);
      });
    }
    return !chosen_along_rows;
  }

  bool reads_intermediates(const ScalarRef& body) const {
    bool found = false;
    visit(body, [&](const Scalar& s) {
      found = found ||
              (s.kind == Scalar::Kind::kRead &&
               program_.tensors[static_cast<size_t>(s.symbol)].kind == Tensor::Kind::kIntermediate);
    });
    return found;
  }

  TensorProgram& program_;
  const MovementOptions& options_;
  std::vector<Moved> moved_;
  std::vector<int> readers_;
  std::vector<bool> feeds_contraction_;
  bool changed_ = false;
};

}  // namespace

bool fold_movement(TensorProgram& program, const MovementOptions& options) {
  const bool changed = MovementFolder(program, options).run();
  if (changed) remove_dead_expressions(program);
  return changed;
}

}  // namespace weft
