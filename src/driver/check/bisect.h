#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/check/level_of_difference.h"
#include "driver/compile_options.h"
#include "driver/models/prepare_model.h"

namespace weft {

/// The first value of a graph, in its order, that the compiled program computes differently from
/// the interpreter.
struct Difference {
  std::string value;
  std::string origin;  ///< the model's node
  std::string difference;
  DifferingLevel level = DifferingLevel::kUnknown;
  Graph reduced;  ///< the nodes that the value needs, with its inputs as constants where that cuts
                  ///< the graph
};

/// Compiles the graph with every value that matters as an output, halves the list until one is
/// left. nullopt: no difference.
Result<std::optional<Difference>> bisect(const Graph& graph, const std::vector<HostTensor>& inputs,
                                         const CompileOptions& options, double rtol, double atol);
/// The same of the graph that is read from a model, on the request's inputs.
Result<std::optional<Difference>> bisect_model(const ModelRequest& request, double rtol,
                                               double atol);

}  // namespace weft
