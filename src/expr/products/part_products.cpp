#include "expr/products/part_products.h"

#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "expr/body_uses.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/new_tensors.h"
#include "support/rounding.h"

namespace weft {
namespace {

constexpr int64_t kMostParts = 4;
/// Expressions behind a product that are looked at.
constexpr size_t kMostReaders = 64;

/// A product as `left * constant[…, n, …]`, n an output axis that only the constant has.
struct Product {
  int n = -1;
  const Scalar* constant = nullptr;  ///< the read
  size_t constant_axis = 0;
};

/// Elements `begin` to `begin + extent` along an axis.
HostTensor part_of(const HostTensor& whole, size_t axis, int64_t begin, int64_t extent) {
  Shape shape = whole.shape();
  int64_t outer = 1, inner = byte_size(whole.dtype());
  for (size_t a = 0; a < axis; ++a) outer *= shape[a];
  for (size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  const int64_t full = shape[axis];
  shape[axis] = extent;
  HostTensor part(whole.dtype(), shape);
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(part.mutable_raw() + o * extent * inner, whole.raw() + (o * full + begin) * inner,
                static_cast<size_t>(extent * inner));
  }
  return part;
}

/// How a read walks the parted axis of a tensor: at `var + constant`.
struct Walk {
  int var = -1;
  int64_t constant = 0;
};

/// What is parted with one product: tensors, each with its axis, in parts of one extent.
struct Parting {
  Product product;
  ExprId root = -1;
  std::map<TensorId, int> axis_of;
  std::map<ExprId, int> readers;  ///< expressions that read one of them, with the axis that walks
  int64_t extent = 0;             ///< of a part
};

class ProductParting {
 public:
  ProductParting(TensorProgram& program, int64_t lanes)
      : program_(program),
        lanes_(lanes),
        uses_(tensor_uses(program)),
        steps_(program.steps.size()),
        new_tensors_(program) {}

  bool run() {
    std::vector<Parting> partings;
    for (const TensorProgram::Step& step : program_.steps) {
      if (step.opaque) continue;
      std::optional<Parting> parting = parting_of(step.index);
      if (!parting) continue;
      for (const auto& [tensor, axis] : parting->axis_of) taken_.insert(tensor);
      partings.push_back(std::move(*parting));
    }
    for (const Parting& parting : partings) part(parting);
    if (partings.empty()) return false;
    finish();
    return true;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  const TensorExpr& expr(ExprId e) const { return program_.exprs[static_cast<size_t>(e)]; }

  std::optional<Product> product_of(const TensorExpr& e) const {
    if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32 ||
        e.body->kind != Scalar::Kind::kApply || e.body->op != ScalarOp::kMul ||
        e.body->type != DType::kF32)
      return std::nullopt;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const Scalar& read = *e.body->operands[side];
      const ScalarRef& left = e.body->operands[1 - side];
      if (read.kind != Scalar::Kind::kRead || !read.operands.empty() || read.fill) continue;
      const Tensor& t = tensor(read.symbol);
      if (t.kind != Tensor::Kind::kConstant || t.type.dtype != DType::kF32) continue;
      for (size_t a = 0; a < read.indices.size(); ++a) {
        const IndexExpr& index = read.indices[a];
        if (!index.is_var() || index.var_id() >= e.output_rank()) continue;
        const int n = index.var_id();
        bool twice = body_uses(left, n) || e.is_open(n);
        for (size_t b = 0; b < read.indices.size(); ++b)
          twice = twice || (b != a && uses_var(read.indices[b], n));
        if (!twice && e.extents[static_cast<size_t>(n)] == t.type.shape[a])
          return Product{n, &read, a};
      }
    }
    return std::nullopt;
  }

  bool is_internal(TensorId t) const {
    return !tensor(t).is_output && tensor(t).kind == Tensor::Kind::kIntermediate &&
           !taken_.contains(t);
  }

  /// How the read of an expression walks `axis`; nothing where it does not go element by element
  /// along the others.
  std::optional<Walk> walk_of(const Scalar& read, const TensorExpr& e, int axis) const {
    if (!read.operands.empty() || read.fill) return std::nullopt;
    const Shape& shape = tensor(read.symbol).type.shape;
    Walk walk;
    std::set<int> seen;
    for (size_t d = 0; d < read.indices.size(); ++d) {
      const IndexExpr& index = read.indices[d];
      if (shape[d] == 1 && index.is_const(0)) continue;
      AffineForm form;
      if (!as_affine(index, &form) || form.terms.size() != 1 || form.terms[0].second != 1)
        return std::nullopt;
      const int var = form.terms[0].first;
      if (var >= e.output_rank() || !seen.insert(var).second) return std::nullopt;
      const int64_t extent = e.extents[static_cast<size_t>(var)];
      if (form.constant < 0 || form.constant + extent > shape[d]) return std::nullopt;
      if (static_cast<int>(d) == axis) {
        walk = {var, form.constant};
      } else if (extent != shape[d]) {
        return std::nullopt;
      }
    }
    return walk.var < 0 ? std::nullopt : std::optional(walk);
  }

