#pragma once

#include <functional>
#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// What is known about index variables at one place of a body: their ranges, narrowed by the
/// conditions of the selects around it.
class KnownRanges {
 public:
  explicit KnownRanges(std::vector<Interval> ranges) : ranges_(std::move(ranges)) {}

  Interval range(int var) const;
  /// Bounds of `index`, from the ranges and from what was assumed about the same expression.
  Interval bounds(const IndexExpr& index) const;
  /// Adds what `condition` being `truth` says. Nothing is added where it would leave no value.
  void assume(const ScalarRef& condition, bool truth);
  /// The comparison of an index with a constant if it is decided: 1 true, 0 false, -1 open.
  int decide(const Scalar& comparison) const;

  /// Ranges of variables beyond the expression's own (runtime indices being substituted).
  std::vector<std::pair<int, Interval>> extra;

 private:
  void narrow(const IndexExpr& index, const Interval& to);
  std::vector<Interval> ranges_;
  struct Fact {
    IndexExpr base;  ///< without its constant
    Interval range;
  };
  std::vector<Fact> facts_;
};

/// Puts bodies in place of reads in one expression, simplifying indices, predicates and selects by
/// the ranges of its axes.
///     y[d0] = x[d0 - 1] of x[d0] = 0 <= d0 - 2 < 8 ? z[d0 - 2] : 0
class ReadComposer {
 public:
  /// The body that stands for a read of the tensor (over the tensor's axes), null to keep the read.
  using BodyOf = std::function<ScalarRef(const Scalar& read)>;
  ReadComposer(const TensorProgram& program, const TensorExpr& expr, BodyOf body_of);

  /// The new body of the expression; null when it grew beyond what is sensible.
  ScalarRef run();

 private:
  /// How the variables of the body under way are written in the expression's own.
  struct Frame {
    const std::vector<IndexExpr>* indices = nullptr;  ///< null: its own variables
    const std::vector<ScalarRef>* outer = nullptr;    ///< values of the outer runtime indices
    const std::vector<int64_t>* outer_extents = nullptr;
  };

  ScalarRef transform(const ScalarRef& s, const Frame& frame, const KnownRanges& known);
  ScalarRef transform_apply(const ScalarRef& s, const Frame& frame, const KnownRanges& known);
  ScalarRef transform_read(const ScalarRef& s, const Frame& frame, const KnownRanges& known);
  ScalarRef composed(const Scalar& read, const ScalarRef& body, const KnownRanges& known);
  IndexExpr in_own_variables(const IndexExpr& index, const Frame& frame,
                             const KnownRanges& known) const;
  /// An index that holds outer runtime indices, as a value; those are clamped as their read would.
  ScalarRef value_of(const IndexExpr& index, const Frame& frame, const KnownRanges& known) const;

  const TensorProgram& program_;
  const TensorExpr& expr_;
  BodyOf body_of_;
  int budget_ = 4000;
  bool failed_ = false;
};

}  // namespace weft
