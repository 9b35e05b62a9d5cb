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
    });
    return status;
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
};

}  // namespace

Result<std::vector<int>> variables_along(const TensorProgram& program, ExprId root, int axis) {
  return AlongAxis(program).run(root, axis);
}

}  // namespace weft
