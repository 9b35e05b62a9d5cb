#pragma once

#include <vector>

#include "import/hlo/hlo_module.h"
#include "import/hlo/text_scanner.h"
#include "support/tensor.h"

namespace weft::hlo {

/// The value of a constant of this type: `3`, `{1, 2}`, `{ {true}, {false} }`; of complex numbers,
/// `{(1, 0), (0, -1)}`, the real parts and the imaginary ones. Throws Refusal: a value that does
/// not fit the type (kInvalidInput), or that was left out of the text, `{...}` (kUnsupported, with
/// how to export it).
std::vector<HostTensor> parse_literal(TextScanner& scanner, const HloShape& shape);

}  // namespace weft::hlo
