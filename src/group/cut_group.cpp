#include "group/cut_group.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

using Orders = std::map<TensorId, Layout>;

const Layout& layout_of(const TensorProgram& program, TensorId t, const Orders* orders) {
  if (orders != nullptr) {
    if (const auto it = orders->find(t); it != orders->end()) return it->second;
  }
  return program.tensors[static_cast<size_t>(t)].layout;
}

/// `list`, by logical axis, in the order of memory.
template <typename List>
void permute(const Layout& layout, List& list) {
  if (layout.is_row_major()) return;
  List out;
  out.reserve(layout.axes.size());
  for (const Layout::Axis& a : layout.axes) out.push_back(list[static_cast<size_t>(a.axis)]);
  list = std::move(out);
}

/// The variables of an expression whose output lies in another order, by those that it had.
std::vector<IndexExpr> in_order_of_memory(const TensorExpr& e, const Layout& output) {
  std::vector<IndexExpr> to;
  for (int v = 0; v < e.axis_count(); ++v) to.push_back(IndexExpr::var(v));
  for (size_t d = 0; d < output.axes.size(); ++d)
    to[static_cast<size_t>(output.axes[d].axis)] = IndexExpr::var(static_cast<int>(d));
  return to;
}

std::vector<Leaf> physical_leaves(const TensorProgram& program, const TensorExpr& e,
                                  const Orders* orders) {
  std::vector<Leaf> leaves = leaves_of(e.body);
  const Layout& output = layout_of(program, e.output, orders);
  if (!output.is_row_major()) rename_variables(in_order_of_memory(e, output), leaves);
  for (Leaf& leaf : leaves) {
    if (leaf.is_read()) permute(layout_of(program, leaf.symbol, orders), leaf.indices);
  }
  return leaves;
}

class Cutter {
 public:
  Cutter(const TensorProgram& program, const Group& group, const CutOptions& options)
      : program_(program), group_(group), options_(options) {
    if (options.orders != nullptr && !options.orders->empty()) orders_ = options.orders;
  }

  GroupCut run() {
    out_.view.program.exprs.reserve(group_.exprs.size());
    out_.view.program.tensors.reserve(2 * group_.exprs.size());
    out_.leaves.reserve(group_.exprs.size());
    for (const ExprId e : group_.exprs) add(e);
    for (const TensorId t : group_.outputs) out_.view.group.outputs.push_back(number_of(t));
    return std::move(out_);
  }

 private:
  void add(ExprId id) {
    TensorProgram& view = out_.view.program;
    TensorExpr expr = program_.exprs[static_cast<size_t>(id)];
    const Layout& layout = layout_of(program_, expr.output, orders_);
    std::vector<Leaf>& leaves = out_.leaves.emplace_back();
    if (options_.known != nullptr && orders_ == nullptr) {
      leaves = options_.known->of(id);
    } else {
      leaves = physical_leaves(program_, expr, orders_);
    }
    permute(layout, expr.extents);
    if (!expr.open.empty() && !layout.is_row_major()) {
      const std::vector<bool> open = expr.open;
      for (size_t d = 0; d < layout.axes.size(); ++d)
        expr.open[d] = open[static_cast<size_t>(layout.axes[d].axis)];
    }
    expr.output = number_of(expr.output);
    for (Leaf& leaf : leaves) {
      if (leaf.is_read()) leaf.symbol = number_of(leaf.symbol);
    }
    out_.view.group.exprs.push_back(static_cast<ExprId>(view.exprs.size()));
    view.steps.push_back({false, static_cast<int32_t>(view.exprs.size())});
    view.exprs.push_back(std::move(expr));
  }

  /// Of a tensor of the program, in the view.
  TensorId number_of(TensorId t) {
    std::vector<TensorId>& original = out_.view.original;
    const auto known = std::ranges::find(original, t);
    const auto number = static_cast<TensorId>(known - original.begin());
    if (known != original.end()) return number;
    const Tensor& from = program_.tensors[static_cast<size_t>(t)];
    Tensor& tensor = out_.view.program.tensors.emplace_back();
    tensor.name = options_.key == nullptr ? from.name : numbered_name(options_.key->number_of(t));
    tensor.type = from.type;
    tensor.kind = from.kind;
    tensor.is_output = from.is_output;
    tensor.value = from.value;
    tensor.declared = from.declared;
    permute(layout_of(program_, t, orders_), tensor.type.shape);
    original.push_back(t);
    return number;
  }

  const TensorProgram& program_;
  const Group& group_;
  const CutOptions& options_;
  const Orders* orders_ = nullptr;
  GroupCut out_;
};

}  // namespace

PhysicalLeaves::PhysicalLeaves(const TensorProgram& program) {
  leaves_.reserve(program.exprs.size());
  for (const TensorExpr& e : program.exprs) leaves_.push_back(physical_leaves(program, e, nullptr));
}

GroupCut begin_cut(const TensorProgram& program, const Group& group, const CutOptions& options) {
  return Cutter(program, group, options).run();
}

GroupView finished(GroupCut cut) {
  for (size_t e = 0; e < cut.leaves.size(); ++e) {
    ScalarRef& body = cut.view.program.exprs[e].body;
    body = with_leaves(body, std::move(cut.leaves[e]));
  }
  return std::move(cut.view);
}

GroupView cut_group(const TensorProgram& program, const Group& group, const CutOptions& options) {
  return finished(begin_cut(program, group, options));
}

}  // namespace weft
