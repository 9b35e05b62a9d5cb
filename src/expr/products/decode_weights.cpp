#include "expr/products/decode_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "expr/movement/read_composer.h"
#include "expr/new_tensors.h"
#include "expr/products/constant_axes.h"
#include "expr/products/weight_sources.h"

namespace weft {

namespace {

/// Smaller constants are not worth packing.
constexpr int64_t kFewest = int64_t{1} << 12;
constexpr int kMostCuts = 8;

/// Numbers of few bits, several in a word.
struct Packing {
  int64_t bits = 4;
  int64_t lowest = 0;  ///< what is stored as 0
  DType word = DType::kI32;

  int64_t numbers() const { return 8 * byte_size(word) / bits; }
};

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

/// The cut of a variable of the sum that an index asks for: v floordiv c, v mod c.
std::optional<std::pair<int, int64_t>> cut_of(const TensorExpr& e, const IndexExpr& index) {
  if (index.is_const() || index.is_var()) return std::nullopt;
  const bool divides = index.op() == IndexOp::kFloorDiv || index.op() == IndexOp::kMod;
  if (divides && index.lhs().is_var()) {
    const int v = index.lhs().var_id();
    const int64_t by = index.rhs().constant();
    const bool reduced = v >= e.output_rank() && v < e.axis_count();
    if (reduced && by > 1 && by <= e.range(v).hi && (e.range(v).hi + 1) % by == 0)
      return std::pair(v, by);
    return std::nullopt;
  }
  if (const auto left = cut_of(e, index.lhs())) return left;
  return divides ? std::nullopt : cut_of(e, index.rhs());
}

void for_each_node(const ScalarRef& s, const std::function<void(const ScalarRef&)>& call) {
  call(s);
  for (const ScalarRef& o : s->operands) for_each_node(o, call);
}

ScalarRef with_node_replaced(const ScalarRef& s, const ScalarRef& node, const ScalarRef& by) {
  if (s == node) return by;
  if (s->kind != Scalar::Kind::kApply) return s;
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(with_node_replaced(o, node, by));
  return scalar_apply(s->op, std::move(operands), s->type);
}

/// Takes variable `v` of the sum apart, v = c * v' + v''.
void split_reduced(TensorExpr* e, int v, int64_t cut) {
  const auto at = e->reduce_extents.begin() + (v - e->output_rank());
  const int64_t extent = *at;
  *at = extent / cut;
  e->reduce_extents.insert(at + 1, cut);
  if (!e->open.empty()) e->open.insert(e->open.begin() + v + 1, false);
  const auto renewed = [&](int id) {
    if (id >= kRuntimeIndexBase || id < v) return IndexExpr::var(id);
    if (id > v) return IndexExpr::var(id + 1);
    return IndexExpr::var(v) * IndexExpr(cut) + IndexExpr::var(v + 1);
  };
  const RangeOf range = [e](int id) { return id < kRuntimeIndexBase ? e->range(id) : kUnbounded; };
  const auto simplified = [&](const ScalarRef& read) -> ScalarRef {
    std::vector<IndexExpr> indices;
    for (const IndexExpr& index : read->indices) indices.push_back(simplify(index, range));
    return scalar_read(read->symbol, read->type, std::move(indices), read->operands, read->fill);
  };
  e->body = rewrite(e->body, renewed, simplified);
}

/// Makes one of variables `v` and v + 1 of the sum, v * n + (v + 1) with n the second one's extent,
/// where all indices have them so. `e` is unchanged where they do not.
bool join_reduced(TensorExpr* e, int v) {
  const int64_t n = e->range(v + 1).hi + 1;
  bool joins = true;
  const auto look = [&](const IndexExpr& index) {
    AffineForm form;
    if (!uses_var(index, v) && !uses_var(index, v + 1)) return;
    joins &= as_affine(index, &form) && form.coefficient(v) == n * form.coefficient(v + 1);
  };
  visit(e->body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kIndex) look(s.index);
    for (const IndexExpr& index : s.indices) look(index);
  });
  if (!joins) return false;
  const auto at = e->reduce_extents.begin() + (v - e->output_rank());
  *at *= n;
  e->reduce_extents.erase(at + 1);
  if (!e->open.empty()) e->open.erase(e->open.begin() + v + 1);
  e->body = rewrite(e->body, [&](int id) {
    if (id >= kRuntimeIndexBase || id < v) return IndexExpr::var(id);
    if (id == v) return IndexExpr(0);  // its part of the sum comes with the other one
    return IndexExpr::var(id == v + 1 ? v : id - 1);
  });
  return true;
}

