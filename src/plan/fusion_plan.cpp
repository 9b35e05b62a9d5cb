#include "plan/fusion_plan.h"

#include <utility>

namespace weft {

Target of_region(Target target) {
  target.libraries.clear();
  return target;
}

}  // namespace weft
