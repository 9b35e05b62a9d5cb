#include "choice/measured_compositions.h"

#include <fmt/format.h>

namespace weft {

std::string name_of_row(const MeasuredComposition& measured) {
  return fmt::format("row {}: {:.2f} us, {} samples", measured.row, measured.microseconds,
                     measured.samples);
}

}  // namespace weft
