#include "expr/movement/assign_layouts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "expr/movement/copy_tensor.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// Of inputs that are copied: fewer are read quickly as they lie.
constexpr int64_t kLeastChannels = 16;

bool is_var(const IndexExpr& e, int id) { return e.is_var() && e.var_id() == id; }

/// Whether neighbours along the axis are neighbours here: the axis itself, or a part of a longer
/// one.
bool steps_along(const IndexExpr& e, int axis) {
  AffineForm form;
  if (!as_affine(e, &form) || form.terms.size() != 1) return false;
  const auto& [var, step] = *form.terms.begin();
  return var == axis && step == 1;
}

/// Whether `index` joins an output axis and a reduction axis: a window that slides.
bool is_window(const TensorExpr& e, const IndexExpr& index) {
  bool output = false, reduced = false;
  for (const int id : variables(index)) {
    (id < e.output_rank() ? output : reduced) = true;
  }
  return output && reduced;
}

/// Whether the position depends on the axis, as it stands or through what data say.
bool goes_along(const Scalar& read, const IndexExpr& index, int axis) {
  if (uses_var(index, axis)) return true;
  bool found = false;
  for (size_t r = 0; r < read.operands.size(); ++r) {
    if (!uses_var(index, kRuntimeIndexBase + static_cast<int>(r))) continue;
    visit(read.operands[r], [&](const Scalar& s) {
      for (const IndexExpr& i : s.indices) found |= uses_var(i, axis);
      found |= s.kind == Scalar::Kind::kIndex && uses_var(s.index, axis);
    });
  }
  return found;
}