  /// Takes note of the expressions that read `t`, and of what they ask of a part's extent.
  bool note_readers(TensorId t, Parting* parting) const {
    for (const int32_t s : uses_.consumers[static_cast<size_t>(t)]) {
      const TensorProgram::Step& step = program_.steps[static_cast<size_t>(s)];
      if (step.opaque || parting->readers.size() > kMostReaders) return false;
      const TensorExpr& e = expr(step.index);
      if (!e.reduce_extents.empty()) return false;
      bool walks = true;
      visit(e.body, [&](const Scalar& read) {
        if (read.kind != Scalar::Kind::kRead || read.symbol != t || !walks) return;
        const std::optional<Walk> walk = walk_of(read, e, parting->axis_of.at(t));
        walks =
            walk && parting->readers.try_emplace(step.index, walk->var).first->second == walk->var;
        if (!walks) return;
        parting->extent = std::gcd(std::gcd(parting->extent, walk->constant),
                                   e.extents[static_cast<size_t>(walk->var)]);
      });
      if (!walks) return false;
    }
    return true;
  }

  std::optional<Parting> parting_of(ExprId root) const {
    const TensorExpr& e = expr(root);
    const std::optional<Product> product = product_of(e);
    if (!product || !is_internal(e.output)) return std::nullopt;
    Parting out{*product, root, {{e.output, product->n}}, {}, 0};
    const int64_t columns = e.extents[static_cast<size_t>(product->n)];
    out.extent = columns;
    std::vector<TensorId> fresh = {e.output};
    while (!fresh.empty()) {
      for (const TensorId t : fresh) {
        if (!note_readers(t, &out)) return std::nullopt;
      }
      fresh.clear();
      for (const auto& [reader, var] : out.readers) {
        const TensorExpr& r = expr(reader);
        const int64_t extent = r.extents[static_cast<size_t>(var)];
        const bool one_part = extent == out.extent && extent < columns;
        if (one_part || out.axis_of.contains(r.output)) continue;
        if (!is_internal(r.output) || r.is_open(var)) return std::nullopt;
        out.axis_of[r.output] = var;
        fresh.push_back(r.output);
      }
    }
    const int64_t parts = columns / out.extent;
    const int64_t vectors = ceil_div(columns, lanes_), apart = parts * ceil_div(out.extent, lanes_);
    if (parts < 2 || parts > kMostParts || 8 * apart > 9 * vectors || !are_combined(out, parts))
      return std::nullopt;
    return out;
  }

  /// Whether some expression is made of all parts, on a way of element-wise ones.
  bool are_combined(const Parting& parting, int64_t parts) const {
    using Parts = uint32_t;
    const Parts all = (Parts{1} << parts) - 1;
    std::map<TensorId, std::vector<Parts>> of_part;  // what each part of a tensor is made of
    for (int64_t i = 0; i < parts; ++i) of_part[expr(parting.root).output].push_back(Parts{1} << i);
    std::map<TensorId, Parts> made_of;
    std::set<int32_t> next;  // steps
    const auto look_behind = [&](TensorId t) {
      const auto& readers = uses_.consumers[static_cast<size_t>(t)];
      next.insert(readers.begin(), readers.end());
    };
    look_behind(expr(parting.root).output);
    for (size_t looked = 0; !next.empty() && looked < kMostReaders; ++looked) {
      const TensorProgram::Step step = program_.steps[static_cast<size_t>(*next.begin())];
      next.erase(next.begin());
      if (step.opaque || !expr(step.index).reduce_extents.empty()) continue;
      const TensorExpr& e = expr(step.index);
      const bool whole = parting.axis_of.contains(e.output);
      const int64_t count =
          whole ? e.extents[static_cast<size_t>(parting.axis_of.at(e.output))] / parting.extent : 1;
      std::vector<Parts> made(static_cast<size_t>(count), 0);
      visit(e.body, [&](const Scalar& read) {
        if (read.kind != Scalar::Kind::kRead) return;
        for (int64_t i = 0; i < count; ++i) {
          Parts& into = made[static_cast<size_t>(i)];
          const auto parted = of_part.find(read.symbol);
          if (parted == of_part.end()) {
            const auto one = made_of.find(read.symbol);
            into |= one == made_of.end() ? 0 : one->second;
            continue;
          }
          const Walk walk = *walk_of(read, e, parting.axis_of.at(read.symbol));
          into |= parted->second[static_cast<size_t>(walk.constant / parting.extent + i)];
        }
      });
      for (const Parts m : made) {
        if (m == all) return true;
      }
      if (whole) {
        of_part[e.output] = std::move(made);
      } else {
        made_of[e.output] = made[0];
      }
      look_behind(e.output);
    }
    return false;
  }

