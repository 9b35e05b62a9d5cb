#include "fmt/format.h"
#include "tile/text/expression_syntax.h"
#include "tile/text/tile_lexer.h"

namespace weft {
namespace {

constexpr int kDeepestExpression = 400;
constexpr int kDeepestTree = 1000;

class ExpressionParser {
 public:
  explicit ExpressionParser(TileTokens& tokens) : tokens_(tokens) {}

  // expr = or ["?" expr ":" expr]
  SyntaxRef parse_expression() {
    if (++depth_ > kDeepestExpression)
      tokens_.fail(tokens_.peek(), "the expression is nested too deeply");
    SyntaxRef result = parse_binary(0);
    if (!tokens_.failed() && tokens_.peek().is("?")) {
      const TileToken op = tokens_.take();
      SyntaxRef yes = parse_expression();
      tokens_.expect(":");
      SyntaxRef no = parse_expression();
      result = call_of(op, "?", {result, yes, no});
    }
    --depth_;
    return result;
  }

 private:
  std::shared_ptr<SyntaxExpr> node_at(const TileToken& at, SyntaxExpr::Kind kind) {
    auto node = std::make_shared<SyntaxExpr>();
    node->kind = kind;
    node->line = at.line;
    node->column = at.column;
    return node;
  }
  SyntaxRef call_of(const TileToken& op, std::string_view name, std::vector<SyntaxRef> arguments) {
    auto node = node_at(op, SyntaxExpr::Kind::kCall);
    node->name = name;
    node->arguments = std::move(arguments);
    check_depth(op, *node);
    return node;
  }
  /// What follows walks the tree recursively, and long chains of one operator nest as brackets do.
  void check_depth(const TileToken& at, SyntaxExpr& node) {
    for (const SyntaxRef& argument : node.arguments) {
      node.depth = std::max(node.depth, argument->depth + 1);
    }
    if (node.fill) node.depth = std::max(node.depth, node.fill->depth + 1);
    if (node.depth > kDeepestTree) tokens_.fail(at, "the expression is too deep");
  }

  /// Level of a binary operator, from the loosest; -1 for others.
  static int level_of(const TileToken& token) {
    if (token.kind != TileToken::Kind::kSymbol) return -1;
    const std::string_view s = token.text;
    if (s == "||") return 0;
    if (s == "&&") return 1;
    if (s == "<" || s == "<=" || s == ">" || s == ">=" || s == "==" || s == "!=") return 2;
    if (s == "+" || s == "-") return 3;
    if (s == "*" || s == "/" || s == "%") return 4;
    return -1;
  }

  /// Long chains of one level are folded in a loop, so that only brackets nest.
  SyntaxRef parse_binary(int level) {
    if (level > 4) return parse_unary();
    SyntaxRef lhs = parse_binary(level + 1);
    while (!tokens_.failed() && level_of(tokens_.peek()) == level) {
      const TileToken op = tokens_.take();
      SyntaxRef rhs = parse_binary(level + 1);
      lhs = call_of(op, op.text, {lhs, rhs});
    }
    return lhs;
  }

  SyntaxRef parse_unary() {
    if (tokens_.peek().is("-") || tokens_.peek().is("!")) {
      const TileToken op = tokens_.take();
      if (++depth_ > kDeepestExpression) tokens_.fail(op, "the expression is nested too deeply");
      SyntaxRef operand = parse_unary();
      --depth_;
      return call_of(op, op.text, {operand});
    }
    return parse_primary();
  }

  SyntaxRef parse_primary() {
    const TileToken at = tokens_.peek();
    if (at.kind == TileToken::Kind::kInteger || at.kind == TileToken::Kind::kReal) {
      tokens_.take();
      auto node = node_at(at, at.kind == TileToken::Kind::kInteger ? SyntaxExpr::Kind::kInteger
                                                                   : SyntaxExpr::Kind::kReal);
      node->integer = at.integer;
      node->real = at.real;
      if (at.typed) node->type = at.type;
      return node;
    }
    if (at.is("true") || at.is("false")) {
      tokens_.take();
      auto node = node_at(at, SyntaxExpr::Kind::kBool);
      node->integer = at.is("true") ? 1 : 0;
      return node;
    }
    if (tokens_.accept("(")) {
      SyntaxRef inner = parse_expression();
      tokens_.expect(")");
      return inner;
    }
    if (tokens_.accept(".")) {
      auto node = node_at(at, SyntaxExpr::Kind::kOffset);
      node->name = tokens_.expect_name("a loop");
      return node;
    }
    if (at.kind == TileToken::Kind::kName && tokens_.peek(1).is("(")) return parse_call();
    return parse_reference();
  }

  SyntaxRef parse_call() {
    const TileToken name = tokens_.take();
    std::vector<SyntaxRef> arguments;
    tokens_.expect("(");
    do {
      arguments.push_back(parse_expression());
    } while (tokens_.accept(","));
    tokens_.expect(")");
    return call_of(name, name.text, std::move(arguments));
  }

  // ref = ID ["'"] ["[" expr {"," expr} "]"] ["fill" unary]
  SyntaxRef parse_reference() {
    const TileToken at = tokens_.peek();
    auto node = node_at(at, SyntaxExpr::Kind::kName);
    node->name = tokens_.expect_name("an expression");
    node->next = tokens_.accept("'");
    if (tokens_.accept("[")) {
      node->has_indices = true;
      if (!tokens_.peek().is("]")) {
        do {
          node->arguments.push_back(parse_expression());
        } while (tokens_.accept(","));
      }
      tokens_.expect("]");
    }
    if (tokens_.accept("fill")) {
      if (++depth_ > kDeepestExpression) tokens_.fail(at, "the expression is nested too deeply");
      node->fill = parse_unary();
      --depth_;
    }
    check_depth(at, *node);
    return node;
  }

  TileTokens& tokens_;
  int depth_ = 0;
};

}  // namespace

SyntaxRef parse_expression(TileTokens& tokens) {
  return ExpressionParser(tokens).parse_expression();
}

}  // namespace weft
