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
/// Multiplications for each element that is copied on the way in or out, where nothing else lies
/// channels last.
constexpr int64_t kLeastProducts = 28;

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

/// The position of the first step of each sum but a contraction's: groups that are added up.
IndexExpr without_sums(const TensorExpr& e, const IndexExpr& index) {
  if (e.is_contraction) return index;
  return substitute(index, [&](int id) {
    return id >= e.output_rank() && id < kRuntimeIndexBase ? IndexExpr(0) : IndexExpr::var(id);
  });
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

bool is_position(const IndexExpr& e) {
  return std::ranges::any_of(variables(e), [](int id) { return id >= kRuntimeIndexBase; });
}

/// Whether a result reads one batch, be it one that data say.
bool goes_with_batch(const Scalar& read, const IndexExpr& index) {
  return is_var(index, 0) || (is_position(index) && goes_along(read, index, 0));
}

/// Whether all results read the only batch there is.
bool reads_one_batch(const Scalar& read) {
  return read.indices[0].is_const() &&
         std::ranges::none_of(read.indices, [](const IndexExpr& i) { return uses_var(i, 0); });
}

class LayoutChoice {
 public:
  LayoutChoice(TensorProgram& program, bool twins)
      : program_(program),
        parent_(program.tensors.size()),
        channels_end_(program.tensors.size(), 2),
        movable_(program.tensors.size(), false),
        votes_(program.tensors.size(), 0),
        products_(program.tensors.size(), 0) {
    std::iota(parent_.begin(), parent_.end(), 0);
    find_channels();
    for (size_t t = 0; t < movable_.size(); ++t) {
      const Tensor& x = program.tensors[t];
      const size_t rank = x.type.shape.size(), end = channels_end_[t];
      const int64_t least = x.kind == Tensor::Kind::kInput ? kLeastChannels : 2;
      movable_[t] = x.kind != Tensor::Kind::kConstant && (twins || !is_fixed(t)) && rank > end &&
                    rank <= end + 3 && channels_of(x.type.shape, end) >= least;
    }
    keep_matrices();
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
    std::vector<bool> free(votes_.size(), false);    // classes with a tensor that kernels alone see
    std::vector<double> products(votes_.size(), 0);  // of a class, beyond what copies are worth
    for (size_t t = 0; t < votes_.size(); ++t) {
      total[find(t)] += votes_[t];
      products[find(t)] += products_[t];
      if (!movable_[t]) continue;
      if (is_fixed(t)) {
        products[find(t)] -= kLeastProducts * static_cast<double>(size(static_cast<TensorId>(t)));
      } else {
        free[find(t)] = true;
      }
    }
    NewTensors tensors(program_);
    bool changed = false;
    for (size_t t = 0; t < votes_.size(); ++t) {
      if (!movable_[t] || total[find(t)] <= 0) continue;
      if (is_fixed(t) && !free[find(t)] && products[find(t)] <= 0) continue;
      if (program_.tensors[t].kind == Tensor::Kind::kInput && !followers_.contains(t)) continue;
      const size_t moved = is_fixed(t) ? twin_of(static_cast<TensorId>(t), tensors) : t;
      Tensor& x = program_.tensors[moved];
      std::vector<int64_t> order(x.type.shape.size());
      std::iota(order.begin(), order.end(), 0);
      const auto end = static_cast<std::ptrdiff_t>(channels_end_[t]);
      std::rotate(order.begin() + 1, order.begin() + end, order.end());
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
  static size_t index_of(TensorId t) { return static_cast<size_t>(t); }
  int64_t size(TensorId t) const {
    return element_count(program_.tensors[static_cast<size_t>(t)].type.shape).value_or(0);
  }
  /// Behind the last axis of channels: they are axis 1 as the model says it, which may have been
  /// taken apart. Of what is no tensor of the model's, the axes that a constant's columns are.
  void find_channels() {
    for (size_t t = 0; t < channels_end_.size(); ++t) {
      const Shape& shape = program_.tensors[t].type.shape;
      const Shape declared = declared_type(program_.tensors[t]).shape;
      if (declared.size() < 2 || declared == shape || shape[0] != declared[0]) continue;
      size_t end = 2;
      while (end < shape.size() && channels_of(shape, end) < declared[1]) ++end;
      if (channels_of(shape, end) == declared[1]) channels_end_[t] = end;
    }
    for (const TensorExpr& e : program_.exprs) {
      const auto t = static_cast<size_t>(e.output);
      if (declared_type(program_.tensors[t]).shape != program_.tensors[t].type.shape) continue;
      const Scalar* constant = constant_of(e);
      if (constant == nullptr) continue;
      size_t end = 1;
      while (end < e.extents.size() && runs_along(*constant, static_cast<int>(end))) ++end;
      channels_end_[t] = std::max<size_t>(end, 2);
    }
  }

  static int64_t channels_of(const Shape& shape, size_t end) {
    int64_t channels = 1;
    for (size_t a = 1; a < end && a < shape.size(); ++a) channels *= shape[a];
    return channels;
  }

  /// The read of the constant that a contraction multiplies with.
  const Scalar* constant_of(const TensorExpr& e) const {
    const Scalar* found = nullptr;
    if (!e.is_contraction) return found;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const Tensor& read = program_.tensors[static_cast<size_t>(s.symbol)];
      if (read.kind == Tensor::Kind::kConstant) found = &s;
    });
    return found;
  }

  static bool runs_along(const Scalar& read, int axis) {
    return std::ranges::any_of(read.indices,
                               [&](const IndexExpr& index) { return is_var(index, axis); });
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

  /// How the axes of what is read go along with those of the result.
  struct Course {
    bool slides = false;  ///< a window along an axis behind the channels
    bool channels_follow = false, spatial_follows = false, same_batch = false;
    bool gathers = false;  ///< data say where along the last axis
  };

  Course course_of(const TensorExpr& e, const Scalar& read) const {
    const size_t rank = read.indices.size(), end = channels_end_[index_of(read.symbol)],
                 own_end = channels_end_[index_of(e.output)];
    const auto& at = read.indices;
    const bool same_rank =
        rank > end && rank - end + own_end == static_cast<size_t>(e.output_rank());
    const bool gathers = rank > end && is_position(at.back());
    const bool goes_on = same_rank || (gathers && own_end < static_cast<size_t>(e.output_rank())) ||
                         reads_columns(e, read);
    Course out{.channels_follow = goes_on && end == own_end,
               .spatial_follows = goes_on,
               .same_batch = goes_on && (goes_with_batch(read, at[0]) || reads_one_batch(read)),
               .gathers = gathers};
    for (size_t a = end; a < rank; ++a) {
      out.slides = out.slides || is_window(e, at[a]);
      const int own = static_cast<int>(a - end + own_end);
      out.spatial_follows =
          out.spatial_follows && (!same_rank || goes_along(read, at[a], own) || at[a].is_const());
    }
    for (size_t a = 1; a < end && out.channels_follow; ++a)
      out.channels_follow =
          at[a].is_const() || steps_along(without_sums(e, at[a]), static_cast<int>(a));
    return out;
  }

  /// Whether a convolution reads what each place of its windows has, an axis for the places:
  ///     y[n, o, h, w] = sum[C, K] k[o, r0, r1] * columns[n, r0, r1, h, w]
  bool reads_columns(const TensorExpr& e, const Scalar& read) const {
    const size_t rank = read.indices.size(), end = channels_end_[index_of(read.symbol)];
    int own = static_cast<int>(channels_end_[index_of(e.output)]);
    if (!e.is_contraction || rank <= static_cast<size_t>(e.output_rank())) return false;
    for (size_t a = 1; a < rank; ++a) {
      if (sums_along(e, read.indices[a])) continue;
      if (a < end || !is_var(read.indices[a], own++)) return false;
    }
    return own == e.output_rank();
  }

  /// Channels that are taken apart are heads, as a rule: where a product takes a matrix of each,
  /// its rows stay rows.
  void keep_matrices() {
    for (const TensorExpr& e : program_.exprs) {
      if (!e.is_contraction || channels_end_[index_of(e.output)] == 2) continue;
      visit(e.body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const Course course = course_of(e, s);
        if (!course.channels_follow || course.spatial_follows) return;
        movable_[index_of(s.symbol)] = movable_[index_of(e.output)] = false;
      });
    }
  }

  /// One read: does it slide, does it carry the channel axis over, does it want the last axis?
  void consider(size_t expr, const Scalar& read) {
    const TensorExpr& e = program_.exprs[expr];
    const size_t rank = read.indices.size(), end = channels_end_[index_of(read.symbol)];
    const auto [slides, channels_follow, spatial_follows, same_batch, gathers] = course_of(e, read);
    const bool conv = e.is_contraction && same_batch && spatial_follows && !channels_follow;
    const bool follows = same_batch && spatial_follows && (channels_follow || conv);
    const bool as_it_lies = follows && reads_quickly_as_it_lies(e, read.symbol, slides);
    // Neighbouring channels are one vector then, where a gather takes each element for itself.
    if (follows && channels_follow && gathers && gathers_often(e, read)) vote(read.symbol, 1);
    if (!follows && gathers) followers_[read.symbol].push_back(expr);
    if (follows && !as_it_lies) {
      join(read.symbol, e.output);
      followers_[read.symbol].push_back(expr);
    }
    if (follows && slides && e.is_contraction) {
      if (!as_it_lies) vote(read.symbol, 1);
      vote(e.output, 1);
      if (!as_it_lies && conv)
        products_[index_of(read.symbol)] +=
            static_cast<double>(size(e.output)) * static_cast<double>(steps_of(e));
    } else if (!follows && !e.reduce_extents.empty() && rank >= 1) {
      if (slides_before_channels(e, read) || sums_rows(e, read)) vote(e.output, 1);
      wants_last_axis(e, read);
    }
    if (!follows && turns_channels_last(e, read)) vote(read.symbol, 1);
    if (channels_follow && !e.reduce_extents.empty()) wants_last_axis(e, read);
    // Instructions that multiply these add up neighbours along the sum.
    const bool in_groups = is_integer(read.type) || read.type == DType::kBF16;
    if (conv && !slides && in_groups && byte_size(read.type) < 4 &&
        sums_along(e, read.indices[end - 1]))
      vote(read.symbol, 1);
  }

  /// A window behind whose axes the channels lie, be they those of the result or summed up: as a
  /// convolution reads the results of a product, or an image that was given so.
  bool slides_before_channels(const TensorExpr& e, const Scalar& read) const {
    const IndexExpr& last = read.indices.back();
    if (!e.is_contraction || e.output_rank() < 3 || !(steps_along(last, 1) || sums_along(e, last)))
      return false;
    return std::ranges::any_of(read.indices, [&](const IndexExpr& i) { return is_window(e, i); });
  }

  /// Whether rows that lie along the sum are multiplied with a constant whose columns are channels:
  /// as channels of an image are made of tokens.
  bool sums_rows(const TensorExpr& e, const Scalar& read) const {
    const Scalar* constant = constant_of(e);
    const int last = e.output_rank() - 1, end = static_cast<int>(channels_end_[index_of(e.output)]);
    if (constant == nullptr || constant->symbol == read.symbol || end > last) return false;
    const bool of_rows = uses_axis(read, last) && !uses_axis(*constant, last) &&
                         !uses_var(read.indices.back(), last);
    const bool of_columns = runs_along(*constant, end - 1) && !uses_axis(read, end - 1);
    return of_rows && of_columns && steps_along_sum(e, read.indices.back());
  }

  /// Whether neighbours along the sum are neighbours here, be it in a group of their own.
  static bool steps_along_sum(const TensorExpr& e, const IndexExpr& index) {
    AffineForm form;
    return as_affine(index, &form) && std::ranges::any_of(form.terms, [&](const auto& term) {
             return term.second == 1 && term.first >= e.output_rank() &&
                    term.first < kRuntimeIndexBase;
           });
  }

  static bool uses_axis(const Scalar& read, int axis) {
    return std::ranges::any_of(read.indices,
                               [&](const IndexExpr& index) { return uses_var(index, axis); });
  }

  /// Whether neighbouring results are neighbouring channels: as tokens are made of an image.
  bool turns_channels_last(const TensorExpr& e, const Scalar& read) const {
    const int last = e.output_rank() - 1;
    const size_t end = channels_end_[index_of(read.symbol)];
    return !e.is_contraction && last > 1 && read.indices.size() > end &&
           e.extents[static_cast<size_t>(last)] > 1 && steps_along(read.indices[end - 1], last);
  }

  /// Products without windows, and those of few results, need no copy of an input.
  bool reads_quickly_as_it_lies(const TensorExpr& e, TensorId read, bool slides) const {
    return program_.tensors[static_cast<size_t>(read)].kind == Tensor::Kind::kInput &&
           e.is_contraction &&
           (!slides || channels_of(e.extents, channels_end_[index_of(e.output)]) < kLeastChannels);
  }

  /// Whether a gather reads at least as many elements as a copy of the whole tensor would. Regions,
  /// whose image data say too, are hundreds as a rule, and as many as are found: other numbers of
  /// them are not to be other programs.
  bool gathers_often(const TensorExpr& e, const Scalar& read) const {
    if (is_position(read.indices[0])) return true;
    return size(e.output) * steps_of(e) >= size(read.symbol);
  }

  static int64_t steps_of(const TensorExpr& e) {
    int64_t steps = 1;
    for (const int64_t extent : e.reduce_extents) steps *= extent;
    return steps;
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
    if (sums_along(e, last) && !reduced_elsewhere) vote(read.symbol, -1);
  }

  void join(TensorId a, TensorId b) {
    if (!movable_[static_cast<size_t>(a)] || !movable_[static_cast<size_t>(b)]) return;
    const size_t x = find(static_cast<size_t>(a)), y = find(static_cast<size_t>(b));
    parent_[std::max(x, y)] = std::min(x, y);
  }

  TensorProgram& program_;
  std::vector<size_t> parent_;
  std::vector<size_t> channels_end_;  ///< by tensor
  std::vector<bool> movable_;
  std::vector<int64_t> votes_;
  std::vector<double> products_;  ///< by tensor: multiplications of the windows over it
  std::map<TensorId, std::vector<size_t>> followers_;  ///< expressions that read it where they are
};

}  // namespace

bool assign_layouts(TensorProgram& program, bool twins) {
  return LayoutChoice(program, twins).run();
}

}  // namespace weft
