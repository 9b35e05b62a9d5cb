#include "group/group_key.h"

#include <algorithm>
#include <bit>
#include <span>
#include <unordered_map>
#include <utility>

namespace weft {

namespace {

/// Hashes values: all at once, as most lists are short.
class ValueHasher {
 public:
  /// `values` are a place for them.
  explicit ValueHasher(std::vector<uint64_t>& values) : values_(values) { values_.clear(); }

  template <typename T>
  void value(T v) {
    values_.push_back(static_cast<uint64_t>(v));
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    value(values.size());
    for (const auto& v : values) value(v);
  }

  void value(const Hash128& h) {
    value(h.high);
    value(h.low);
  }
  Hash128 digest() const { return hash128(std::as_bytes(std::span(values_))); }

 private:
  std::vector<uint64_t>& values_;
};

Hash128 tensor_hash(const Tensor& t) {
  std::vector<uint64_t> values;
  ValueHasher h(values);
  h.value(t.kind == Tensor::Kind::kConstant);
  h.value(t.type.dtype);
  h.list(t.type.shape);
  h.value(t.layout.axes.size());
  for (const Layout::Axis& a : t.layout.axes) {
    h.value(a.axis);
    h.value(a.divisor);
    h.value(a.extent);
  }
  return h.digest();
}

/// Feeds an expression to a hasher, shared nodes of its body once each.
class ExprHasher {
 public:
  Hash128 run(const TensorExpr& e) {
    tensor(e.output);
    h_.list(e.extents);
    h_.list(e.reduce_extents);
    value(e.combiner);
    value(e.accumulator);
    value(e.last_on_ties);
    value(e.is_contraction);
    for (int a = 0; a < e.axis_count(); ++a) value(e.is_open(a));
    scalar(e.body);
    return h_.digest();
  }
  std::vector<TensorId> take_tensors() { return std::move(tensors_); }

 private:
  template <typename T>
  void value(T v) {
    h_.value(v);
  }
  void tensor(TensorId id) {
    const auto known = std::ranges::find(tensors_, id);
    value(known - tensors_.begin());
    if (known == tensors_.end()) tensors_.push_back(id);
  }

  void index(const IndexExpr& e) {
    value(e.op());
    switch (e.op()) {
      case IndexOp::kConst:
        value(e.constant());
        break;
      case IndexOp::kVar:
        value(e.var_id());
        break;
      default:
        index(e.lhs());
        index(e.rhs());
        break;
    }
  }

  void scalar(const ScalarRef& s) {
    if (s == nullptr) return value(-1);
    const auto [known, added] = nodes_.try_emplace(s.get(), nodes_.size());
    value(known->second);
    if (!added) return;
    value(s->kind);
    value(s->type);
    switch (s->kind) {
      case Scalar::Kind::kConstant:
        value(std::bit_cast<uint64_t>(s->value.f));
        value(s->value.i);
        break;
      case Scalar::Kind::kIndex:
        index(s->index);
        break;
      case Scalar::Kind::kRead:
        tensor(s->symbol);
        value(s->indices.size());
        for (const IndexExpr& i : s->indices) index(i);
        scalar(s->fill);
        break;
      case Scalar::Kind::kApply:
        value(s->op);
        break;
    }
    value(s->operands.size());
    for (const ScalarRef& o : s->operands) scalar(o);
  }

  std::vector<uint64_t> values_;
  ValueHasher h_{values_};
  std::vector<TensorId> tensors_;
  std::unordered_map<const Scalar*, size_t> nodes_;
};

constexpr char kMark = '\x1f';

}  // namespace

size_t GroupKey::number_of(TensorId tensor) const {
  return static_cast<size_t>(std::ranges::find(tensors, tensor) - tensors.begin());
}

GroupKeys::GroupKeys(const TensorProgram& program)
    : program_(program),
      exprs_(program.exprs.size()),
      tensors_(program.tensors.size()),
      number_of_(program.tensors.size(), -1) {}

const GroupKeys::ExprKey& GroupKeys::of_expr(ExprId e) {
  std::optional<ExprKey>& known = exprs_[static_cast<size_t>(e)];
  if (!known) {
    ExprHasher hasher;
    const Hash128 hash = hasher.run(program_.exprs[static_cast<size_t>(e)]);
    known = {hash, hasher.take_tensors()};
  }
  return *known;
}

const Hash128& GroupKeys::of_tensor(TensorId t) {
  std::optional<Hash128>& known = tensors_[static_cast<size_t>(t)];
  if (!known) known = tensor_hash(program_.tensors[static_cast<size_t>(t)]);
  return *known;
}

GroupKey GroupKeys::of(const Group& group) {
  GroupKey out;
  ValueHasher h(values_);
  const auto tensor = [&](TensorId t) {
    int32_t& number = number_of_[static_cast<size_t>(t)];
    const bool is_new = number < 0;
    if (is_new) number = static_cast<int32_t>(out.tensors.size());
    h.value(number);
    if (!is_new) return;
    out.tensors.push_back(t);
    h.value(of_tensor(t));
  };
  for (const ExprId e : group.exprs) {
    const ExprKey& key = of_expr(e);
    h.value(key.hash);
    for (const TensorId t : key.tensors) tensor(t);
  }
  h.value(group.outputs.size());
  for (const TensorId t : group.outputs) tensor(t);
  for (const TensorId t : out.tensors) number_of_[static_cast<size_t>(t)] = -1;
  out.hash = h.digest();
  return out;
}

std::string numbered_name(size_t number) { return kMark + std::to_string(number) + kMark; }

std::string with_numbers(std::string_view text, char mark,
                         const std::function<std::string_view(size_t)>& name_of) {
  std::string out;
  for (size_t begin = text.find(mark); begin != std::string_view::npos; begin = text.find(mark)) {
    const size_t end = text.find(mark, begin + 1);
    const auto number =
        static_cast<size_t>(std::stoul(std::string(text.substr(begin + 1, end - begin - 1))));
    out += text.substr(0, begin);
    out += name_of(number);
    text.remove_prefix(end + 1);
  }
  return out + std::string(text);
}

std::string with_names(std::string_view text, const GroupKey& key, const TensorProgram& program) {
  return with_numbers(text, kMark, [&](size_t number) -> std::string_view {
    return program.tensors[static_cast<size_t>(key.tensors[number])].name;
  });
}

}  // namespace weft
