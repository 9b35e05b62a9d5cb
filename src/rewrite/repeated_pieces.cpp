#include "rewrite/repeated_pieces.h"

#include <algorithm>
#include <unordered_map>

#include "graph/attribute_fields.h"

namespace weft {
namespace {

bool is_contraction(const Node& node) {
  return node.op == GraphOp::kDotGeneral || node.op == GraphOp::kConvolution;
}

/// One operation on operands of the same types.
bool same_form(const Graph& graph, const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (a.op != b.op || a.operands.size() != b.operands.size() ||
      a.results.size() != b.results.size() || a.regions != b.regions ||
      !equal_attributes(a.attrs, b.attrs)) {
    return false;
  }
  const auto same_types = [&](const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    return std::ranges::equal(
        x, y, [&](ValueId v, ValueId w) { return v == w || graph.type(v) == graph.type(w); });
  };
  return same_types(a.operands, b.operands) && same_types(a.results, b.results);
}

/// Who makes and who reads each value.
struct ValueUses {
  struct Maker {
    int node = -1;
    int result = 0;
    friend bool operator==(const Maker&, const Maker&) = default;
  };
  struct Reader {
    int node = 0;
    int operand = 0;
  };
  std::vector<Maker> makers;
  std::vector<std::vector<Reader>> readers;

  explicit ValueUses(const Graph& graph)
      : makers(graph.values.size()), readers(graph.values.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (size_t r = 0; r < node.results.size(); ++r) {
        makers[static_cast<size_t>(node.results[r])] = {static_cast<int>(n), static_cast<int>(r)};
      }
      for (size_t i = 0; i < node.operands.size(); ++i) {
        readers[static_cast<size_t>(node.operands[i])].push_back(
            {static_cast<int>(n), static_cast<int>(i)});
      }
    }
  }
  const Maker& maker(ValueId v) const { return makers[static_cast<size_t>(v)]; }
  const std::vector<Reader>& readers_of(ValueId v) const { return readers[static_cast<size_t>(v)]; }
};

/// Of each node the length of the longest path that ends there.
std::vector<int> depths(const Graph& graph) {
  std::vector<int> of_value(graph.values.size(), 0), of_node(graph.nodes.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    int depth = 0;
    for (ValueId v : graph.nodes[n].operands) {
      depth = std::max(depth, of_value[static_cast<size_t>(v)]);
    }
    of_node[n] = depth + 1;
    for (ValueId v : graph.nodes[n].results) of_value[static_cast<size_t>(v)] = depth + 1;
  }
  return of_node;
}

/// Splits nodes of one form into runs of constant, positive difference of depth. The node before a
/// run belongs to it: what the first step reads may be less deep than what a step makes.
void add_runs(const std::vector<int>& depth, std::vector<int> nodes, size_t min_trips,
              std::vector<AnchorChain>& chains) {
  std::ranges::sort(nodes, {}, [&](int n) { return std::pair(depth[static_cast<size_t>(n)], n); });
  const auto step = [&](size_t i) {
    return depth[static_cast<size_t>(nodes[i + 1])] - depth[static_cast<size_t>(nodes[i])];
  };
  for (size_t begin = 0; begin + 1 < nodes.size();) {
    size_t end = begin + 1;
    while (end + 1 < nodes.size() && step(end) == step(begin)) ++end;
    const size_t first = begin > 0 && step(begin - 1) > 0 ? begin - 1 : begin;
    if (step(begin) > 0 && end - begin >= 2 && end - first + 1 >= min_trips) {
      chains.emplace_back(nodes.begin() + static_cast<std::ptrdiff_t>(first),
                          nodes.begin() + static_cast<std::ptrdiff_t>(end) + 1);
    }
    begin = end;
  }
}

/// Nodes by the first anchor that needs them: piece t holds what anchor t + 1 needs and anchor t
/// did not; -1 what anchor 0 needs, kOutside what none does.
constexpr int kOutside = -2;

std::optional<std::vector<int>> pieces_of_nodes(const Graph& graph, const ValueUses& uses,
                                                const AnchorChain& anchors) {
  std::vector<int> piece(graph.nodes.size(), kOutside);
  std::vector<int> stack;
  for (size_t a = 0; a < anchors.size(); ++a) {
    const int mark = static_cast<int>(a) - 1;
    stack.push_back(anchors[a]);
    while (!stack.empty()) {
      const int n = stack.back();
      stack.pop_back();
      for (ValueId v : graph.node(n).operands) {
        const int made_by = uses.maker(v).node;
        if (made_by < 0 || piece[static_cast<size_t>(made_by)] != kOutside) continue;
        piece[static_cast<size_t>(made_by)] = mark;
        stack.push_back(made_by);
      }
    }
    if (a > 0 && piece[static_cast<size_t>(anchors[a - 1])] != mark) return std::nullopt;
  }
  return piece;
}

/// Values of one place in all pieces.
using Places = std::vector<ValueId>;

/// Matches the pieces position by position, from the anchors backwards.
class PieceMatcher {
 public:
  PieceMatcher(const Graph& graph, const ValueUses& uses, const AnchorChain& anchors,
               const std::vector<int>& piece)
      : graph_(graph), uses_(uses), anchors_(anchors), piece_(piece) {}

