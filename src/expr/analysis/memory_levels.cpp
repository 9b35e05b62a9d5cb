#include "expr/analysis/memory_levels.h"

#include <algorithm>

namespace weft {

namespace {

/// Elements of tensors at other places, or the same numbers on every run.
bool only_moves(const TensorExpr& expr) {
  if (!expr.reduce_extents.empty()) return false;
  bool moves = true;
  visit(expr.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead) moves &= s.operands.empty();  // else places come from data
    if (s.kind != Scalar::Kind::kApply) return;
    bool reads = false;
    for (const ScalarRef& operand : s.operands) {
      visit(operand, [&](const Scalar& inner) { reads |= inner.kind == Scalar::Kind::kRead; });
      if (s.op == ScalarOp::kSelect) break;  // its condition alone: the rest is a join
    }
    moves &= !reads;
  });
  return moves;
}

/// Whether one kernel may run all iterations of a loop, and share it with what stands around.
bool may_be_one_kernel(const OpaqueExpr& opaque) {
  if (!std::holds_alternative<ScanAttrs>(opaque.node.attrs)) return false;
  return std::ranges::all_of(opaque.regions, [](const auto& region) {
    return region->opaques.empty() &&
           std::ranges::none_of(region->exprs, &TensorExpr::is_contraction);
  });
}

/// Of a tensor: kernels that run before it is there, and the least level of a kernel that reads it.
struct Known {
  int64_t done = 0, next = 1;
};

class Levels {
 public:
  explicit Levels(const TensorProgram& program)
      : program_(program), known_(program.tensors.size()) {}

  MemoryLevels run() {
    MemoryLevels out;
    for (const TensorProgram::Step& step : program_.steps) {
      const auto index = static_cast<size_t>(step.index);
      out.of_step.push_back(step.opaque ? opaque(program_.opaques[index], &out)
                                        : expression(program_.exprs[index]));
      levels_ = std::max(levels_, out.of_step.back());
    }
    out.least += levels_;
    return out;
  }

 private:
  void take(TensorId t, Known* of) const {
    const Known& operand = known_[static_cast<size_t>(t)];
    of->done = std::max(of->done, operand.done);
    of->next = std::max(of->next, operand.next);
  }
  Known& made(TensorId t) { return known_[static_cast<size_t>(t)]; }

  static Known behind_call(const Known& reads) { return {reads.done, reads.done + 1}; }
  static Known behind_kernel(const Known& reads) { return {reads.next, reads.next}; }

  int64_t expression(const TensorExpr& expr) {
    Known reads;
    visit(expr.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) take(static_cast<TensorId>(s.symbol), &reads);
    });
    Known& own = made(expr.output);
    own = expr.is_contraction ? behind_call(reads)
          : only_moves(expr)  ? reads
                              : behind_kernel(reads);
    return own.done;
  }

  int64_t opaque(const OpaqueExpr& opaque, MemoryLevels* out) {
    Known reads;
    for (const TensorId t : opaque.operands) take(t, &reads);
    const bool joins = may_be_one_kernel(opaque);
    const Known own = joins ? behind_kernel(reads) : behind_call(reads);
    for (const TensorId t : opaque.results) made(t) = own;
    if (!joins) {
      for (const auto& region : opaque.regions) out->least += memory_levels(*region).least;
    }
    return own.done;
  }

  const TensorProgram& program_;
  std::vector<Known> known_;  ///< by tensor
  int64_t levels_ = 0;
};

}  // namespace

MemoryLevels memory_levels(const TensorProgram& program) { return Levels(program).run(); }

}  // namespace weft
