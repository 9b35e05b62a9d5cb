#include "rewrite/unite_scans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

/// Bodies of one scan: beyond, a step holds enough to run side by side.
constexpr size_t kMostScans = 64;

const ScanAttrs& scan_attrs(const Node& node) { return std::get<ScanAttrs>(node.attrs); }

/// Of a scan that counts its steps by what it scans; nothing for other nodes.
std::optional<int64_t> trips(const Graph& graph, const Node& node) {
  if (node.op != GraphOp::kScan || scan_attrs(node).scanned_count == 0) return std::nullopt;
  const auto at = static_cast<size_t>(scan_attrs(node).carry_count);
  return graph.type(node.operands[at]).shape[0];
}

/// A scan and those behind it of as many steps that depend on none of them; and what does.
struct UnitedScans {
  std::vector<size_t> scans;
  std::vector<size_t> later;  ///< nodes that depend on them
};

UnitedScans independent_of(const Graph& graph, size_t first) {
  UnitedScans out;
  std::vector<bool> depends(graph.values.size(), false);
  const auto steps = trips(graph, graph.nodes[first]);
  for (size_t n = first; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool reads = std::ranges::any_of(
        node.operands, [&](ValueId v) { return depends[static_cast<size_t>(v)]; });
    const bool joins =
        !reads && out.scans.size() < kMostScans && steps && trips(graph, node) == steps;
    if (!reads && !joins) continue;
    (joins ? out.scans : out.later).push_back(n);
    for (const ValueId r : node.results) depends[static_cast<size_t>(r)] = true;
  }
  return out;
}

/// Writes one scan in the place of the last of several.
class Union {
 public:
  Union(Graph& graph, UnitedScans united)
      : before_(graph), united_(std::move(united)), rebuild_(graph) {}

  void run() {
    std::vector<Node> nodes = rebuild_.take_nodes();
    const std::set<size_t> scans(united_.scans.begin(), united_.scans.end());
    const std::set<size_t> later(united_.later.begin(), united_.later.end());
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!scans.contains(n) && !later.contains(n)) rebuild_.keep(std::move(nodes[n]));
    }
    write();
    for (const size_t n : united_.later) {
      rebuild_.forward_operands(nodes[n]);
      rebuild_.keep(std::move(nodes[n]));
    }
    rebuild_.finish();
  }

 private:
  size_t count() const { return united_.scans.size(); }
  const Node& scan(size_t s) const { return before_.nodes[united_.scans[s]]; }

  /// Carries of all, slices of all, what they capture; then the results likewise.
  void write() {
    std::vector<std::vector<ValueId>> arguments(count());
    ScanAttrs attrs;
    for (size_t s = 0; s < count(); ++s) {
      for (int64_t c = 0; c < scan_attrs(scan(s)).carry_count; ++c) {
        arguments[s].push_back(add(scan(s).operands[static_cast<size_t>(c)], false));
        ++attrs.carry_count;
      }
    }
    for (size_t s = 0; s < count(); ++s) {
      const ScanAttrs& own = scan_attrs(scan(s));
      for (int64_t i = 0; i < own.scanned_count; ++i) {
        const auto at = static_cast<size_t>(own.carry_count + i);
        arguments[s].push_back(add(scan(s).operands[at], true));
        attrs.x_reverse.push_back(own.x_reverse[static_cast<size_t>(i)]);
        ++attrs.scanned_count;
      }
    }
    for (size_t s = 0; s < count(); ++s) {
      for (size_t i = arguments[s].size(); i < scan(s).operands.size(); ++i)
        arguments[s].push_back(capture(scan(s).operands[i]));
      const std::vector<bool>& reversed = scan_attrs(scan(s)).y_reverse;
      attrs.y_reverse.insert(attrs.y_reverse.end(), reversed.begin(), reversed.end());
    }
    write_body(arguments);
    const std::vector<ValueId> results =
        rebuild_.add_node(GraphOp::kScan, attrs, operands_, {body_}, scan(0).origin);
    replace_results(results);
  }

  ValueId add(ValueId v, bool is_slice) {
    operands_.push_back(rebuild_.forwarded(v));
    TensorType type = before_.type(v);
    if (is_slice) type.shape.erase(type.shape.begin());
    return body_->add_input("", std::move(type));
  }
  ValueId capture(ValueId v) {
    const auto known = captured_.find(v);
    return known != captured_.end() ? known->second : captured_[v] = add(v, false);
  }

  void write_body(const std::vector<std::vector<ValueId>>& arguments) {
    body_->origins = before_.origins;  // what nodes made here name
    GraphRebuilder inside(*body_);
    std::vector<ValueId> next, stacked;
    for (size_t s = 0; s < count(); ++s) {
      const std::vector<ValueId> made =
          inside.add_region(*scan(s).regions[0], arguments[s], scan(s).origin);
      const auto stacks = made.begin() + scan_attrs(scan(s)).carry_count;
      next.insert(next.end(), made.begin(), stacks);
      stacked.insert(stacked.end(), stacks, made.end());
    }
    next.insert(next.end(), stacked.begin(), stacked.end());
    for (size_t o = 0; o < next.size(); ++o) body_->add_output(next[o], "out" + std::to_string(o));
    inside.finish();
  }

  void replace_results(const std::vector<ValueId>& results) {
    size_t carried = 0, stacked = 0;
    for (size_t s = 0; s < count(); ++s)
      stacked += static_cast<size_t>(scan_attrs(scan(s)).carry_count);
    for (size_t s = 0; s < count(); ++s) {
      const auto carries = static_cast<size_t>(scan_attrs(scan(s)).carry_count);
      for (size_t r = 0; r < scan(s).results.size(); ++r)
        rebuild_.replace_result(scan(s).results[r], results[r < carries ? carried++ : stacked++]);
    }
  }

  const Graph before_;  ///< the graph as it was found
  const UnitedScans united_;
  GraphRebuilder rebuild_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  std::vector<ValueId> operands_;
  std::map<ValueId, ValueId> captured_;  ///< by value outside: the region's input
};

}  // namespace

bool unite_scans(Graph& graph) {
  bool changed = rewrite_regions(graph, unite_scans);
  std::set<std::string> alone;  // by the first result: nothing runs beside them
  for (bool united = true; united;) {
    united = false;
    for (size_t n = 0; n < graph.nodes.size() && !united; ++n) {
      const Node& node = graph.nodes[n];
      if (!trips(graph, node)) continue;
      const std::string& name = graph.values[static_cast<size_t>(node.results[0])].name;
      if (alone.contains(name)) continue;
      UnitedScans scans = independent_of(graph, n);
      if (scans.scans.size() < 2) {
        alone.insert(name);
        continue;
      }
      Union(graph, std::move(scans)).run();
      united = changed = true;
    }
  }
  return changed;
}

}  // namespace weft
