#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// `body` once for every iteration of the digits, which the box then has as loops.
std::vector<Reg> emit_rolled(
    KernelWriter& w, const std::vector<RolledDigit>& digits, size_t first, Box box,
    std::vector<Reg> carries,
    const std::function<std::vector<Reg>(const Box&, const std::vector<Reg>&)>& body);

}  // namespace weft::lowering
