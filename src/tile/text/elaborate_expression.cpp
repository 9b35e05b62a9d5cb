#include <array>
#include <cmath>
#include <map>

#include "fmt/format.h"
#include "tile/text/expression_syntax.h"

namespace weft {
namespace {

using Kind = SyntaxExpr::Kind;

const std::map<std::string_view, ScalarOp>& operators() {
  static const std::map<std::string_view, ScalarOp> kTable = {
      {"+", ScalarOp::kAdd}, {"-", ScalarOp::kSub}, {"*", ScalarOp::kMul},   {"/", ScalarOp::kDiv},
      {"%", ScalarOp::kRem}, {"<", ScalarOp::kLt},  {"<=", ScalarOp::kLe},   {">", ScalarOp::kGt},
      {">=", ScalarOp::kGe}, {"==", ScalarOp::kEq}, {"!=", ScalarOp::kNe},   {"&&", ScalarOp::kAnd},
      {"||", ScalarOp::kOr}, {"!", ScalarOp::kNot}, {"?", ScalarOp::kSelect}};
  return kTable;
}

bool is_literal(const SyntaxExpr& s) { return s.kind == Kind::kInteger || s.kind == Kind::kReal; }

class Elaborator {
 public:
  explicit Elaborator(NameScope& names) : names_(names) {}

  Result<ScalarRef> scalar(const SyntaxRef& s, std::optional<DType> expected) {
    if (is_index(*s)) {
      WEFT_ASSIGN_OR_RETURN(IndexExpr index, this->index(s, nullptr));
      return scalar_index(index);
    }
    switch (s->kind) {
      case Kind::kInteger:
      case Kind::kReal:
        return literal(*s, expected);
      case Kind::kBool:
        return scalar_constant(int_value(DType::kBool, s->integer));
      case Kind::kName:
        return read(*s);
      case Kind::kOffset:
        return error(
            *s, fmt::format("`.{}` is not an offset: no loop with a step has that name", s->name));
      case Kind::kCall:
        return call(*s, expected);
    }
    return error(*s, "an expression is missing");
  }

  Result<IndexExpr> index(const SyntaxRef& s, std::vector<ScalarRef>* runtime) {
    switch (s->kind) {
      case Kind::kInteger:
        return IndexExpr(s->integer);
      case Kind::kName: {
        const NameScope::Meaning meaning = names_.lookup(s->name);
        if (meaning.kind == NameScope::Meaning::Kind::kIndex && !s->has_indices) {
          return meaning.index;
        }
        return runtime_index(s, runtime);
      }
      case Kind::kOffset: {
        const NameScope::Meaning meaning = names_.lookup(s->name);
        if (meaning.kind != NameScope::Meaning::Kind::kIndex || meaning.offset < 0) {
          return error(
              *s, fmt::format("`.{}`: no loop with a step above 1 has that name here", s->name));
        }
        return IndexExpr::var(meaning.offset);
      }
      case Kind::kCall:
        return index_call(s, runtime);
      default:
        return error(*s, "an index is made of integers");
    }
  }

 private:
  Error error(const SyntaxExpr& at, std::string_view what) const {
    return invalid_input(fmt::format("{}:{}: {}", at.line, at.column, what));
  }

  /// Whether the tree is arithmetic of index variables and integers, with a variable in it.
  bool is_index(const SyntaxExpr& s) {
    bool has_var = false;
    return index_shaped(s, &has_var) && has_var;
  }
  bool index_shaped(const SyntaxExpr& s, bool* has_var) {
    switch (s.kind) {
      case Kind::kInteger:
        return !s.type.has_value() || *s.type == DType::kI64;
      case Kind::kOffset:
        *has_var = true;
        return names_.lookup(s.name).offset >= 0;
      case Kind::kName:
        *has_var = true;
        return !s.has_indices && names_.lookup(s.name).kind == NameScope::Meaning::Kind::kIndex;
      case Kind::kCall: {
        static constexpr std::array<std::string_view, 7> kOps = {"+", "-",   "*",  "/",
                                                                 "%", "min", "max"};
        bool known = false;
        for (const auto op : kOps) known = known || op == s.name;
        if (!known) return false;
        for (const SyntaxRef& a : s.arguments) {
          if (!index_shaped(*a, has_var)) return false;
        }
        const bool divides = s.name == "/" || s.name == "%";
        return !divides || (s.arguments[1]->kind == Kind::kInteger && s.arguments[1]->integer > 0);
      }
      default:
        return false;
    }
  }

