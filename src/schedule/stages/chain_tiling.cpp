#include "schedule/stages/chain_tiling.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

#include "schedule/stages/chain_axes.h"

namespace weft {

namespace {

constexpr int kDepth = static_cast<int>(kDepthLoop), kShared = static_cast<int>(kSharedLoop),
              kMade = static_cast<int>(kMadeLoop), kRow = static_cast<int>(kRowLoop), kNone = -1;

/// By tensor from outside, which loop of the chain goes along each of its axes.
using AxisLoops = std::map<TensorId, std::vector<int>>;

/// By variable of a contraction, or of what reduces the rows of one.
std::vector<int> loops_of_variables(const BlockSpace& whole, const SharedAxis& shared,
                                    const ChainAxes& axes, int p) {
  const TensorExpr& e = whole.expr(p);
  std::vector<int> out(static_cast<size_t>(e.axis_count()), kNone);
  if (p == shared.axis.member) {
    for (size_t d = 0; d < axes.roles.size(); ++d) {
      if (axes.roles[d] != AxisRole::kBatch)
        out[d] = axes.roles[d] == AxisRole::kRow ? kRow : kMade;
    }
    out[static_cast<size_t>(e.output_rank() + shared.axis.reduction)] = kShared;
    return out;
  }
  // Of a contraction that makes each step's elements, the axis that the steps go along.
  int along = kNone;
  for (size_t m = 0; m < shared.carried.program.exprs.size(); ++m) {
    const auto tensor = shared.carried.program.exprs[m].output;
    if (tensor == e.output) along = shared.carried.along[m];
  }
  if (along < 0 || along >= e.output_rank()) return out;
  for (int v = 0; v < e.axis_count(); ++v) {
    bool in_all = true;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      in_all &= std::ranges::any_of(s.indices, [&](const IndexExpr& i) { return uses_var(i, v); });
    });
    const bool is_batch = v < e.output_rank() && in_all;
    if (v == along) {
      out[static_cast<size_t>(v)] = kShared;
    } else if (!is_batch) {
      out[static_cast<size_t>(v)] = v < e.output_rank() ? kRow : kDepth;
    }
  }
  return out;
}

AxisLoops loops_of_axes(const BlockSpace& whole, const SharedAxis& shared, const ChainAxes& axes) {
  AxisLoops out;
  for (int p = 0; p < whole.size(); ++p) {
    if (!whole.expr(p).is_contraction && p != shared.axis.member) continue;
    const std::vector<int> loops = loops_of_variables(whole, shared, axes, p);
    visit(whole.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || whole.producer(s.symbol) >= 0) return;
      std::vector<int>& own = out[whole.original()[static_cast<size_t>(s.symbol)]];
      own.resize(s.indices.size(), kNone);
      for (size_t d = 0; d < s.indices.size(); ++d) {
        if (s.indices[d].is_var() && s.indices[d].var_id() < kRuntimeIndexBase)
          own[d] = loops[static_cast<size_t>(s.indices[d].var_id())];
      }
    });
  }
  return out;
}

/// Reads off a program which loop of the chain each of its loops is, and which stand around the
/// reads of each contraction's right factor.
class LoopReader {
 public:
  LoopReader(const ScheduledKernel& kernel, const AxisLoops& axes) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      const auto found = axes.find(kernel.parameters[i]);
      if (found != axes.end()) axes_[kernel.program.parameters[i]] = &found->second;
    }
    walk(kernel.program.body);
    // A loop that cuts another one's tile is that one.
    for (const TileLoop::Dim* dim : all_ | std::views::reverse) {
      const auto own = named_.find(dim->origin);
      if (own == named_.end() || kernel.composition.carried.splits > 1) continue;
      for (const int v : variables(dim->begin)) named_.emplace(v, own->second);
    }
  }

  TilingExpression expression() const {
    const std::vector<int> first = loops_around(first_), last = loops_around(last_);
    TilingExpression out;
    size_t common = 0;
    while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
    out.nested.assign(first.begin(), first.begin() + static_cast<ptrdiff_t>(common));
    const std::vector<int> of_first(first.begin() + static_cast<ptrdiff_t>(common), first.end()),
        of_last(last.begin() + static_cast<ptrdiff_t>(common), last.end());
    if (of_first.size() == 1 && of_last.size() == 1) {
      out.sequential = {of_first[0], of_last[0]};
      return out;
    }
    for (const std::vector<int>* rest : {&of_first, &of_last})
      out.nested.insert(out.nested.end(), rest->begin(), rest->end());
    return out;
  }

 private:
  using Around = std::vector<const TileLoop::Dim*>;

  void walk(const TileBody& body) {
    for (const TileNode& node : body) {
      if (node.kind == TileNode::Kind::kStatement) read(node.statement);
      if (node.kind == TileNode::Kind::kCondition) walk(node.condition->body);
      if (node.kind != TileNode::Kind::kLoop) continue;
      const size_t outer = around_.size();
      for (const TileLoop::Dim& dim : node.loop->dims) around_.push_back(&dim);
      all_.insert(all_.end(), around_.begin() + static_cast<ptrdiff_t>(outer), around_.end());
      walk(node.loop->body);
      around_.resize(outer);
    }
  }

  void read(const TileStatement& statement) {
    visit(statement.value, [&](const Scalar& s) {
      const auto found = axes_.find(s.symbol);
      if (s.kind != Scalar::Kind::kRead || found == axes_.end()) return;
      const std::vector<int>& loops = *found->second;
      for (size_t d = 0; d < loops.size(); ++d) {
        if (loops[d] == kNone) continue;
        for (const int v : variables(s.indices[d])) named_.emplace(v, loops[d]);
      }
      const auto has = [&](int loop) { return std::ranges::find(loops, loop) != loops.end(); };
      if (has(kDepth) && has(kShared) && around_.size() > first_.size()) first_ = around_;
      if (has(kShared) && has(kMade) && around_.size() > last_.size()) last_ = around_;
    });
  }

  std::vector<int> loops_around(const Around& dims) const {
    std::vector<int> out;
    for (const TileLoop::Dim* dim : dims) {
      const auto own = named_.find(dim->origin);
      const IndexExpr length = dim->end - dim->begin;
      const bool runs_once = length.is_const() && length.constant() <= dim->step;
      if (own == named_.end() || runs_once || std::ranges::find(out, own->second) != out.end())
        continue;
      out.push_back(own->second);
    }
    return out;
  }

  std::map<TileSymbolId, const std::vector<int>*> axes_;
  std::map<TileVarId, int> named_;
  Around around_, all_, first_, last_;
};

}  // namespace

std::optional<TilingExpression> tiling_of(const TensorProgram& program, const Group& group,
                                          const ScheduledKernel& kernel, const Target& target) {
  constexpr int kMostContractions = 2;
  if (kernel.composition.kind != Composition::Kind::kChain) return std::nullopt;
  const BlockSpace whole(program, group, target);
  int contractions = 0;
  for (int p = 0; p < whole.size(); ++p) contractions += whole.expr(p).is_contraction;
  CarriedAxis axis = kernel.composition.carried;
  axis.splits = 1;
  auto carried = carried_along(whole, axis);
  if (!carried.ok() || contractions < 1 || contractions > kMostContractions) return std::nullopt;
  const SharedAxis shared{axis, std::move(*carried)};
  const BlockSpace steps(whole, shared.carried, target);
  const auto axes = chain_axes(whole, shared, steps);
  if (!axes.ok()) return std::nullopt;
  return LoopReader(kernel, loops_of_axes(whole, shared, *axes)).expression();
}

}  // namespace weft
