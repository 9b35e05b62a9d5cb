#include "tile/check/evaluate.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/executions.h"
#include "tile/analysis/relate_reads.h"
#include "tile/analysis/same_blocks.h"
#include "tile/analysis/scope_derivation.h"
#include "tile/check/evaluated_tile.h"
#include "tile/rewrite/bind_tile_sizes.h"
#include "tile/text/tile_printer.h"

namespace weft {
namespace {

constexpr int64_t kMostIterations = int64_t{1} << 22;

class Evaluator {
 public:
  Evaluator(const TileProgram& program, const std::map<std::string, HostTensor>& inputs)
      : program_(program), inputs_(inputs), structure_(structure_of(program)) {}

  Result<TileEvaluation> run() {
    WEFT_ASSIGN_OR_RETURN(scopes_, derive_scopes(program_));
    places_ = resolve_places(structure_);
    used_ = grid_dependences(structure_, scopes_);
    kept_ = kept_for_later_nests(structure_, scopes_);
    WEFT_RETURN_IF_ERROR(bind_parameters());
    prepare_tiles();
    if (error_) return *error_;
    Context root;
    root.env.assign(program_.vars.size(), 0);
    for (size_t i = 0; i < root.env.size(); ++i) {
      if (program_.vars[i].kind == TileVar::Kind::kSize) root.env[i] = program_.vars[i].extent;
    }
    for (const TileSymbolId id : shared_) reset(root, id);
    for (const TileSymbolId id : made_in_[nullptr]) reset(root, id);
    body(program_.body, {&root});
    if (error_) return *error_;
    return finish();
  }

 private:
  void fail(std::string what) {
    if (!error_) {
      error_ = invalid_input(fmt::format("tile program {}: {}", program_.name, what));
    }
  }

  // Parameters.
  std::vector<TileSymbolId> tensors_in_memory() const {
    std::vector<TileSymbolId> out = program_.parameters;
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      if (program_.symbols[i].is_workspace) out.push_back(static_cast<TileSymbolId>(i));
    }
    return out;
  }

  Status bind_parameters() {
    const auto value = [&](int id) { return program_.vars[static_cast<size_t>(id)].extent; };
    for (const TileSymbolId id : tensors_in_memory()) {
      const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
      Shape shape;
      for (const IndexExpr& e : symbol.shape) shape.push_back(evaluate(e, value));
      if (!checked_byte_size(symbol.type, shape).has_value()) {
        return invalid_input(
            fmt::format("{}: the shape of {} is impossible", program_.name, symbol.name));
      }
      EvaluatedParameter parameter;
      if (symbol.kind == TileSymbol::Kind::kOutput) {
        parameter.tensor = HostTensor(symbol.type, shape);
      } else {
        const auto found = inputs_.find(symbol.name);
        if (found == inputs_.end()) {
          return invalid_input(fmt::format("{}: no input {}", program_.name, symbol.name));
        }
        if (found->second.shape() != shape || found->second.dtype() != symbol.type) {
          return invalid_input(fmt::format("{}: input {} has another type or shape than declared",
                                           program_.name, symbol.name));
        }
        parameter.tensor = found->second;
      }
      parameter.is_input = symbol.kind == TileSymbol::Kind::kInput;
      parameter.is_workspace = symbol.is_workspace;
      parameter.touched.assign(static_cast<size_t>(parameter.tensor.size()), 0);
      parameters_.emplace(id, std::move(parameter));
      shapes_.emplace(id, std::move(shape));
    }
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      if (program_.symbols[i].view_of < 0) continue;
      Shape shape;
      for (const IndexExpr& e : program_.symbols[i].shape) shape.push_back(evaluate(e, value));
      shapes_.emplace(static_cast<TileSymbolId>(i), std::move(shape));
    }
    return {};
  }

