#include "cost/port_cycles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "cost/operation_cost.h"
#include "expr/layout.h"
#include "target/cpu_features.h"
#include "tile/bfloat_dot.h"
#include "tile/places.h"
#include "tile/word_dot.h"

namespace weft {

PortWork& PortWork::operator+=(const PortWork& other) {
  arithmetic += other.arithmetic;
  products += other.products;
  loads += other.loads;
  stores += other.stores;
  divider += other.divider;
  instructions += other.instructions;
  fills += other.fills;
  return *this;
}

PortWork PortWork::operator*(double times) const {
  PortWork out = *this;
  for (double* part : {&out.arithmetic, &out.products, &out.loads, &out.stores, &out.divider,
                       &out.instructions, &out.fills})
    *part *= times;
  return out;
}

double PortWork::cycles(const Core& core) const {
  // Of what the others ask for, a part falls where the busiest one is taken.
  constexpr double kMeet = 0.05;
  const double pipes = core.adds_beside ? std::max(products / 2, arithmetic / 4) : arithmetic / 2;
  std::array all = {pipes, loads / 2, stores, divider, instructions / 5 * core.pace, fills};
  std::ranges::sort(all, std::greater());
  return all[0] + kMeet * all[1];
}

Core core_of(const Target& target) {
  const double vectors = target.peak_gflops * 1e3 /
                         (2.0 * target.lanes(4) * std::max(target.threads, 1) * target.clock_mhz);
  return {.pace = std::clamp(std::round(vectors), 1.0, 2.0) / 2,
          .adds_beside = target.cpu.starts_with("znver"),
          .begins_halves = target.vector_bytes == 64 && halves_vectors(target.cpu)};
}

namespace {

/// Bytes after which the sets of a first cache repeat: bits of an address within its page say them.
constexpr int64_t kWay = 4096;

/// How many sets lines take that lie so many bytes from each other.
double sets_of(int64_t apart) {
  return static_cast<double>(kWay / std::gcd(std::max<int64_t>(apart, 64), kWay));
}

/// Of either the most of each.
PortWork larger(const PortWork& a, const PortWork& b) {
  return {.arithmetic = std::max(a.arithmetic, b.arithmetic),
          .products = std::max(a.products, b.products),
          .loads = std::max(a.loads, b.loads),
          .stores = std::max(a.stores, b.stores),
          .divider = std::max(a.divider, b.divider),
          .instructions = std::max(a.instructions, b.instructions),
          .fills = std::max(a.fills, b.fills)};
}

/// Elements between lanes up to which the vectors in which they lie are loaded (lower/cpu).
constexpr double kWidestStride = 4;
/// Instructions for a quotient or remainder of a vector's 64-bit indices by a constant.
constexpr double kOfQuotient = 8;
/// Registers that operands on their way take beside what lives longer.
constexpr double kOperands = 2;

bool is_product(const ScalarRef& s) {
  return s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kMul && is_float(s->type);
}

bool is_sum(const Scalar& s) {
  return s.kind == Scalar::Kind::kApply && is_float(s.type) &&
         (s.op == ScalarOp::kAdd || s.op == ScalarOp::kSub);
}

}  // namespace

StatementPorts::StatementPorts(const TileProgram& program, const ScopeAnalysis& scopes,
                               const FirstIteration& numbers, const Target& target)
    : program_(program),
      scopes_(scopes),
      numbers_(numbers),
      target_(target),
      core_(core_of(target)) {
  for_each_statement(program.body,
                     [&](const TileStatement& s) { number_.emplace(&s, number_.size()); });
  note_products();
}

void StatementPorts::note_products() {
  std::map<TileSymbolId, int> reads, sums;
  for_each_statement(program_.body, [&](const TileStatement& s) {
    if (is_product(s.value) && s.assign == AssignOp::kAssign && s.combiner == TileCombiner::kNone &&
        !in_memory(s.targets[0].symbol))
      added_products_.insert(s.targets[0].symbol);
    visit(s.value, [&](const Scalar& node) {
      if (node.kind == Scalar::Kind::kRead) ++reads[node.symbol];
      if (!is_sum(node)) return;
      for (const ScalarRef& operand : node.operands) {
        if (operand->kind == Scalar::Kind::kRead) ++sums[operand->symbol];
      }
    });
  });
  std::erase_if(added_products_, [&](TileSymbolId t) { return reads[t] != 1 || sums[t] != 1; });
}

bool StatementPorts::in_memory(TileSymbolId symbol) const {
  const TileSymbol::Kind kind = program_.symbols[static_cast<size_t>(symbol)].kind;
  return kind == TileSymbol::Kind::kInput || kind == TileSymbol::Kind::kOutput ||
         scopes_.symbols[static_cast<size_t>(symbol)].scope != Scope::kRegister;
}

std::vector<StatementPorts::Axis> StatementPorts::axes_of(const TileStatement& statement) const {
  std::vector<Axis> out;
  for (const Place::Axis& a : scopes_.statement_places[number_.at(&statement)].axes) {
    if (a.var < 0) continue;
    Axis axis{a.var};
    for (const Place::Digit& digit : a.digits) {
      if (digit.level == PlaceLevel::kVec) {
        axis.lanes *= digit.extent;
      } else {
        axis.registers *= static_cast<double>(digit.extent);
      }
    }
    // Of a box that the loop fills in part.
    const double vectors = numbers_.box(a.var) / static_cast<double>(axis.lanes);
    axis.registers = std::clamp(vectors, std::min(1.0, axis.registers), axis.registers);
    out.push_back(axis);
  }
  return out;
}

/// Registers of what a statement makes.
double StatementPorts::vectors_of(const TileStatement& statement) const {
  const DType type = program_.symbols[static_cast<size_t>(statement.targets[0].symbol)].type;
  const int64_t element = std::max<int64_t>(byte_size(type), 4);
  double copies = 1;
  int64_t lanes = 1;
  for (const Axis& a : axes_of(statement)) {
    const auto& reduced = statement.reduce_axes;
    if (std::ranges::find(reduced, a.var) != reduced.end()) continue;
    copies *= a.registers;
    lanes *= a.lanes;
  }
  return copies * std::ceil(static_cast<double>(lanes * element) / target_.vector_bytes);
}

PortWork StatementPorts::spilled(const TileLoop& loop) const {
  double carried = 0, made = 0;
  for (const TileNode& node : loop.body) {
    if (node.kind != TileNode::Kind::kStatement) continue;
    const TileRef& target = node.statement.targets[0];
    if (target.symbol < 0 || in_memory(target.symbol)) continue;
    if (target.next) {
      carried += vectors_of(node.statement);
    } else if (!added_products_.contains(target.symbol)) {
      made = std::max(made, vectors_of(node.statement));
    }
  }
  const double over =
      std::max(0.0, carried + made + kOperands - static_cast<double>(target_.vector_registers));
  // Carries that find no register drag the others with them: 8 x 4 vectors of sums in 32 registers
  // take 1.8 times as long as 8 x 3 for each product, 12 x 4 take 2.0 times.
  constexpr double kOfACarry = 0.9;
  const bool moves = carried + kOperands > static_cast<double>(target_.vector_registers);
  const double dragged = moves ? kOfACarry * carried : 0;
  return {.arithmetic = dragged,
          .products = dragged,
          .loads = over,
          .stores = over,
          .instructions = 2 * over};
}

/// Where in memory the element lies that indices say at a value of one variable.
int64_t StatementPorts::offset(TileSymbolId symbol, const std::vector<IndexExpr>& indices,
                               TileVarId var, int64_t at) const {
  const TileSymbol& s = program_.symbols[static_cast<size_t>(symbol)];
  const bool parameter = s.kind == TileSymbol::Kind::kInput || s.kind == TileSymbol::Kind::kOutput;
  const SymbolScope& scope = scopes_.symbols[static_cast<size_t>(symbol)];
  Shape shape = parameter ? Shape{} : scope.extents;
  if (parameter) {
    for (const IndexExpr& e : s.shape) shape.push_back(numbers_.of(e));
  }
  int64_t offset = 0;
  std::vector<int64_t> position;
  for (const IndexExpr& e : indices) {
    position.push_back(evaluate(
        e, [&](int id) { return id == var ? at : numbers_.value(static_cast<TileVarId>(id)); }));
  }
  if (!parameter || s.layout.is_row_major()) {
    for (size_t d = 0; d < position.size() && d < shape.size(); ++d)
      offset = offset * shape[d] + position[d];
    return offset;
  }
  for (const Layout::Axis& a : s.layout.axes)
    offset = offset * a.extent + position[static_cast<size_t>(a.axis)] / a.divisor % a.extent;
  return offset;
}

/// Elements between neighbours along a variable; NaN where data say.
double StatementPorts::stride(TileSymbolId symbol, const std::vector<IndexExpr>& indices,
                              TileVarId var) const {
  for (const IndexExpr& e : indices) {
    for (const int v : variables(e)) {
      if (v >= kRuntimeIndexBase) return NAN;
    }
  }
  return static_cast<double>(offset(symbol, indices, var, 1) - offset(symbol, indices, var, 0));
}

/// Whether lanes that mostly read what their neighbours read do so too far apart for one load, or
/// in another order in each vector: the first vectors along the axis are looked at.
bool StatementPorts::lie_apart(const Scalar& read, const Axis& axis) const {
  constexpr int64_t kVectors = 8;
  AffineForm form;
  if (std::ranges::all_of(read.indices, [&](const IndexExpr& e) { return as_affine(e, &form); }))
    return false;
  std::vector<int64_t> order(static_cast<size_t>(axis.lanes), 0);
  for (int64_t vector = 0; vector < kVectors; ++vector) {
    const auto at = [&](int64_t lane) {
      return offset(read.symbol, read.indices, axis.var, vector * axis.lanes + lane);
    };
    const int64_t first = at(0);
    for (int64_t lane = 1; lane < axis.lanes; ++lane) {
      const int64_t apart = at(lane) - first;
      if (std::abs(apart) >= axis.lanes ||
          (vector > 0 && apart != order[static_cast<size_t>(lane)]))
        return true;
      order[static_cast<size_t>(lane)] = apart;
    }
  }
  return false;
}

/// One statement's tree.
class StatementPorts::Tree {
 public:
  struct Node {
    uint32_t axes = 0;     ///< of the place, a bit each
    bool varies = false;   ///< within the loop around
    bool of_index = true;  ///< of loops' indices and constants alone
    double latency = 0;    ///< from the leaves
    double carried = -1;   ///< from the carry's value before; below 0: does not hang on it
  };