  Result<IndexExpr> index_call(const SyntaxRef& s, std::vector<ScalarRef>* runtime) {
    if (const auto type = parse_dtype(s->name); type.has_value()) {
      if (s->arguments.size() == 1 && is_index(*s->arguments[0]) && *type == DType::kI64) {
        return index(s->arguments[0], runtime);
      }
      return runtime_index(s, runtime);
    }
    const std::string_view op = s->name;
    const bool known =
        op == "+" || op == "-" || op == "*" || op == "/" || op == "%" || op == "min" || op == "max";
    if (!known) return runtime_index(s, runtime);
    if (s->arguments.empty() || s->arguments.size() > 2) {
      return error(*s, fmt::format("`{}` takes two arguments", op));
    }
    WEFT_ASSIGN_OR_RETURN(IndexExpr lhs, index(s->arguments[0], runtime));
    if (s->arguments.size() == 1) {
      if (op != "-") return error(*s, fmt::format("`{}` takes two arguments", op));
      return lhs * -1;
    }
    WEFT_ASSIGN_OR_RETURN(IndexExpr rhs, index(s->arguments[1], runtime));
    const double size =
        op == "*" ? magnitude(lhs) * magnitude(rhs) : magnitude(lhs) + magnitude(rhs);
    if (size > kLargestIndex) return error(*s, "the numbers of this index grow beyond 2^50");
    if (op == "+") return lhs + rhs;
    if (op == "-") return lhs - rhs;
    if (op == "*") return lhs * rhs;
    if (op == "min") return min(lhs, rhs);
    if (op == "max") return max(lhs, rhs);
    if (!rhs.is_const() || rhs.constant() <= 0) {
      return error(*s, "an index is divided by a positive constant only");
    }
    return op == "/" ? floor_div(lhs, rhs.constant()) : mod(lhs, rhs.constant());
  }
  /// A bound on every coefficient and constant that folding can make of `e`: a text must not make
  /// index arithmetic overflow, which is a check against ourselves.
  static double magnitude(const IndexExpr& e) {
    switch (e.op()) {
      case IndexOp::kConst:
        return std::abs(static_cast<double>(e.constant()));
      case IndexOp::kVar:
        return 1;
      case IndexOp::kMul:
        return magnitude(e.lhs()) * magnitude(e.rhs());
      default:
        return magnitude(e.lhs()) + magnitude(e.rhs());
    }
  }
  static constexpr double kLargestIndex = 1.2e15;

  Result<IndexExpr> runtime_index(const SyntaxRef& s, std::vector<ScalarRef>* runtime) {
    if (runtime == nullptr) {
      if (s->kind == Kind::kName &&
          names_.lookup(s->name).kind == NameScope::Meaning::Kind::kUnknown) {
        return error(*s, fmt::format("`{}` is not defined", s->name));
      }
      return error(*s, "only loops, axes, sizes and integers may stand here");
    }
    WEFT_ASSIGN_OR_RETURN(ScalarRef value, scalar(s, DType::kI64));
    if (!is_integer(value->type)) {
      return error(*s,
                   fmt::format("an index must be an integer, this is {}", dtype_name(value->type)));
    }
    runtime->push_back(value);
    return IndexExpr::var(kRuntimeIndexBase + static_cast<int>(runtime->size()) - 1);
  }

  /// The type that the text itself gives, literals aside.
  std::optional<DType> natural(const SyntaxExpr& s) {
    switch (s.kind) {
      case Kind::kInteger:
      case Kind::kReal:
        return s.type;
      case Kind::kBool:
        return DType::kBool;
      case Kind::kOffset:
        return DType::kI64;
      case Kind::kName: {
        const NameScope::Meaning meaning = names_.lookup(s.name);
        if (meaning.kind == NameScope::Meaning::Kind::kIndex) return DType::kI64;
        if (meaning.kind == NameScope::Meaning::Kind::kSymbol) {
          return names_.program().symbols[static_cast<size_t>(meaning.symbol)].type;
        }
        return std::nullopt;
      }
      case Kind::kCall:
        break;
    }
    if (const auto type = parse_dtype(s.name)) return type;
    if (s.name.starts_with("bitcast_")) return parse_dtype(s.name.substr(8));
    const auto op = operation(s.name);
    if (op.has_value() && (scalar_op_is_comparison(*op) || s.name == "&&" || s.name == "||" ||
                           s.name == "!" || *op == ScalarOp::kIsNan || *op == ScalarOp::kIsInf)) {
      return DType::kBool;
    }
    const size_t first = op == ScalarOp::kSelect ? 1 : 0;
    for (size_t i = first; i < s.arguments.size(); ++i) {
      if (const auto type = natural(*s.arguments[i])) return type;
    }
    return std::nullopt;
  }

