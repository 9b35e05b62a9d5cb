#include <map>
#include <set>
#include <string>

#include "fmt/format.h"
#include "tile/text/expression_syntax.h"
#include "tile/text/template_form.h"
#include "tile/text/tile_lexer.h"
#include "tile/text/tile_text.h"
#include "tile/tile_program.h"

namespace weft {
namespace {

constexpr int kDeepestNest = 64;

/// Recursive descent over TileTokens, which end at the first error.
class Parser final : public NameScope {
 public:
  explicit Parser(std::vector<TileToken> tokens) : tokens_(std::move(tokens)) {}

  Result<TileProgram> run() {
    parse_header();
    while (!failed() && (tokens_.peek().is("size") ||
                         (TileTokens::is_name(tokens_.peek()) && tokens_.peek(1).is(":"))))
      parse_axis();
    while (!failed() && tokens_.accept("workspace")) parse_workspace();
    while (!failed() && tokens_.accept("view")) parse_view();
    program_.body = parse_body();
    tokens_.expect("}");
    if (!failed() && tokens_.peek().kind != TileToken::Kind::kEnd)
      fail(tokens_.peek(), "text after the kernel");
    if (tokens_.error()) return *tokens_.error();
    program_.cpu = states_cpu_.value_or(program_.warps == 1 && !uses_threads_);
    WEFT_RETURN_IF_ERROR(place_by_forms(program_, forms_));
    return std::move(program_);
  }

  Meaning lookup(std::string_view name) override {
    const auto symbol = symbols_.find(name);
    if (symbol != symbols_.end()) {
      return {Meaning::Kind::kSymbol, 0, -1, symbol->second, false};
    }
    const auto index = indices_.find(name);
    if (index != indices_.end()) {
      return {Meaning::Kind::kIndex, index->second.value, index->second.offset, -1, false};
    }
    if (sizes_appear_ && !is_reserved_tile_word(name)) {
      const TileVarId id = program_.add_var(std::string(name), TileVar::Kind::kSize, 0);
      indices_[name] = {IndexExpr::var(id), -1};
      return {Meaning::Kind::kIndex, IndexExpr::var(id), -1, -1, false};
    }
    return {};
  }
  const TileProgram& program() const override { return program_; }

 private:
  struct Index {
    IndexExpr value;
    TileVarId offset = -1;
  };

  bool failed() const { return tokens_.failed(); }
  void fail(const TileToken& at, std::string_view what) { tokens_.fail(at, what); }

  // Names.
  bool is_free(const TileToken& at, std::string_view name) {
    if (symbols_.count(name) == 0 && indices_.count(name) == 0) return true;
    fail(at, fmt::format("`{}` is already defined", name));
    return false;
  }
  void declare_symbol(const TileToken& at, TileSymbol symbol) {
    if (failed() || !is_free(at, at.text)) return;
    symbols_[at.text] = program_.add_symbol(std::move(symbol));
  }

  // kernel = "kernel" ID "(" param {"," param} ")" "blocks" expr ["cluster"] "warps" INT
  // ["per_sm" INT] ["cpu"|"gpu"] "{"
  void parse_header() {
    tokens_.expect("kernel");
    program_.name = std::string(tokens_.expect_name("the kernel's name"));
    tokens_.expect("(");
    sizes_appear_ = true;
    do {
      parse_parameter();
    } while (tokens_.accept(","));
    tokens_.expect(")");
    tokens_.expect("blocks");
    program_.blocks = parse_index();
    sizes_appear_ = false;
    program_.one_cluster = tokens_.accept("cluster");
    tokens_.expect("warps");
    program_.warps = tokens_.expect_positive("the number of warps");
    if (tokens_.accept("per_sm")) program_.per_sm = tokens_.expect_positive("blocks per SM");
    if (tokens_.accept("cpu")) {
      states_cpu_ = true;
    } else if (tokens_.accept("gpu")) {
      states_cpu_ = false;
    }
    tokens_.expect("{");
  }

  // param = ["out"] ID ":" TYPE "[" [expr {"," expr}] "]" ["layout" {"{" INT "," INT "," INT "}"}]
  void parse_parameter() {
    TileSymbol symbol;
    symbol.kind = tokens_.accept("out") ? TileSymbol::Kind::kOutput : TileSymbol::Kind::kInput;
    const TileToken at = tokens_.peek();
    parse_name_and_shape("a parameter", &symbol);
    if (tokens_.accept("layout")) {
      do {
        symbol.layout.axes.push_back(parse_layout_axis(symbol.shape.size()));
      } while (!failed() && tokens_.peek().is("{"));
    }
    if (failed()) return;
    declare_symbol(at, std::move(symbol));
    if (!failed()) program_.parameters.push_back(symbols_[at.text]);
  }

