#include "expr/products/merge_products.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "expr/body_uses.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// A contraction as `left * constant[…, n, …]`, n an output axis that only the constant has.
struct Mergeable {
  size_t expr = 0;
  int32_t step = 0;
  ScalarRef left;
  ScalarRef constant;  ///< the read
  size_t left_operand = 0;
  int n = -1;  ///< the output axis
  size_t constant_axis = 0;
};

ScalarRef without_convert(const ScalarRef& s) {
  const bool convert = s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kConvert;
  return convert ? s->operands[0] : s;
}

/// The constants joined along `axis`, one after the other.
HostTensor concatenated(const std::vector<HostTensor>& parts, size_t axis) {
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const HostTensor& part : parts) shape[axis] += part.shape()[axis];
  HostTensor joined(parts[0].dtype(), shape);
  int64_t outer = 1, inner = byte_size(joined.dtype());
  for (size_t a = 0; a < axis; ++a) outer *= shape[a];
  for (size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  std::byte* to = joined.mutable_raw();
  for (int64_t o = 0; o < outer; ++o) {
    for (const HostTensor& part : parts) {
      const int64_t bytes = part.shape()[axis] * inner;
      std::memcpy(to, part.raw() + o * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return joined;
}

class ProductMerging {
 public:
  explicit ProductMerging(TensorProgram& program)
      : program_(program),
        uses_(tensor_uses(program)),
        steps_(program.steps.size()),
        gathered_(program.tensors.size(), false),
        new_tensors_(program) {
    for (size_t s = 0; s < program.steps.size(); ++s) {
      steps_[s] = {program.steps[s]};
    }
    for (const TensorExpr& e : program.exprs) {
      visit(e.body, [&](const Scalar& s) {
        const bool gathers = s.kind == Scalar::Kind::kRead && !s.operands.empty();
        if (gathers) gathered_[static_cast<size_t>(s.symbol)] = true;
      });
    }
  }

  bool run() {
    std::map<std::vector<int64_t>, std::vector<std::vector<Mergeable>>> groups;
    std::vector<std::pair<int32_t, std::vector<Mergeable>*>> order;
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      Mergeable p;
      if (!mergeable(static_cast<int32_t>(s), &p)) continue;
      std::vector<std::vector<Mergeable>>& alike = groups[key_of(p)];
      const auto same = std::find_if(alike.begin(), alike.end(),
                                     [&](const auto& members) { return may_join(members[0], p); });
      if (same != alike.end()) {
        same->push_back(p);
      } else {
        alike.push_back({p});
      }
    }
    for (auto& [key, alike] : groups) {
      for (std::vector<Mergeable>& members : alike) {
        if (members.size() > 1) order.emplace_back(members[0].step, &members);
      }
    }
    std::sort(order.begin(), order.end());
    for (const auto& [step, members] : order) merge(*members);
    if (order.empty()) return false;
    finish();
    return true;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  const TensorExpr& expr(const Mergeable& p) const { return program_.exprs[p.expr]; }

  /// An intermediate that only expressions read, at indices known beforehand.
  bool is_internal(TensorId t) const {
    if (tensor(t).is_output || tensor(t).kind != Tensor::Kind::kIntermediate) return false;
    if (gathered_[static_cast<size_t>(t)]) return false;
    for (const int32_t s : uses_.consumers[static_cast<size_t>(t)]) {
      if (program_.steps[static_cast<size_t>(s)].opaque) return false;
    }
    return true;
  }

  /// Whether all that is made of the tensor, one element of one, becomes 8 bits: apart, each
  /// product's kernel quantises what it makes; merged, it would be stored in float32 before.
  bool ends_in_bytes(TensorId t, int depth) const {
    constexpr int kMostSteps = 12;
    const std::vector<int32_t>& readers = uses_.consumers[static_cast<size_t>(t)];
    if (readers.empty() || depth > kMostSteps) return false;
    return std::ranges::all_of(readers, [&](int32_t s) {
      const TensorProgram::Step& at = program_.steps[static_cast<size_t>(s)];
      if (at.opaque) return false;
      const TensorExpr& e = program_.exprs[static_cast<size_t>(at.index)];
      if (!e.reduce_extents.empty()) return false;
      const DType type = tensor(e.output).type.dtype;
      return type == DType::kU8 || type == DType::kI8 || ends_in_bytes(e.output, depth + 1);
    });
  }

  bool mergeable(int32_t step, Mergeable* p) const {
    const TensorProgram::Step& at = program_.steps[static_cast<size_t>(step)];
    if (at.opaque) return false;
    const TensorExpr& e = program_.exprs[static_cast<size_t>(at.index)];
    if (!e.is_contraction || !is_internal(e.output) || ends_in_bytes(e.output, 0)) return false;
    if (e.body->kind != Scalar::Kind::kApply || e.body->op != ScalarOp::kMul) return false;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const ScalarRef& read = without_convert(e.body->operands[side]);
      const ScalarRef& left = e.body->operands[1 - side];
      if (read->kind != Scalar::Kind::kRead || !read->operands.empty() || read->fill) continue;
      if (tensor(read->symbol).kind != Tensor::Kind::kConstant) continue;
      for (size_t a = 0; a < read->indices.size(); ++a) {
        const IndexExpr& index = read->indices[a];
        if (!index.is_var() || index.var_id() >= e.output_rank()) continue;
        const int n = index.var_id();
        if (body_uses(left, n) || used_on_other_axis(*read, a, n)) continue;
        if (e.extents[static_cast<size_t>(n)] != tensor(read->symbol).type.shape[a]) continue;
        *p = {static_cast<size_t>(at.index), step, left, read, 1 - side, n, a};
        return true;
      }
    }
    return false;
  }
  static bool used_on_other_axis(const Scalar& read, size_t axis, int var) {
    for (size_t a = 0; a < read.indices.size(); ++a) {
      if (a != axis && uses_var(read.indices[a], var)) return true;
    }
    return false;
  }

  std::vector<int64_t> key_of(const Mergeable& p) const {
    const TensorExpr& e = expr(p);
    std::vector<int64_t> key = {static_cast<int64_t>(hash(p.left)),
                                p.n,
                                static_cast<int64_t>(p.constant_axis),
                                static_cast<int64_t>(p.left_operand),
                                e.output_rank(),
                                static_cast<int64_t>(e.combiner)};
    for (size_t a = 0; a < e.extents.size(); ++a) {
      if (static_cast<int>(a) != p.n) key.push_back(e.extents[a]);
    }
    key.insert(key.end(), e.reduce_extents.begin(), e.reduce_extents.end());
    return key;
  }
  bool may_join(const Mergeable& a, const Mergeable& b) const {
    const TensorExpr &x = expr(a), &y = expr(b);
    const TensorType &v = tensor(a.constant->symbol).type, &w = tensor(b.constant->symbol).type;
    if (x.combiner != y.combiner || x.accumulator != y.accumulator || v.dtype != w.dtype ||
        v.shape.size() != w.shape.size() ||
        tensor(x.output).type.dtype != tensor(y.output).type.dtype) {
      return false;
    }
    for (size_t i = 0; i < v.shape.size(); ++i) {
      if (i != a.constant_axis && v.shape[i] != w.shape[i]) return false;
    }
    return x.reduce_extents == y.reduce_extents && a.constant->indices == b.constant->indices &&
           equal(a.left, b.left);
  }

  /// Tensors that lie side by side in one, along `axis`.
  struct Row {
    TensorId merged = -1;
    int axis = -1;
    std::vector<TensorId> members;
    std::vector<int64_t> offsets;
  };

  /// The constants as one; those of an unrolled loop are joined once for all its steps.
  TensorId joined_constant(const std::vector<TensorId>& parts, size_t axis) {
    const auto [known, fresh] = joined_.try_emplace({parts, axis}, -1);
    if (fresh) known->second = join(parts, axis);
    return known->second;
  }
  TensorId join(const std::vector<TensorId>& parts, size_t axis) {
    std::vector<HostTensor> values;
    for (const TensorId t : parts) values.push_back(tensor(t).value);
    HostTensor value = concatenated(values, axis);
    const TensorId id = new_tensors_.add(tensor(parts[0]).name + "_packed",
                                         {value.dtype(), value.shape()}, Tensor::Kind::kConstant);
    program_.tensors[static_cast<size_t>(id)].value = std::move(value);
    return id;
  }

  void merge(const std::vector<Mergeable>& members) {
    TensorExpr e = expr(members[0]);
    const auto n = static_cast<size_t>(members[0].n);
    Row row;
    row.axis = members[0].n;
    std::vector<TensorId> constants;
    int64_t extent = 0;
    for (const Mergeable& p : members) {
      row.members.push_back(expr(p).output);
      row.offsets.push_back(extent);
      extent += expr(p).extents[n];
      constants.push_back(p.constant->symbol);
    }
    const TensorId constant = joined_constant(constants, members[0].constant_axis);
    const ScalarRef read =
        scalar_read(constant, members[0].constant->type, members[0].constant->indices);
    std::vector<ScalarRef> factors(2);
    factors[members[0].left_operand] = members[0].left;
    factors[1 - members[0].left_operand] = scalar_convert(read, e.body->type);
    e.body = scalar_apply(ScalarOp::kMul, std::move(factors), e.body->type);
    std::vector<size_t> exprs;
    for (const Mergeable& p : members) exprs.push_back(p.expr);
    replace(exprs, members[0].step, std::move(e), extent, row);
    while (merge_readers(row)) {
    }
    for (size_t i = 0; i < row.members.size(); ++i) {
      slices_[row.members[i]] = {row.merged, row.axis, row.offsets[i]};
    }
  }

  /// Puts one expression of the joined extent in the place of the first member.
  void replace(const std::vector<size_t>& exprs, int32_t step, TensorExpr e, int64_t extent,
               Row& row) {
    const Tensor& first = tensor(row.members[0]);
    TensorType type = first.type;
    type.shape[static_cast<size_t>(row.axis)] = extent;
    e.extents = type.shape;
    row.merged = new_tensors_.add(first.name + "_packed", type, Tensor::Kind::kIntermediate);
    e.output = row.merged;
    e.origins.clear();
    for (const size_t x : exprs) {
      const std::vector<int32_t>& from = program_.exprs[x].origins;
      e.origins.insert(e.origins.end(), from.begin(), from.end());
    }
    std::sort(e.origins.begin(), e.origins.end());
    e.origins.erase(std::unique(e.origins.begin(), e.origins.end()), e.origins.end());
    steps_[static_cast<size_t>(step)].push_back(
        {false, static_cast<int32_t>(program_.exprs.size())});
    program_.exprs.push_back(std::move(e));
  }

  /// The one pointwise reader of each member, if these differ in constants alone.
  bool merge_readers(Row& row) {
    std::vector<size_t> readers;
    int32_t first = -1;
    for (const TensorId t : row.members) {
      const std::vector<int32_t>& consumers = uses_.consumers[static_cast<size_t>(t)];
      if (consumers.size() != 1) return false;
      const TensorProgram::Step& step = program_.steps[static_cast<size_t>(consumers[0])];
      if (step.opaque) return false;
      const auto x = static_cast<size_t>(step.index);
      const TensorExpr& e = program_.exprs[x];
      if (!e.reduce_extents.empty() || !is_internal(e.output)) return false;
      if (e.extents != tensor(t).type.shape) return false;
      if (std::find(readers.begin(), readers.end(), x) != readers.end()) return false;
      readers.push_back(x);
      first = first < 0 ? consumers[0] : std::min(first, consumers[0]);
    }
    Joined joined{row, readers, first, {}, {}};
    std::vector<ScalarRef> bodies;
    for (const size_t x : readers) bodies.push_back(program_.exprs[x].body);
    if (!alike(bodies, joined)) return false;
    accept(joined);
    return true;
  }

  /// Readers under examination.
  struct Joined {
    Row& row;
    const std::vector<size_t>& readers;
    int32_t first;
    /// Constants to join: their tensors, the axis, and the first member's read.
    struct Constants {
      std::vector<TensorId> parts;
      size_t axis = 0;
    };
    std::map<const Scalar*, Constants> constants;
    std::vector<const Scalar*> member_reads;
  };

  bool alike(const std::vector<ScalarRef>& s, Joined& joined) {
    const Scalar& a = *s[0];
    for (const ScalarRef& other : s) {
      const Scalar& b = *other;
      if (a.kind != b.kind || a.type != b.type || a.op != b.op || a.fill || b.fill ||
          a.operands.size() != b.operands.size()) {
        return false;
      }
    }
    if (a.kind == Scalar::Kind::kRead) return alike_reads(s, joined);
    if (a.kind != Scalar::Kind::kApply) {
      if (a.kind == Scalar::Kind::kIndex && uses_var(a.index, joined.row.axis)) return false;
      return std::all_of(s.begin(), s.end(), [&](const ScalarRef& b) { return equal(s[0], b); });
    }
    for (size_t i = 0; i < a.operands.size(); ++i) {
      std::vector<ScalarRef> parts;
      for (const ScalarRef& b : s) parts.push_back(b->operands[i]);
      if (!alike(parts, joined)) return false;
    }
    return true;
  }

  bool alike_reads(const std::vector<ScalarRef>& s, Joined& joined) {
    const Scalar& a = *s[0];
    if (!a.operands.empty()) return false;
    for (const ScalarRef& b : s) {
      if (b->indices != a.indices || !b->operands.empty()) return false;
    }
    if (a.symbol == joined.row.members[0]) {
      for (size_t i = 0; i < s.size(); ++i) {
        if (s[i]->symbol != joined.row.members[i]) return false;
      }
      for (size_t d = 0; d < a.indices.size(); ++d) {
        const bool unit = tensor(a.symbol).type.shape[d] == 1 && a.indices[d].is_const(0);
        if (!unit && !(a.indices[d] == IndexExpr::var(static_cast<int>(d)))) return false;
        if (unit && static_cast<int>(d) == joined.row.axis) return false;
      }
      joined.member_reads.push_back(&a);
      return true;
    }
    size_t axis = a.indices.size();
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (!uses_var(a.indices[d], joined.row.axis)) continue;
      if (axis != a.indices.size() || !a.indices[d].is_var()) return false;
      axis = d;
    }
    if (axis == a.indices.size()) return same_tensor(s, joined);
    Joined::Constants constants;
    constants.axis = axis;
    for (size_t i = 0; i < s.size(); ++i) {
      if (!fits_member(*s[i], a, axis, i, joined)) return false;
      constants.parts.push_back(s[i]->symbol);
    }
    joined.constants.emplace(&a, std::move(constants));
    return true;
  }
  /// A read that does not run along the joined axis must be one for all, made before the merged
  /// product.
  bool same_tensor(const std::vector<ScalarRef>& s, const Joined& joined) const {
    for (const ScalarRef& b : s) {
      if (b->symbol != s[0]->symbol) return false;
    }
    return uses_.producer[static_cast<size_t>(s[0]->symbol)] < joined.first;
  }
  bool fits_member(const Scalar& read, const Scalar& first, size_t axis, size_t member,
                   const Joined& joined) const {
    const Tensor& t = tensor(read.symbol);
    const Tensor& f = tensor(first.symbol);
    if (t.kind != Tensor::Kind::kConstant || t.type.dtype != f.type.dtype ||
        t.type.shape.size() != f.type.shape.size()) {
      return false;
    }
    for (size_t d = 0; d < t.type.shape.size(); ++d) {
      if (d != axis && t.type.shape[d] != f.type.shape[d]) return false;
    }
    const Shape& member_shape = tensor(joined.row.members[member]).type.shape;
    return t.type.shape[axis] == member_shape[static_cast<size_t>(joined.row.axis)];
  }

  void accept(Joined& joined) {
    Row& row = joined.row;
    TensorExpr e = program_.exprs[joined.readers[0]];
    std::map<const Scalar*, TensorId> in_place_of;
    for (const Scalar* read : joined.member_reads) in_place_of[read] = row.merged;
    for (const auto& [read, constants] : joined.constants) {
      in_place_of[read] = joined_constant(constants.parts, constants.axis);
    }
    const std::function<ScalarRef(const ScalarRef&)> read_of = [&](const ScalarRef& read) {
      const auto found = in_place_of.find(read.get());
      if (found == in_place_of.end()) return read;
      return scalar_read(found->second, read->type, read->indices);
    };
    e.body = rewrite(e.body, {}, read_of);
    const auto axis = static_cast<size_t>(row.axis);
    const int64_t extent = tensor(row.merged).type.shape[axis];
    row.members.clear();
    for (const size_t x : joined.readers) row.members.push_back(program_.exprs[x].output);
    replace(joined.readers, joined.first, std::move(e), extent, row);
  }

  /// Steps in their new order; readers of members read the merged product.
  void finish() {
    program_.steps.clear();
    for (const auto& at : steps_) {
      // What was made for this place stands before what was there.
      program_.steps.insert(program_.steps.end(), at.begin() + 1, at.end());
      program_.steps.push_back(at[0]);
    }
    const std::function<ScalarRef(const ScalarRef&)> read_of = [&](const ScalarRef& read) {
      const auto found = slices_.find(read->symbol);
      if (found == slices_.end()) return read;
      std::vector<IndexExpr> indices = read->indices;
      IndexExpr& index = indices[static_cast<size_t>(found->second.axis)];
      index = index + IndexExpr(found->second.offset);
      return scalar_read(found->second.merged, read->type, std::move(indices), read->operands,
                         read->fill);
    };
    for (TensorExpr& e : program_.exprs) e.body = rewrite(e.body, {}, read_of);
    remove_dead_expressions(program_);
  }

  struct Slice {
    TensorId merged = -1;
    int axis = -1;
    int64_t offset = 0;
  };

  TensorProgram& program_;
  const TensorUses uses_;
  std::vector<std::vector<TensorProgram::Step>> steps_;
  std::vector<bool> gathered_;  ///< read at a runtime index
  std::map<TensorId, Slice> slices_;
  NewTensors new_tensors_;
  std::map<std::pair<std::vector<TensorId>, size_t>, TensorId> joined_;
};

}  // namespace

bool merge_products(TensorProgram& program) { return ProductMerging(program).run(); }

}  // namespace weft