  std::optional<RepeatedPieces> run() {
    for (int count = static_cast<int>(anchors_.size()) - 1; count >= 2; --count) {
      found_ = {};
      found_.count = count;
      position_of_ = {};
      pending_ = {};
      match_from_roots();
      if (!resolve_carries()) continue;
      if (!holds_anchors() || found_.carries.empty()) return std::nullopt;
      sort_positions();
      return std::move(found_);
    }
    return std::nullopt;
  }

 private:
  struct Pending {
    size_t position, operand;
    Places values;
  };

  const Node& node_of(size_t position, int piece) const {
    return graph_.node(found_.nodes[position][static_cast<size_t>(piece)]);
  }

  void match_from_roots() {
    const auto count = static_cast<size_t>(found_.count);
    for (size_t i = 0; i < graph_.node(anchors_[0]).operands.size(); ++i) {
      Places values;
      for (size_t t = 0; t < count; ++t) values.push_back(graph_.node(anchors_[t + 1]).operands[i]);
      position_made_by(values);
    }
    for (Places root : roots_) {
      root.resize(count);
      position_made_by(root);
    }
    for (size_t p = 0; p < found_.nodes.size(); ++p) {
      const size_t operands = node_of(p, 0).operands.size();
      found_.sources[p].resize(operands);
      for (size_t i = 0; i < operands; ++i) {
        Places values;
        for (int t = 0; t < found_.count; ++t) values.push_back(node_of(p, t).operands[i]);
        const PieceSource source = classify(p, i, std::move(values));
        found_.sources[p][i] = source;
      }
    }
  }

  /// The position whose nodes make these values, a new one where there is none yet; -1 where they
  /// are not of one form or not one in each piece.
  int position_made_by(const Places& values) {
    const ValueUses::Maker first = uses_.maker(values[0]);
    if (first.node < 0 || graph_.node(first.node).op == GraphOp::kConstant) return -1;
    std::vector<int> nodes;
    for (size_t t = 0; t < values.size(); ++t) {
      const ValueUses::Maker maker = uses_.maker(values[t]);
      if (maker.node < 0 || maker.result != first.result ||
          piece_[static_cast<size_t>(maker.node)] != static_cast<int>(t) ||
          !same_form(graph_, graph_.node(first.node), graph_.node(maker.node))) {
        return -1;
      }
      nodes.push_back(maker.node);
    }
    const auto [entry, fresh] =
        position_of_.try_emplace(first.node, static_cast<int>(found_.nodes.size()));
    if (!fresh)
      return found_.nodes[static_cast<size_t>(entry->second)] == nodes ? entry->second : -1;
    found_.nodes.push_back(std::move(nodes));
    found_.sources.emplace_back();
    return entry->second;
  }

  bool are_equal(const Places& values) const {
    return std::ranges::all_of(values, [&](ValueId v) { return is_equal(values[0], v); });
  }
  bool is_equal(ValueId a, ValueId b) const {
    if (a == b) return true;
    const int n = uses_.maker(a).node, m = uses_.maker(b).node;
    if (n < 0 || m < 0) return false;
    const Node &x = graph_.node(n), &y = graph_.node(m);
    return x.op == GraphOp::kConstant && y.op == GraphOp::kConstant &&
           graph_.type(a) == graph_.type(b) && equal_attributes(x.attrs, y.attrs);
  }