  // ID ":" TYPE "[" [expr {"," expr}] "]"
  void parse_name_and_shape(std::string_view what, TileSymbol* symbol) {
    symbol->name = std::string(tokens_.expect_name(what));
    tokens_.expect(":");
    symbol->type = tokens_.expect_type();
    tokens_.expect("[");
    if (!tokens_.peek().is("]")) {
      do {
        symbol->shape.push_back(parse_index());
      } while (tokens_.accept(","));
    }
    tokens_.expect("]");
  }

  // workspace = "workspace" ID ":" TYPE "[" [expr {"," expr}] "]" ";"
  void parse_workspace() {
    TileSymbol workspace;
    workspace.kind = TileSymbol::Kind::kOutput;
    workspace.is_workspace = true;
    const TileToken at = tokens_.peek();
    parse_name_and_shape("a workspace", &workspace);
    tokens_.expect(";");
    declare_symbol(at, std::move(workspace));
  }

  // view = "view" ["out"] ID ":" TYPE "[" [expr {"," expr}] "]" "of" ID ["at" expr] ";"
  void parse_view() {
    TileSymbol view;
    view.kind = tokens_.accept("out") ? TileSymbol::Kind::kOutput : TileSymbol::Kind::kInput;
    const TileToken at = tokens_.peek();
    parse_name_and_shape("a view", &view);
    tokens_.expect("of");
    const TileToken of = tokens_.peek();
    const auto known = symbols_.find(tokens_.expect_name("a parameter or a workspace"));
    if (tokens_.accept("at")) view.at = parse_index();
    tokens_.expect(";");
    if (failed()) return;
    const TileSymbol* whole =
        known == symbols_.end() ? nullptr : &program_.symbols[static_cast<size_t>(known->second)];
    if (whole == nullptr || whole->view_of >= 0 ||
        (whole->kind != TileSymbol::Kind::kInput && whole->kind != TileSymbol::Kind::kOutput)) {
      return fail(of, fmt::format("`{}` is no parameter or workspace", of.text));
    }
    view.view_of = known->second;
    declare_symbol(at, std::move(view));
  }

  Layout::Axis parse_layout_axis(size_t rank) {
    Layout::Axis axis;
    tokens_.expect("{");
    const TileToken at = tokens_.peek();
    if (!failed() && at.kind == TileToken::Kind::kInteger &&
        at.integer < static_cast<int64_t>(rank)) {
      axis.axis = static_cast<int32_t>(tokens_.take().integer);
    } else {
      fail(at, "expected an axis of the tensor");
    }
    tokens_.expect(",");
    axis.divisor = tokens_.expect_positive("a divisor");
    tokens_.expect(",");
    axis.extent = tokens_.expect_positive("an extent");
    tokens_.expect("}");
    return axis;
  }

  // axis = ID ":" INT ";" | "size" ID ["=" INT] ";"
  void parse_axis() {
    if (tokens_.accept("size")) {
      const TileToken at = tokens_.peek();
      const std::string name(tokens_.expect_name("a size"));
      const int64_t value = tokens_.accept("=") ? tokens_.expect_positive("the size") : 0;
      tokens_.expect(";");
      if (failed()) return;
      const auto known = indices_.find(at.text);
      if (known == indices_.end()) {
        if (!is_free(at, at.text)) return;
        const TileVarId id = program_.add_var(name, TileVar::Kind::kSize, value);
        indices_[at.text] = {IndexExpr::var(id), -1};
        return;
      }
      TileVar& var = program_.vars[static_cast<size_t>(known->second.value.var_id())];
      if (var.kind != TileVar::Kind::kSize || !bound_.insert(at.text).second) {
        fail(at, fmt::format("`{}` is already defined", name));
      } else {
        var.extent = value;
      }
      return;
    }
    const TileToken at = tokens_.take();
    tokens_.expect(":");
    const int64_t extent = tokens_.expect_positive("the axis' extent");
    tokens_.expect(";");
    if (failed() || !is_free(at, at.text)) return;
    const TileVarId id = program_.add_var(std::string(at.text), TileVar::Kind::kAxis, extent);
    indices_[at.text] = {IndexExpr::var(id), -1};
  }

