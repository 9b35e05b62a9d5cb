#pragma once

#include <string_view>

#include "import/hlo/hlo_module.h"
#include "import/hlo/text_scanner.h"
#include "support/result.h"

namespace weft::hlo {

/// Whether the text begins as an HLO module does.
bool is_hlo_text(std::string_view text);

/// Reads the text of an HLO module, as it is lowered (names alone) or as XLA prints what it has
/// optimised (`%` before names, types before operands, signatures, layouts, tables of stack
/// frames). kInvalidInput with line and column of what is wrong.
Result<HloModule> parse_module(std::string_view text);

/// A type: f32[2,3]{1,0}, a tuple of types in parentheses, token[]. Throws Refusal.
HloShape parse_shape(TextScanner& scanner);

}  // namespace weft::hlo