/// Conversions of what was narrowed from int32 alone, by those of the int32.
ScalarRef without_narrowing(const ScalarRef& s, const std::set<ScalarRef>& narrowed) {
  if (s->kind != Scalar::Kind::kApply || narrowed.contains(s)) return s;
  if (s->op == ScalarOp::kConvert && narrowed.contains(s->operands[0]))
    return scalar_convert(s->operands[0]->operands[0], s->type);
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(without_narrowing(o, narrowed));
  return scalar_apply(s->op, std::move(operands), s->type);
}

/// Unsigned bytes that are shifted and masked alone, as int32: processors shift no bytes.
ScalarRef widened(const ScalarRef& s) {
  const bool masks = s->kind == Scalar::Kind::kApply &&
                     (s->op == ScalarOp::kAnd || s->op == ScalarOp::kShr) && s->type == DType::kU8;
  if (!masks) return scalar_convert(s, DType::kI32);
  return scalar_apply(s->op, {widened(s->operands[0]), widened(s->operands[1])}, DType::kI32);
}

ScalarRef in_words(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply) return s;
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(in_words(o));
  if (s->op != ScalarOp::kConvert) return scalar_apply(s->op, std::move(operands), s->type);
  const bool of_bytes = operands[0]->kind == Scalar::Kind::kApply &&
                        operands[0]->type == DType::kU8 && byte_size(s->type) == 4;
  return scalar_convert(of_bytes ? widened(operands[0]) : operands[0], s->type);
}

/// Largest magnitude of an integer, as far as its form tells.
int64_t reach_of(const ScalarRef& s) {
  constexpr int64_t kUnknown = int64_t{1} << 40;
  if (s->kind == Scalar::Kind::kConstant) return std::abs(s->value.i);
  if (is_byte(s->type)) return 255;
  if (s->kind != Scalar::Kind::kApply) return kUnknown;
  if (s->op == ScalarOp::kConvert) return reach_of(s->operands[0]);
  if (s->op == ScalarOp::kAdd || s->op == ScalarOp::kSub)
    return reach_of(s->operands[0]) + reach_of(s->operands[1]);
  if (s->op != ScalarOp::kAnd || s->operands[1]->kind != Scalar::Kind::kConstant) return kUnknown;
  return s->operands[1]->value.i < 0 ? kUnknown : s->operands[1]->value.i;
}

/// f32(a - z) of integers that float32 holds as f32(a) - f32(z), which sums may take apart.
ScalarRef with_float_differences(const ScalarRef& s) {
  constexpr int64_t kExact = int64_t{1} << 24;
  if (s->kind != Scalar::Kind::kApply) return s;
  if (s->op == ScalarOp::kConvert && s->type == DType::kF32) {
    const ScalarRef& of = s->operands[0];
    const bool differs = of->kind == Scalar::Kind::kApply && of->op == ScalarOp::kSub &&
                         of->type == DType::kI32 && reach_of(of) <= kExact;
    if (!differs) return s;
    return scalar_apply(ScalarOp::kSub,
                        {with_float_differences(scalar_convert(of->operands[0], s->type)),
                         with_float_differences(scalar_convert(of->operands[1], s->type))},
                        s->type);
  }
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(with_float_differences(o));
  return scalar_apply(s->op, std::move(operands), s->type);
}

class DecodeWeights {
 public:
  explicit DecodeWeights(TensorProgram& program)
      : program_(program),
        sources_(program),
        new_tensors_(program),
        constant_axes_(program, new_tensors_) {}