  TileBody parse_body() {
    TileBody body;
    if (++nest_ > kDeepestNest) fail(tokens_.peek(), "loops are nested too deeply");
    while (!failed() && !tokens_.peek().is("}") && tokens_.peek().kind != TileToken::Kind::kEnd) {
      if (tokens_.peek().is("grid") || tokens_.peek().is("cluster") || tokens_.peek().is("seq")) {
        body.push_back(TileNode::of(parse_loop()));
      } else if (tokens_.peek().is("if")) {
        body.push_back(TileNode::of(parse_condition()));
      } else if (tokens_.peek().is("pack")) {
        body.push_back(TileNode::of(parse_pack()));
      } else {
        body.push_back(TileNode::of(parse_statement()));
      }
    }
    --nest_;
    return body;
  }

  // loop = KIND dim {"," dim} ["by" "cluster"] ["carry" carry {"," carry}] "{" {view} body "}"
  TileLoop parse_loop() {
    TileLoop loop;
    const std::string_view kind = tokens_.take().text;
    loop.kind = kind == "grid"      ? TileLoop::Kind::kGrid
                : kind == "cluster" ? TileLoop::Kind::kCluster
                                    : TileLoop::Kind::kSeq;
    std::vector<std::string_view> names;
    do {
      names.push_back(parse_dim(loop));
    } while (tokens_.accept(","));
    if (tokens_.peek().is("by")) {
      tokens_.take();
      tokens_.expect("cluster");
      loop.by_cluster = true;
    }
    if (tokens_.accept("carry")) parse_carries(loop);
    tokens_.expect("{");
    while (!failed() && tokens_.accept("view")) parse_view();
    loop.body = parse_body();
    tokens_.expect("}");
    for (const TileCarry& carry : loop.carries) open_carries_.erase(carry.target.symbol);
    for (const std::string_view name : names) indices_.erase(name);
    return loop;
  }

  // dim = ID "in" [expr ".."] expr ["step" INT] { "unroll" [INT] | "stages" INT ["ahead"] }
  std::string_view parse_dim(TileLoop& loop) {
    TileLoop::Dim dim;
    const TileToken at = tokens_.peek();
    const std::string_view name = tokens_.expect_name("a loop variable");
    if (failed() || !is_free(at, name)) return name;
    tokens_.expect("in");
    dim.begin = 0;
    dim.end = parse_index();
    if (tokens_.accept("..")) {
      dim.begin = dim.end;
      dim.end = parse_index();
    }
    if (tokens_.accept("step")) dim.step = tokens_.expect_positive("the step");
    while (!failed() && (tokens_.peek().is("unroll") || tokens_.peek().is("stages"))) {
      if (tokens_.accept("unroll")) {
        dim.unroll = tokens_.peek().kind == TileToken::Kind::kInteger
                         ? tokens_.expect_positive("unroll")
                         : 0;
      } else {
        tokens_.take();
        loop.stages = tokens_.expect_positive("the number of stages");
        loop.ahead |= tokens_.accept("ahead");
      }
    }
    if (failed()) return name;
    dim.origin = program_.add_var(std::string(name), TileVar::Kind::kOrigin, 0);
    if (dim.step > 1) {
      dim.offset = program_.add_var(std::string(name), TileVar::Kind::kOffset, dim.step);
    }
    indices_[name] = {program_.index_of(dim), dim.offset};
    loop.dims.push_back(dim);
    return name;
  }

  // carry = ref ":" TYPE "=" expr [place]
  void parse_carries(TileLoop& loop) {
    std::vector<std::pair<TileToken, TileSymbol>> pending;
    do {
      const TileToken at = tokens_.peek();
      TileCarry carry;
      TileSymbol symbol;
      symbol.kind = TileSymbol::Kind::kCarry;
      symbol.name = std::string(tokens_.expect_name("a carried value"));
      carry.target.indices = parse_subscripts();
      tokens_.expect(":");
      symbol.type = carry.type = tokens_.expect_type();
      tokens_.expect("=");
      carry.initial = parse_scalar(carry.type);
      if (!failed() && carry.initial->type != carry.type) {
        fail(at, fmt::format("`{}` is {} and begins as {}", symbol.name, dtype_name(carry.type),
                             dtype_name(carry.initial->type)));
      }
      carry.place = parse_place();
      pending.emplace_back(at, std::move(symbol));
      loop.carries.push_back(std::move(carry));
    } while (tokens_.accept(","));
    // The initial values do not see the carries of their own header.
    for (size_t i = 0; i < pending.size() && !failed(); ++i) {
      declare_symbol(pending[i].first, std::move(pending[i].second));
      if (failed()) return;
      loop.carries[i].target.symbol = symbols_[pending[i].first.text];
      open_carries_.insert(loop.carries[i].target.symbol);
    }
  }

