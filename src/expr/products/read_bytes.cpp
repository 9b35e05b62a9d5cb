#include "expr/products/read_bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "expr/element_program.h"
#include "expr/movement/read_composer.h"
#include "expr/new_tensors.h"

namespace weft {

namespace {

/// Operations of a dequantisation, at most.
constexpr int64_t kMostOperations = 6;
/// Elements of a constant beside the bytes (a scale for each channel), relative to theirs.
constexpr int64_t kFewerConstants = 16;

/// Expressions from one tensor of 8 bits to another, and operations of them all, at most.
constexpr int kMostSteps = 24;
constexpr int64_t kMostInChain = 200;
/// Operations that a look-up in a table of 256 is worth.
constexpr int64_t kWorthTable = 45;

/// In instructions of a vector, about.
int64_t cost_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kDiv:
      return 5;
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kErf:
    case ScalarOp::kTanh:
    case ScalarOp::kSigmoid:
    case ScalarOp::kPow:
      return 15;
    case ScalarOp::kConvert:
      return 2;
    default:
      return 1;
  }
}

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

bool dequantises(ScalarOp op) {
  return op == ScalarOp::kConvert || op == ScalarOp::kAdd || op == ScalarOp::kSub ||
         op == ScalarOp::kMul;
}

class ReadBytes {
 public:
  explicit ReadBytes(TensorProgram& program)
      : program_(program), made_by_(program.tensors.size(), -1), new_tensors_(program) {
    for (size_t x = 0; x < program.exprs.size(); ++x)
      made_by_[static_cast<size_t>(program.exprs[x].output)] = static_cast<int>(x);
  }

  bool run() {
    bool changed = false;
    for (const TensorProgram::Step& step : program_.steps) {
      if (!step.opaque) changed |= compose(&program_.exprs[static_cast<size_t>(step.index)]);
    }
    return changed;
  }

 private:
  const Tensor& tensor(int t) const { return program_.tensors[static_cast<size_t>(t)]; }
  int64_t elements(int t) const { return element_count(tensor(t).type.shape).value_or(0); }
  const TensorExpr* producer(const Scalar& read) const;
  bool dequantises_bytes(const TensorExpr& e) const;
  bool compose(TensorExpr* e);
  bool keeps_order(const TensorExpr& e, const Scalar& read, const ScalarRef& body) const;
  /// What 8 bits become, by the value of `root`'s element, from the lowest on.
  struct Function {
    int root = -1;
    std::vector<IndexExpr> indices;  ///< at which the root is read
    std::vector<int64_t> values;
    int64_t cost = 0;  ///< of the operations that are done without a table
  };
  ScalarRef chain_from_bytes(const TensorExpr& e) const;
  std::vector<IndexExpr> whole_indices(TensorId t, std::vector<IndexExpr> indices) const;
  std::optional<Function> function_of(const TensorExpr& e, const ScalarRef& body);
  void take_apart(TensorExpr* e);

  TensorProgram& program_;
  std::vector<int> made_by_;
  NewTensors new_tensors_;
  std::map<int, Function> functions_;  ///< by tensor
};

/// The element-wise expression that makes what is read; null for others.
const TensorExpr* ReadBytes::producer(const Scalar& read) const {
  const int x = made_by_[static_cast<size_t>(read.symbol)];
  if (x < 0) return nullptr;
  const TensorExpr& e = program_.exprs[static_cast<size_t>(x)];
  return e.reduce_extents.empty() && !e.is_contraction &&
                 e.body->type == tensor(e.output).type.dtype
             ? &e
             : nullptr;
}

/// Whether an element-wise expression makes a wider type of one read of 8 bits and small constants,
/// by few operations.
bool ReadBytes::dequantises_bytes(const TensorExpr& e) const {
  const Scalar* bytes = nullptr;
  bool fits = operation_count(e.body) <= kMostOperations && byte_size(e.body->type) > 1;
  const int64_t count = elements(e.output);
  visit(e.body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kIndex) fits = false;
    if (s.kind == Scalar::Kind::kApply) fits &= dequantises(s.op);
    if (s.kind != Scalar::Kind::kRead) return;
    fits &= s.operands.empty() && !s.fill;
    if (is_byte(s.type) && elements(s.symbol) == count && bytes == nullptr) {
      bytes = &s;
      return;
    }
    fits &= tensor(s.symbol).kind == Tensor::Kind::kConstant &&
            elements(s.symbol) * kFewerConstants <= count;
  });
  return fits && bytes != nullptr;
}

