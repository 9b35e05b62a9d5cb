#pragma once

#include <map>
#include <vector>

#include "support/tensor.h"
#include "tile/tile_program.h"

namespace weft {

/// Reference meaning of a verified tile program: grid iterations in lock-step from one read across
/// iterations to the next. `inputs` by parameter name (row-major; layouts only matter for physical
/// code); returns the outputs by name. Size symbols take the values in `sizes`, or follow from the
/// inputs' shapes. Reading an element that nothing wrote, writing an output element twice and
/// leaving one unwritten are errors.
struct TileEvaluation {
  std::map<std::string, HostTensor> outputs;
  int64_t requested_read = 0, requested_written = 0;  ///< bytes, as predict_traffic counts them
  int64_t unique_read = 0, unique_written = 0;
};
Result<TileEvaluation> evaluate_tile_program(const TileProgram& program,
                                             const std::map<std::string, HostTensor>& inputs,
                                             const std::map<std::string, int64_t>& sizes = {});

/// What a combiner makes of the values of one reduction, in their order, one for each target of the
/// statement. argmax gives the position, among `positions`, too, and nothing where there are no
/// values. Sums of floats are double, what every order of adding tends to: the target rounds once.
std::vector<ScalarValue> reduce_values(TileCombiner combiner, DType type,
                                       const std::vector<ScalarValue>& values,
                                       const std::vector<int64_t>& positions);

}  // namespace weft