  /// Whether each value but the first is made in the piece before its reader's.
  bool comes_from_before(const Places& values) const {
    if (values.size() < 2) return false;
    const int first = uses_.maker(values[0]).node;
    if (first >= 0 && piece_[static_cast<size_t>(first)] >= 0) return false;
    for (size_t t = 1; t < values.size(); ++t) {
      const int n = uses_.maker(values[t]).node;
      if (n < 0 || piece_[static_cast<size_t>(n)] != static_cast<int>(t) - 1) return false;
    }
    return true;
  }

  PieceSource classify(size_t position, size_t operand, Places values) {
    using Kind = PieceSource::Kind;
    if (are_equal(values)) return {Kind::kInvariant, index_of(found_.invariants, values[0]), 0};
    const int inside = position_made_by(values);
    if (inside >= 0) return {Kind::kInside, inside, uses_.maker(values[0]).result};
    if (comes_from_before(values)) {
      pending_.push_back({position, operand, std::move(values)});
      return {};
    }
    return {Kind::kScanned, index_of(found_.scanned, std::move(values)), 0};
  }

  template <typename T>
  static int index_of(std::vector<T>& list, T item) {
    const auto at = std::ranges::find(list, item);
    if (at != list.end()) return static_cast<int>(at - list.begin());
    list.push_back(std::move(item));
    return static_cast<int>(list.size()) - 1;
  }

  /// Finds the makers of carried values. False where one is no position yet: it becomes a root, and
  /// all is matched again for one piece less, since that of the last piece is not known.
  bool resolve_carries() {
    for (Pending& wait : pending_) {
      const ValueUses::Maker maker = uses_.maker(wait.values[1]);
      const auto at = position_of_.find(maker.node);
      PieceSource& source = found_.sources[wait.position][wait.operand];
      if (at != position_of_.end() && makes(at->second, maker.result, wait.values)) {
        source = {PieceSource::Kind::kCarried,
                  carry_index({wait.values[0], at->second, maker.result}), 0};
      } else if (is_read_from_one_tensor(wait.values)) {
        source = {PieceSource::Kind::kScanned, index_of(found_.scanned, wait.values), 0};
      } else {
        roots_.emplace_back(wait.values.begin() + 1, wait.values.end());
        return false;
      }
    }
    return true;
  }

  bool makes(int position, int result, const Places& values) const {
    for (size_t t = 1; t < values.size(); ++t) {
      const ValueUses::Maker expected{found_.nodes[static_cast<size_t>(position)][t - 1], result};
      if (uses_.maker(values[t]) != expected) return false;
    }
    return true;
  }

  /// What the piece before read as well (an input of the step before).
  bool is_read_from_one_tensor(const Places& values) const {
    return std::ranges::all_of(values, [&](ValueId v) {
      const int n = uses_.maker(v).node;
      return n < 0 || graph_.node(n).op == GraphOp::kSlice ||
             graph_.node(n).op == GraphOp::kConstant;
    });
  }

  int carry_index(const PieceCarry& carry) {
    const auto at = std::ranges::find_if(found_.carries, [&](const PieceCarry& c) {
      return c.first == carry.first && c.position == carry.position && c.result == carry.result;
    });
    if (at != found_.carries.end()) return static_cast<int>(at - found_.carries.begin());
    found_.carries.push_back(carry);
    return static_cast<int>(found_.carries.size()) - 1;
  }

  bool holds_anchors() const {
    const auto at = position_of_.find(anchors_[0]);
    if (at == position_of_.end()) return false;
    const auto& nodes = found_.nodes[static_cast<size_t>(at->second)];
    return std::equal(nodes.begin(), nodes.end(), anchors_.begin());
  }

  void sort_positions() {
    std::vector<int> order(found_.nodes.size()), place(found_.nodes.size());
    for (size_t p = 0; p < order.size(); ++p) order[p] = static_cast<int>(p);
    std::ranges::sort(order, {}, [&](int p) { return found_.nodes[static_cast<size_t>(p)][0]; });
    RepeatedPieces sorted = found_;
    for (size_t p = 0; p < order.size(); ++p) {
      place[static_cast<size_t>(order[p])] = static_cast<int>(p);
      sorted.nodes[p] = found_.nodes[static_cast<size_t>(order[p])];
      sorted.sources[p] = found_.sources[static_cast<size_t>(order[p])];
    }
    for (auto& sources : sorted.sources) {
      for (PieceSource& s : sources) {
        if (s.kind == PieceSource::Kind::kInside) s.index = place[static_cast<size_t>(s.index)];
      }
    }
    for (PieceCarry& c : sorted.carries) c.position = place[static_cast<size_t>(c.position)];
    found_ = std::move(sorted);
  }