/// Whether a contraction that reads through a body of another order still runs along the same axis
/// of memory.
bool ReadBytes::keeps_order(const TensorExpr& e, const Scalar& read, const ScalarRef& body) const {
  if (!e.is_contraction) return true;
  const IndexExpr& last = body->indices.back();
  return last.is_var() && last.var_id() == static_cast<int>(read.indices.size()) - 1;
}

/// Whether a contraction multiplies each element by weights of its own, few times: a depthwise
/// window, which memory bounds. A product with many columns would dequantise each as often.
bool is_window_by_channel(const TensorExpr& e) {
  constexpr int64_t kMostPoints = 32;
  int64_t points = 1;
  for (const int64_t n : e.reduce_extents) points = std::min(points * n, kMostPoints + 1);
  const auto shared = [&](int v) {
    bool all = e.range(v).hi > 0;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead)
        all &= std::ranges::any_of(s.indices, [v](const IndexExpr& i) { return uses_var(i, v); });
    });
    return all;
  };
  bool by_channel = false;
  for (int v = 0; v < e.output_rank(); ++v) by_channel |= shared(v);
  return by_channel && points <= kMostPoints;
}

bool ReadBytes::compose(TensorExpr* e) {
  bool found = false;
  std::vector<int32_t> origins = e->origins;
  const auto body_of = [&](const Scalar& read) -> ScalarRef {
    const TensorExpr* made = producer(read);
    if (made == nullptr) return nullptr;
    const bool moves = made->body->kind == Scalar::Kind::kRead && is_byte(made->body->type) &&
                       made->body->operands.empty() && !made->body->fill &&
                       !made->body->indices.empty() && keeps_order(*e, read, made->body);
    const bool dequantised =
        (!e->is_contraction || is_window_by_channel(*e)) && dequantises_bytes(*made);
    if (!moves && !dequantised) return nullptr;
    found = true;
    origins.insert(origins.end(), made->origins.begin(), made->origins.end());
    return made->body;
  };
  const ScalarRef body = ReadComposer(program_, *e, body_of).run();
  if (body == nullptr) return false;
  if (found) e->body = body;
  std::ranges::sort(origins);
  origins.erase(std::ranges::unique(origins).begin(), origins.end());
  e->origins = std::move(origins);
  const ScalarRef before = e->body;
  if (e->reduce_extents.empty() && !e->is_contraction && is_byte(e->body->type)) take_apart(e);
  return found || e->body != before;
}

/// The body with what lies between it and reads of 8 bits put in its place; null where other things
/// lie there.
ScalarRef ReadBytes::chain_from_bytes(const TensorExpr& e) const {
  TensorExpr whole = e;
  for (int n = 0; n < kMostSteps; ++n) {
    bool found = false;
    const auto body_of = [&](const Scalar& read) -> ScalarRef {
      const TensorExpr* made = is_byte(read.type) ? nullptr : producer(read);
      found |= made != nullptr;
      return made == nullptr ? nullptr : made->body;
    };
    whole.body = ReadComposer(program_, whole, body_of).run();
    if (whole.body == nullptr || operation_count(whole.body) > kMostInChain) return nullptr;
    if (!found) return whole.body;
  }
  return nullptr;
}

/// Indices of a tensor, 0 along axes of one element.
std::vector<IndexExpr> ReadBytes::whole_indices(TensorId t, std::vector<IndexExpr> indices) const {
  for (size_t d = 0; d < indices.size(); ++d) {
    if (tensor(t).type.shape[d] == 1) indices[d] = IndexExpr(0);
  }
  return indices;
}

