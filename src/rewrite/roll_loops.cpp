#include "rewrite/roll_loops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "rewrite/graph_rebuilder.h"
#include "rewrite/repeated_pieces.h"

namespace weft {
namespace {

/// Shorter chains stay written out: a loop would hide more from fusion than it saves.
constexpr size_t kMinTrips = 4;

/// Values of all pieces as one tensor with an axis more, in front.
struct Stack {
  ValueId value = kNoValue;
  bool reversed = false;  ///< the last piece's comes first
};

Shape with_leading(int64_t extent, const Shape& shape) {
  Shape out{extent};
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

/// Builds the scan of one chain of pieces in place of their nodes.
class LoopBuilder {
 public:
  LoopBuilder(Graph& graph, const RepeatedPieces& pieces)
      : pieces_(pieces), rebuild_(graph), is_piece_(graph.nodes.size()) {
    for (const auto& nodes : pieces.nodes) {
      for (int n : nodes) is_piece_[static_cast<size_t>(n)] = true;
    }
    origin_ = graph.node(pieces.nodes[0][0]).origin;
    note_uses(graph);
  }

  void run() {
    const std::vector<bool> behind = nodes_behind();
    region_ = std::make_shared<Graph>(region());
    std::vector<Node> nodes = rebuild_.take_nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!is_piece_[n] && !behind[n]) rebuild_.keep(nodes[n]);
    }
    replace_results(nodes, add_scan());
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (is_piece_[n] || !behind[n]) continue;
      rebuild_.forward_operands(nodes[n]);
      rebuild_.keep(std::move(nodes[n]));
    }
    rebuild_.finish();
  }

 private:
  using Kind = PieceSource::Kind;
  struct Made {
    int position = 0;
    int result = 0;
    bool operator<(const Made& o) const {
      return std::pair(position, result) < std::pair(o.position, o.result);
    }
  };

  size_t count() const { return static_cast<size_t>(pieces_.count); }
  const Graph& graph() { return rebuild_.graph(); }