  const Graph& graph_;
  const ValueUses& uses_;
  const AnchorChain& anchors_;
  const std::vector<int>& piece_;
  RepeatedPieces found_;
  std::unordered_map<int, int> position_of_;  ///< by the node of the first piece; never iterated
  std::vector<Pending> pending_;
  std::vector<Places> roots_;
};

/// Finds the nodes of one more piece behind the last, from its anchor in both directions.
class PieceFinder {
 public:
  PieceFinder(const Graph& graph, const ValueUses& uses, const RepeatedPieces& pieces)
      : graph_(graph),
        uses_(uses),
        pieces_(pieces),
        nodes_(pieces.nodes.size(), -1),
        scanned_(pieces.scanned.size(), kNoValue) {}

  bool run(int anchor_position, int anchor) {
    if (!assign(static_cast<size_t>(anchor_position), anchor)) return false;
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t p = 0; p < nodes_.size(); ++p) {
        if (nodes_[p] >= 0) continue;
        const int n = only_reader_of_form(p);
        if (n < 0) continue;
        if (!assign(p, n)) return false;
        grows = true;
      }
    }
    return std::ranges::find(nodes_, -1) == nodes_.end() &&
           std::ranges::find(scanned_, kNoValue) == scanned_.end();
  }

  void append_to(RepeatedPieces& pieces) const {
    for (size_t p = 0; p < nodes_.size(); ++p) pieces.nodes[p].push_back(nodes_[p]);
    for (size_t s = 0; s < scanned_.size(); ++s) pieces.scanned[s].push_back(scanned_[s]);
    ++pieces.count;
  }

 private:
  using Kind = PieceSource::Kind;

  const Node& first(size_t position) const { return graph_.node(pieces_.nodes[position][0]); }

  /// The value that a source has in this piece; kNoValue where it is not known yet.
  ValueId known(const PieceSource& s) const {
    switch (s.kind) {
      case Kind::kInside: {
        const int n = nodes_[static_cast<size_t>(s.index)];
        return n < 0 ? kNoValue : graph_.node(n).results[static_cast<size_t>(s.result)];
      }
      case Kind::kCarried: {
        const PieceCarry& c = pieces_.carries[static_cast<size_t>(s.index)];
        const int n = pieces_.nodes[static_cast<size_t>(c.position)].back();
        return graph_.node(n).results[static_cast<size_t>(c.result)];
      }
      case Kind::kScanned:
        return scanned_[static_cast<size_t>(s.index)];
      case Kind::kInvariant:
        return pieces_.invariants[static_cast<size_t>(s.index)];
    }
    return kNoValue;
  }

  /// What is not known yet is looked at `depth` nodes back.
  bool may_be(size_t position, int n, int depth = 4) const {
    if (!same_form(graph_, first(position), graph_.node(n))) return false;
    for (size_t i = 0; i < graph_.node(n).operands.size(); ++i) {
      const PieceSource& source = pieces_.sources[position][i];
      const ValueId value = known(source), operand = graph_.node(n).operands[i];
      if (value != kNoValue && value != operand) return false;
      if (value != kNoValue || source.kind != Kind::kInside || depth == 0) continue;
      const ValueUses::Maker maker = uses_.maker(operand);
      if (maker.node < 0 || maker.result != source.result) return false;
      if (!may_be(static_cast<size_t>(source.index), maker.node, depth - 1)) return false;
    }
    return true;
  }

  bool assign(size_t position, int node) {
    std::vector<std::pair<size_t, int>> work{{position, node}};
    while (!work.empty()) {
      const auto [p, n] = work.back();
      work.pop_back();
      if (nodes_[p] == n) continue;
      if (nodes_[p] >= 0 || !may_be(p, n)) return false;
      nodes_[p] = n;
      for (size_t i = 0; i < graph_.node(n).operands.size(); ++i) {
        const PieceSource& s = pieces_.sources[p][i];
        const ValueId v = graph_.node(n).operands[i];
        if (s.kind == Kind::kScanned) scanned_[static_cast<size_t>(s.index)] = v;
        if (s.kind != Kind::kInside) continue;
        const ValueUses::Maker maker = uses_.maker(v);
        if (maker.node < 0 || maker.result != s.result) return false;
        work.emplace_back(static_cast<size_t>(s.index), maker.node);
      }
    }
    return true;
  }

  /// The one node that reads what is known as this position does; -1 where there are none or
  /// several.
  int only_reader_of_form(size_t position) const {
    for (size_t i = 0; i < pieces_.sources[position].size(); ++i) {
      const PieceSource& s = pieces_.sources[position][i];
      if (s.kind != Kind::kInside && s.kind != Kind::kCarried) continue;
      const ValueId v = known(s);
      if (v == kNoValue) continue;
      int only = -1;
      for (const ValueUses::Reader& reader : uses_.readers_of(v)) {
        if (reader.operand != static_cast<int>(i) || !may_be(position, reader.node)) continue;
        if (only >= 0 && only != reader.node) return -1;
        only = reader.node;
      }
      return only;
    }
    return -1;
  }

  const Graph& graph_;
  const ValueUses& uses_;
  const RepeatedPieces& pieces_;
  std::vector<int> nodes_;
  std::vector<ValueId> scanned_;
};