class LayoutChoice {
 public:
  LayoutChoice(TensorProgram& program, bool twins)
      : program_(program),
        parent_(program.tensors.size()),
        movable_(program.tensors.size(), false),
        votes_(program.tensors.size(), 0) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t t = 0; t < movable_.size(); ++t) {
      const Tensor& x = program.tensors[t];
      const size_t rank = x.type.shape.size();
      const int64_t least = x.kind == Tensor::Kind::kInput ? kLeastChannels : 2;
      movable_[t] = x.kind != Tensor::Kind::kConstant && (twins || !is_fixed(t)) && rank >= 3 &&
                    rank <= 5 && x.type.shape[1] >= least;
    }
    for (const OpaqueExpr& o : program.opaques) {
      for (const TensorId t : o.operands) movable_[static_cast<size_t>(t)] = false;
      for (const TensorId t : o.results) movable_[static_cast<size_t>(t)] = false;
    }
  }

  bool run() {
    for (size_t e = 0; e < program_.exprs.size(); ++e) {
      visit(program_.exprs[e].body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) consider(e, s);
      });
    }
    std::vector<int64_t> total(votes_.size(), 0);
    std::vector<bool> free(votes_.size(), false);  // classes with a tensor that kernels alone see
    for (size_t t = 0; t < votes_.size(); ++t) {
      total[find(t)] += votes_[t];
      if (movable_[t] && !is_fixed(t)) free[find(t)] = true;
    }
    NewTensors tensors(program_);
    bool changed = false;
    for (size_t t = 0; t < votes_.size(); ++t) {
      if (!movable_[t] || total[find(t)] <= 0) continue;
      if (is_fixed(t) && !free[find(t)]) continue;
      if (program_.tensors[t].kind == Tensor::Kind::kInput && !followers_.contains(t)) continue;
      const size_t moved = is_fixed(t) ? twin_of(static_cast<TensorId>(t), tensors) : t;
      Tensor& x = program_.tensors[moved];
      std::vector<int64_t> order = {0};
      for (size_t a = 2; a < x.type.shape.size(); ++a) order.push_back(static_cast<int64_t>(a));
      order.push_back(1);
      x.layout = permuted_layout(x.type.shape, order);
      changed = true;
    }
    return changed;
  }

 private:
  size_t find(size_t t) {
    while (parent_[t] != t) t = parent_[t] = parent_[parent_[t]];
    return t;
  }
  int64_t size(TensorId t) const {
    return element_count(program_.tensors[static_cast<size_t>(t)].type.shape).value_or(0);
  }
  void vote(TensorId t, int64_t sign) { votes_[static_cast<size_t>(t)] += sign * size(t); }

  /// Inputs and outputs of the model lie as the model says.
  bool is_fixed(size_t t) const {
    return program_.tensors[t].is_output || program_.tensors[t].kind == Tensor::Kind::kInput;
  }

  /// The elements of a fixed tensor in an order of their own, for the expressions that follow it: a
  /// copy of an input, or what an output is a copy of.
  size_t twin_of(TensorId t, NewTensors& tensors) {
    const Tensor fixed = program_.tensors[static_cast<size_t>(t)];
    const TensorId twin =
        tensors.add(fixed.name + "_values", fixed.type, Tensor::Kind::kIntermediate);
    for (const size_t e : followers_[t]) {
      program_.exprs[e].body = rewrite(program_.exprs[e].body, {}, [&](const ScalarRef& read) {
        if (read->symbol != t) return read;
        return scalar_read(twin, read->type, read->indices, read->operands, read->fill);
      });
    }
    for (TensorExpr& e : program_.exprs) {
      if (e.output == t) e.output = twin;
    }
    const bool read_in = fixed.kind == Tensor::Kind::kInput;
    add_copy(program_, read_in ? t : twin, read_in ? twin : t);
    return static_cast<size_t>(twin);
  }

  /// One read: does it slide, does it carry the channel axis over, does it want the last axis?
  void consider(size_t expr, const Scalar& read) {
    const TensorExpr& e = program_.exprs[expr];
    const size_t rank = read.indices.size();
    const bool same_rank = rank == static_cast<size_t>(e.output_rank()) && rank >= 3;
    bool slides = false, spatial_follows = same_rank;
    for (size_t a = 2; a < rank; ++a) {
      slides = slides || is_window(e, read.indices[a]);
      spatial_follows =
          spatial_follows &&
          (goes_along(read, read.indices[a], static_cast<int>(a)) || read.indices[a].is_const());
    }
    const bool same_batch = same_rank && (is_var(read.indices[0], 0) || read.indices[0].is_const());
    const bool channels_follow =
        same_rank && (steps_along(read.indices[1], 1) || read.indices[1].is_const());
    const bool conv = e.is_contraction && same_batch && spatial_follows && !channels_follow;
    const bool follows = same_batch && spatial_follows && (channels_follow || conv);
    const bool as_it_lies = follows && reads_quickly_as_it_lies(e, read.symbol, slides);
    if (follows && !as_it_lies) {
      join(read.symbol, e.output);
      followers_[read.symbol].push_back(expr);
    }
    if (follows && slides && e.is_contraction) {
      if (!as_it_lies) vote(read.symbol, 1);
      vote(e.output, 1);
    } else if (!follows && !e.reduce_extents.empty() && rank >= 1) {
      if (slides_over_folded_axes(e, read)) vote(e.output, 1);
      wants_last_axis(e, read);
    }
    if (!follows && turns_channels_last(e, read)) vote(read.symbol, 1);
    if (channels_follow && !e.reduce_extents.empty()) wants_last_axis(e, read);
    // Instructions that multiply these add up neighbours along the sum.
    const bool in_groups = is_integer(read.type) || read.type == DType::kBF16;
    if (conv && !slides && in_groups && byte_size(read.type) < 4 && sums_along(e, read.indices[1]))
      vote(read.symbol, 1);
  }

  /// A window over rows and columns that lie in one axis, behind which the channels lie: as a
  /// convolution reads the results of a product.
  bool slides_over_folded_axes(const TensorExpr& e, const Scalar& read) const {
    if (!e.is_contraction || e.output_rank() < 3 || !steps_along(read.indices.back(), 1))
      return false;
    return std::ranges::any_of(read.indices, [&](const IndexExpr& i) { return is_window(e, i); });
  }

  /// Whether neighbouring results are neighbouring channels: as tokens are made of an image.
  static bool turns_channels_last(const TensorExpr& e, const Scalar& read) {
    const int last = e.output_rank() - 1;
    return !e.is_contraction && last > 1 && read.indices.size() >= 3 &&
           e.extents[static_cast<size_t>(last)] > 1 && steps_along(read.indices[1], last);
  }

  /// Products without windows, and those of few results, need no copy of an input.
  bool reads_quickly_as_it_lies(const TensorExpr& e, TensorId read, bool slides) const {
    return program_.tensors[static_cast<size_t>(read)].kind == Tensor::Kind::kInput &&
           e.is_contraction && (!slides || e.extents[1] < kLeastChannels);
  }

  static bool sums_along(const TensorExpr& e, const IndexExpr& index) {
    return index.is_var() && index.var_id() >= e.output_rank() &&
           index.var_id() < kRuntimeIndexBase;
  }

  /// Reductions whose contiguous operand axis is the tensor's last.
  void wants_last_axis(const TensorExpr& e, const Scalar& read) {
    const IndexExpr& last = read.indices.back();
    bool reduced_elsewhere = false;
    for (size_t a = 0; a + 1 < read.indices.size(); ++a) {
      for (const int id : variables(read.indices[a])) {
        reduced_elsewhere = reduced_elsewhere || (id >= e.output_rank() && id < kRuntimeIndexBase);
      }
    }
    const bool reduces_last = last.is_var() && last.var_id() >= e.output_rank();
    if (reduces_last && !reduced_elsewhere) vote(read.symbol, -1);
  }

  void join(TensorId a, TensorId b) {
    if (!movable_[static_cast<size_t>(a)] || !movable_[static_cast<size_t>(b)]) return;
    const size_t x = find(static_cast<size_t>(a)), y = find(static_cast<size_t>(b));
    parent_[std::max(x, y)] = std::min(x, y);
  }

  TensorProgram& program_;
  std::vector<size_t> parent_;
  std::vector<bool> movable_;
  std::vector<int64_t> votes_;
  std::map<TensorId, std::vector<size_t>> followers_;  ///< expressions that read it where they are
};

}  // namespace

bool assign_layouts(TensorProgram& program, bool twins) {
  return LayoutChoice(program, twins).run();
}

}  // namespace weft