  Tree(const StatementPorts& ports, const std::vector<Axis>& axes, const TileLoop* around,
       TileSymbolId carry)
      : ports_(ports), axes_(axes), carry_(carry) {
    if (around == nullptr) return;
    trips_ = std::max(ports.numbers_.trips(*around), 1.0);
    step_ = &around->dims.back();
    for (const TileLoop::Dim& dim : around->dims) {
      changing_.insert(dim.origin);
      changing_.insert(dim.offset);
    }
    for (const TileCarry& c : around->carries) made_inside_.insert(c.target.symbol);
    for_each_statement(around->body, [&](const TileStatement& s) {
      for (const TileRef& t : s.targets) made_inside_.insert(t.symbol);
    });
  }

  Node add(const ScalarRef& s) {
    if (const auto known = nodes_.find(s.get()); known != nodes_.end()) return known->second;
    Node node;
    const auto join = [&](const Node& n) {
      node.axes |= n.axes;
      node.varies |= n.varies;
      node.of_index &= n.of_index;
      node.latency = std::max(node.latency, n.latency);
      node.carried = std::max(node.carried, n.carried);
    };
    if (s->op == ScalarOp::kSelect && s->kind == Scalar::Kind::kApply) {
      choose(*s, join);
    } else {
      for (const ScalarRef& operand : s->operands) join(add(operand));
    }
    if (s->fill) add(s->fill);
    switch (s->kind) {
      case Scalar::Kind::kConstant:
        break;
      case Scalar::Kind::kIndex:
        depend_on(s->index, &node);
        if (!is_known(node)) {
          const double each = 1 + kOfQuotient * new_quotients(s->index);
          spend({.arithmetic = each, .instructions = each}, node, s->type);
        }
        break;
      case Scalar::Kind::kRead:
        read(*s, &node);
        break;
      case Scalar::Kind::kApply:
        apply(*s, &node);
        break;
    }
    nodes_.emplace(s.get(), node);
    return node;
  }

