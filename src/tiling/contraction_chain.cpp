#include "tiling/contraction_chain.h"

#include <string_view>

#include "support/check.h"

namespace weft {

char loop_name(int loop) {
  constexpr std::string_view kNames = "mknhop";
  WEFT_CHECK(loop >= 0 && loop < static_cast<int>(kNames.size()), "a chain of so many loops");
  return kNames[static_cast<size_t>(loop)];
}

}  // namespace weft
