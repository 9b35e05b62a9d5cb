#include "expr/reductions/variables_along.h"

#include <algorithm>
#include <map>

namespace weft {

namespace {

/// Spreads one axis over the expressions that hand it on, until nothing is new.
class AlongAxis {
 public:
  explicit AlongAxis(const TensorProgram& program)
      : program_(program), along_(program.exprs.size(), -1) {
    for (size_t e = 0; e < program.exprs.size(); ++e)
      producer_[program.exprs[e].output] = static_cast<ExprId>(e);
  }

  Result<std::vector<int>> run(ExprId root, int axis) {
    of_rows_ = !program_.exprs[static_cast<size_t>(root)].is_contraction;
    WEFT_RETURN_IF_ERROR(meet(root, axis));
    while (is_new_) {
      is_new_ = false;
      for (size_t e = 0; e < program_.exprs.size(); ++e)
        WEFT_RETURN_IF_ERROR(spread(static_cast<ExprId>(e)));
    }
    return std::move(along_);
  }

 private:
  std::string name(ExprId e) const {
    const TensorId t = program_.exprs[static_cast<size_t>(e)].output;
    return program_.tensors[static_cast<size_t>(t)].name;
  }

  Status meet(ExprId e, int variable) {
    int& own = along_[static_cast<size_t>(e)];
    if (own == variable) return {};
    if (own >= 0) return unsupported(name(e) + " meets the shared axis twice");
    own = variable;
    is_new_ = true;
    return {};
  }

  Status spread(ExprId reader) {
    Status status;
    visit(program_.exprs[static_cast<size_t>(reader)].body, [&](const Scalar& s) {
      const auto from = s.kind == Scalar::Kind::kRead ? producer_.find(s.symbol) : producer_.end();
      if (status.ok() && from != producer_.end()) status = spread(reader, s, from->second);
      if (status.ok() && from != producer_.end()) status = take_along(reader, from->second);
    });
    return status;
  }

  /// A reduction of what its reader has the elements of, from outside, runs along the same axis:
  /// m = max[n] x[n] beside x[n] - m.
  Status take_along(ExprId reader, ExprId reduction) {
    const int own = along_[static_cast<size_t>(reader)];
    const TensorExpr& e = program_.exprs[static_cast<size_t>(reduction)];
    if (!of_rows_ || own < 0 || along_[static_cast<size_t>(reduction)] >= 0 ||
        e.reduce_extents.empty())
      return {};
    const TensorExpr& by = program_.exprs[static_cast<size_t>(reader)];
    int variable = -1;
    const auto is_outside = [&](const Scalar& s) {
      return s.kind == Scalar::Kind::kRead && producer_.count(s.symbol) == 0;
    };
    visit(by.body, [&](const Scalar& mine) {
      if (!is_outside(mine)) return;
      visit(e.body, [&](const Scalar& theirs) {
        if (!is_outside(theirs) || theirs.symbol != mine.symbol) return;
        for (size_t d = 0; d < mine.indices.size(); ++d) {
          const IndexExpr& at = theirs.indices[d];
          if (mine.indices[d].is_var() && mine.indices[d].var_id() == own && at.is_var() &&
              at.var_id() >= e.output_rank() && at.var_id() < kRuntimeIndexBase &&
              e.range(at.var_id()).hi == by.range(own).hi)
            variable = at.var_id();
        }
      });
    });
    return variable < 0 ? Status{} : meet(reduction, variable);
  }

  Status spread(ExprId reader, const Scalar& read, ExprId from) {
    const int own = along_[static_cast<size_t>(reader)];
    const TensorExpr& producer = program_.exprs[static_cast<size_t>(from)];
    for (int d = 0; d < producer.output_rank(); ++d) {
      const IndexExpr& index = read.indices[static_cast<size_t>(d)];
      const bool theirs = along_[static_cast<size_t>(from)] == d;
      const bool ours = own >= 0 && uses_var(index, own);
      if (!theirs && !ours) continue;
      const bool plain = index.is_var() && index.var_id() < kRuntimeIndexBase;
      const int64_t extent = producer.extents[static_cast<size_t>(d)];
      if (!plain ||
          program_.exprs[static_cast<size_t>(reader)].range(index.var_id()).hi + 1 != extent)
        return unsupported(name(reader) + " reads " + name(from) +
                           " along the shared axis, not element by element");
      WEFT_RETURN_IF_ERROR(meet(from, d));
      WEFT_RETURN_IF_ERROR(meet(reader, index.var_id()));
    }
    return {};
  }

  const TensorProgram& program_;
  std::map<TensorId, ExprId> producer_;
  std::vector<int> along_;
  bool is_new_ = false;
  bool of_rows_ = false;  ///< no contraction's axis: there what is reduced apart comes before
};

}  // namespace

Result<std::vector<int>> variables_along(const TensorProgram& program, ExprId root, int axis) {
  return AlongAxis(program).run(root, axis);
}

}  // namespace weft