  bool run() {
    bool changed = false;
    for (TensorExpr& e : program_.exprs) changed |= decode_in(&e);
    return changed;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  ScalarRef counted(const ScalarRef& s) const;
  bool decode_in(TensorExpr* e);
  void take_axes_apart(TensorExpr* e) const;
  bool pack_one(TensorExpr* e);
  TensorId packed(const Tensor& from, size_t dim, const Packing& packing);
  bool unpack_one(TensorExpr* e);
  TensorId unpacked(const Tensor& from, size_t dim, int64_t bits);
  void give_axes(TensorExpr* e);

  TensorProgram& program_;
  WeightSources sources_;
  NewTensors new_tensors_;
  ConstantAxes constant_axes_;
  std::map<std::pair<TensorId, size_t>, TensorId> packed_, unpacked_;  ///< by tensor and axis
};

/// Reads of short constants that count along one axis (shifts of a byte's numbers), by the index.
ScalarRef DecodeWeights::counted(const ScalarRef& s) const {
  constexpr int64_t kMost = 8;
  return rewrite(
      s, [](int id) { return IndexExpr::var(id); },
      [&](const ScalarRef& read) -> ScalarRef {
        const Tensor& t = tensor(read->symbol);
        if (t.kind != Tensor::Kind::kConstant || !is_byte(t.type.dtype) || t.value.size() < 2 ||
            t.value.size() > kMost || !read->operands.empty() || read->fill)
          return read;
        const IndexExpr* along = nullptr;
        for (size_t d = 0; d < read->indices.size(); ++d) {
          if (t.type.shape[d] == 1) continue;
          if (along != nullptr) return read;
          along = &read->indices[d];
        }
        const int64_t first = t.value.at_int(0), step = t.value.at_int(1) - first;
        for (int64_t i = 0; i < t.value.size(); ++i) {
          if (t.value.at_int(i) != first + i * step) return read;
        }
        return scalar_index(*along * step + first, read->type);
      });
}

bool DecodeWeights::decode_in(TensorExpr* e) {
  if (!sources_.decodes(*e)) return false;
  const auto body_of = [this](const Scalar& read) { return sources_.decoded(read); };
  TensorExpr whole = *e;
  while (sources_.reads_decoded(whole)) {  // a step of the decoding at a time
    whole.body = ReadComposer(program_, whole, body_of).run();
    if (whole.body == nullptr) return false;
  }
  e->body = in_words(counted(whole.body));
  take_axes_apart(e);
  while (unpack_one(e)) {
  }
  while (pack_one(e)) {
  }
  e->body = with_float_differences(e->body);
  give_axes(e);
  return true;
}

/// Until no index divides a variable of the sum.
void DecodeWeights::take_axes_apart(TensorExpr* e) const {
  for (int n = 0; n < kMostCuts; ++n) {
    std::optional<std::pair<int, int64_t>> cut;
    visit(e->body, [&](const Scalar& s) {
      for (const IndexExpr& index : s.indices) {
        if (!cut) cut = cut_of(*e, index);
      }
    });
    if (!cut) return;
    split_reduced(e, cut->first, cut->second);
  }
}

/// Which of a word's numbers is taken, (i32(word) >> j * bits) & 2^bits - 1.
struct NumberOfWord {
  ScalarRef word;  ///< the read
  int64_t bits = 0;
  int variable = -1;  ///< j
};

std::optional<NumberOfWord> as_number_of_byte(const TensorExpr& e, const ScalarRef& s) {
  const auto is = [](const ScalarRef& a, ScalarOp op) {
    return a->kind == Scalar::Kind::kApply && a->op == op;
  };
  const auto unconverted = [&](ScalarRef a) {
    while (is(a, ScalarOp::kConvert)) a = a->operands[0];
    return a;
  };
  if (!is(s, ScalarOp::kAnd) || s->type != DType::kI32 || !is(s->operands[0], ScalarOp::kShr))
    return std::nullopt;
  const ScalarRef mask = s->operands[1], word = unconverted(s->operands[0]->operands[0]),
                  shift = unconverted(s->operands[0]->operands[1]);
  if (mask->kind != Scalar::Kind::kConstant || word->kind != Scalar::Kind::kRead ||
      word->type != DType::kU8 || shift->kind != Scalar::Kind::kIndex)
    return std::nullopt;
  AffineForm form;
  const IndexExpr by = simplify(shift->index, [&](int id) { return e.range(id); });
  if (!as_affine(by, &form) || form.constant != 0 || form.terms.size() != 1) return std::nullopt;
  const auto [variable, bits] = form.terms[0];
  if ((bits != 2 && bits != 4) || mask->value.i != (1 << bits) - 1) return std::nullopt;
  return NumberOfWord{word, bits, variable};
}

/// A constant's numbers of `bits`, which lie in bytes along axis `dim`, one by one.
TensorId DecodeWeights::unpacked(const Tensor& from, size_t dim, int64_t bits) {
  const int64_t count = 8 / bits;
  Shape shape = from.type.shape;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  shape[dim] *= count;
  HostTensor out(DType::kU8, shape);
  const auto* bytes = reinterpret_cast<const uint8_t*>(from.value.raw());
  auto* to = out.mutable_data<uint8_t>();
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t i = 0; i < from.value.size(); ++i) {
    const int64_t first = i / inner * count * inner + i % inner;
    for (int64_t j = 0; j < count; ++j)
      to[first + j * inner] = static_cast<uint8_t>(bytes[i] >> (j * bits)) & mask;
  }
  const TensorId t =
      new_tensors_.add(from.name + "_numbers", {DType::kU8, shape}, Tensor::Kind::kConstant);
  program_.tensors.back().value = std::move(out);
  return t;
}

