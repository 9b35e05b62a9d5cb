#pragma once

#include "group/group_space.h"
#include "schedule/writer/template.h"

namespace weft {

/// Whether a group is element-wise expressions and reductions over one common set of axes, which
/// stitch in one sweep per level: normalisations, softmax-like chains, any elementwise chain (no
/// reduction at all). What it stores runs along all other axes.
Decision holds_common_rows(const GroupSpace& space);

/// Whether such a group goes to a template of rows: contractions do where they stream an operand.
Fit fits_rows(const GroupSpace& space);

}  // namespace weft
