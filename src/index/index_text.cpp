#include "index/index_text.h"

#include <cctype>
#include <cmath>

#include "fmt/format.h"
#include "index/index_map.h"
#include "index/index_node.h"

namespace weft {
namespace {

/// How strongly the operator binds: 0 a sum, 1 a product, 2 an atom.
int binding(const IndexExpr& e) {
  switch (e.op()) {
    case IndexOp::kAdd:
      return 0;
    case IndexOp::kMul:
    case IndexOp::kFloorDiv:
    case IndexOp::kMod:
      return 1;
    default:
      return 2;
  }
}

class IndexPrinter {
 public:
  explicit IndexPrinter(const std::function<std::string(int)>& name) : name_(name) {}

  void print(const IndexExpr& e, std::string& out) const {
    switch (e.op()) {
      case IndexOp::kConst:
        out += std::to_string(e.constant());
        break;
      case IndexOp::kVar:
        out += name_ ? name_(e.var_id()) : fmt::format("v{}", e.var_id());
        break;
      case IndexOp::kAdd:
        print_sum(e, out);
        break;
      case IndexOp::kMul:
        print_product(e, " * ", out);
        break;
      case IndexOp::kFloorDiv:
        print_product(e, " floordiv ", out);
        break;
      case IndexOp::kMod:
        print_product(e, " mod ", out);
        break;
      case IndexOp::kMin:
      case IndexOp::kMax:
        out += e.op() == IndexOp::kMin ? "min(" : "max(";
        print(e.lhs(), out);
        out += ", ";
        print(e.rhs(), out);
        out += ")";
        break;
    }
  }

 private:
  void print_sum(const IndexExpr& e, std::string& out) const {
    const IndexSum sum = take_apart(e);
    bool first = true;
    for (const auto& term : sum.terms) {
      const bool negative = term.coefficient < 0 && term.coefficient != INT64_MIN;
      if (!first) out += negative ? " - " : " + ";
      if (first && negative) out += "-";
      const int64_t factor = negative ? -term.coefficient : term.coefficient;
      print_bound(term.atom, 1, out);
      if (factor != 1) out += fmt::format(" * {}", factor);
      first = false;
    }
    if (sum.constant == INT64_MIN || sum.constant > 0) out += fmt::format(" + {}", sum.constant);
    if (sum.constant < 0 && sum.constant != INT64_MIN) {
      out += fmt::format(" - {}", -sum.constant);
    }
  }
  void print_product(const IndexExpr& e, std::string_view op, std::string& out) const {
    print_bound(e.lhs(), 1, out);
    out += op;
    print_bound(e.rhs(), 2, out);
  }
  void print_bound(const IndexExpr& e, int needed, std::string& out) const {
    const bool parens = binding(e) < needed;
    if (parens) out += "(";
    print(e, out);
    if (parens) out += ")";
  }

