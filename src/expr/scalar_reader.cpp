#include "expr/scalar_reader.h"

#include "fmt/format.h"
#include "graph/graph_text.h"
#include "index/index_text.h"

namespace weft {
namespace {

constexpr int kMaxDepth = 200;

struct Operator {
  std::string_view text;
  int binding;
  ScalarOp op;
};

/// Longer texts first where one begins another.
constexpr Operator kOperators[] = {
    {"||", 1, ScalarOp::kOr}, {"&&", 2, ScalarOp::kAnd}, {"==", 3, ScalarOp::kEq},
    {"!=", 3, ScalarOp::kNe}, {"<=", 3, ScalarOp::kLe},  {">=", 3, ScalarOp::kGe},
    {"<", 3, ScalarOp::kLt},  {">", 3, ScalarOp::kGt},   {"+", 4, ScalarOp::kAdd},
    {"-", 4, ScalarOp::kSub}, {"*", 5, ScalarOp::kMul},  {"/", 5, ScalarOp::kDiv},
};
constexpr int kTightest = 5;

bool begins_number(char c) { return (c >= '0' && c <= '9') || c == '-'; }

}  // namespace

ScalarReader::Read ScalarReader::select(int depth) {
  if (depth > kMaxDepth) return cursor_.error("the expression is nested too deeply");
  WEFT_ASSIGN_OR_RETURN(ScalarRef first, binary(1, depth));
  if (!cursor_.take("?")) return first;
  WEFT_ASSIGN_OR_RETURN(ScalarRef then, binary(1, depth + 1));
  WEFT_RETURN_IF_ERROR(cursor_.expect(":"));
  WEFT_ASSIGN_OR_RETURN(ScalarRef other, select(depth + 1));
  return apply(ScalarOp::kSelect, {std::move(first), std::move(then), std::move(other)});
}

ScalarReader::Read ScalarReader::binary(int binding, int depth) {
  if (binding > kTightest) return atom(depth);
  WEFT_ASSIGN_OR_RETURN(ScalarRef value, binary(binding + 1, depth));
  while (true) {
    const Operator* found = nullptr;
    for (const Operator& o : kOperators) {
      if (found == nullptr && o.binding == binding && cursor_.take(o.text)) found = &o;
    }
    if (found == nullptr) return value;
    WEFT_ASSIGN_OR_RETURN(ScalarRef rhs, binary(binding + 1, depth));
    const bool logical = binding <= 2;
    if (logical && value->type != DType::kBool) {
      return cursor_.error(fmt::format("`{}` takes bool", found->text));
    }
    WEFT_ASSIGN_OR_RETURN(value, apply(found->op, {value, std::move(rhs)}));
  }
}

ScalarReader::Read ScalarReader::atom(int depth) {
  if (depth > kMaxDepth) return cursor_.error("the expression is nested too deeply");
  const char c = cursor_.peek();
  if (begins_number(c)) return constant(DType::kF32);
  if (cursor_.take("(")) {
    WEFT_ASSIGN_OR_RETURN(ScalarRef value, select(depth + 1));
    WEFT_RETURN_IF_ERROR(cursor_.expect(")"));
    return value;
  }
  const size_t begin = cursor_.position();
  WEFT_ASSIGN_OR_RETURN(const std::string name, cursor_.name());
  const char next = cursor_.peek();
  if (next == '[') return tensor_read(name, depth);
  if (c != '"' && next == '(') return call(name, depth);
  cursor_.move_to(begin);
  const bool boolean = name == "true" || name == "false";
  if (boolean || name == "nan" || name == "inf") {
    return constant(boolean ? DType::kBool : DType::kF32);
  }
  return cursor_.error(fmt::format("`{}` is neither read nor called", name));
}

ScalarReader::Read ScalarReader::constant(DType type) {
  const std::string_view text = cursor_.element();
  HostTensor one(type, {});
  if (!parse_element(text, one, 0)) {
    return cursor_.error(fmt::format("`{}` is no {}", text, dtype_name(type)));
  }
  return scalar_constant(is_float(type) ? float_value(type, one.at_double(0))
                                        : int_value(type, one.at_int(0)));
}

/// `i64(d0 + 1)` is an index, `i64(3)` a constant, `i64(x[d0])` a conversion.
ScalarReader::Read ScalarReader::typed(DType type, int depth) {
  const size_t begin = cursor_.position();
  Result<IndexExpr> index_value = index(nullptr, depth + 1);
  if (index_value.ok() && !index_value->is_const() && cursor_.take(")")) {
    return scalar_index(std::move(*index_value), type);
  }
  cursor_.move_to(begin);
  const std::string_view word = cursor_.peek_bare_name();
  if (begins_number(cursor_.peek()) || word == "nan" || word == "inf") {
    Read value = constant(type);
    if (value.ok() && cursor_.take(")")) return value;
    cursor_.move_to(begin);
  }
  WEFT_ASSIGN_OR_RETURN(ScalarRef value, select(depth + 1));
  WEFT_RETURN_IF_ERROR(cursor_.expect(")"));
  return scalar_convert(value, type);
}

ScalarReader::Read ScalarReader::call(const std::string& name, int depth) {
  WEFT_RETURN_IF_ERROR(cursor_.expect("("));
  if (const std::optional<DType> type = parse_dtype(name)) return typed(*type, depth);
  std::vector<ScalarRef> operands;
  do {
    WEFT_ASSIGN_OR_RETURN(ScalarRef operand, select(depth + 1));
    operands.push_back(std::move(operand));
  } while (cursor_.take(","));
  WEFT_RETURN_IF_ERROR(cursor_.expect(")"));
  if (name.starts_with("bitcast_")) {
    const std::optional<DType> type = parse_dtype(name.substr(8));
    if (!type) return cursor_.error(fmt::format("there is no function `{}`", name));
    return apply(ScalarOp::kBitcast, std::move(operands), type);
  }
  const std::optional<ScalarOp> op = parse_scalar_op(name);
  const bool written_otherwise = op == ScalarOp::kConvert || op == ScalarOp::kBitcast;
  if (!op || written_otherwise)
    return cursor_.error(fmt::format("there is no function `{}`", name));
  return apply(*op, std::move(operands));
}

ScalarReader::Read ScalarReader::apply(ScalarOp op, std::vector<ScalarRef> operands,
                                       std::optional<DType> type) {
  const size_t first = op == ScalarOp::kSelect ? 1 : 0;
  if (operands.size() <= first) return cursor_.error("operands are missing");
  const DType result = scalar_op_is_predicate(op) ? DType::kBool : operands[first]->type;
  const std::string mismatch = operation_mismatch(op, operands, type.value_or(result));
  if (!mismatch.empty()) return cursor_.error(mismatch);
  return scalar_apply(op, std::move(operands), type.value_or(result));
}

ScalarReader::Read ScalarReader::tensor_read(const std::string& name, int depth) {
  const std::optional<Symbol> symbol = names_.symbol(name);
  if (!symbol) return cursor_.error(fmt::format("`{}` is not defined", name));
  WEFT_RETURN_IF_ERROR(cursor_.expect("["));
  std::vector<IndexExpr> indices;
  std::vector<ScalarRef> runtime;
  if (!cursor_.take("]")) {
    do {
      WEFT_ASSIGN_OR_RETURN(IndexExpr at, index(&runtime, depth + 1));
      indices.push_back(std::move(at));
    } while (cursor_.take(","));
    WEFT_RETURN_IF_ERROR(cursor_.expect("]"));
  }
  if (indices.size() != symbol->rank) {
    return cursor_.error(fmt::format("`{}` has {} axes", name, symbol->rank));
  }
  ScalarRef fill;
  if (cursor_.take("fill")) {
    WEFT_ASSIGN_OR_RETURN(fill, atom(depth + 1));
    if (fill->type != symbol->type) return cursor_.error("the fill has another type");
  }
  return scalar_read(symbol->id, symbol->type, std::move(indices), std::move(runtime),
                     std::move(fill));
}

/// An index over the caller's variables; reads and `{scalar}` in it are runtime indices.
Result<IndexExpr> ScalarReader::index(std::vector<ScalarRef>* runtime, int depth) {
  if (depth > kMaxDepth) return cursor_.error("the expression is nested too deeply");
  const auto leaf = [&](IndexTextReader& reader) -> Result<IndexExpr> {
    cursor_.move_to(reader.position);
    const std::string_view word = cursor_.peek_bare_name();
    if (!word.empty()) {
      const size_t begin = cursor_.position();
      cursor_.move_to(begin + word.size());
      const bool is_read = cursor_.peek() == '[';
      const std::optional<int> id = is_read ? std::nullopt : names_.var(word);
      if (id) {
        reader.position = begin + word.size();
        return IndexExpr::var(*id);
      }
      cursor_.move_to(begin);
    }
    if (runtime == nullptr) return cursor_.error("an index variable is expected");
    const bool braces = cursor_.take("{");
    Read operand = braces ? select(depth + 1) : atom(depth + 1);
    if (!operand.ok()) return operand.take_error();
    if (braces) WEFT_RETURN_IF_ERROR(cursor_.expect("}"));
    if (!is_integer((*operand)->type)) return cursor_.error("a runtime index is an integer");
    reader.position = cursor_.position();
    runtime->push_back(std::move(*operand));
    return IndexExpr::var(kRuntimeIndexBase + static_cast<int>(runtime->size()) - 1);
  };
  IndexTextReader reader(cursor_.text(), cursor_.position(), leaf);
  Result<IndexExpr> value = reader.read(depth);
  cursor_.move_to(reader.position);
  if (value.ok()) return value;
  const std::string& message = value.error().message;
  return message.starts_with("character ") ? cursor_.error(message.substr(message.find(": ") + 2))
                                           : value.take_error();
}

}  // namespace weft
