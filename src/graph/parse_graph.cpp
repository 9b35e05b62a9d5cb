#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>

#include "graph/attribute_fields.h"
#include "graph/graph.h"
#include "graph/graph_lexer.h"
#include "graph/graph_text.h"

namespace weft {
namespace {

using Kind = GraphToken::Kind;
using ConstantOfHash = std::function<Result<HostTensor>(std::string_view, const TensorType&)>;

/// A constant as written; its type comes after it.
struct Literal {
  enum class Form : uint8_t { kScalar, kList, kSplat, kHash } form = Form::kScalar;
  std::vector<std::string> elements;
};

class Parser {
 public:
  Parser(std::string_view text, const ConstantOfHash& constant_of_hash)
      : lexer_(text), constant_of_hash_(constant_of_hash) {}

  Result<Graph> parse_all() {
    WEFT_ASSIGN_OR_RETURN(Graph graph, parse_graph(0));
    if (lexer_.peek().kind != Kind::kEnd) return fail("text after the graph");
    return graph;
  }

 private:
  struct Scope {
    Graph graph;
    std::unordered_map<std::string, ValueId> values;
    std::map<std::pair<std::string, std::string>, int32_t> origins;
  };

  Error fail(const std::string& message) const { return fail_at(lexer_.peek(), message); }
  static Error fail_at(const GraphToken& token, const std::string& message) {
    return invalid_input(std::to_string(token.line) + ":" + std::to_string(token.column) + ": " +
                         (token.kind == Kind::kError ? token.text : message));
  }

  bool at_punctuation(std::string_view text) const {
    return lexer_.peek().kind == Kind::kPunctuation && lexer_.peek().text == text;
  }
  bool accept(std::string_view text) {
    if (!at_punctuation(text)) return false;
    lexer_.next();
    return true;
  }
  Status expect(std::string_view text) {
    if (accept(text)) return {};
    return fail("expected '" + std::string(text) + "'");
  }
  Result<std::string> expect_name(const char* what) {
    if (lexer_.peek().kind != Kind::kName) return fail(std::string("expected ") + what);
    return lexer_.next().text;
  }
  Result<int64_t> expect_integer() {
    int64_t value = 0;
    const std::string& text = lexer_.peek().text;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (lexer_.peek().kind != Kind::kNumber || end.ec != std::errc() ||
        end.ptr != text.data() + text.size()) {
      return fail("expected an integer");
    }
    lexer_.next();
    return value;
  }

  /// open item, item close: calls parse_item for each.
  template <typename ParseItem>
  Status parse_list(std::string_view open, std::string_view close, ParseItem&& parse_item) {
    WEFT_RETURN_IF_ERROR(expect(open));
    if (accept(close)) return {};
    do {
      WEFT_RETURN_IF_ERROR(parse_item());
    } while (accept(","));
    return expect(close);
  }

  Result<TensorType> parse_type() {
    const GraphToken token = lexer_.peek();
    WEFT_ASSIGN_OR_RETURN(const std::string name, expect_name("a type such as f32[4,16]"));
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype) return fail_at(token, "'" + name + "' is no element type");
    TensorType type{*dtype, {}};
    const auto parse_extent = [&]() -> Status {
      WEFT_ASSIGN_OR_RETURN(const int64_t extent, expect_integer());
      if (type.shape.size() == kMaxRank) return fail("the rank is too high");
      type.shape.push_back(extent);
      return {};
    };
    WEFT_RETURN_IF_ERROR(parse_list("[", "]", parse_extent));
    const std::optional<int64_t> bytes = checked_byte_size(type.dtype, type.shape);
    if (!bytes || *bytes > kMaxTensorBytes) {
      return fail_at(token, print(type) + " is too large or has a negative extent");
    }
    return type;
  }

  Result<Graph> parse_graph(int depth) {
    if (depth > kMaxRegionDepth) return fail("regions nest too deeply");
    Scope scope;
    const auto parse_input = [&]() -> Status {
      const GraphToken token = lexer_.peek();
      WEFT_ASSIGN_OR_RETURN(std::string name, expect_name("an input's name"));
      WEFT_RETURN_IF_ERROR(expect(":"));
      WEFT_ASSIGN_OR_RETURN(TensorType type, parse_type());
      WEFT_ASSIGN_OR_RETURN(const ValueId id, define(scope, token, name, std::move(type)));
      scope.graph.inputs.push_back(id);
      return {};
    };
    WEFT_RETURN_IF_ERROR(parse_list("(", ")", parse_input));
    WEFT_RETURN_IF_ERROR(expect("{"));
    while (!at_punctuation("}")) WEFT_RETURN_IF_ERROR(parse_node(scope, depth));
    lexer_.next();
    WEFT_RETURN_IF_ERROR(expect("->"));
    const auto parse_one_output = [&] { return parse_output(scope); };
    WEFT_RETURN_IF_ERROR(parse_list("(", ")", parse_one_output));
    return std::move(scope.graph);
  }

