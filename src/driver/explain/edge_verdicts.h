#pragma once

#include <string>
#include <vector>

#include "driver/explain/explained.h"
#include "support/result.h"

namespace weft {

/// What was decided about two nodes of the model.
struct EdgeVerdict {
  std::string verdict;             ///< fused, illegal, unprofitable, possible
  std::string reason;              ///< may be empty
  std::vector<std::string> notes;  ///< on what lies between, and what would change the verdict
};

/// The verdicts on the edges from one node to another; empty where there is none.
std::vector<EdgeVerdict> edge_verdicts(const Explained& c, const std::string& from,
                                       const std::string& to);

/// The same from the JSON of an explanation, which names each end of an edge by its last node.
/// Error (kInvalidInput): there is none.
Result<std::vector<EdgeVerdict>> edge_verdicts(const std::string& explanation_json,
                                               const std::string& from, const std::string& to);

}  // namespace weft
