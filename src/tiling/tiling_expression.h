#pragma once

#include <string>
#include <vector>

#include "support/result.h"
#include "tiling/contraction_chain.h"

namespace weft {

/// How the loops over the tiles of a chain stand (MCFuser §III-A): one inside another, `mhnk`, or
/// with loops of single contractions behind each other inside, `mn(k,h)`.
struct TilingExpression {
  std::vector<int> nested;      ///< outermost first
  std::vector<int> sequential;  ///< inside all of these, one behind another; none: deep
  friend bool operator==(const TilingExpression&, const TilingExpression&) = default;
};

std::string print(const TilingExpression& expression);
/// The inverse. Error (kInvalidInput): letters that are no loops of the chain, or not each of them
/// once.
Result<TilingExpression> parse_tiling(std::string_view text, const ContractionChain& chain);

/// Every order of the loops; then, unless `deep_only`, every order of those that several
/// contractions share with the others behind each other inside. 24 and 2 for two contractions, 120
/// and 6 for three, 720 and 24 for four.
std::vector<TilingExpression> tiling_expressions(const ContractionChain& chain, bool deep_only);

/// What one block does for each contraction: the loops around it, outermost first, without those
/// that are bound to blocks.
struct BlockLoops {
  std::vector<int> bound;                ///< to blocks, ascending: m, and what is made last
                                         ///< where it stands outside its reduction
  std::vector<std::vector<int>> around;  ///< by contraction
  friend bool operator==(const BlockLoops&, const BlockLoops&) = default;
};
/// A contraction stands in its rightmost related loop; loops in which an earlier one reduces are
/// over before it begins (§III-B).
BlockLoops block_loops(const TilingExpression& expression, const ContractionChain& chain);

}  // namespace weft