  const std::function<std::string(int)>& name_;
};

/// A bound on every number that folding can make of `e`, so that a text cannot make index
/// arithmetic overflow, which is a check against ourselves.
double magnitude(const IndexExpr& e) {
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
constexpr double kLargestNumber = 4e18;
constexpr int kMaxDepth = 200;
constexpr int64_t kMaxTextSize = 20000;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::string print(const IndexExpr& e, const std::function<std::string(int id)>& name) {
  std::string out;
  IndexPrinter(name).print(e, out);
  return out;
}

char IndexTextReader::peek() {
  while (position < text_.size() &&
         std::isspace(static_cast<unsigned char>(text_[position])) != 0) {
    ++position;
  }
  return position < text_.size() ? text_[position] : '\0';
}

bool IndexTextReader::take(std::string_view token) {
  peek();
  if (text_.substr(position, token.size()) != token) return false;
  const size_t end = position + token.size();
  if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  position = end;
  return true;
}

std::string_view IndexTextReader::take_word() {
  peek();
  const size_t begin = position;
  while (position < text_.size() && is_word(text_[position])) ++position;
  return text_.substr(begin, position - begin);
}

std::optional<int64_t> IndexTextReader::take_integer() {
  const bool negative = take("-");
  const char c = peek();
  if (c < '0' || c > '9') return std::nullopt;
  int64_t value = 0;
  while (position < text_.size() && text_[position] >= '0' && text_[position] <= '9') {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, text_[position] - '0', &value)) {
      return std::nullopt;
    }
    ++position;
  }
  return negative ? -value : value;
}

Error IndexTextReader::error(std::string_view what) const {
  return invalid_input(fmt::format("character {}: {}", position + 1, what));
}

Result<IndexExpr> IndexTextReader::read(int depth) { return sum(depth); }

Status IndexTextReader::expect_small(const IndexExpr& a, const IndexExpr& b,
                                     bool multiplies) const {
  if (a.tree_size() + b.tree_size() > kMaxTextSize) return error("the index is too long");
  const double x = magnitude(a), y = magnitude(b);
  if ((multiplies ? x * y : x + y) > kLargestNumber) return error("the numbers grow too large");
  return {};
}

Result<IndexExpr> IndexTextReader::sum(int depth) {
  if (depth > kMaxDepth) return error("the index is nested too deeply");
  const bool negative = peek() == '-' && take("-");
  WEFT_ASSIGN_OR_RETURN(IndexExpr value, product(depth));
  if (negative) value = value * IndexExpr(-1);
  while (true) {
    const bool plus = take("+");
    if (!plus && (peek() != '-' || text_.substr(position, 2) == "->" || !take("-"))) return value;
    WEFT_ASSIGN_OR_RETURN(const IndexExpr rhs, product(depth));
    WEFT_RETURN_IF_ERROR(expect_small(value, rhs, false));
    value = plus ? value + rhs : value - rhs;
  }
}

Result<IndexExpr> IndexTextReader::product(int depth) {
  WEFT_ASSIGN_OR_RETURN(IndexExpr value, atom(depth));
  while (true) {
    if (take("*")) {
      WEFT_ASSIGN_OR_RETURN(const IndexExpr rhs, atom(depth));
      WEFT_RETURN_IF_ERROR(expect_small(value, rhs, true));
      value = value * rhs;
      continue;
    }
    const bool divides = take("floordiv");
    if (!divides && !take("mod")) return value;
    WEFT_ASSIGN_OR_RETURN(const IndexExpr rhs, atom(depth));
    if (!rhs.is_const() || rhs.constant() <= 0) {
      return error("floordiv and mod take a positive constant");
    }
    value = divides ? floor_div(value, rhs.constant()) : mod(value, rhs.constant());
  }
}

Result<IndexExpr> IndexTextReader::atom(int depth) {
  if (depth > kMaxDepth) return error("the index is nested too deeply");
  const char c = peek();
  if (c >= '0' && c <= '9') {
    const std::optional<int64_t> value = take_integer();
    if (!value) return error("the number is too large");
    return IndexExpr(*value);
  }
  if (c == '-') {
    ++position;
    WEFT_ASSIGN_OR_RETURN(const IndexExpr value, atom(depth + 1));
    return value * IndexExpr(-1);
  }
  if (take("(")) {
    WEFT_ASSIGN_OR_RETURN(IndexExpr value, sum(depth + 1));
    if (!take(")")) return error("`)` is missing");
    return value;
  }
  const size_t begin = position;
  const bool is_min = take("min");
  if ((is_min || take("max")) && take("(")) {
    WEFT_ASSIGN_OR_RETURN(const IndexExpr a, sum(depth + 1));
    if (!take(",")) return error("`,` is missing");
    WEFT_ASSIGN_OR_RETURN(const IndexExpr b, sum(depth + 1));
    if (!take(")")) return error("`)` is missing");
    WEFT_RETURN_IF_ERROR(expect_small(a, b, false));
    return is_min ? min(a, b) : max(a, b);
  }
  position = begin;
  return leaf_(*this);
}

namespace {

std::string map_variable(const IndexMap& map, int id) {
  return id < map.dim_count() ? fmt::format("d{}", id) : fmt::format("s{}", id - map.dim_count());
}

class MapReader {
 public:
  explicit MapReader(std::string_view text)
      : reader_(text, 0, [this](IndexTextReader& r) { return variable(r); }) {}

