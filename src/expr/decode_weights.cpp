#include "expr/decode_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "expr/new_tensors.h"
#include "expr/read_composer.h"

namespace weft {

namespace {

/// Smaller constants are not worth it.
constexpr int64_t kFewest = int64_t{1} << 12;
constexpr int64_t kPacked = 2;  ///< numbers in a byte
constexpr int kMostCuts = 8;

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

/// What takes a processor an instruction or two.
bool is_cheap(ScalarOp op) {
  switch (op) {
    case ScalarOp::kConvert:
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kAnd:
    case ScalarOp::kShr:
    case ScalarOp::kShl:
      return true;
    default:
      return false;
  }
}

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

/// The extents of `index`'s variables where it counts through all of `extent` by them, most
/// significant first; empty where it does not.
std::vector<int> digits_of(const TensorExpr& e, const IndexExpr& index, int64_t extent) {
  AffineForm form;
  if (!as_affine(index, &form) || form.constant != 0) return {};
  std::ranges::sort(form.terms, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int> digits;
  int64_t weight = extent;
  for (const auto& [var, c] : form.terms) {
    if (var >= kRuntimeIndexBase || c <= 0 || c * (e.range(var).hi + 1) != weight) return {};
    weight = c;
    digits.push_back(var);
  }
  return weight == 1 ? digits : std::vector<int>{};
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

class DecodeWeights {
 public:
  explicit DecodeWeights(TensorProgram& program)
      : program_(program), made_by_(program.tensors.size(), -1), new_tensors_(program) {
    for (size_t x = 0; x < program.exprs.size(); ++x)
      made_by_[static_cast<size_t>(program.exprs[x].output)] = static_cast<int>(x);
  }

  bool run() {
    bool changed = false;
    for (TensorExpr& e : program_.exprs) changed |= decode_in(&e);
    return changed;
  }

 private:
  /// What a tensor is made of, if that is constants alone.
  struct Source {
    bool constant = false;
    bool of_bytes = false;
    int64_t bytes = 0;  ///< of the constants
  };

  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  Source source_of(TensorId t, int depth) const;
  ScalarRef decoded(const Scalar& read) const;
  ScalarRef counted(const ScalarRef& s) const;
  bool reads_decoded(const TensorExpr& e) const;
  bool decode_in(TensorExpr* e);
  void take_axes_apart(TensorExpr* e) const;
  bool pack_one(TensorExpr* e);
  TensorId packed(const Tensor& from, size_t dim, int64_t lowest);
  void give_axes(TensorExpr* e);

  TensorProgram& program_;
  std::vector<int> made_by_;  ///< by tensor of the model: its expression, -1 for others
  NewTensors new_tensors_;
  std::map<std::pair<TensorId, size_t>, TensorId> packed_;  ///< by tensor and axis
};

DecodeWeights::Source DecodeWeights::source_of(TensorId t, int depth) const {
  constexpr int kMostSteps = 16;
  const Tensor& of = tensor(t);
  if (of.kind == Tensor::Kind::kConstant) return {true, is_byte(of.type.dtype), of.value.bytes()};
  const int x = static_cast<size_t>(t) < made_by_.size() ? made_by_[static_cast<size_t>(t)] : -1;
  if (x < 0 || of.is_output || depth > kMostSteps) return {};
  const TensorExpr& e = program_.exprs[static_cast<size_t>(x)];
  Source out{e.reduce_extents.empty(), false, 0};
  visit(e.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kApply) out.constant &= is_cheap(s.op);
    if (s.kind != Scalar::Kind::kRead || !out.constant) return;
    const Source part = s.operands.empty() && !s.fill ? source_of(s.symbol, depth + 1) : Source{};
    out = {part.constant, out.of_bytes || part.of_bytes, out.bytes + part.bytes};
  });
  return out;
}

/// The expression that makes what is read, where it only decodes constants of bytes.
ScalarRef DecodeWeights::decoded(const Scalar& read) const {
  const Tensor& t = tensor(read.symbol);
  if (t.kind != Tensor::Kind::kIntermediate || !read.operands.empty() || read.fill) return nullptr;
  const std::optional<int64_t> bytes = checked_byte_size(t.type.dtype, t.type.shape);
  const Source source = source_of(read.symbol, 0);
  if (!source.constant || !bytes || *bytes < kFewest) return nullptr;
  return program_.exprs[static_cast<size_t>(made_by_[static_cast<size_t>(read.symbol)])].body;
}

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

bool DecodeWeights::reads_decoded(const TensorExpr& e) const {
  bool found = false;
  visit(e.body,
        [&](const Scalar& s) { found |= s.kind == Scalar::Kind::kRead && decoded(s) != nullptr; });
  return found;
}

bool DecodeWeights::decode_in(TensorExpr* e) {
  if (!e->is_contraction || e->combiner != Combiner::kSum || e->accumulator != DType::kF32)
    return false;
  bool decodes = false;
  visit(e->body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || decoded(s) == nullptr) return;
    const Source source = source_of(s.symbol, 0);
    const Tensor& t = tensor(s.symbol);
    decodes |= source.of_bytes && source.bytes < *checked_byte_size(t.type.dtype, t.type.shape);
  });
  if (!decodes) return false;
  const auto body_of = [this](const Scalar& read) { return decoded(read); };
  TensorExpr whole = *e;
  while (reads_decoded(whole)) {  // a step of the decoding at a time
    whole.body = ReadComposer(program_, whole, body_of).run();
    if (whole.body == nullptr) return false;
  }
  e->body = in_words(counted(whole.body));
  take_axes_apart(e);
  while (pack_one(e)) {
  }
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

/// Two of a byte's numbers, from that of the first along axis `dim` on, `lowest` as 0.
TensorId DecodeWeights::packed(const Tensor& from, size_t dim, int64_t lowest) {
  Shape shape = from.type.shape;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  shape[dim] /= kPacked;
  HostTensor out(DType::kU8, shape);
  const auto* numbers = reinterpret_cast<const uint8_t*>(from.value.raw());
  auto* to = out.mutable_data<uint8_t>();
  const auto zero = static_cast<uint8_t>(lowest);
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t first = (i / inner) * kPacked * inner + i % inner;
    const auto low = static_cast<uint8_t>(numbers[first] - zero);
    const auto high = static_cast<uint8_t>(numbers[first + inner] - zero);
    to[i] = static_cast<uint8_t>(low | high << 4);
  }
  const TensorId t =
      new_tensors_.add(from.name + "_packed", {DType::kU8, shape}, Tensor::Kind::kConstant);
  program_.tensors.back().value = std::move(out);
  return t;
}

