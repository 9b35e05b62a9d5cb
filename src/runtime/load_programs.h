#pragma once

#include <vector>

#include "runtime/program.h"
#include "runtime/shape_dispatch.h"
#include "support/result.h"

namespace weft {

/// The programs of an artefact that this machine runs, ready to run, at most one for any shapes of
/// the inputs. Of a GPU's programs those that suit the device best, in this order: code of its own
/// architecture before an older one's, otherwise the order given (a program with a barrier of the
/// grid stands before the one without it that takes its place on a smaller device).
///
/// kMissingDevice when there is no device for the programs, or none of them runs on it: the message
/// says why each does not.
Result<ModelPrograms> load_programs(std::vector<Program> programs);

}  // namespace weft
