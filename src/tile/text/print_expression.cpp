#include <algorithm>
#include <charconv>
#include <cmath>

#include "fmt/format.h"
#include "index/index_terms.h"
#include "tile/text/tile_printer.h"

namespace weft {

/// Levels of binding, as the parser has them: 0 `?:`, 1 `||`, 2 `&&`, 3 comparison, 4 sum, 5
/// product, 6 prefix, 7 atom.
struct TilePrinter::Piece {
  std::string text;
  int level = 7;

  std::string at(int needed) const { return level < needed ? "(" + text + ")" : text; }
};

std::string TilePrinter::index(const IndexExpr& e) const { return index_piece(e, nullptr).text; }

std::string TilePrinter::scalar(const ScalarRef& s, std::optional<DType> context) const {
  return scalar_piece(s, context).text;
}

std::string TilePrinter::subscripts(const std::vector<IndexExpr>& indices,
                                    const std::vector<ScalarRef>& runtime) const {
  if (indices.empty()) return "";
  std::string out = "[";
  for (size_t i = 0; i < indices.size(); ++i) {
    if (i > 0) out += ",";
    out += index_piece(indices[i], &runtime).text;
  }
  return out + "]";
}

TilePrinter::Piece TilePrinter::leaf_piece(int id, Runtime runtime) const {
  if (id >= kRuntimeIndexBase) {
    const ScalarRef& operand = (*runtime)[static_cast<size_t>(id - kRuntimeIndexBase)];
    const bool converted =
        operand->kind == Scalar::Kind::kApply && operand->op == ScalarOp::kConvert;
    if (operand->kind == Scalar::Kind::kRead || converted)
      return scalar_piece(operand, DType::kI64);
    return {"i64(" + scalar_piece(operand, DType::kI64).text + ")", 7};
  }
  const std::string& name = var(id);
  if (loop_of_offset_.count(id) != 0) return {"." + name, 7};
  if (loop_of_origin_.count(id) != 0) return {name + "-." + name, 4};
  return {name, 7};
}

TilePrinter::Piece TilePrinter::index_piece(const IndexExpr& e, Runtime runtime) const {
  switch (e.op()) {
    case IndexOp::kConst:
      return {std::to_string(e.constant()), e.constant() < 0 ? 6 : 7};
    case IndexOp::kVar:
      return leaf_piece(e.var_id(), runtime);
    case IndexOp::kAdd:
    case IndexOp::kMul:
      return sum_piece(e, runtime);
    case IndexOp::kFloorDiv:
    case IndexOp::kMod:
      return {index_piece(e.lhs(), runtime).at(5) + (e.op() == IndexOp::kMod ? "%" : "/") +
                  index_piece(e.rhs(), runtime).at(6),
              5};
    case IndexOp::kMin:
    case IndexOp::kMax:
      return {fmt::format("{}({}, {})", e.op() == IndexOp::kMin ? "min" : "max",
                          index_piece(e.lhs(), runtime).text, index_piece(e.rhs(), runtime).text),
              7};
  }
  return {};
}

namespace {

/// e = factor * rest.
void split_factor(const IndexExpr& e, int64_t* factor, IndexExpr* rest) {
  *factor = 1;
  *rest = e;
  if (e.op() != IndexOp::kMul) return;
  if (e.rhs().is_const()) {
    split_factor(e.lhs(), factor, rest);
    *factor *= e.rhs().constant();
  } else if (e.lhs().is_const()) {
    split_factor(e.rhs(), factor, rest);
    *factor *= e.lhs().constant();
  }
}

}  // namespace

/// Sums with the origin and the offset of a loop joined to its name: `i`, `2*i - .i`.
TilePrinter::Piece TilePrinter::sum_piece(const IndexExpr& e, Runtime runtime) const {
  std::vector<IndexExpr> terms = terms_of(e);
  struct Term {
    int64_t factor;
    IndexExpr rest;
    std::string name;  ///< of a loop's sum of origin and offset
  };
  std::vector<Term> parts;
  for (const IndexExpr& term : terms) {
    Term part{};
    if (term.is_const()) {
      part.factor = term.constant();
      part.rest = 1;
    } else {
      split_factor(term, &part.factor, &part.rest);
    }
    parts.push_back(part);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].rest.is_var()) continue;
    const auto loop = loop_of_origin_.find(parts[i].rest.var_id());
    if (loop == loop_of_origin_.end()) continue;
    parts[i].name = var(parts[i].rest.var_id());
    bool merged = false;
    for (Term& other : parts) {
      if (!other.rest.is_var() || other.rest.var_id() != loop->second) continue;
      other.factor -= parts[i].factor;
      merged = true;
    }
    if (!merged) parts.push_back({-parts[i].factor, IndexExpr::var(loop->second), {}});
  }
  // A sum begins with something positive where it has that.
  const auto positive = std::find_if(parts.begin(), parts.end(), [](const Term& t) {
    return t.factor > 0 && !t.rest.is_const(1);
  });
  if (positive != parts.end()) std::rotate(parts.begin(), positive, positive + 1);
  std::string out;
  int printed = 0;
  for (const Term& part : parts) {
    if (part.factor == 0) continue;
    const bool negative = part.factor < 0;
    const int64_t factor = std::abs(part.factor);
    const bool constant = part.rest.is_const(1);
    out += negative ? "-" : printed > 0 ? "+" : "";
    ++printed;
    if (constant) {
      out += std::to_string(factor);
      continue;
    }
    std::string text;
    if (!part.name.empty()) {
      text = part.name;
    } else if (part.rest.op() == IndexOp::kMul) {
      text = index_piece(part.rest.lhs(), runtime).at(5) + "*" +
             index_piece(part.rest.rhs(), runtime).at(6);
    } else {
      text = index_piece(part.rest, runtime).at(factor == 1 ? 5 : 6);
    }
    out += text;
    if (factor != 1) out += fmt::format("*{}", factor);
  }
  if (printed == 0) return {"0", 7};
  if (printed > 1) return {out, 4};
  if (out[0] == '-') return {out, 4};
  return {out, out.find('*') == std::string::npos && out.find('/') == std::string::npos &&
                       out.find('%') == std::string::npos
                   ? 7
                   : 5};
}

