#include "expr/scalar_expr.h"
#include "fmt/format.h"
#include "graph/graph_text.h"

namespace weft {
namespace {

/// How strongly an operator binds: 0 `?:`, 1 `||`, 2 `&&`, 3 comparison, 4 sum, 5 product, 6 atom.
struct Infix {
  std::string_view text;
  int binding;
};

bool infix_of(const Scalar& s, Infix* infix) {
  const bool logical = s.type == DType::kBool;
  switch (s.op) {
    case ScalarOp::kAdd:
      return *infix = {" + ", 4}, true;
    case ScalarOp::kSub:
      return *infix = {" - ", 4}, true;
    case ScalarOp::kMul:
      return *infix = {" * ", 5}, true;
    case ScalarOp::kDiv:
      return *infix = {" / ", 5}, true;
    case ScalarOp::kEq:
      return *infix = {" == ", 3}, true;
    case ScalarOp::kNe:
      return *infix = {" != ", 3}, true;
    case ScalarOp::kLt:
      return *infix = {" < ", 3}, true;
    case ScalarOp::kLe:
      return *infix = {" <= ", 3}, true;
    case ScalarOp::kGt:
      return *infix = {" > ", 3}, true;
    case ScalarOp::kGe:
      return *infix = {" >= ", 3}, true;
    case ScalarOp::kAnd:
      return logical && (*infix = {" && ", 2}, true);
    case ScalarOp::kOr:
      return logical && (*infix = {" || ", 1}, true);
    default:
      return false;
  }
}

/// The shortest text that reads back as the same bits; floats always look like ones.
std::string constant_text(const ScalarValue& v) {
  HostTensor one(v.type, {});
  if (is_float(v.type)) {
    one.set_double(0, v.f);
  } else {
    one.set_int(0, v.i);
  }
  std::string text = print_element(one, 0);
  if (is_float(v.type) && text.find_first_of(".enx") == std::string::npos) text += ".0";
  return text;
}

class ScalarPrinter {
 public:
  explicit ScalarPrinter(const ScalarNames& names) : names_(names) {}

  std::string print(const ScalarRef& s, int needed) const {
    int binding = 6;
    std::string text = print_node(*s, &binding);
    return binding < needed ? "(" + text + ")" : text;
  }

 private:
  std::string print_node(const Scalar& s, int* binding) const {
    switch (s.kind) {
      case Scalar::Kind::kConstant:
        return constant(s.value);
      case Scalar::Kind::kIndex:
        return fmt::format("{}({})", dtype_name(s.type), weft::print(s.index, names_.var));
      case Scalar::Kind::kRead:
        *binding = s.fill ? 5 : 6;
        return read(s);
      case Scalar::Kind::kApply:
        break;
    }
    if (s.op == ScalarOp::kSelect) {
      *binding = 0;
      return print(s.operands[0], 1) + " ? " + print(s.operands[1], 1) + " : " +
             print(s.operands[2], 0);
    }
    Infix infix{};
    if (infix_of(s, &infix)) {
      *binding = infix.binding;
      // Comparisons do not chain; the others group to the left.
      const int left = infix.binding == 3 ? 4 : infix.binding;
      return print(s.operands[0], left) + std::string(infix.text) +
             print(s.operands[1], infix.binding + 1);
    }
    return call(s);
  }

  std::string constant(const ScalarValue& v) const {
    std::string digits = constant_text(v);
    if (v.type == DType::kBool) return digits;
    return v.type == DType::kF32 ? digits : fmt::format("{}({})", dtype_name(v.type), digits);
  }

  std::string call(const Scalar& s) const {
    std::string text = s.op == ScalarOp::kConvert   ? std::string(dtype_name(s.type))
                       : s.op == ScalarOp::kBitcast ? "bitcast_" + std::string(dtype_name(s.type))
                                                    : std::string(scalar_op_name(s.op));
    text += "(";
    for (size_t i = 0; i < s.operands.size(); ++i) {
      text += (i > 0 ? ", " : "") + print(s.operands[i], 0);
    }
    return text + ")";
  }

  std::string read(const Scalar& s) const {
    const auto variable = [&](int id) -> std::string {
      if (id < kRuntimeIndexBase) return names_.var ? names_.var(id) : fmt::format("v{}", id);
      return runtime(s.operands[static_cast<size_t>(id - kRuntimeIndexBase)]);
    };
    std::string text = names_.symbol ? names_.symbol(s.symbol) : fmt::format("t{}", s.symbol);
    if (s.next) text += "'";
    text += "[";
    for (size_t a = 0; a < s.indices.size(); ++a) {
      text += (a > 0 ? ", " : "") + weft::print(s.indices[a], variable);
    }
    text += "]";
    if (s.fill) text += " fill " + print(s.fill, 6);
    return text;
  }

  /// A read stands as it is; anything longer in braces.
  std::string runtime(const ScalarRef& operand) const {
    const bool plain = operand->kind == Scalar::Kind::kRead && !operand->fill;
    return plain ? print(operand, 6) : "{" + print(operand, 0) + "}";
  }

  const ScalarNames& names_;
};

}  // namespace

std::string print(const ScalarRef& s, const ScalarNames& names) {
  return ScalarPrinter(names).print(s, 0);
}

}  // namespace weft
