#pragma once

#include <string>
#include <vector>

#include "driver/explain/explained.h"
#include "support/result.h"

namespace weft {

/// What was decided about an edge between two nodes of the model.
struct EdgeVerdict {
  std::string verdict;  ///< fused, illegal, unprofitable
  std::string reason;   ///< may be empty
};

/// The verdicts on the edges from one node to another; kInvalidInput where there is none.
Result<std::vector<EdgeVerdict>> edge_verdicts(const Explained& c, const std::string& from,
                                               const std::string& to);

/// The same from the JSON of an explanation, which names each end of an edge by its last node.
Result<std::vector<EdgeVerdict>> edge_verdicts(const std::string& explanation_json,
                                               const std::string& from, const std::string& to);

}  // namespace weft