namespace {

std::string real_text(double value, bool single) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = single
                       ? std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(value))
                       : std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end.ptr);
  // `1e+20` is read as `1e+20`; a whole number gets its point.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string constant_text(const ScalarValue& value, std::optional<DType> context) {
  if (value.type == DType::kBool) return value.i != 0 ? "true" : "false";
  const bool plain = value.type == context.value_or(DType::kF32);
  std::string text;
  if (is_float(value.type)) {
    text = real_text(value.f, value.type != DType::kF64);
    if (std::signbit(value.f) && text[0] != '-' && !std::isnan(value.f)) text.insert(0, 1, '-');
  } else {
    text = std::to_string(value.i);
  }
  return plain ? text : fmt::format("{}:{}", text, dtype_name(value.type));
}

struct Infix {
  ScalarOp op;
  std::string_view text;
  int level;
};
constexpr Infix kInfix[] = {
    {ScalarOp::kOr, " || ", 1}, {ScalarOp::kAnd, " && ", 2}, {ScalarOp::kLt, " < ", 3},
    {ScalarOp::kLe, " <= ", 3}, {ScalarOp::kGt, " > ", 3},   {ScalarOp::kGe, " >= ", 3},
    {ScalarOp::kEq, " == ", 3}, {ScalarOp::kNe, " != ", 3},  {ScalarOp::kAdd, " + ", 4},
    {ScalarOp::kSub, " - ", 4}, {ScalarOp::kMul, "*", 5},    {ScalarOp::kDiv, "/", 5},
    {ScalarOp::kRem, "%", 5}};

/// Whether the parser would take it for a part of an index expression.
bool looks_like_index(const Scalar& s) {
  if (s.kind == Scalar::Kind::kIndex) return s.type == DType::kI64;
  return s.kind == Scalar::Kind::kConstant && s.type == DType::kI64;
}

}  // namespace

