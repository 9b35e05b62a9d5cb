#pragma once

#include "import/hlo/hlo_module.h"
#include "import/hlo/text_scanner.h"
#include "support/tensor.h"

namespace weft::hlo {

/// The value of a constant of this type: `3`, `{1, 2}`, `{ {true}, {false} }`. Throws Refusal: a
/// value that does not fit the type (kInvalidInput), or that was left out of the text, `{...}`
/// (kUnsupported, with how to export it).
HostTensor parse_literal(TextScanner& scanner, const HloShape& shape);

}  // namespace weft::hlo