  double copies(uint32_t axes, DType type) const {
    double n = 1;
    for (size_t a = 0; a < axes_.size(); ++a) {
      if ((axes >> a & 1) == 0) continue;
      // 16-bit floats are computed with as 32-bit ones.
      const int64_t element =
          is_float(type) ? std::max<int64_t>(byte_size(type), 4) : byte_size(type);
      const auto bytes = static_cast<double>(axes_[a].lanes * element);
      n *= axes_[a].registers *
           std::max(1.0, std::ceil(bytes / static_cast<double>(ports_.target_.vector_bytes)));
    }
    return n;
  }

  PortWork work;

 private:
  /// The operands of a selection; where what chooses is known, one of the two is made.
  template <typename Join>
  void choose(const Scalar& s, Join&& join) {
    const Node condition = add(s.operands[0]);
    join(condition);
    const PortWork before = std::exchange(work, {});
    join(add(s.operands[1]));
    PortWork first = std::exchange(work, {});
    join(add(s.operands[2]));
    first = is_known(condition) ? larger(first, work) : first += work;
    work = before;
    work += first;
  }

  void depend_on(const IndexExpr& e, Node* node) const {
    for (const int v : variables(e)) {
      for (size_t a = 0; a < axes_.size(); ++a) {
        if (axes_[a].var == v) node->axes |= 1u << a;
      }
      node->varies |= changing_.contains(v);
    }
  }

