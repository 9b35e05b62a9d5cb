#include "expr/products/weight_sources.h"

#include <functional>

namespace weft {

namespace {

/// Smaller constants are not worth it.
constexpr int64_t kFewest = int64_t{1} << 12;

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

}  // namespace

WeightSources::WeightSources(const TensorProgram& program)
    : program_(program), made_by_(program.tensors.size(), -1) {
  for (size_t x = 0; x < program.exprs.size(); ++x)
    made_by_[static_cast<size_t>(program.exprs[x].output)] = static_cast<int>(x);
}

WeightSources::Source WeightSources::source_of(TensorId t, int depth) const {
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
ScalarRef WeightSources::decoded(const Scalar& read) const {
  const Tensor& t = tensor(read.symbol);
  if (t.kind != Tensor::Kind::kIntermediate || !read.operands.empty() || read.fill) return nullptr;
  const std::optional<int64_t> bytes = checked_byte_size(t.type.dtype, t.type.shape);
  const Source source = source_of(read.symbol, 0);
  if (!source.constant || !bytes || *bytes < kFewest) return nullptr;
  return program_.exprs[static_cast<size_t>(made_by_[static_cast<size_t>(read.symbol)])].body;
}

bool WeightSources::reads_decoded(const TensorExpr& e) const {
  bool found = false;
  visit(e.body,
        [&](const Scalar& s) { found |= s.kind == Scalar::Kind::kRead && decoded(s) != nullptr; });
  return found;
}

/// Whether it is a sum of float32 whose weights are to be decoded.
bool WeightSources::decodes(const TensorExpr& e) const {
  if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32)
    return false;
  bool found = false;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || decoded(s) == nullptr) return;
    const Source source = source_of(s.symbol, 0);
    const Tensor& t = tensor(s.symbol);
    found |= source.of_bytes && source.bytes < *checked_byte_size(t.type.dtype, t.type.shape);
  });
  return found;
}

std::set<TensorId> WeightSources::tensors() const {
  std::set<TensorId> out;
  const std::function<void(const TensorExpr&)> collect = [&](const TensorExpr& e) {
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || decoded(s) == nullptr || !out.insert(s.symbol).second)
        return;
      collect(program_.exprs[static_cast<size_t>(made_by_[static_cast<size_t>(s.symbol)])]);
    });
  };
  for (const TensorExpr& e : program_.exprs) {
    if (decodes(e)) collect(e);
  }
  return out;
}

}  // namespace weft