  /// Which of the pieces' values others read, and in which pieces.
  void note_uses(const Graph& graph) {
    std::vector<bool> read(graph.values.size());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (is_piece_[n]) continue;
      for (ValueId v : graph.nodes[n].operands) read[static_cast<size_t>(v)] = true;
    }
    for (ValueId v : graph.outputs) read[static_cast<size_t>(v)] = true;
    for (size_t p = 0; p < pieces_.nodes.size(); ++p) {
      const size_t results = graph.node(pieces_.nodes[p][0]).results.size();
      for (size_t r = 0; r < results; ++r) {
        for (size_t t = 0; t < count(); ++t) {
          const ValueId v = graph.node(pieces_.nodes[p][t]).results[r];
          if (read[static_cast<size_t>(v)])
            outside_[{static_cast<int>(p), static_cast<int>(r)}].push_back(t);
        }
      }
    }
  }

  std::vector<bool> nodes_behind() {
    std::vector<bool> value(graph().values.size()), node(graph().nodes.size());
    for (size_t n = 0; n < node.size(); ++n) {
      for (ValueId v : graph().nodes[n].operands) {
        node[n] = node[n] || value[static_cast<size_t>(v)];
      }
      for (ValueId v : graph().nodes[n].results) {
        value[static_cast<size_t>(v)] = node[n] || is_piece_[n];
      }
    }
    return node;
  }

  /// Whether the last value of a carry is all that others read of its maker.
  bool is_last_of_carry(const Made& made, const std::vector<size_t>& reads) const {
    return reads == std::vector<size_t>{count() - 1} && carry_of(made) >= 0;
  }
  int carry_of(const Made& made) const {
    for (size_t c = 0; c < pieces_.carries.size(); ++c) {
      const PieceCarry& carry = pieces_.carries[c];
      if (carry.position == made.position && carry.result == made.result)
        return static_cast<int>(c);
    }
    return -1;
  }

  /// The first piece as a graph: carries, scanned values, invariants in; carries, stacked values
  /// out.
  Graph region() {
    Graph body;
    std::vector<ValueId> carries, scanned, invariants;
    const auto input = [&](ValueId v) { return body.add_input("", graph().type(v)); };
    for (const PieceCarry& c : pieces_.carries) carries.push_back(input(c.first));
    for (const auto& values : pieces_.scanned) scanned.push_back(input(values[0]));
    for (ValueId v : pieces_.invariants) {
      const Node* broadcast = broadcast_of(v);
      captures_.push_back(broadcast == nullptr ? v : broadcast->operands[0]);
      invariants.push_back(input(captures_.back()));
    }
    for (size_t i = 0; i < invariants.size(); ++i) {
      const ValueId v = pieces_.invariants[i];
      if (captures_[i] != v) invariants[i] = add_broadcast(body, v, invariants[i]);
    }
    std::vector<std::vector<ValueId>> results(pieces_.nodes.size());
    const auto value_of = [&](const PieceSource& s) {
      const auto i = static_cast<size_t>(s.index);
      switch (s.kind) {
        case Kind::kInside:
          return results[i][static_cast<size_t>(s.result)];
        case Kind::kCarried:
          return carries[i];
        case Kind::kScanned:
          return scanned[i];
        case Kind::kInvariant:
          return invariants[i];
      }
      return kNoValue;
    };
    std::map<int32_t, int32_t> origins;
    for (size_t p = 0; p < pieces_.nodes.size(); ++p) {
      Node node = graph().node(pieces_.nodes[p][0]);
      for (size_t i = 0; i < node.operands.size(); ++i) {
        node.operands[i] = value_of(pieces_.sources[p][i]);
      }
      for (ValueId& v : node.results) v = body.new_value("", TensorType(graph().type(v)));
      if (node.origin >= 0) {
        const auto [entry, fresh] =
            origins.try_emplace(node.origin, static_cast<int32_t>(body.origins.size()));
        if (fresh) body.origins.push_back(graph().origins[static_cast<size_t>(node.origin)]);
        node.origin = entry->second;
      }
      results[p] = node.results;
      body.nodes.push_back(std::move(node));
    }
    const auto output = [&](int position, int result) {
      body.add_output(results[static_cast<size_t>(position)][static_cast<size_t>(result)],
                      "out" + std::to_string(body.outputs.size()));
    };
    for (const PieceCarry& c : pieces_.carries) output(c.position, c.result);
    for (const auto& [made, reads] : outside_) {
      if (!is_last_of_carry(made, reads)) output(made.position, made.result);
    }
    return body;
  }

  /// A broadcast is made in the region from what is smaller, else the value itself comes in.
  const Node* broadcast_of(ValueId v) {
    const auto makes = [&](const Node& node) {
      return node.op == GraphOp::kBroadcast && node.results[0] == v;
    };
    const auto at = std::ranges::find_if(graph().nodes, makes);
    return at == graph().nodes.end() ? nullptr : &*at;
  }

  ValueId add_broadcast(Graph& body, ValueId v, ValueId operand) {
    auto made = body.add1(GraphOp::kBroadcast, broadcast_of(v)->attrs, {operand}, graph().type(v));
    WEFT_CHECK(made.ok(), made.error().message);
    return *made;
  }

  std::vector<ValueId> add_scan() {
    ScanAttrs attrs;
    attrs.carry_count = static_cast<int64_t>(pieces_.carries.size());
    attrs.scanned_count = static_cast<int64_t>(pieces_.scanned.size());
    std::vector<ValueId> operands;
    for (const PieceCarry& c : pieces_.carries) operands.push_back(c.first);
    for (const auto& values : pieces_.scanned) {
      const Stack stacked = stack(values);
      operands.push_back(stacked.value);
      attrs.x_reverse.push_back(stacked.reversed);
    }
    if (pieces_.scanned.empty()) operands.push_back(add_counter(attrs));
    operands.insert(operands.end(), captures_.begin(), captures_.end());
    attrs.y_reverse.assign(region_->outputs.size() - pieces_.carries.size(), false);
    return rebuild_.add_node(GraphOp::kScan, std::move(attrs), std::move(operands), {region_},
                             origin_);
  }

  /// A scan counts its trips by what it scans.
  ValueId add_counter(ScanAttrs& attrs) {
    attrs.scanned_count = 1;
    attrs.x_reverse.push_back(false);
    const ValueId input = region_->add_input("", {DType::kU8, {}});
    auto& inputs = region_->inputs;
    inputs.pop_back();
    inputs.insert(inputs.begin() + attrs.carry_count, input);
    HostTensor counter(DType::kU8, {pieces_.count});
    std::memset(counter.mutable_raw(), 0, static_cast<size_t>(counter.bytes()));
    return rebuild_.add_constant(std::move(counter), origin_);
  }

  void replace_results(const std::vector<Node>& nodes, const std::vector<ValueId>& results) {
    size_t next = pieces_.carries.size();
    for (const auto& [made, reads] : outside_) {
      const bool is_last = is_last_of_carry(made, reads);
      const ValueId stacked = results[is_last ? static_cast<size_t>(carry_of(made)) : next++];
      for (size_t t : reads) {
        const int n = pieces_.nodes[static_cast<size_t>(made.position)][t];
        const ValueId v = nodes[static_cast<size_t>(n)].results[static_cast<size_t>(made.result)];
        rebuild_.replace_result(v, is_last ? stacked : add_slice(stacked, t));
      }
    }
  }

  ValueId add_slice(ValueId stacked, size_t index) {
    TensorType type = rebuild_.type(stacked);
    SliceAttrs attrs{std::vector<int64_t>(type.shape.size(), 0),
                     std::vector<int64_t>(type.shape.size(), 1)};
    attrs.start[0] = static_cast<int64_t>(index);
    type.shape[0] = 1;
    const ValueId slice = rebuild_.add(GraphOp::kSlice, attrs, {stacked}, origin_, type);
    type.shape.erase(type.shape.begin());
    return rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {slice}, origin_, type);
  }

  Stack stack(const std::vector<ValueId>& values) {
    if (const std::optional<Stack> reshaped = stack_of_reshapes(values)) return *reshaped;
    if (const std::optional<Stack> sliced = stack_of_slices(values)) return *sliced;
    TensorType row = rebuild_.type(values[0]);
    row.shape = with_leading(1, row.shape);
    std::vector<ValueId> rows;
    for (ValueId v : values) {
      rows.push_back(rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {v}, origin_, row));
    }
    return {rebuild_.add(GraphOp::kConcat, ConcatAttrs{0}, std::move(rows), origin_), false};
  }

  /// The operands, where nodes of one op on one type make all values.
  std::optional<std::vector<ValueId>> operands_of(const std::vector<ValueId>& values, GraphOp op) {
    std::vector<ValueId> operands;
    for (ValueId v : values) {
      const Node* made_by = rebuild_.definition(v);
      if (made_by == nullptr || made_by->op != op) return std::nullopt;
      operands.push_back(made_by->operands[0]);
      if (rebuild_.type(operands.back()) != rebuild_.type(operands[0])) return std::nullopt;
    }
    return operands;
  }

  std::optional<Stack> stack_of_reshapes(const std::vector<ValueId>& values) {
    const auto operands = operands_of(values, GraphOp::kReshape);
    if (!operands) return std::nullopt;
    Stack stacked = stack(*operands);
    const TensorType& type = rebuild_.type(values[0]);
    stacked.value = reshape(stacked.value, with_leading(pieces_.count, type.shape));
    return stacked;
  }

  ValueId reshape(ValueId v, Shape shape) {
    const TensorType type{rebuild_.type(v).dtype, std::move(shape)};
    return rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {v}, origin_, type);
  }

  const SliceAttrs& slice_attrs(ValueId v) {
    return std::get<SliceAttrs>(rebuild_.definition(v)->attrs);
  }

  /// Slices of one tensor that follow each other at equal distances along one axis.
  std::optional<Stack> stack_of_slices(const std::vector<ValueId>& values) {
    const auto operands = operands_of(values, GraphOp::kSlice);
    if (!operands || std::ranges::count(*operands, (*operands)[0]) != pieces_.count)
      return std::nullopt;
    const SliceAttrs first = slice_attrs(values[0]), second = slice_attrs(values[1]);
    size_t axis = 0;
    while (axis < first.start.size() && first.start[axis] == second.start[axis]) ++axis;
    if (axis == first.start.size()) return std::nullopt;
    const int64_t distance = second.start[axis] - first.start[axis];
    for (size_t t = 0; t < values.size(); ++t) {
      SliceAttrs expected = first;
      expected.start[axis] += distance * static_cast<int64_t>(t);
      const SliceAttrs& attrs = slice_attrs(values[t]);
      if (attrs.start != expected.start || attrs.step != expected.step) return std::nullopt;
    }
    TensorType type = rebuild_.type(values[0]);
    const int64_t extent = type.shape[axis], far = std::abs(distance);
    const bool adjoin = extent > 1 && first.step[axis] == 1 && far == extent;
    if (extent != 1 && !adjoin) return std::nullopt;
    SliceAttrs all = first;
    if (distance < 0) all.start = slice_attrs(values.back()).start;
    if (extent == 1) all.step[axis] = far;
    const Shape piece = type.shape;
    type.shape[axis] = pieces_.count * extent;
    ValueId v = rebuild_.add(GraphOp::kSlice, all, {(*operands)[0]}, origin_, type);
    Shape apart = piece;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis), pieces_.count);
    v = reshape(v, apart);
    TransposeAttrs to_front{{static_cast<int64_t>(axis)}};
    for (size_t i = 0; i < apart.size(); ++i) {
      if (i != axis) to_front.permutation.push_back(static_cast<int64_t>(i));
    }
    if (axis != 0) v = rebuild_.add(GraphOp::kTranspose, to_front, {v}, origin_);
    return Stack{v, distance < 0};
  }

  const RepeatedPieces& pieces_;
  GraphRebuilder rebuild_;
  std::vector<bool> is_piece_;
  std::map<Made, std::vector<size_t>> outside_;  ///< pieces whose value others read
  std::shared_ptr<Graph> region_;
  std::vector<ValueId> captures_;  ///< what the region reads for each invariant
  int32_t origin_ = -1;
};