  Status parse_output(Scope& scope) {
    const GraphToken first = lexer_.peek();
    WEFT_ASSIGN_OR_RETURN(std::string name, expect_name("an output"));
    GraphToken value = first;
    if (accept("=")) {
      value = lexer_.peek();
      WEFT_RETURN_IF_ERROR(expect_name("a value"));
    }
    WEFT_ASSIGN_OR_RETURN(const ValueId id, find(scope, value));
    scope.graph.add_output(id, std::move(name));
    return {};
  }

  Result<ValueId> define(Scope& scope, const GraphToken& token, const std::string& name,
                         TensorType type) {
    if (name.empty()) return fail_at(token, "a value has no name");
    const ValueId next = static_cast<ValueId>(scope.graph.values.size());
    if (!scope.values.emplace(name, next).second) {
      return fail_at(token, "two values are called " + name);
    }
    return scope.graph.new_value(name, std::move(type));
  }

  static Result<ValueId> find(const Scope& scope, const GraphToken& token) {
    const auto found = scope.values.find(token.text);
    if (found == scope.values.end()) return fail_at(token, "no value is called " + token.text);
    return found->second;
  }

  Status parse_node(Scope& scope, int depth) {
    std::vector<GraphToken> results;
    do {
      results.push_back(lexer_.peek());
      WEFT_RETURN_IF_ERROR(expect_name("a value's name"));
    } while (accept(","));
    WEFT_RETURN_IF_ERROR(expect("="));
    Node node;
    Literal literal;
    const GraphToken op_token = lexer_.peek();
    WEFT_RETURN_IF_ERROR(parse_op(node));
    if (node.op == GraphOp::kConstant) {
      WEFT_RETURN_IF_ERROR(parse_literal(literal));
    } else if (!at_punctuation(":")) {
      WEFT_RETURN_IF_ERROR(parse_arguments(scope, node));
    }
    WEFT_RETURN_IF_ERROR(expect(":"));
    std::vector<TensorType> types;
    do {
      WEFT_ASSIGN_OR_RETURN(TensorType type, parse_type());
      types.push_back(std::move(type));
    } while (accept(","));
    if (accept("@")) WEFT_RETURN_IF_ERROR(parse_origin(scope, node));
    while (at_region()) {
      lexer_.next();
      WEFT_ASSIGN_OR_RETURN(Graph region, parse_graph(depth + 1));
      node.regions.push_back(std::make_shared<const Graph>(std::move(region)));
    }
    if (node.op == GraphOp::kConstant) {
      WEFT_ASSIGN_OR_RETURN(HostTensor value, make_constant(op_token, literal, types[0]));
      node.attrs = ConstantAttrs{std::move(value)};
    }
    return finish_node(scope, op_token, results, types, std::move(node));
  }

  bool at_region() const {
    return lexer_.peek().kind == Kind::kName && !lexer_.peek().quoted &&
           lexer_.peek().text == "region" && lexer_.peek(1).text == "(" &&
           lexer_.peek(1).kind == Kind::kPunctuation;
  }

  Status parse_op(Node& node) {
    const GraphToken token = lexer_.peek();
    WEFT_ASSIGN_OR_RETURN(const std::string name, expect_name("an operation"));
    if (const std::optional<ScalarOp> scalar = parse_scalar_op(name)) {
      node.op = GraphOp::kElementwise;
      node.attrs = ElementwiseAttrs{*scalar};
      return {};
    }
    const std::optional<GraphOp> op = parse_graph_op(name);
    if (!op || *op == GraphOp::kElementwise) {
      return fail_at(token, "'" + name + "' is no operation");
    }
    node.op = *op;
    node.attrs = default_attributes(*op);
    return {};
  }

  Status parse_arguments(const Scope& scope, Node& node) {
    do {
      const GraphToken token = lexer_.peek();
      WEFT_RETURN_IF_ERROR(expect_name("an operand or an attribute"));
      if (accept("=")) {
        WEFT_RETURN_IF_ERROR(parse_attribute(token, node));
      } else {
        WEFT_ASSIGN_OR_RETURN(const ValueId id, find(scope, token));
        node.operands.push_back(id);
      }
    } while (accept(","));
    return {};
  }

  Status parse_attribute(const GraphToken& token, Node& node) {
    bool found = false;
    Status status;
    std::visit(
        [&](auto& attrs) {
          for_each_field(attrs, [&](const char* name, auto& field) {
            if (found || token.text != name) return;
            found = true;
            status = parse_field(field);
          });
        },
        node.attrs);
    if (!found) return fail_at(token, "no attribute is called " + token.text);
    return status;
  }

  Status parse_field(int64_t& value) {
    WEFT_ASSIGN_OR_RETURN(value, expect_integer());
    return {};
  }
  Status parse_field(bool& value) {
    const std::string& text = lexer_.peek().text;
    if (text != "true" && text != "false") return fail("expected true or false");
    value = lexer_.next().text == "true";
    return {};
  }
  Status parse_field(Combiner& value) {
    const std::optional<Combiner> combiner = parse_combiner(lexer_.peek().text);
    if (!combiner) return fail("expected a combiner");
    value = *combiner;
    lexer_.next();
    return {};
  }
  template <typename T>
  Status parse_field(std::vector<T>& values) {
    values.clear();
    const auto parse_one = [&]() -> Status {
      T value{};
      WEFT_RETURN_IF_ERROR(parse_field(value));
      values.push_back(value);
      return {};
    };
    return parse_list("{", "}", parse_one);
  }

