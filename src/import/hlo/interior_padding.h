#pragma once

#include <vector>

#include "import/hlo/attribute_values.h"
#include "import/hlo/deferred.h"

namespace weft::hlo {

/// Pads with the scalar `fill` before, after and between the elements of each axis. Negative
/// amounts before and after crop what padding between has made.
ValueId pad_between(GraphBuilder& b, ValueId x, ValueId fill,
                    const std::vector<PaddingAmount>& amounts);

}  // namespace weft::hlo