/// The pieces of a chain; without the first anchor where its piece has another form.
std::optional<RepeatedPieces> pieces_of_chain(const Graph& graph, AnchorChain anchors) {
  for (int i = 0; i < 2 && anchors.size() >= kMinTrips; ++i) {
    std::optional<RepeatedPieces> pieces = find_repeated_pieces(graph, anchors);
    if (pieces && static_cast<size_t>(pieces->count) >= kMinTrips) return pieces;
    anchors.erase(anchors.begin());
  }
  return std::nullopt;
}

/// Whether the pieces multiply by constants of their own, as layers do and steps do not.
bool have_weights_of_their_own(const Graph& graph, const RepeatedPieces& pieces) {
  std::vector<bool> constant(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.op == GraphOp::kConstant) constant[static_cast<size_t>(node.results[0])] = true;
  }
  for (size_t p = 0; p < pieces.nodes.size(); ++p) {
    const GraphOp op = graph.node(pieces.nodes[p][0]).op;
    if (op != GraphOp::kDotGeneral && op != GraphOp::kConvolution) continue;
    for (const PieceSource& source : pieces.sources[p]) {
      if (source.kind != PieceSource::Kind::kScanned) continue;
      const ValueId weight = pieces.scanned[static_cast<size_t>(source.index)][0];
      if (constant[static_cast<size_t>(weight)]) return true;
    }
  }
  return false;
}

bool roll(Graph& graph, bool layers) {
  bool changed = rewrite_regions(graph, [&](Graph& region) { return roll(region, layers); });
  std::set<std::string> refused;  // by the first anchor's result
  for (bool rolled = true; rolled;) {
    rolled = false;
    for (const AnchorChain& anchors : anchor_chains(graph, kMinTrips)) {
      const ValueId first = graph.node(anchors[0]).results[0];
      const std::string& name = graph.values[static_cast<size_t>(first)].name;
      if (refused.contains(name)) continue;
      const std::optional<RepeatedPieces> pieces = pieces_of_chain(graph, anchors);
      if (!pieces || (!layers && have_weights_of_their_own(graph, *pieces))) {
        refused.insert(name);
        continue;
      }
      LoopBuilder(graph, *pieces).run();
      rolled = changed = true;
      break;
    }
  }
  return changed;
}

}  // namespace

bool roll_loops(Graph& graph) { return roll(graph, true); }

bool roll_steps(Graph& graph) { return roll(graph, false); }

}  // namespace weft