  static std::optional<ScalarOp> operation(std::string_view name) {
    const auto found = operators().find(name);
    if (found != operators().end()) return found->second;
    return parse_scalar_op(name);
  }

  Result<ScalarRef> literal(const SyntaxExpr& s, std::optional<DType> expected) {
    const DType type = s.type.value_or(expected.value_or(DType::kF32));
    if (is_float(type)) {
      const double value = s.kind == Kind::kInteger ? static_cast<double>(s.integer) : s.real;
      return scalar_constant(float_value(type, value));
    }
    if (s.kind == Kind::kReal) {
      return error(s, fmt::format("a real number where {} is needed", dtype_name(type)));
    }
    return scalar_constant(int_value(type, s.integer));
  }

  Result<ScalarRef> read(const SyntaxExpr& s) {
    const NameScope::Meaning meaning = names_.lookup(s.name);
    if (meaning.kind == NameScope::Meaning::Kind::kIndex) {
      return error(s, fmt::format("`{}` is an index and has no elements", s.name));
    }
    if (meaning.kind == NameScope::Meaning::Kind::kUnknown) {
      return error(s, fmt::format("`{}` is not defined", s.name));
    }
    const TileSymbol& symbol = names_.program().symbols[static_cast<size_t>(meaning.symbol)];
    if (s.next && symbol.kind != TileSymbol::Kind::kCarry) {
      return error(s, fmt::format("`{}` is not carried by a loop: it has no next value", s.name));
    }
    std::vector<IndexExpr> indices;
    std::vector<ScalarRef> runtime;
    for (const SyntaxRef& argument : s.arguments) {
      WEFT_ASSIGN_OR_RETURN(IndexExpr index, this->index(argument, &runtime));
      indices.push_back(index);
    }
    ScalarRef fill;
    if (s.fill) {
      WEFT_ASSIGN_OR_RETURN(fill, scalar(s.fill, symbol.type));
      if (fill->type != symbol.type) {
        return error(s, fmt::format("fill of {} is {}", s.name, dtype_name(fill->type)));
      }
    }
    ScalarRef result = scalar_read(meaning.symbol, symbol.type, indices, runtime, fill);
    if (s.next) {
      Scalar next = *result;
      next.next = true;
      result = std::make_shared<const Scalar>(std::move(next));
    }
    return result;
  }

  Result<ScalarRef> call(const SyntaxExpr& s, std::optional<DType> expected) {
    if (const auto type = parse_dtype(s.name)) {
      if (s.arguments.size() != 1) return error(s, "a conversion takes one argument");
      if (is_index(*s.arguments[0])) {
        WEFT_ASSIGN_OR_RETURN(IndexExpr index, this->index(s.arguments[0], nullptr));
        return scalar_index(index, *type);
      }
      WEFT_ASSIGN_OR_RETURN(ScalarRef operand, scalar(s.arguments[0], std::nullopt));
      return scalar_convert(operand, *type);
    }
    if (s.name.starts_with("bitcast_")) return bitcast(s);
    if (s.name == "-" && s.arguments.size() == 1) return negate(s, expected);
    const bool composite =
        s.name == "gelu" || s.name == "swish" || s.name == "relu" || s.name == "f";
    const auto op = operation(s.name);
    if (!op.has_value() && !composite) {
      return error(s, fmt::format("there is no function `{}`", s.name));
    }
    const size_t arity = composite ? 1 : static_cast<size_t>(scalar_op_arity(*op));
    if (s.arguments.size() != arity) {
      return error(s, fmt::format("`{}` takes {} argument{}, here are {}", s.name, arity,
                                  arity == 1 ? "" : "s", s.arguments.size()));
    }
    if (op == ScalarOp::kConvert || op == ScalarOp::kBitcast) {
      return error(s, "a conversion is written with its type: i64(x), bitcast_i32(x)");
    }
    const bool logical = s.name == "&&" || s.name == "||" || s.name == "!";
    std::optional<DType> type;
    for (size_t i = op == ScalarOp::kSelect ? 1 : 0; i < arity && !type; ++i) {
      type = natural(*s.arguments[i]);
    }
    const bool from_outside = op.has_value() && !scalar_op_is_comparison(*op);
    if (!type) type = logical ? DType::kBool : (from_outside || composite) ? expected : type;
    std::vector<ScalarRef> operands;
    for (size_t i = 0; i < arity; ++i) {
      const bool condition = op == ScalarOp::kSelect && i == 0;
      WEFT_ASSIGN_OR_RETURN(
          ScalarRef operand,
          scalar(s.arguments[i], condition ? DType::kBool : type.value_or(DType::kF32)));
      operands.push_back(operand);
    }
    if (composite) return write_out(s, operands[0]);
    return apply(s, *op, std::move(operands), logical);
  }