  // Tiles.
  /// Extents and bases of all values, and the loop at whose iterations each begins anew.
  void prepare_tiles() {
    Derivation d{program_, structure_, places_, {}, {}, scopes_, {}};
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      if (structure_.definition[i] < 0) continue;
      const TileSymbolId id = static_cast<TileSymbolId>(i);
      const bool shared = scopes_.symbols[i].scope == Scope::kGrid;
      auto around = shared ? std::vector<const TileLoop*>{} : lifetime_loops(d, id);
      if (scopes_.symbols[i].scope == Scope::kCluster) {
        const auto cluster = std::find_if(around.begin(), around.end(), [](const TileLoop* loop) {
          return loop->kind == TileLoop::Kind::kCluster;
        });
        if (cluster != around.end()) {
          around.erase(cluster, around.end());
          home_[id] = around.back();
        }
      }
      SymbolScope& buffer = buffers_[id];
      if (auto status = fill_buffer(d, id, around, &buffer); !status.ok()) {
        return fail(status.error().message);
      }
      const auto count = element_count(buffer.extents);
      if (!count.has_value() || *count > (int64_t{1} << 31)) {
        return fail(fmt::format("{} is too large to evaluate", program_.symbols[i].name));
      }
      if (shared) {
        shared_.insert(id);
        unique_[id].assign(static_cast<size_t>(*count), 0);
      } else {
        made_in_[around.empty() ? nullptr : around.back()].push_back(id);
      }
    }
  }

  void reset(Context& context, TileSymbolId id) {
    const SymbolScope& buffer = buffers_.at(id);
    Tile tile;
    tile.extents = buffer.extents;
    for (const IndexExpr& e : buffer.base) tile.base.push_back(index(e, context));
    const size_t count = static_cast<size_t>(element_count(buffer.extents).value_or(0));
    tile.bits.assign(count, 0);
    tile.made.assign(count, 0);
    (shared_.count(id) != 0 ? shared_tiles_ : context.tiles)[id] = std::move(tile);
  }

  /// The contexts that hold a value which is not shared by the grid: of one of cluster scope those
  /// outside of its cluster loop, once each.
  Contexts holders(const Contexts& contexts, TileSymbolId id) const {
    const auto home = home_.find(id);
    if (home == home_.end()) return contexts;
    Contexts out;
    for (Context* context : contexts) {
      while (context->loop != home->second) context = const_cast<Context*>(context->outer);
      if (std::find(out.begin(), out.end(), context) == out.end()) out.push_back(context);
    }
    return out;
  }

  Tile* find_tile(Context& context, TileSymbolId id, bool next) {
    if (shared_.count(id) != 0) {
      auto& tiles = next ? shared_next_ : shared_tiles_;
      const auto found = tiles.find(id);
      return found == tiles.end() ? nullptr : &found->second;
    }
    for (Context* at = &context; at != nullptr; at = const_cast<Context*>(at->outer)) {
      auto& tiles = next ? at->next : at->tiles;
      const auto found = tiles.find(id);
      if (found != tiles.end()) return &found->second;
    }
    return nullptr;
  }

  int64_t index(const IndexExpr& e, const Context& context) const {
    return evaluate(e, [&](int id) { return context.env[static_cast<size_t>(id)]; });
  }

  // Control.
  void body(const TileBody& nodes, const Contexts& contexts) {
    for (const TileNode& node : nodes) {
      if (error_ || contexts.empty()) return;
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          statement(site_++, contexts);
          break;
        case TileNode::Kind::kCondition:
          condition(*node.condition, contexts);
          break;
        case TileNode::Kind::kPack:
          for (const TilePack::Member& member : node.pack->members) body(member.body, contexts);
          break;
        case TileNode::Kind::kLoop:
          if (node.loop->kind == TileLoop::Kind::kSeq) {
            seq_loop(*node.loop, contexts);
          } else {
            grid_loop(*node.loop, contexts);
          }
          break;
      }
    }
  }

  void skip_to_end(const TileBody& nodes) {
    for (const TileNode& node : nodes) {
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          ++site_;
          break;
        case TileNode::Kind::kCondition:
          ++site_;
          skip_to_end(node.condition->body);
          break;
        case TileNode::Kind::kPack:
          for (const TilePack::Member& member : node.pack->members) skip_to_end(member.body);
          break;
        case TileNode::Kind::kLoop:
          site_ += static_cast<int32_t>(node.loop->carries.size());
          skip_to_end(node.loop->body);
          break;
      }
    }
  }

  void condition(const TileCondition& c, const Contexts& contexts) {
    const int32_t site = site_++;
    Contexts inside;
    for (Context* context : contexts) {
      begin_site(site, *context);
      if (scalar(c.condition.get(), *context).i != 0) inside.push_back(context);
      end_site(*context);
    }
    const int32_t first = site_;
    if (!inside.empty()) body(c.body, inside);
    site_ = first;
    skip_to_end(c.body);
  }

  void begin_iteration(const TileLoop& loop, const Contexts& contexts) {
    for (Context* context : contexts) {
      for (const TileSymbolId id : made_in_[&loop]) reset(*context, id);
    }
  }

  void grid_loop(const TileLoop& loop, const Contexts& contexts) {
    std::vector<std::unique_ptr<Context>> owned;
    Contexts inner;
    for (Context* context : contexts) {
      std::vector<int64_t> env = context->env;
      const std::function<void(size_t)> enumerate = [&](size_t d) {
        if (static_cast<int64_t>(owned.size()) > kMostIterations)
          return fail("too many iterations");
        if (d == loop.dims.size()) {
          owned.push_back(std::make_unique<Context>());
          owned.back()->outer = context;
          owned.back()->loop = &loop;
          owned.back()->env = env;
          inner.push_back(owned.back().get());
          return;
        }
        const TileLoop::Dim& dim = loop.dims[d];
        const auto value = [&](int id) { return env[static_cast<size_t>(id)]; };
        const int64_t end = evaluate(dim.end, value);
        for (int64_t at = evaluate(dim.begin, value); at < end && !error_; at += dim.step) {
          env[static_cast<size_t>(dim.origin)] = at;
          enumerate(d + 1);
        }
      };
      enumerate(0);
    }
    begin_iteration(loop, inner);
    take_kept(loop, inner);
    const int32_t first = site_;
    body(loop.body, inner);
    leave_kept(loop, inner);
    site_ = first;
    skip_to_end(loop.body);
  }

  /// What blocks keep of a nest is there in those that they run alike later on.
  void leave_kept(const TileLoop& loop, const Contexts& contexts) {
    for (const TileSymbolId id : made_in_[&loop]) {
      if (kept_.count(id) == 0) continue;
      kept_tiles_[id].clear();
      for (const Context* context : contexts) kept_tiles_[id].push_back(context->tiles.at(id));
    }
  }
  void take_kept(const TileLoop& loop, const Contexts& contexts) {
    for (const auto& [id, tiles] : kept_tiles_) {
      const Site& maker =
          structure_.sites[static_cast<size_t>(structure_.definition[static_cast<size_t>(id)])];
      if (!same_blocks(structure_, nest_of(maker), structure_.loop_path.at(&loop))) continue;
      for (size_t i = 0; i < contexts.size(); ++i) contexts[i]->tiles[id] = tiles[i];
    }
  }

  void seq_loop(const TileLoop& loop, const Contexts& contexts) {
    for (const TileCarry& carry : loop.carries) {
      const int32_t site = site_++;
      const bool shared = shared_.count(carry.target.symbol) != 0;
      for (Context* holder :
           shared ? Contexts{contexts[0]} : holders(contexts, carry.target.symbol)) {
        reset(*holder, carry.target.symbol);
      }
      for (Context* context : contexts) {
        assign(site, carry.target, *carry.initial, *context);
      }
    }
    const int32_t first = site_;
    run_dim(loop, 0, contexts, first);
    site_ = first;
    skip_to_end(loop.body);
  }

  void run_dim(const TileLoop& loop, size_t d, const Contexts& contexts, int32_t first) {
    if (d == loop.dims.size()) return iteration(loop, contexts, first);
    const TileLoop::Dim& dim = loop.dims[d];
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const Context* context : contexts) {
      ranges.emplace_back(index(dim.begin, *context), index(dim.end, *context));
    }
    for (int64_t step = 0; !error_; step += dim.step) {
      Contexts active;
      for (size_t c = 0; c < contexts.size(); ++c) {
        if (ranges[c].first + step >= ranges[c].second) continue;
        contexts[c]->env[static_cast<size_t>(dim.origin)] = ranges[c].first + step;
        active.push_back(contexts[c]);
      }
      if (active.empty()) return;
      run_dim(loop, d + 1, active, first);
    }
  }

  void iteration(const TileLoop& loop, const Contexts& contexts, int32_t first) {
    begin_iteration(loop, contexts);
    for (const TileCarry& carry : loop.carries) {
      const TileSymbolId id = carry.target.symbol;
      // What is not updated keeps its value; what is read as a next value must have been made.
      const auto begin = [&](std::map<TileSymbolId, Tile>& tiles,
                             std::map<TileSymbolId, Tile>& next) {
        Tile& tile = next[id] = tiles.at(id);
        std::fill(tile.made.begin(), tile.made.end(), 0);
      };
      if (shared_.count(id) != 0) {
        begin(shared_tiles_, shared_next_);
        continue;
      }
      for (Context* context : holders(contexts, id)) begin(context->tiles, context->next);
    }
    site_ = first;
    body(loop.body, contexts);
    for (const TileCarry& carry : loop.carries) {
      const TileSymbolId id = carry.target.symbol;
      const auto end = [&](std::map<TileSymbolId, Tile>& tiles,
                           std::map<TileSymbolId, Tile>& next) {
        Tile& tile = tiles.at(id);
        Tile& made = next.at(id);
        for (size_t i = 0; i < made.made.size(); ++i) tile.made[i] |= made.made[i];
        tile.bits = std::move(made.bits);
        next.erase(id);
      };
      if (shared_.count(id) != 0) {
        end(shared_tiles_, shared_next_);
        continue;
      }
      for (Context* context : holders(contexts, id)) end(context->tiles, context->next);
    }
  }

  // Statements.
  /// Elements 0..extent-1 of a box variable that exist in this iteration.
  int64_t valid(TileVarId var, const Context& context) const {
    const int64_t extent = program_.vars[static_cast<size_t>(var)].extent;
    const auto found = structure_.dim_of.find(var);
    if (found == structure_.dim_of.end()) return extent;
    // A carry's box is whole before its loop begins.
    const std::vector<const TileLoop*>& loops =
        structure_.sites[static_cast<size_t>(current_)].loops;
    if (std::find(loops.begin(), loops.end(), found->second.first) == loops.end()) return extent;
    const TileLoop::Dim& dim = structure_.dim(var);
    const int64_t left = index(dim.end, context) - context.env[static_cast<size_t>(dim.origin)];
    return std::clamp<int64_t>(left, 0, extent);
  }

  template <typename F>
  void for_each_point(const std::vector<TileVarId>& vars, Context& context, F&& visit_point) {
    std::vector<int64_t> extents;
    for (const TileVarId var : vars) {
      extents.push_back(valid(var, context));
      if (extents.back() == 0) return;
      context.env[static_cast<size_t>(var)] = 0;
    }
    while (!error_) {
      visit_point();
      size_t a = vars.size();
      while (a > 0) {
        int64_t& at = context.env[static_cast<size_t>(vars[a - 1])];
        if (++at < extents[a - 1]) break;
        at = 0;
        --a;
      }
      if (a == 0) return;
    }
  }

  std::vector<TileVarId> target_variables(const TileRef& target) const {
    std::set<TileVarId> vars;
    for (const IndexExpr& e : target.indices) add_box_variables(program_, e, &vars);
    return {vars.begin(), vars.end()};
  }

  /// A carry's first value.
  void assign(int32_t site, const TileRef& target, const Scalar& value, Context& context) {
    begin_site(site, context);
    for_each_point(target_variables(target), context, [&] {
      ++point_;
      store(target, AssignOp::kAssign, scalar(&value, context), context);
    });
    end_site(context);
  }

  void statement(int32_t number, const Contexts& contexts) {
    const TileStatement& s = *structure_.sites[static_cast<size_t>(number)].statement;
    const std::vector<TileVarId> kept = target_variables(s.targets[0]);
    for (Context* context : contexts) {
      if (error_) return;
      begin_site(number, *context);
      widened_ = !s.unit.empty();
      for_each_point(kept, *context, [&] {
        if (s.combiner == TileCombiner::kNone) {
          ++point_;
          store(s.targets[0], s.assign, scalar(s.value.get(), *context), *context);
        } else {
          reduce(s, *context);
        }
      });
      widened_ = false;
      end_site(*context);
    }
  }

  void reduce(const TileStatement& s, Context& context) {
    std::vector<ScalarValue> values;
    std::vector<int64_t> positions;
    for_each_point(s.reduce_axes, context, [&] {
      ++point_;
      values.push_back(scalar(s.value.get(), context));
      positions.push_back(position(s.reduce_axes[0], context));
    });
    if (error_) return;
    const DType type = widened_ ? DType::kF32 : s.value->type;
    const std::vector<ScalarValue> results = reduce_values(s.combiner, type, values, positions);
    if (results.empty()) return fail("argmax over nothing");
    for (size_t r = 0; r < results.size(); ++r) store(s.targets[r], s.assign, results[r], context);
  }

  /// What the name of a reduced axis means in an index.
  int64_t position(TileVarId var, const Context& context) const {
    int64_t at = context.env[static_cast<size_t>(var)];
    if (structure_.dim_of.count(var) != 0) {
      at += context.env[static_cast<size_t>(structure_.dim(var).origin)];
    }
    return at;
  }

  // Reads and writes, with their traffic.
  void begin_site(int32_t site, Context& context) {
    current_ = site;
    ++execution_;
    ++point_;
    weight_ = weight(site, context);
    const Site& at = structure_.sites[static_cast<size_t>(site)];
    if (plans_.count(site) != 0) return;
    SitePlan& plan = plans_[site];
    visit(at.value, [&](const Scalar& node) {
      plan.number.emplace(&node, static_cast<int32_t>(plan.number.size()));
    });
    plan.memo.resize(plan.number.size());
    plan.memo_point.assign(plan.number.size(), 0);
    for (const ReadSite& read : structure_.reads) {
      if (read.site != site || read.repeated) continue;
      const TileSymbol& symbol = program_.symbols[static_cast<size_t>(read.read->symbol)];
      const bool counted =
          symbol.kind == TileSymbol::Kind::kInput || shared_.count(read.read->symbol) != 0;
      if (!counted) continue;
      ReadPlan& r = plan.reads[read.read];
      int64_t size = 1;
      for (const TileVarId var : read_variables(program_, *read.read)) {
        r.vars.push_back(var);
        size *= program_.vars[static_cast<size_t>(var)].extent;
      }
      r.seen.assign(static_cast<size_t>(size), 0);
      r.bytes = byte_size(symbol.type) * warp_copies(structure_, scopes_, places_, read);
    }
  }
  void end_site(Context&) {}

  /// How many blocks run the site for this context; 0 where another iteration of the block has made
  /// the same already.
  int64_t weight(int32_t number, const Context& context) {
    const Site& site = structure_.sites[static_cast<size_t>(number)];
    std::vector<TileVarId> around;
    for (const TileLoop* loop : site.loops) {
      if (loop->kind == TileLoop::Kind::kSeq) continue;
      for (const TileLoop::Dim& dim : loop->dims) around.push_back(dim.origin);
    }
    if (around.empty()) return 1;
    auto found = weights_.find(number);
    if (found == weights_.end()) {
      auto iterations = grid_iterations(structure_, site, kMostIterations);
      if (!iterations.ok()) {
        fail(iterations.error().message);
        return 1;
      }
      found = weights_
                  .emplace(number,
                           execution_counts(*iterations, around, used_[static_cast<size_t>(number)],
                                            blocks_together(structure_, site)))
                  .first;
    }
    std::vector<int64_t> key;
    for (const TileVarId origin : around) key.push_back(context.env[static_cast<size_t>(origin)]);
    const auto count = found->second.find(key);
    return count == found->second.end() ? 0 : count->second;
  }

  void count_read(const Scalar& read, Context& context) {
    auto& reads = plans_.at(current_).reads;
    const auto found = reads.find(&read);
    if (found == reads.end()) return;
    ReadPlan& plan = found->second;
    int64_t at = 0;
    for (const TileVarId var : plan.vars) {
      at = at * program_.vars[static_cast<size_t>(var)].extent +
           context.env[static_cast<size_t>(var)];
    }
    int64_t& seen = plan.seen[static_cast<size_t>(at)];
    if (seen == execution_) return;
    seen = execution_;
    out_.requested_read += plan.bytes * weight_;
  }

  std::string shown(const Scalar& read, const std::vector<int64_t>& at) const {
    std::string out = program_.symbols[static_cast<size_t>(read.symbol)].name;
    for (size_t i = 0; i < at.size(); ++i) out += fmt::format("{}{}", i == 0 ? "[" : ", ", at[i]);
    return at.empty() ? out : out + "]";
  }

  ScalarValue read(const Scalar& s, Context& context) {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(s.symbol)];
    std::vector<int64_t> runtime;
    for (const ScalarRef& operand : s.operands) {
      runtime.push_back(scalar(operand.get(), context).i);
    }
    const auto parameter = parameters_.find(symbol.view_of >= 0 ? symbol.view_of : s.symbol);
    const Shape shape = parameter == parameters_.end() ? Shape{} : shapes_.at(s.symbol);
    std::vector<int64_t> at;
    for (size_t a = 0; a < s.indices.size(); ++a) {
      at.push_back(evaluate(s.indices[a], [&](int id) {
        if (id < kRuntimeIndexBase) return context.env[static_cast<size_t>(id)];
        const int64_t v = runtime[static_cast<size_t>(id - kRuntimeIndexBase)];
        if (parameter == parameters_.end()) return v;
        return std::clamp<int64_t>(v, 0, shape[a] - 1);
      }));
    }
    if (parameter == parameters_.end()) return read_value(s, at, context);
    EvaluatedParameter& p = parameter->second;
    if (symbol.kind == TileSymbol::Kind::kOutput) {
      fail(fmt::format("{} is an output and cannot be read", symbol.name));
      return float_value(DType::kF32, 0);
    }
    int64_t offset = 0;
    bool inside = true;
    for (size_t a = 0; a < at.size(); ++a) {
      const int64_t extent = shape[a];
      inside = inside && at[a] >= 0 && at[a] < extent;
      offset = offset * extent + at[a];
    }
    if (!inside) {
      if (s.fill) return scalar(s.fill.get(), context);
      fail(fmt::format("{} is outside the tensor", shown(s, at)));
      return float_value(DType::kF32, 0);
    }
    offset += index(symbol.at, context);
    if (offset < 0 || offset >= p.tensor.size()) {
      fail(fmt::format("{} is outside what it shows", shown(s, at)));
      return float_value(DType::kF32, 0);
    }
    count_read(s, context);
    if (symbol.view_of < 0) {
      p.touched[static_cast<size_t>(offset)] = 1;
    } else if (!p.is_input && p.touched[static_cast<size_t>(offset)] == 0) {
      fail(fmt::format("{} is read and nothing has stored it", shown(s, at)));
    }
    if (symbol.view_of >= 0) seen_[s.symbol].insert(offset);
    return element(p.tensor, offset);
  }

  ScalarValue read_value(const Scalar& s, const std::vector<int64_t>& at, Context& context) {
    const DType type = program_.symbols[static_cast<size_t>(s.symbol)].type;
    const Tile* tile = find_tile(context, s.symbol, s.next);
    const int64_t offset = tile == nullptr ? -1 : tile->offset(at);
    // What is made ahead is filled beyond its tails, as far as its box reaches.
    if (s.fill && offset >= 0 && tile->made[static_cast<size_t>(offset)] == 0) {
      return scalar(s.fill.get(), context);
    }
    if (offset < 0 || tile->made[static_cast<size_t>(offset)] == 0) {
      fail(fmt::format("{}{} is read and nothing has made it", shown(s, at), s.next ? "'" : ""));
      return float_value(DType::kF32, 0);
    }
    count_read(s, context);
    if (shared_.count(s.symbol) != 0) unique_[s.symbol][static_cast<size_t>(offset)] |= 1;
    return from_bits(type, tile->bits[static_cast<size_t>(offset)]);
  }

  void store(const TileRef& target, AssignOp op, const ScalarValue& value, Context& context) {
    if (error_) return;
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(target.symbol)];
    std::vector<int64_t> at;
    for (const IndexExpr& e : target.indices) at.push_back(index(e, context));
    const auto parameter = parameters_.find(symbol.view_of >= 0 ? symbol.view_of : target.symbol);
    if (parameter == parameters_.end()) {
      Tile* tile = find_tile(context, target.symbol, target.next);
      const int64_t offset = tile == nullptr ? -1 : tile->offset(at);
      if (offset < 0) return fail(fmt::format("{} is made outside its box", symbol.name));
      tile->bits[static_cast<size_t>(offset)] = to_bits(convert_value(value, symbol.type));
      tile->made[static_cast<size_t>(offset)] = 1;
      if (shared_.count(target.symbol) != 0) {
        unique_[target.symbol][static_cast<size_t>(offset)] |= 2;
        out_.requested_written += byte_size(symbol.type) * weight_;
      }
      return;
    }
    EvaluatedParameter& p = parameter->second;
    const Shape& shape = shapes_.at(target.symbol);
    int64_t offset = 0;
    for (size_t a = 0; a < at.size(); ++a) {
      if (at[a] < 0 || at[a] >= shape[a]) {
        return fail(fmt::format("an element outside {} is written", symbol.name));
      }
      offset = offset * shape[a] + at[a];
    }
    offset += index(symbol.at, context);
    if (offset < 0 || offset >= p.tensor.size())
      return fail(fmt::format("{} is stored outside of what it shows", symbol.name));
    if (symbol.view_of >= 0) {
      seen_[target.symbol].insert(offset);
      p.by_views = true;
    }
    out_.requested_written += byte_size(symbol.type) * weight_;
    uint8_t& touched = p.touched[static_cast<size_t>(offset)];
    if (op == AssignOp::kAssign) {
      if (touched != 0 && !p.is_workspace) {
        return fail(fmt::format("element {} of {} is written twice", offset, symbol.name));
      }
      set_element(p.tensor, offset, value);
    } else {
      const Combiner combiner = op == AssignOp::kAdd   ? Combiner::kSum
                                : op == AssignOp::kMax ? Combiner::kMax
                                                       : Combiner::kMin;
      const ScalarValue before =
          touched != 0 ? element(p.tensor, offset) : combiner_identity(combiner, symbol.type);
      set_element(p.tensor, offset, combine(combiner, before, convert_value(value, symbol.type)));
    }
    touched = 1;
  }

  // Scalars.
  ScalarValue scalar(const Scalar* s, Context& context) {
    if (error_) return float_value(DType::kF32, 0);
    SitePlan& plan = plans_.at(current_);
    const size_t number = static_cast<size_t>(plan.number.at(s));
    if (plan.memo_point[number] == point_) return plan.memo[number];
    const ScalarValue value = scalar_anew(*s, context);
    plan.memo[number] = value;
    plan.memo_point[number] = point_;
    return value;
  }

  ScalarValue scalar_anew(const Scalar& s, Context& context) {
    switch (s.kind) {
      case Scalar::Kind::kConstant:
        return s.value;
      case Scalar::Kind::kIndex: {
        const int64_t at = index(s.index, context);
        return convert_value(int_value(DType::kI64, at), s.type);
      }
      case Scalar::Kind::kRead: {
        const ScalarValue value = read(s, context);
        // A matrix unit multiplies its operands exactly.
        const bool narrow = s.type == DType::kF16 || s.type == DType::kBF16;
        return widened_ && narrow ? convert_value(value, DType::kF32) : value;
      }
      case Scalar::Kind::kApply:
        break;
    }
    if (s.op == ScalarOp::kSelect) {
      const bool yes = scalar(s.operands[0].get(), context).i != 0;
      return scalar(s.operands[yes ? 1 : 2].get(), context);
    }
    std::vector<ScalarValue> operands;
    for (const ScalarRef& operand : s.operands) operands.push_back(scalar(operand.get(), context));
    if (error_) return float_value(DType::kF32, 0);
    return evaluate_scalar(s.op, operands, s.type);
  }

  Result<TileEvaluation> finish() {
    for (auto& [id, p] : parameters_) {
      const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
      const int64_t touched = std::count(p.touched.begin(), p.touched.end(), 1);
      if (p.is_workspace) {
        if (!p.by_views) out_.unique_written += touched * byte_size(symbol.type);
        continue;
      }
      if (p.is_input) {
        out_.unique_read += touched * byte_size(symbol.type);
        continue;
      }
      if (touched != p.tensor.size()) {
        return invalid_input(fmt::format("tile program {}: {} of {} elements of {} are not written",
                                         program_.name, p.tensor.size() - touched, p.tensor.size(),
                                         symbol.name));
      }
      if (!p.by_views) out_.unique_written += touched * byte_size(symbol.type);
      out_.outputs[symbol.name] = p.tensor;
    }
    for (const auto& [id, offsets] : seen_) {
      const TileSymbol& view = program_.symbols[static_cast<size_t>(id)];
      const bool stored = view.kind == TileSymbol::Kind::kOutput;
      (stored ? out_.unique_written : out_.unique_read) +=
          static_cast<int64_t>(offsets.size()) * byte_size(view.type);
    }
    for (const auto& [id, flags] : unique_) {
      const int64_t bytes = byte_size(program_.symbols[static_cast<size_t>(id)].type);
      for (const uint8_t flag : flags) {
        out_.unique_read += (flag & 1) != 0 ? bytes : 0;
        out_.unique_written += (flag & 2) != 0 ? bytes : 0;
      }
    }
    return std::move(out_);
  }

  struct ReadPlan {
    std::vector<TileVarId> vars;
    std::vector<int64_t> seen;  ///< by point of `vars`: the execution that last read it
    int64_t bytes = 0;
  };
  struct SitePlan {
    std::map<const Scalar*, int32_t> number;
    std::vector<ScalarValue> memo;
    std::vector<int64_t> memo_point;
    std::map<const Scalar*, ReadPlan> reads;
  };

  const TileProgram& program_;
  const std::map<std::string, HostTensor>& inputs_;
  TileStructure structure_;
  ScopeAnalysis scopes_;
  PlaceTable places_;
  std::vector<std::set<TileVarId>> used_;
  std::map<TileSymbolId, EvaluatedParameter> parameters_;
  std::map<TileSymbolId, Shape> shapes_;            ///< of parameters and views
  std::map<TileSymbolId, std::set<int64_t>> seen_;  ///< elements read or stored through a view
  std::map<TileSymbolId, SymbolScope> buffers_;
  std::set<TileSymbolId> shared_;
  std::map<TileSymbolId, Tile> shared_tiles_, shared_next_;
  std::set<TileSymbolId> kept_;                           ///< for later nests
  std::map<TileSymbolId, std::vector<Tile>> kept_tiles_;  ///< by iteration of the nest
  std::map<TileSymbolId, std::vector<uint8_t>> unique_;
  std::map<const TileLoop*, std::vector<TileSymbolId>> made_in_;
  std::map<TileSymbolId, const TileLoop*> home_;  ///< of cluster scope: the loop around its cluster
  std::map<int32_t, SitePlan> plans_;
  std::map<int32_t, std::map<std::vector<int64_t>, int64_t>> weights_;
  TileEvaluation out_;
  std::optional<Error> error_;
  int32_t site_ = 0;
  int32_t current_ = 0;
  int64_t execution_ = 0, point_ = 0, weight_ = 1;
  bool widened_ = false;
};

}  // namespace

Result<TileEvaluation> evaluate_tile_program(const TileProgram& program,
                                             const std::map<std::string, HostTensor>& inputs,
                                             const std::map<std::string, int64_t>& sizes) {
  WEFT_ASSIGN_OR_RETURN(const TileProgram bound, bind_tile_sizes(program, inputs, sizes));
  return Evaluator(bound, inputs).run();
}

}  // namespace weft