/// The type that the parser finds in the text of `s`; none for literals.
std::optional<DType> TilePrinter::natural(const Scalar& s) const {
  switch (s.kind) {
    case Scalar::Kind::kConstant:
      if (s.type == DType::kBool) return DType::kBool;
      return std::nullopt;
    case Scalar::Kind::kIndex:
    case Scalar::Kind::kRead:
      return s.type;
    case Scalar::Kind::kApply:
      break;
  }
  if (s.type == DType::kBool || s.op == ScalarOp::kConvert || s.op == ScalarOp::kBitcast) {
    return s.type;
  }
  for (size_t i = s.op == ScalarOp::kSelect ? 1 : 0; i < s.operands.size(); ++i) {
    if (const auto type = natural(*s.operands[i])) return type;
  }
  return std::nullopt;
}

TilePrinter::Piece TilePrinter::scalar_piece(const ScalarRef& s,
                                             std::optional<DType> context) const {
  switch (s->kind) {
    case Scalar::Kind::kConstant: {
      std::string text = constant_text(s->value, context);
      const int level = text[0] == '-' ? 6 : 7;
      return {std::move(text), level};
    }
    case Scalar::Kind::kIndex: {
      Piece piece = index_piece(s->index, nullptr);
      if (s->type != DType::kI64) {
        return {fmt::format("{}({})", dtype_name(s->type), piece.text), 7};
      }
      if (s->index.is_const()) return {fmt::format("{}:i64", piece.text), piece.level};
      return piece;
    }
    case Scalar::Kind::kRead:
      return read_piece(*s);
    case Scalar::Kind::kApply:
      return apply_piece(*s, context);
  }
  return {};
}

TilePrinter::Piece TilePrinter::read_piece(const Scalar& s) const {
  std::string out = symbol(s.symbol) + (s.next ? "'" : "") + subscripts(s.indices, s.operands);
  if (!s.fill) return {out, 7};
  // The fill is read as a prefix expression and may itself end in one.
  return {out + " fill " + scalar_piece(s.fill, s.type).at(6), 6};
}

TilePrinter::Piece TilePrinter::apply_piece(const Scalar& s, std::optional<DType> context) const {
  if (s.op == ScalarOp::kConvert || s.op == ScalarOp::kBitcast) {
    return {fmt::format("{}{}({})", s.op == ScalarOp::kBitcast ? "bitcast_" : "",
                        dtype_name(s.type), scalar_piece(s.operands[0], std::nullopt).text),
            7};
  }
  const bool logical = s.op == ScalarOp::kAnd || s.op == ScalarOp::kOr || s.op == ScalarOp::kNot;
  const bool on_bool = s.operands[0]->type == DType::kBool;
  std::optional<DType> inner;
  for (size_t i = s.op == ScalarOp::kSelect ? 1 : 0; i < s.operands.size() && !inner; ++i) {
    inner = natural(*s.operands[i]);
  }
  const bool takes_context = !scalar_op_is_comparison(s.op);
  if (!inner && takes_context) inner = context;
  if (!inner) inner = DType::kF32;

  if (s.op == ScalarOp::kSelect) {
    return {scalar_piece(s.operands[0], DType::kBool).at(1) + " ? " +
                scalar_piece(s.operands[1], inner).at(0) + " : " +
                scalar_piece(s.operands[2], inner).at(0),
            0};
  }
  if (s.op == ScalarOp::kNeg && s.operands[0]->kind != Scalar::Kind::kConstant &&
      !looks_like_index(*s.operands[0])) {
    return {"-" + scalar_piece(s.operands[0], inner).at(6), 6};
  }
  if (s.op == ScalarOp::kNot && on_bool) {
    return {"!" + scalar_piece(s.operands[0], DType::kBool).at(6), 6};
  }
  for (const Infix& infix : kInfix) {
    if (infix.op != s.op || (logical && !on_bool)) continue;
    // Arithmetic of indices would be read as one index expression.
    const bool folds =
        infix.level >= 4 && looks_like_index(*s.operands[0]) && looks_like_index(*s.operands[1]);
    if (folds) break;
    return {scalar_piece(s.operands[0], inner).at(infix.level) + std::string(infix.text) +
                scalar_piece(s.operands[1], inner).at(infix.level + 1),
            infix.level};
  }
  std::string out(scalar_op_name(s.op));
  out += "(";
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (i > 0) out += ", ";
    out += scalar_piece(s.operands[i], inner).text;
  }
  return {out + ")", 7};
}

}  // namespace weft
