#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// Where an operand of a piece's node comes from. The same for all pieces.
struct PieceSource {
  enum class Kind : uint8_t {
    kInside,     ///< result `result` of position `index` of the same piece
    kCarried,    ///< carries[index]: made by the piece before
    kScanned,    ///< scanned[index]: another value for each piece
    kInvariant,  ///< invariants[index]: the same for all
  };
  Kind kind = Kind::kInvariant;
  int index = 0;
  int result = 0;
  friend bool operator==(const PieceSource&, const PieceSource&) = default;
};

/// A value that a piece hands to the next one.
struct PieceCarry {
  ValueId first = kNoValue;  ///< what the first piece reads
  int position = 0;          ///< its maker in the piece before
  int result = 0;
};

/// A chain of isomorphic pieces of a graph, each fed by the one before: a loop written out (Souffle
/// §8.1, the LSTM). Nothing outside the pieces lies between them: what they read depends on none.
struct RepeatedPieces {
  int count = 0;                        ///< pieces
  std::vector<std::vector<int>> nodes;  ///< [position][piece]: indices into Graph::nodes, in
                                        ///< topological order of the positions
  std::vector<std::vector<PieceSource>> sources;  ///< [position][operand]
  std::vector<PieceCarry> carries;
  std::vector<std::vector<ValueId>> scanned;  ///< [input][piece]
  std::vector<ValueId> invariants;
};

/// Contractions that read one tensor in common, a step apart: what a written-out recurrence leaves
/// of each product with a weight. Node indices, ascending.
using AnchorChain = std::vector<int>;

/// Chains of at least `min_trips` anchors, by their first nodes: contractions of one operation, one
/// type and one common operand, each deeper in the graph than the one before by the same number of
/// nodes (but for the first, which may read something less deep). Linear in the graph.
std::vector<AnchorChain> anchor_chains(const Graph& graph, size_t min_trips);

/// The pieces between one anchor and the next: what the next one needs beyond what the one before
/// needed. Positions are matched backwards from the anchors, operand by operand. nullopt where they
/// differ, or where something between them depends on a piece and feeds a later one. Linear in the
/// graph.
std::optional<RepeatedPieces> find_repeated_pieces(const Graph& graph, const AnchorChain& anchors);

}  // namespace weft
