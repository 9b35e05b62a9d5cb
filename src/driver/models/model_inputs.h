#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/builder/imported_model.h"
#include "runtime/program.h"
#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// Values of inputs: those given, by name, and the seed of the others, which are random: integers
/// within the range that is proved safe, else 0 or 1.
struct GivenInputs {
  std::map<std::string, HostTensor> values;
  uint64_t seed = 0;
};

/// The inputs of a graph, in its order.
std::vector<ProgramIo> graph_inputs(const Graph& graph);

/// Values for a program's inputs, in its order. `inputs` are those of the model that it was made
/// from. kInvalidInput for names that the model does not have and for values of other types.
Result<std::vector<HostTensor>> program_inputs(const std::vector<ImportedInput>& inputs,
                                               const std::vector<ProgramIo>& program,
                                               const GivenInputs& given);

/// The same for a program of an artefact, which knows its inputs' ranges.
Result<std::vector<HostTensor>> artefact_inputs(const std::vector<ProgramIo>& program,
                                                const GivenInputs& given);

}  // namespace weft