  void spend(const PortWork& each, const Node& node, DType type) {
    work += each * (copies(node.axes, type) / (node.varies ? 1 : trips_));
  }

  /// Where no lane changes it, what indices say is a bound of loops, or borders have code of their
  /// own.
  bool is_known(const Node& node) const { return node.of_index && is_element(node); }

  /// A core that cuts its vectors loads an element that stands for all lanes at once.
  double loads_of(const Node& node) const {
    return is_element(node) && !ports_.is_narrow(axes_) ? ports_.core_.pace : 1;
  }

  bool is_element(const Node& node) const {
    for (size_t a = 0; a < axes_.size(); ++a) {
      if ((node.axes >> a & 1) != 0 && axes_[a].lanes > 1) return false;
    }
    return true;
  }

  void read(const Scalar& s, Node* node) {
    node->of_index = false;
    for (const IndexExpr& e : s.indices) depend_on(e, node);
    const bool is_carry = s.symbol == carry_ && !s.next;
    node->varies |= made_inside_.contains(s.symbol);
    if (is_carry) node->carried = std::max(node->carried, 0.0);
    if (!ports_.in_memory(s.symbol)) return;
    node->latency += kLoadLatency;
    if (is_carry) node->carried += kLoadLatency;
    for (const Scalar* other : loaded_) {
      if (other->symbol == s.symbol && other->indices == s.indices && s.operands.empty()) return;
    }
    loaded_.push_back(&s);
    PortWork each{.loads = loads_of(*node), .instructions = 1};
    if (s.fill) each.arithmetic += 1, each.instructions += 1;
    add_gathering(s, *node, &each);
    spend(each, *node, s.type);
    if (step_ == nullptr || !node->varies) return;
    const double apart = ports_.stride(s.symbol, s.indices, step_->origin) *
                         static_cast<double>(step_->step * byte_size(s.type));
    work.fills += ports_.fills(apart, ports_.numbers_.trips(step_->origin));
  }

  /// Quotients and remainders of an index that the tree has not had.
  double new_quotients(const IndexExpr& e) {
    constexpr int64_t kMostNodes = 4096;
    if (e.op() == IndexOp::kConst || e.op() == IndexOp::kVar || e.tree_size() > kMostNodes)
      return 0;
    if (std::ranges::find(divided_, e) != divided_.end()) return 0;
    const bool divides = e.op() == IndexOp::kFloorDiv || e.op() == IndexOp::kMod;
    if (divides) divided_.push_back(e);
    return (divides ? 1 : 0) + new_quotients(e.lhs()) + new_quotients(e.rhs());
  }