/// Whether what the pieces read from outside is there before the first of them.
bool is_convex(const Graph& graph, const ValueUses& uses, const RepeatedPieces& pieces) {
  std::vector<bool> inside(graph.nodes.size()), behind(graph.nodes.size());
  for (const auto& nodes : pieces.nodes) {
    for (int n : nodes) inside[static_cast<size_t>(n)] = true;
  }
  const auto depends = [&](ValueId v) {
    const int n = uses.maker(v).node;
    return n >= 0 && (inside[static_cast<size_t>(n)] || behind[static_cast<size_t>(n)]);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!inside[n]) behind[n] = std::ranges::any_of(graph.nodes[n].operands, depends);
  }
  for (const PieceCarry& c : pieces.carries) {
    if (depends(c.first)) return false;
  }
  for (const Places& values : pieces.scanned) {
    if (std::ranges::any_of(values, depends)) return false;
  }
  return std::ranges::none_of(pieces.invariants, depends);
}

int position_of(const RepeatedPieces& pieces, int first_node) {
  for (size_t p = 0; p < pieces.nodes.size(); ++p) {
    if (pieces.nodes[p][0] == first_node) return static_cast<int>(p);
  }
  return -1;
}

}  // namespace

std::vector<AnchorChain> anchor_chains(const Graph& graph, size_t min_trips) {
  const ValueUses uses(graph);
  const std::vector<int> depth = depths(graph);
  std::vector<AnchorChain> chains;
  for (const auto& readers : uses.readers) {
    if (readers.size() < min_trips) continue;
    std::vector<std::vector<int>> forms;
    for (const ValueUses::Reader& reader : readers) {
      const Node& node = graph.node(reader.node);
      if (!is_contraction(node)) continue;
      const auto form = std::ranges::find_if(forms, [&](const std::vector<int>& nodes) {
        const Node& other = graph.node(nodes[0]);
        return same_form(graph, node, other) &&
               node.operands[static_cast<size_t>(reader.operand)] ==
                   other.operands[static_cast<size_t>(reader.operand)];
      });
      if (form == forms.end()) {
        forms.push_back({reader.node});
      } else if (form->back() != reader.node) {
        form->push_back(reader.node);
      }
    }
    for (std::vector<int>& nodes : forms) add_runs(depth, std::move(nodes), min_trips, chains);
  }
  std::ranges::sort(chains);
  return chains;
}

std::optional<RepeatedPieces> find_repeated_pieces(const Graph& graph, const AnchorChain& anchors) {
  const ValueUses uses(graph);
  const std::optional<std::vector<int>> piece = pieces_of_nodes(graph, uses, anchors);
  if (!piece) return std::nullopt;
  std::optional<RepeatedPieces> found = PieceMatcher(graph, uses, anchors, *piece).run();
  if (!found || !is_convex(graph, uses, *found)) return std::nullopt;
  const int position = position_of(*found, anchors[0]);
  while (static_cast<size_t>(found->count) < anchors.size()) {
    PieceFinder finder(graph, uses, *found);
    if (!finder.run(position, anchors[static_cast<size_t>(found->count)])) break;
    RepeatedPieces longer = *found;
    finder.append_to(longer);
    if (!is_convex(graph, uses, longer)) break;
    found = std::move(longer);
  }
  return found;
}

}  // namespace weft