/// Takes the numbers of one constant out of their bytes, so that all are packed in one way.
bool DecodeWeights::unpack_one(TensorExpr* e) {
  ScalarRef found;
  size_t dim = 0;
  std::optional<NumberOfWord> number;
  const auto look = [&](const ScalarRef& s) {
    number = as_number_of_byte(*e, s);
    if (!number || !number->word->operands.empty() || number->word->fill) return;
    const Scalar& word = *number->word;
    const Tensor& t = tensor(word.symbol);
    const int v = number->variable - 1;
    if (t.kind != Tensor::Kind::kConstant || v < e->output_rank() || v + 1 >= e->axis_count() ||
        e->range(v + 1).hi + 1 != 8 / number->bits)
      return;
    for (dim = 0; dim < word.indices.size(); ++dim) {
      AffineForm form;
      if (!as_affine(word.indices[dim], &form) || form.coefficient(v) != 1 ||
          form.coefficient(v + 1) != 0)
        continue;
      found = s;
      return;
    }
  };
  for_each_node(e->body, [&](const ScalarRef& s) {
    if (!found) look(s);
  });
  if (!found) return false;
  const NumberOfWord of = *as_number_of_byte(*e, found);
  const auto [known, is_new] = unpacked_.try_emplace({of.word->symbol, dim}, -1);
  if (is_new) known->second = unpacked(tensor(of.word->symbol), dim, of.bits);
  const int v = of.variable - 1;
  std::vector<IndexExpr> indices = of.word->indices;
  indices[dim] = indices[dim] * (8 / of.bits) + IndexExpr::var(v + 1);
  const ScalarRef read =
      scalar_convert(scalar_read(known->second, DType::kU8, std::move(indices)), DType::kI32);
  TensorExpr joined = *e;
  joined.body = with_node_replaced(e->body, found, read);
  if (!join_reduced(&joined, v)) return false;
  *e = std::move(joined);
  return true;
}

/// The numbers of a constant of bytes, from that of the first along axis `dim` on, in words.
TensorId DecodeWeights::packed(const Tensor& from, size_t dim, const Packing& packing) {
  const int64_t count = packing.numbers();
  Shape shape = from.type.shape;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  shape[dim] /= count;
  HostTensor out(packing.word, shape);
  const auto* numbers = reinterpret_cast<const uint8_t*>(from.value.raw());
  const auto zero = static_cast<uint8_t>(packing.lowest);
  const auto bytes = static_cast<size_t>(byte_size(packing.word));
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t first = i / inner * count * inner + i % inner;
    uint32_t word = 0;
    for (int64_t j = 0; j < count; ++j)
      word |= uint32_t{static_cast<uint8_t>(numbers[first + j * inner] - zero)}
              << (j * packing.bits);
    std::memcpy(out.mutable_raw() + static_cast<size_t>(i) * bytes, &word, bytes);
  }
  const TensorId t =
      new_tensors_.add(from.name + "_packed", {packing.word, shape}, Tensor::Kind::kConstant);
  program_.tensors.back().value = std::move(out);
  return t;
}