  /// What lanes that do not lie side by side cost beyond a load of a vector.
  void add_gathering(const Scalar& s, const Node& node, PortWork* each) {
    for (size_t a = 0; a < axes_.size(); ++a) {
      const int64_t lanes = axes_[a].lanes;
      if (lanes == 1 || (node.axes >> a & 1) == 0) continue;
      const double stride = ports_.stride(s.symbol, s.indices, axes_[a].var);
      if (stride == 1) continue;
      const auto width = static_cast<double>(
          std::min<int64_t>(lanes, ports_.target_.vector_bytes / byte_size(s.type)));
      const bool turned = std::ranges::any_of(axes_, [&](const Axis& other) {
        return other.lanes == 1 && 2 * other.registers >= width &&
               ports_.stride(s.symbol, s.indices, other.var) == 1;
      });
      if (turned) {
        each->arithmetic += std::log2(width);
        each->instructions += std::log2(width);
      } else if (stride == -1 || (stride == 0 && !ports_.lie_apart(s, axes_[a]))) {
        each->arithmetic += 1;
        each->instructions += 1;
      } else if (stride >= 2 && stride <= kWidestStride) {
        each->loads += stride - 1;
        each->arithmetic += 2 * (stride - 1);
        each->instructions += 3 * (stride - 1);
      } else {
        double quotients = 0;
        for (const IndexExpr& e : s.indices) quotients += new_quotients(e);
        // Places are of 8 bytes.
        const double places = kOfQuotient * quotients * 8 / static_cast<double>(byte_size(s.type));
        each->loads += width - 1;
        each->arithmetic += width + places;
        each->instructions += 2 * width - 1 + places;
      }
    }
  }

  void apply(const Scalar& s, Node* node) {
    const bool chooses = s.op == ScalarOp::kSelect && is_known(nodes_.at(s.operands[0].get()));
    if (chooses || is_known(*node)) return;
    OperationCost cost = s.op == ScalarOp::kConvert
                             ? conversion_cost(s.operands[0]->type, s.type, is_element(*node))
                             : cost_of(s.op, s.type, ports_.target_);
    if (s.op == ScalarOp::kDiv && is_float(s.type) && !nodes_.at(s.operands[1].get()).varies &&
        node->varies) {
      cost = kDivisionByOneValue;
    }
    if (is_sum(s) && std::ranges::any_of(s.operands, [&](const ScalarRef& o) {
          if (nodes_.at(o.get()).axes != node->axes) return false;
          return is_product(o) ||
                 (o->kind == Scalar::Kind::kRead && ports_.added_products_.contains(o->symbol));
        })) {
      cost.instructions = cost.products = 0;  // one instruction with its product
    }
    node->latency += cost.latency;
    if (node->carried >= 0) node->carried += cost.latency;
    const DType wide = s.operands.empty() || byte_size(s.operands[0]->type) < byte_size(s.type)
                           ? s.type
                           : s.operands[0]->type;
    spend({.arithmetic = cost.instructions,
           .products = cost.products,
           .divider = cost.divider,
           .instructions = cost.instructions},
          *node, wide);
  }