  Status parse_literal(Literal& literal) {
    const auto element = [&]() -> Status {
      if (lexer_.peek().kind != Kind::kNumber && lexer_.peek().kind != Kind::kName) {
        return fail("expected a value");
      }
      literal.elements.push_back(lexer_.next().text);
      return {};
    };
    if (lexer_.peek().kind == Kind::kPunctuation && lexer_.peek().text.starts_with("#")) {
      literal.form = Literal::Form::kHash;
      literal.elements.push_back(lexer_.next().text.substr(1));
      return {};
    }
    if (at_punctuation("{")) {
      literal.form = Literal::Form::kList;
      return parse_list("{", "}", element);
    }
    if (lexer_.peek().kind == Kind::kName && lexer_.peek().text == "splat") {
      literal.form = Literal::Form::kSplat;
      lexer_.next();
    }
    return element();
  }

  Result<HostTensor> make_constant(const GraphToken& token, const Literal& literal,
                                   const TensorType& type) {
    if (literal.form == Literal::Form::kHash) return constant_of_hash(token, literal, type);
    const int64_t count = *element_count(type.shape);
    const bool splat = literal.form == Literal::Form::kSplat;
    if (splat) {
      const int64_t bytes = count * byte_size(type.dtype);
      splat_bytes_ += bytes;
      if (bytes > kMaxSplatBytes || splat_bytes_ > kMaxAllSplatBytes) {
        return fail_at(token, "a splat of " + print(type) + " is too large for text");
      }
    } else if (count != static_cast<int64_t>(literal.elements.size()) ||
               (literal.form == Literal::Form::kScalar && !type.shape.empty())) {
      return fail_at(token, "the constant does not fill " + print(type));
    }
    HostTensor value(type.dtype, type.shape);
    const int64_t written = splat ? std::min<int64_t>(count, 1) : count;
    for (int64_t i = 0; i < written; ++i) {
      const std::string& text = literal.elements[static_cast<size_t>(i)];
      if (!parse_element(text, value, i)) {
        return fail_at(token, "'" + text + "' is no " + std::string(dtype_name(type.dtype)));
      }
    }
    const auto width = static_cast<size_t>(byte_size(type.dtype));
    for (int64_t i = written; i < count; ++i) {
      std::memcpy(value.mutable_raw() + static_cast<size_t>(i) * width, value.raw(), width);
    }
    return value;
  }

  Result<HostTensor> constant_of_hash(const GraphToken& token, const Literal& literal,
                                      const TensorType& type) {
    if (!constant_of_hash_) {
      return fail_at(token, "the value of constant #" + literal.elements[0] + " is not given");
    }
    WEFT_ASSIGN_OR_RETURN(HostTensor value, constant_of_hash_(literal.elements[0], type));
    if (value.dtype() != type.dtype || value.shape() != type.shape) {
      return fail_at(token, "constant #" + literal.elements[0] + " is no " + print(type));
    }
    return value;
  }

  Status parse_origin(Scope& scope, Node& node) {
    WEFT_ASSIGN_OR_RETURN(std::string name, expect_name("the origin's name"));
    WEFT_ASSIGN_OR_RETURN(std::string op_type, expect_name("the origin's operator"));
    const auto next = static_cast<int32_t>(scope.graph.origins.size());
    const auto [entry, fresh] = scope.origins.try_emplace({name, op_type}, next);
    if (fresh) scope.graph.origins.push_back({std::move(name), std::move(op_type)});
    node.origin = entry->second;
    return {};
  }

  Status finish_node(Scope& scope, const GraphToken& op_token,
                     const std::vector<GraphToken>& results, const std::vector<TensorType>& types,
                     Node node) {
    std::vector<TensorType> operands;
    for (ValueId v : node.operands) operands.push_back(scope.graph.type(v));
    Result<std::vector<TensorType>> inferred =
        infer_types(node.op, node.attrs, operands, types[0], node.regions);
    if (!inferred.ok()) return fail_at(op_token, inferred.error().message);
    if (inferred->size() != types.size() || results.size() != types.size()) {
      return fail_at(op_token, "gives " + std::to_string(inferred->size()) + " results");
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if ((*inferred)[i] != types[i]) {
        return fail_at(op_token, "gives " + print((*inferred)[i]) + ", not " + print(types[i]));
      }
      WEFT_ASSIGN_OR_RETURN(const ValueId id, define(scope, results[i], results[i].text, types[i]));
      node.results.push_back(id);
    }
    scope.graph.nodes.push_back(std::move(node));
    return {};
  }

  static constexpr int64_t kMaxAllSplatBytes = int64_t{1} << 30;

  GraphLexer lexer_;
  const ConstantOfHash& constant_of_hash_;
  int64_t splat_bytes_ = 0;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const ConstantOfHash& constant_of_hash) {
  return Parser(text, constant_of_hash).parse_all();
}

}  // namespace weft