  // cond = "if" expr "{" body "}"
  TileCondition parse_condition() {
    TileCondition condition;
    const TileToken at = tokens_.take();
    condition.condition = parse_scalar(DType::kBool);
    if (!failed() && condition.condition->type != DType::kBool)
      fail(at, "the condition is no bool");
    tokens_.expect("{");
    condition.body = parse_body();
    tokens_.expect("}");
    return condition;
  }

  // pack = "pack" "{" { "share" INT "{" body "}" } "}"
  TilePack parse_pack() {
    TilePack pack;
    tokens_.take();
    tokens_.expect("{");
    while (tokens_.accept("share")) {
      TilePack::Member member;
      member.share = tokens_.expect_positive("the number of blocks");
      tokens_.expect("{");
      member.body = parse_body();
      tokens_.expect("}");
      pack.members.push_back(std::move(member));
    }
    tokens_.expect("}");
    return pack;
  }

  static TileCombiner combiner(std::string_view word) {
    if (word == "sum") return TileCombiner::kSum;
    if (word == "prod") return TileCombiner::kProd;
    if (word == "min") return TileCombiner::kMin;
    if (word == "max") return TileCombiner::kMax;
    if (word == "and") return TileCombiner::kAnd;
    if (word == "or") return TileCombiner::kOr;
    if (word == "argmax") return TileCombiner::kArgMax;
    if (word == "welford") return TileCombiner::kWelford;
    return TileCombiner::kNone;
  }

  // stmt = ref {"," ref} ("="|"+="|"max="|"min=") [COMB "[" ID {"," ID} "]"] expr ["by" UNIT] [":"
  // TYPE] ["at" SCOPE]
  //        [place] ";"
  TileStatement parse_statement() {
    TileStatement s;
    std::vector<TileToken> names;
    do {
      names.push_back(tokens_.peek());
      tokens_.expect_name("a statement");
      TileRef target;
      target.next = tokens_.accept("'");
      target.indices = parse_subscripts();
      s.targets.push_back(std::move(target));
    } while (tokens_.accept(","));
    parse_assignment(s);
    if (tokens_.peek(1).is("[") && tokens_.peek().kind == TileToken::Kind::kName) {
      s.combiner = combiner(tokens_.peek().text);
      if (s.combiner != TileCombiner::kNone) parse_reduction(s);
    }
    s.value = parse_scalar(expected_type(names[0]));
    if (tokens_.accept("by")) s.unit = std::string(tokens_.expect_name("a matrix unit"));
    if (tokens_.accept(":")) s.type = tokens_.expect_type();
    if (tokens_.accept("at")) s.demand = parse_scope();
    if (at_template_form()) {
      parse_form();
    } else {
      s.place = parse_place();
    }
    tokens_.expect(";");
    ++statements_;
    if (!failed()) define_targets(s, names);
    return s;
  }

  /// The element type that a literal on the right side takes when nothing beside it has one.
  std::optional<DType> expected_type(const TileToken& target) {
    const auto known = symbols_.find(target.text);
    if (failed() || known == symbols_.end()) return std::nullopt;
    return program_.symbols[static_cast<size_t>(known->second)].type;
  }

  void parse_assignment(TileStatement& s) {
    if (tokens_.accept("=")) return;
    if (tokens_.accept("+=")) {
      s.assign = AssignOp::kAdd;
    } else if (tokens_.accept("max=")) {
      s.assign = AssignOp::kMax;
    } else if (tokens_.accept("min=")) {
      s.assign = AssignOp::kMin;
    } else {
      tokens_.expect("=");
    }
  }