/// What an element-wise expression makes of one tensor of 8 bits, by value; nothing where it reads
/// more than that and single constants, or at several places.
std::optional<ReadBytes::Function> ReadBytes::function_of(const TensorExpr& e,
                                                          const ScalarRef& body) {
  constexpr int64_t kValues = 256;
  Function out;
  bool fits = true;
  std::vector<HostTensor> values(program_.tensors.size());
  std::set<int> counted;
  visit(body, [&](const Scalar& s) {
    fits &= s.kind != Scalar::Kind::kIndex;
    if (s.kind == Scalar::Kind::kApply) out.cost += cost_of(s.op);
    if (s.kind != Scalar::Kind::kRead || !fits) return;
    fits &= s.operands.empty() && !s.fill;
    auto& value = values[static_cast<size_t>(s.symbol)];
    if (!is_byte(s.type) || elements(s.symbol) != elements(e.output)) {
      fits &= tensor(s.symbol).kind == Tensor::Kind::kConstant && elements(s.symbol) == 1;
      if (fits) value = tensor(s.symbol).value;
      return;
    }
    const auto known = functions_.find(s.symbol);
    const bool derived = known != functions_.end();
    const int root = derived ? known->second.root : s.symbol;
    std::vector<IndexExpr> indices = s.indices;
    if (derived) {
      const auto at = [&](int v) { return s.indices[static_cast<size_t>(v)]; };
      indices = known->second.indices;
      for (IndexExpr& index : indices) index = substitute(index, at);
    }
    indices = whole_indices(root, std::move(indices));
    fits &= out.root < 0 || (out.root == root && out.indices == indices);
    out.root = root;
    out.indices = indices;
    if (derived && counted.insert(s.symbol).second) out.cost += known->second.cost;
    value = HostTensor(s.type, {kValues});
    const int64_t lowest = tensor(root).type.dtype == DType::kI8 ? -128 : 0;
    for (int64_t i = 0; i < kValues; ++i)
      value.set_int(i, derived ? known->second.values[static_cast<size_t>(i)] : lowest + i);
  });
  if (!fits || out.root < 0) return std::nullopt;
  TensorExpr alone;
  alone.extents = {kValues};
  alone.accumulator = e.accumulator;
  alone.body = rewrite(
      body, [](int) { return IndexExpr(0); },
      [&](const ScalarRef& read) {
        const bool varies = values[static_cast<size_t>(read->symbol)].size() == kValues;
        return varies ? scalar_read(read->symbol, read->type, {IndexExpr::var(0)}) : read;
      });
  ElementProgram program(alone, values);
  for (int64_t i = 0; i < kValues; ++i) out.values.push_back(program.at({i}).i);
  return out;
}

/// An expression of 8 bits that is a function of another tensor of 8 bits.
void ReadBytes::take_apart(TensorExpr* e) {
  const ScalarRef body = chain_from_bytes(*e);
  if (body == nullptr || body->kind == Scalar::Kind::kRead) return;
  std::optional<Function> function = function_of(*e, body);
  if (!function) return;
  const DType type = tensor(function->root).type.dtype;
  const int64_t lowest = type == DType::kI8 ? -128 : 0;
  bool same = type == e->body->type;
  for (int64_t i = 0; i < 256; ++i) same &= function->values[static_cast<size_t>(i)] == lowest + i;
  const ScalarRef root = scalar_read(function->root, type, function->indices);
  if (same) {
    e->body = root;
    return;
  }
  if (function->cost >= kWorthTable) {
    const DType made = e->body->type;
    HostTensor table(made, {256});
    for (int64_t i = 0; i < 256; ++i) table.set_int(i, function->values[static_cast<size_t>(i)]);
    const TensorId t =
        new_tensors_.add(tensor(e->output).name + "_table", {made, {256}}, Tensor::Kind::kConstant);
    program_.tensors.back().value = std::move(table);
    made_by_.push_back(-1);
    ScalarRef place = scalar_convert(root, DType::kI32);
    if (lowest != 0) {
      const ScalarRef first = scalar_constant(int_value(DType::kI32, -lowest));
      place = scalar_apply(ScalarOp::kAdd, {place, first}, DType::kI32);
    }
    e->body = scalar_read(t, made, {IndexExpr::var(kRuntimeIndexBase)}, {place});
  }
  functions_.emplace(e->output, std::move(*function));
}

}  // namespace

bool read_bytes(TensorProgram& program) { return ReadBytes(program).run(); }

}  // namespace weft