  Result<IndexMap> run() {
    WEFT_RETURN_IF_ERROR(names("(", ")", 'd', map_.domain));
    if (reader_.peek() == '[') WEFT_RETURN_IF_ERROR(names("[", "]", 's', map_.symbol_ranges));
    if (!reader_.take("->")) return reader_.error("`->` is missing");
    if (!reader_.take("(")) return reader_.error("`(` is missing");
    if (!reader_.take(")")) {
      do {
        WEFT_ASSIGN_OR_RETURN(IndexExpr result, reader_.read());
        map_.results.push_back(std::move(result));
      } while (reader_.take(","));
      if (!reader_.take(")")) return reader_.error("`)` is missing");
    }
    while (reader_.take(",")) WEFT_RETURN_IF_ERROR(range());
    if (reader_.peek() != '\0') return reader_.error("the map should end here");
    for (const auto* ranges : {&map_.domain, &map_.symbol_ranges}) {
      for (const Interval& r : *ranges) {
        if (r == kUnbounded) return reader_.error("a dimension or symbol has no range");
      }
    }
    return std::move(map_);
  }

 private:
  Status names(std::string_view open, std::string_view close, char letter,
               std::vector<Interval>& ranges) {
    if (!reader_.take(open)) return reader_.error(fmt::format("`{}` is missing", open));
    if (reader_.take(close)) return {};
    do {
      if (reader_.take_word() != fmt::format("{}{}", letter, ranges.size())) {
        return reader_.error(fmt::format("`{}{}` is expected", letter, ranges.size()));
      }
      ranges.push_back(kUnbounded);
    } while (reader_.take(","));
    if (!reader_.take(close)) return reader_.error(fmt::format("`{}` is missing", close));
    return {};
  }

  /// `d0 in [0, 3]` of a variable is its range, of anything longer a constraint.
  Status range() {
    WEFT_ASSIGN_OR_RETURN(IndexExpr expr, reader_.read());
    if (!reader_.take("in")) return reader_.error("`in` is missing");
    if (!reader_.take("[")) return reader_.error("`[` is missing");
    const std::optional<int64_t> lo = reader_.take_integer();
    const bool comma = reader_.take(",");
    const std::optional<int64_t> hi = reader_.take_integer();
    if (!lo || !comma || !hi || !reader_.take("]")) return reader_.error("a range is [low, high]");
    if (expr.is_var()) {
      Interval& r = slot(expr.var_id());
      if (r == kUnbounded) {
        r = {*lo, *hi};
        return {};
      }
    }
    map_.constraints.push_back({std::move(expr), {*lo, *hi}});
    return {};
  }
  Interval& slot(int id) {
    const auto v = static_cast<size_t>(id);
    return v < map_.domain.size() ? map_.domain[v] : map_.symbol_ranges[v - map_.domain.size()];
  }

  Result<IndexExpr> variable(IndexTextReader& r) const {
    const size_t begin = r.position;
    const std::string_view word = r.take_word();
    const auto all = map_.domain.size() + map_.symbol_ranges.size();
    for (size_t id = 0; id < all; ++id) {
      if (word == map_variable(map_, static_cast<int>(id))) {
        return IndexExpr::var(static_cast<int>(id));
      }
    }
    r.position = begin;
    return r.error(fmt::format("`{}` is no dimension or symbol of this map", word));
  }

  IndexMap map_;
  IndexTextReader reader_;
};

}  // namespace

std::string print(const IndexMap& map) {
  const auto name = [&](int id) { return map_variable(map, id); };
  std::string dims, symbols, results, ranges;
  const auto append = [](std::string& to, const std::string& part) {
    to += (to.empty() ? "" : ", ") + part;
  };
  const int all = map.dim_count() + static_cast<int>(map.symbol_ranges.size());
  for (int id = 0; id < all; ++id) {
    append(id < map.dim_count() ? dims : symbols, name(id));
    ranges += fmt::format(", {} in [{}, {}]", name(id), map.range(id).lo, map.range(id).hi);
  }
  for (const IndexExpr& r : map.results) append(results, print(r, name));
  for (const auto& c : map.constraints) {
    ranges += fmt::format(", {} in [{}, {}]", print(c.expr, name), c.range.lo, c.range.hi);
  }
  return fmt::format("({}){} -> ({}){}", dims, symbols.empty() ? "" : "[" + symbols + "]", results,
                     ranges);
}

Result<IndexMap> parse_index_map(std::string_view text) { return MapReader(text).run(); }

}  // namespace weft