  void parse_reduction(TileStatement& s) {
    tokens_.take();
    tokens_.expect("[");
    do {
      const TileToken at = tokens_.peek();
      const std::string_view name = tokens_.expect_name("an axis");
      if (failed()) return;
      const TileVarId axis = tile_axis(at, name);
      for (const TileVarId other : s.reduce_axes) {
        if (other == axis) fail(at, fmt::format("`{}` is reduced twice", name));
      }
      s.reduce_axes.push_back(axis);
    } while (tokens_.accept(","));
    tokens_.expect("]");
  }

  /// The variable that a name stands for in a reduction or a place: an axis, or the offset of a
  /// loop.
  TileVarId tile_axis(const TileToken& at, std::string_view name) {
    const auto found = indices_.find(name);
    if (found == indices_.end()) {
      fail(at, fmt::format("`{}` is no axis or loop", name));
      return 0;
    }
    if (found->second.offset >= 0) return found->second.offset;
    if (found->second.value.is_var()) {
      const TileVarId id = found->second.value.var_id();
      if (program_.vars[static_cast<size_t>(id)].kind == TileVar::Kind::kAxis) return id;
    }
    fail(at, fmt::format("`{}` has no extent within a tile: a loop of step 1", name));
    return 0;
  }

  Scope parse_scope() {
    const TileToken at = tokens_.take();
    if (at.is("register")) return Scope::kRegister;
    if (at.is("warp")) return Scope::kWarp;
    if (at.is("block") || at.is("scratch")) return Scope::kBlock;
    if (at.is("cluster")) return Scope::kCluster;
    if (at.is("grid")) return Scope::kGrid;
    fail(at, fmt::format("expected a scope, found {}", TileTokens::shown(at)));
    return Scope::kRegister;
  }

  void define_targets(TileStatement& s, const std::vector<TileToken>& names) {
    const bool pair = s.combiner == TileCombiner::kArgMax || s.combiner == TileCombiner::kWelford;
    if (s.targets.size() != (pair ? 2U : 1U)) {
      return fail(names[0], pair ? "argmax and welford have two results" : "one result is made");
    }
    for (size_t i = 0; i < names.size() && !failed(); ++i) {
      DType type = s.type.value_or(s.value->type);
      if (s.combiner == TileCombiner::kArgMax && i == 1) type = DType::kI64;
      define_target(s, s.targets[i], names[i], type);
    }
  }

  void define_target(const TileStatement& s, TileRef& target, const TileToken& name, DType type) {
    if (indices_.count(name.text) != 0) {
      return fail(name, fmt::format("`{}` is an index", name.text));
    }
    const auto known = symbols_.find(name.text);
    if (known == symbols_.end()) {
      if (target.next) return fail(name, fmt::format("`{}` is not carried by a loop", name.text));
      TileSymbol symbol;
      symbol.name = std::string(name.text);
      symbol.type = type;
      declare_symbol(name, std::move(symbol));
      if (failed()) return;
      target.symbol = symbols_[name.text];
      if (s.assign != AssignOp::kAssign) fail(name, "a scatter goes into an `out` parameter");
      return;
    }
    target.symbol = known->second;
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(known->second)];
    switch (symbol.kind) {
      case TileSymbol::Kind::kInput:
        return fail(name, fmt::format("`{}` is an input", name.text));
      case TileSymbol::Kind::kOutput:
        if (target.next) fail(name, fmt::format("`{}` is not carried by a loop", name.text));
        return;
      case TileSymbol::Kind::kCarry:
        if (!target.next) {
          fail(name, fmt::format("`{0}` is carried: its next value is `{0}'`", name.text));
        } else if (open_carries_.count(known->second) == 0) {
          fail(name, fmt::format("the loop that carries `{}` has ended", name.text));
        }
        return;
      case TileSymbol::Kind::kValue:
        return fail(name, fmt::format("`{}` is already defined", name.text));
    }
  }

  // place = "@" "[" ID "=" LEVEL "_" INT { "-" LEVEL "_" INT } {"," …} "]"
  //       | "@" FORM            a template form, [GRID_4-WARP_2,CTA]S
  bool at_template_form() const {
    if (!tokens_.peek().is("@") || !tokens_.peek(1).is("[") || tokens_.peek(3).is("="))
      return false;
    const std::string_view level = tokens_.peek(2).text.substr(0, tokens_.peek(2).text.find('_'));
    return level == "GRID" || level == "WARP" || level == "CTA" || level == "THREAD";
  }