/// The least value of a constant of bytes whose values are at most 16 in a row, 0 where that is in
/// reach.
std::optional<int64_t> lowest_of_nibbles(const Tensor& t) {
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
  if (low >= 0 && high <= 15) return 0;
  return low >= -8 && high <= 7 ? -8 : low;
}

/// Packs one constant of the sum that still has a byte for each number.
bool DecodeWeights::pack_one(TensorExpr* e) {
  ScalarRef found;
  size_t dim = 0;
  std::optional<int64_t> lowest;
  visit(e->body, [&](const Scalar& s) {
    if (found || s.kind != Scalar::Kind::kRead) return;
    const Tensor& t = tensor(s.symbol);
    int innermost = e->output_rank() - 1;
    for (size_t d = 0; d < s.indices.size(); ++d) {
      const std::vector<int> digits = digits_of(*e, s.indices[d], t.type.shape[d]);
      if (digits.empty() || digits.back() <= innermost) continue;
      innermost = digits.back();
      dim = d;
    }
    if (innermost < e->output_rank() || (e->range(innermost).hi + 1) % kPacked != 0) return;
    lowest = lowest_of_nibbles(t);
    if (lowest) found = std::make_shared<Scalar>(s);
  });
  if (!found) return false;
  const int v = digits_of(*e, found->indices[dim], tensor(found->symbol).type.shape[dim]).back();
  split_reduced(e, v, kPacked);
  const auto [known, is_new] = packed_.try_emplace({found->symbol, dim}, -1);
  if (is_new) known->second = packed(tensor(found->symbol), dim, *lowest);
  const TensorId bytes = known->second;
  const RangeOf range = [e](int id) { return e->range(id); };
  std::set<ScalarRef> narrowed;
  e->body = rewrite(
      e->body, [](int id) { return IndexExpr::var(id); },
      [&](const ScalarRef& read) -> ScalarRef {
        if (read->symbol != found->symbol) return read;
        std::vector<IndexExpr> indices = read->indices;
        indices[dim] = simplify(floor_div(indices[dim], kPacked), range);
        const ScalarRef byte =
            scalar_convert(scalar_read(bytes, DType::kU8, std::move(indices)), DType::kI32);
        const auto apply = [](ScalarOp op, const ScalarRef& a, const ScalarRef& b) {
          return scalar_apply(op, {a, b}, DType::kI32);
        };
        const auto number = [](int64_t n) { return scalar_constant(int_value(DType::kI32, n)); };
        const ScalarRef shift = scalar_index(IndexExpr::var(v + 1) * 4, DType::kI32);
        const ScalarRef nibble =
            apply(ScalarOp::kAnd, apply(ScalarOp::kShr, byte, shift), number(15));
        const ScalarRef value =
            *lowest == 0 ? nibble : apply(ScalarOp::kAdd, nibble, number(*lowest));
        return *narrowed.insert(scalar_convert(value, read->type)).first;
      });
  e->body = without_narrowing(e->body, narrowed);
  return true;
}

/// Constants whose axes the sum walks by several variables get an axis for each.
void DecodeWeights::give_axes(TensorExpr* e) {
  e->body = rewrite(
      e->body, [](int id) { return IndexExpr::var(id); },
      [&](const ScalarRef& read) -> ScalarRef {
        const Tensor& t = tensor(read->symbol);
        if (t.kind != Tensor::Kind::kConstant || !read->operands.empty()) return read;
        Shape shape;
        std::vector<IndexExpr> indices;
        for (size_t d = 0; d < read->indices.size(); ++d) {
          const std::vector<int> digits = digits_of(*e, read->indices[d], t.type.shape[d]);
          if (digits.size() < 2) {
            shape.push_back(t.type.shape[d]);
            indices.push_back(read->indices[d]);
            continue;
          }
          for (const int v : digits) {
            shape.push_back(e->range(v).hi + 1);
            indices.push_back(IndexExpr::var(v));
          }
        }
        if (shape.size() == t.type.shape.size()) return read;
        const HostTensor value = t.value.reshaped(shape);
        const TensorId own =
            new_tensors_.add(t.name + "_axes", {t.type.dtype, shape}, Tensor::Kind::kConstant);
        program_.tensors.back().value = value;
        return scalar_read(own, read->type, std::move(indices));
      });
}

}  // namespace

bool decode_weights(TensorProgram& program) { return DecodeWeights(program).run(); }

}  // namespace weft