  Result<ScalarRef> apply(const SyntaxExpr& s, ScalarOp op, std::vector<ScalarRef> operands,
                          bool logical) {
    const size_t first = op == ScalarOp::kSelect ? 1 : 0;
    const DType type = operands[first]->type;
    for (size_t i = first + 1; i < operands.size(); ++i) {
      if (operands[i]->type != type) {
        return error(s, fmt::format("operands of `{}` are {} and {}", s.name, dtype_name(type),
                                    dtype_name(operands[i]->type)));
      }
    }
    if (first == 1 && operands[0]->type != DType::kBool) {
      return error(s, fmt::format("the condition of `?` is {}", dtype_name(operands[0]->type)));
    }
    if (logical && type != DType::kBool) {
      return error(s, fmt::format("operands of `{}` are {}, not bool", s.name, dtype_name(type)));
    }
    const bool boolean =
        scalar_op_is_comparison(op) || op == ScalarOp::kIsNan || op == ScalarOp::kIsInf;
    return scalar_apply(op, std::move(operands), boolean ? DType::kBool : type);
  }

  Result<ScalarRef> bitcast(const SyntaxExpr& s) {
    const auto type = parse_dtype(s.name.substr(8));
    if (!type || s.arguments.size() != 1) {
      return error(
          s, fmt::format("there is no function `{}` of {} arguments", s.name, s.arguments.size()));
    }
    WEFT_ASSIGN_OR_RETURN(ScalarRef operand, scalar(s.arguments[0], std::nullopt));
    if (byte_size(*type) != byte_size(operand->type)) {
      return error(
          s, fmt::format("{} and {} differ in size", dtype_name(operand->type), dtype_name(*type)));
    }
    return scalar_apply(ScalarOp::kBitcast, {operand}, *type);
  }

  Result<ScalarRef> negate(const SyntaxExpr& s, std::optional<DType> expected) {
    if (is_literal(*s.arguments[0])) {
      SyntaxExpr literal_syntax = *s.arguments[0];
      literal_syntax.integer = -literal_syntax.integer;
      literal_syntax.real = -literal_syntax.real;
      return literal(literal_syntax, expected);
    }
    WEFT_ASSIGN_OR_RETURN(ScalarRef operand, scalar(s.arguments[0], expected));
    return scalar_apply(ScalarOp::kNeg, {operand}, operand->type);
  }

  Result<ScalarRef> write_out(const SyntaxExpr& s, const ScalarRef& x) {
    const DType type = x->type;
    if (!is_float(type)) return error(s, fmt::format("`{}` takes a real number", s.name));
    const auto constant = [&](double v) { return scalar_constant(float_value(type, v)); };
    const auto apply_op = [&](ScalarOp op, std::vector<ScalarRef> operands) {
      return scalar_apply(op, std::move(operands), type);
    };
    if (s.name == "f") return apply_op(ScalarOp::kTanh, {x});
    if (s.name == "relu") return apply_op(ScalarOp::kMax, {x, constant(0)});
    if (s.name == "swish") {
      return apply_op(ScalarOp::kMul, {x, apply_op(ScalarOp::kSigmoid, {x})});
    }
    const ScalarRef scaled = apply_op(ScalarOp::kMul, {x, constant(std::sqrt(0.5))});
    const ScalarRef shifted =
        apply_op(ScalarOp::kAdd, {apply_op(ScalarOp::kErf, {scaled}), constant(1)});
    const ScalarRef half = apply_op(ScalarOp::kMul, {x, constant(0.5)});
    return apply_op(ScalarOp::kMul, {half, shifted});
  }

  NameScope& names_;
};

}  // namespace

Result<ScalarRef> elaborate_scalar(const SyntaxRef& syntax, std::optional<DType> expected,
                                   NameScope& names) {
  return Elaborator(names).scalar(syntax, expected);
}

Result<IndexExpr> elaborate_index(const SyntaxRef& syntax, NameScope& names,
                                  std::vector<ScalarRef>* runtime) {
  return Elaborator(names).index(syntax, runtime);
}

}  // namespace weft