  void parse_form() {
    tokens_.expect("@");
    const TileToken at = tokens_.peek();
    std::string text;
    while (!failed() && !tokens_.peek().is("]") && !tokens_.peek().is(";"))
      text += tokens_.take().text;
    tokens_.expect("]");
    text += tokens_.accept("S") ? "]S" : "]";
    auto form = parse_template_form(text);
    if (!form.ok()) return fail(at, form.error().message);
    uses_threads_ = true;
    forms_.emplace_back(statements_, std::move(*form));
  }

  Place parse_place() {
    Place place;
    if (!tokens_.accept("@")) return place;
    tokens_.expect("[");
    do {
      Place::Axis axis;
      const TileToken at = tokens_.peek();
      const std::string_view name = tokens_.expect_name("an axis");
      if (failed()) return place;
      axis.var = tile_axis(at, name);
      for (const Place::Axis& other : place.axes) {
        if (other.var == axis.var) fail(at, fmt::format("`{}` is placed twice", name));
      }
      tokens_.expect("=");
      do {
        axis.digits.push_back(parse_digit());
      } while (tokens_.accept("-"));
      place.axes.push_back(std::move(axis));
    } while (tokens_.accept(","));
    tokens_.expect("]");
    return place;
  }

  Place::Digit parse_digit() {
    Place::Digit digit;
    const TileToken at = tokens_.take();
    const size_t bar = at.text.find('_');
    const std::string_view level = at.text.substr(0, bar);
    bool known = at.kind == TileToken::Kind::kName && bar != std::string_view::npos;
    if (level == "WARP") {
      digit.level = PlaceLevel::kWarp;
    } else if (level == "LANE") {
      digit.level = PlaceLevel::kLane;
    } else if (level == "REG") {
      digit.level = PlaceLevel::kReg;
    } else if (level == "VEC") {
      digit.level = PlaceLevel::kVec;
    } else {
      known = false;
    }
    digit.extent = 0;
    if (known) {
      for (const char c : at.text.substr(bar + 1)) {
        if (c < '0' || c > '9' || digit.extent > (1 << 24)) {
          known = false;
          break;
        }
        digit.extent = digit.extent * 10 + (c - '0');
      }
    }
    if (!known || digit.extent == 0) {
      fail(at,
           fmt::format("expected WARP_n, LANE_n, REG_n or VEC_n, found {}", TileTokens::shown(at)));
      digit.extent = 1;
    }
    uses_threads_ =
        uses_threads_ || digit.level == PlaceLevel::kWarp || digit.level == PlaceLevel::kLane;
    return digit;
  }

  // Expressions.
  IndexExpr parse_index() {
    const SyntaxRef syntax = parse_expression(tokens_);
    if (failed()) return 0;
    auto index = elaborate_index(syntax, *this, nullptr);
    if (index.ok()) return *index;
    tokens_.fail(index.take_error());
    return 0;
  }

  ScalarRef parse_scalar(std::optional<DType> expected) {
    const SyntaxRef syntax = parse_expression(tokens_);
    if (!failed()) {
      auto scalar = elaborate_scalar(syntax, expected, *this);
      if (scalar.ok()) return *scalar;
      tokens_.fail(scalar.take_error());
    }
    return scalar_constant(float_value(DType::kF32, 0));
  }

  std::vector<IndexExpr> parse_subscripts() {
    std::vector<IndexExpr> indices;
    if (!tokens_.accept("[")) return indices;
    if (!tokens_.peek().is("]")) {
      do {
        indices.push_back(parse_index());
      } while (tokens_.accept(","));
    }
    tokens_.expect("]");
    return indices;
  }

  TileTokens tokens_;
  TileProgram program_;
  std::map<std::string_view, TileSymbolId> symbols_;
  std::map<std::string_view, Index> indices_;
  std::set<std::string_view> bound_;
  std::set<TileSymbolId> open_carries_;
  std::optional<bool> states_cpu_;
  bool uses_threads_ = false;
  std::vector<std::pair<size_t, TemplateForm>> forms_;  ///< by number of the statement
  size_t statements_ = 0;
  bool sizes_appear_ = false;
  int nest_ = 0;
};

}  // namespace

Result<TileProgram> parse_tile_program(std::string_view text) {
  WEFT_ASSIGN_OR_RETURN(std::vector<TileToken> tokens, tokenize_tile_program(text));
  return Parser(std::move(tokens)).run();
}

}  // namespace weft