/// How the values of a constant of bytes are stored, `extent` along an axis, in the fewest bits: 0
/// and -8 or -2 as the lowest where they are in reach.
std::optional<Packing> packing_of(const Tensor& t, int64_t extent) {
  if (t.kind != Tensor::Kind::kConstant || !is_byte(t.type.dtype) || t.value.size() < kFewest)
    return std::nullopt;
  int64_t low = 255, high = -128;
  for (int64_t i = 0; i < t.value.size(); ++i) {
    const auto byte = static_cast<uint8_t>(t.value.raw()[i]);
    const int64_t value = t.type.dtype == DType::kI8 ? static_cast<int8_t>(byte) : byte;
    low = std::min(low, value);
    high = std::max(high, value);
    if (high - low > 15) return std::nullopt;
  }
  Packing out;
  out.bits = high - low > 3 ? 4 : 2;
  const int64_t numbers = int64_t{1} << out.bits;
  out.lowest = low >= 0 && high < numbers                  ? 0
               : low >= -numbers / 2 && high < numbers / 2 ? -numbers / 2
                                                           : low;
  if (extent % out.numbers() != 0) out.word = DType::kU8;
  if (extent % out.numbers() != 0) return std::nullopt;
  return out;
}

/// Packs one constant that still has a byte for each number of the sum's innermost axis.
bool DecodeWeights::pack_one(TensorExpr* e) {
  const int v = e->axis_count() - 1;
  ScalarRef found;
  size_t dim = 0;
  std::optional<Packing> packing;
  for_each_node(e->body, [&](const ScalarRef& s) {
    if (found || s->kind != Scalar::Kind::kRead) return;
    const Tensor& t = tensor(s->symbol);
    for (size_t d = 0; d < s->indices.size(); ++d) {
      const std::vector<int> digits = digits_of(*e, s->indices[d], t.type.shape[d]);
      if (digits.empty() || digits.back() != v) continue;
      packing = packing_of(t, e->range(v).hi + 1);
      if (packing) found = s;
      dim = d;
      return;
    }
  });
  if (!found) return false;
  const Packing how = *packing;
  split_reduced(e, v, how.numbers());
  const auto [known, is_new] = packed_.try_emplace({found->symbol, dim}, -1);
  if (is_new) known->second = packed(tensor(found->symbol), dim, how);
  const TensorId words = known->second;
  const RangeOf range = [e](int id) { return e->range(id); };
  std::set<ScalarRef> narrowed;
  e->body = rewrite(
      e->body, [](int id) { return IndexExpr::var(id); },
      [&](const ScalarRef& read) -> ScalarRef {
        if (read->symbol != found->symbol) return read;
        std::vector<IndexExpr> indices = read->indices;
        indices[dim] = simplify(floor_div(indices[dim], how.numbers()), range);
        const ScalarRef word =
            scalar_convert(scalar_read(words, how.word, std::move(indices)), DType::kI32);
        const auto apply = [](ScalarOp op, const ScalarRef& a, const ScalarRef& b) {
          return scalar_apply(op, {a, b}, DType::kI32);
        };
        const auto number = [](int64_t n) { return scalar_constant(int_value(DType::kI32, n)); };
        const ScalarRef shift = scalar_index(IndexExpr::var(v + 1) * how.bits, DType::kI32);
        const ScalarRef bits =
            apply(ScalarOp::kAnd, apply(ScalarOp::kShr, word, shift), number((1 << how.bits) - 1));
        const ScalarRef value =
            how.lowest == 0 ? bits : apply(ScalarOp::kAdd, bits, number(how.lowest));
        return *narrowed.insert(scalar_convert(value, read->type)).first;
      });
  e->body = without_narrowing(e->body, narrowed);
  return true;
}

/// Constants whose axes the sum walks by several variables get an axis for each.
void DecodeWeights::give_axes(TensorExpr* e) {
  e->body = rewrite(
      e->body, [](int id) { return IndexExpr::var(id); },
      [&](const ScalarRef& read) { return constant_axes_.given(*e, read); });
}

}  // namespace

bool decode_weights(TensorProgram& program) { return DecodeWeights(program).run(); }

}  // namespace weft