  const StatementPorts& ports_;
  const std::vector<Axis>& axes_;
  TileSymbolId carry_;
  double trips_ = 1;
  const TileLoop::Dim* step_ = nullptr;  ///< the innermost of the loop around
  std::set<int> changing_;
  std::set<TileSymbolId> made_inside_;
  std::vector<const Scalar*> loaded_;
  std::vector<IndexExpr> divided_;  ///< quotients and remainders that are made
  std::unordered_map<const Scalar*, Node> nodes_;
};

StatementPorts::Cost StatementPorts::of(const TileStatement& statement,
                                        const TileLoop* around) const {
  const std::vector<Axis> axes = axes_of(statement);
  const TileRef& target = statement.targets[0];
  const bool updates = target.next;
  Tree tree(*this, axes, around, updates ? target.symbol : -1);
  const Tree::Node node = tree.add(statement.value);
  Cost cost{tree.work, node.latency, updates ? std::max(node.carried, 0.0) : 0};
  const double fills = cost.work.fills;
  if (is_narrow(axes)) cost.work = cost.work * 0.5;
  cost.work.fills = fills;
  if (statement.unit == kByteDotUnit) cost.work = cost.work * (3.0 / 8);
  if (statement.unit == kWordDotUnit) cost.work = cost.work * (1.0 / 4);
  if (statement.unit == kBFloatDotUnit) cost.work = cost.work * (1.0 / 8);
  if (statement.combiner != TileCombiner::kNone) {
    const Cost reduced = reduce(statement, axes);
    cost.work += reduced.work;
    cost.latency += reduced.latency;
    if (updates) cost.carried += reduced.latency;
  }
  store(statement, axes, &cost);
  cost.work.divider *= core_.pace;
  cost.work.fills *= core_.pace;
  cost.latency *= core_.pace;
  cost.carried *= core_.pace;
  return cost;
}

/// Whether all vectors fit half of the widest, of which the CPU begins twice as many. A cycle is
/// the time of two multiply-adds of the widest (Latency).
bool StatementPorts::is_narrow(const std::vector<Axis>& axes) const {
  if (!core_.begins_halves || axes.empty()) return false;
  const int64_t lanes = std::ranges::max(axes, {}, &Axis::lanes).lanes;
  return lanes > 1 && 2 * lanes * int64_t{sizeof(float)} <= target_.vector_bytes;
}

/// Register copies are combined in pairs, then halves of a vector.
StatementPorts::Cost StatementPorts::reduce(const TileStatement& statement,
                                            const std::vector<Axis>& axes) const {
  const bool is_sum = statement.combiner == TileCombiner::kSum;
  const bool is_pair =
      statement.combiner == TileCombiner::kArgMax || statement.combiner == TileCombiner::kWelford;
  const double each = is_pair ? 5 : is_sum ? 1 : 3, latency = is_sum ? 4 : 8;
  double results = 1, copies = 1;
  int64_t lanes = 1;
  for (const Axis& a : axes) {
    const bool reduced =
        std::ranges::find(statement.reduce_axes, a.var) != statement.reduce_axes.end();
    (reduced ? copies : results) *= a.registers;
    if (reduced) lanes *= a.lanes;
  }
  const double halvings = std::log2(static_cast<double>(lanes));
  Cost cost;
  cost.work.arithmetic = results * ((copies - 1) * each + halvings * (each + 1));
  cost.work.instructions = cost.work.arithmetic;
  cost.latency = std::ceil(std::log2(copies)) * latency + halvings * (latency + 2);
  return cost;
}

/// Of a store of one lane, where the lanes of an axis lie `apart` bytes from each other: lines that
/// share a set of the first cache push each other out before the next row comes back to them.
double StatementPorts::cycles_across(double apart, const Axis& axis) const {
  constexpr double kWays = 8, kLeast = 2;
  constexpr double kMissed = 7, kOfALine = 0.17;  // 16 lines of a set on a Zen 3, 64 on a Zen 4
  if (!(std::abs(apart) < 1e12)) return kLeast;
  const double lines = static_cast<double>(axis.lanes) * axis.registers;
  const double of_a_set = lines / sets_of(std::llabs(static_cast<int64_t>(apart)));
  return of_a_set > kWays ? std::max(kMissed, kOfALine * of_a_set) : kLeast;
}

/// Of a load whose address moves so many bytes from one iteration of a loop to the next: where its
/// lines are more than their sets hold, each of them pushes out one that the next walk needs, and a
/// set takes a line in some ten cycles of the clock (measured on a Zen 4).
double StatementPorts::fills(double apart, double trips) const {
  constexpr double kFill = 13;
  if (!(std::abs(apart) < 1e12) || apart == 0) return 0;
  const double sets = sets_of(std::llabs(static_cast<int64_t>(apart)));
  const double ways = std::max(8.0, static_cast<double>(target_.l1_bytes / kWay));
  return trips / sets > ways ? kFill / sets : 0;
}

void StatementPorts::store(const TileStatement& statement, const std::vector<Axis>& axes,
                           Cost* cost) const {
  for (const TileRef& target : statement.targets) {
    if (target.symbol < 0 || !in_memory(target.symbol)) continue;
    const DType type = program_.symbols[static_cast<size_t>(target.symbol)].type;
    double n = 1, lanes_apart = 1, cycles = 1;
    for (const Axis& a : axes) {
      const bool indexed = std::ranges::any_of(
          target.indices, [&](const IndexExpr& e) { return uses_var(e, a.var); });
      if (!indexed) continue;
      const double bytes = static_cast<double>(a.lanes * byte_size(type));
      n *= a.registers * std::max(1.0, std::ceil(bytes / target_.vector_bytes));
      const double apart = a.lanes > 1 ? stride(target.symbol, target.indices, a.var) : 1;
      if (apart == 1) continue;
      lanes_apart = static_cast<double>(a.lanes);
      cycles = cycles_across(apart * static_cast<double>(byte_size(type)), a);
    }
    PortWork each{.stores = lanes_apart * cycles, .instructions = lanes_apart};
    if (lanes_apart > 1) each.arithmetic = lanes_apart, each.instructions *= 2;
    if (statement.assign != AssignOp::kAssign) each.loads += lanes_apart;
    cost->work += each * n;
  }
}

}  // namespace weft