  /// Parts of a constant; those of a product that stands several times are made once.
  TensorId constant_part(TensorId t, size_t axis, int64_t begin, int64_t extent) {
    const auto [known, fresh] = constants_.try_emplace({t, axis, begin, extent}, -1);
    if (!fresh) return known->second;
    HostTensor value = part_of(tensor(t).value, axis, begin, extent);
    const TensorId id = new_tensors_.add(tensor(t).name + "_part", {value.dtype(), value.shape()},
                                         Tensor::Kind::kConstant);
    program_.tensors[static_cast<size_t>(id)].value = std::move(value);
    return known->second = id;
  }

  void part(const Parting& parting) {
    for (const auto& [t, axis] : parting.axis_of) {
      const int32_t step = uses_.producer[static_cast<size_t>(t)];
      const ExprId e = program_.steps[static_cast<size_t>(step)].index;
      const int64_t count = expr(e).extents[static_cast<size_t>(axis)] / parting.extent;
      Parts& parts = parts_[t];
      parts = {axis, parting.extent, {}};
      for (int64_t i = 0; i < count; ++i) {
        TensorExpr made = expr(e);
        made.extents[static_cast<size_t>(axis)] = parting.extent;
        if (e == parting.root) {
          const Scalar& constant = *parting.product.constant;
          const TensorId of_part = constant_part(constant.symbol, parting.product.constant_axis,
                                                 i * parting.extent, parting.extent);
          made.body = rewrite(made.body, {}, [&](const ScalarRef& read) {
            return read.get() != &constant ? read : scalar_read(of_part, read->type, read->indices);
          });
        } else {
          made.body = rewrite(
              made.body,
              [&](int v) {
                return v == axis ? IndexExpr::var(v) + IndexExpr(i * parting.extent)
                                 : IndexExpr::var(v);
              },
              [](const ScalarRef& read) { return read; });
        }
        TensorType type = tensor(t).type;
        type.shape = made.extents;
        made.output = new_tensors_.add(tensor(t).name + "_part", type, Tensor::Kind::kIntermediate);
        parts.tensors.push_back(made.output);
        steps_[static_cast<size_t>(step)].push_back(
            {false, static_cast<int32_t>(program_.exprs.size())});
        program_.exprs.push_back(std::move(made));
      }
    }
  }

  /// Steps in their new order; readers of what was parted read its parts.
  void finish() {
    std::vector<TensorProgram::Step> steps;
    for (size_t s = 0; s < steps_.size(); ++s) {
      steps.insert(steps.end(), steps_[s].begin(), steps_[s].end());
      steps.push_back(program_.steps[s]);
    }
    program_.steps = std::move(steps);
    for (TensorExpr& e : program_.exprs) {
      if (parts_.contains(e.output)) continue;  // nothing reads it any more
      e.body = rewrite(e.body, {}, [&](const ScalarRef& read) {
        const auto found = parts_.find(read->symbol);
        if (found == parts_.end()) return read;
        const Parts& parts = found->second;
        std::vector<IndexExpr> indices = read->indices;
        AffineForm form;
        IndexExpr& index = indices[static_cast<size_t>(parts.axis)];
        WEFT_CHECK(as_affine(index, &form) && form.terms.size() == 1, "a read of another form");
        index = IndexExpr::var(form.terms[0].first);
        const TensorId part = parts.tensors[static_cast<size_t>(form.constant / parts.extent)];
        return scalar_read(part, read->type, std::move(indices));
      });
    }
    remove_dead_expressions(program_);
  }

  struct Parts {
    int axis = -1;
    int64_t extent = 0;
    std::vector<TensorId> tensors;
  };

  TensorProgram& program_;
  const int64_t lanes_;
  const TensorUses uses_;
  std::vector<std::vector<TensorProgram::Step>> steps_;  ///< made in front of each step
  std::set<TensorId> taken_;
  std::map<TensorId, Parts> parts_;
  std::map<std::tuple<TensorId, size_t, int64_t, int64_t>, TensorId> constants_;
  NewTensors new_tensors_;
};

}  // namespace

bool part_products(TensorProgram& program, int64_t lanes) {
  return ProductParting(program, lanes).run();
}

}  // namespace weft
