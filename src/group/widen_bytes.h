#pragma once

#include "group/collapse_axes.h"
#include "target/target.h"

namespace weft {

/// Constants of signed bytes that a product of bytes uses often become words on a CPU without an
/// instruction that multiplies bytes and adds them up in 32 bits: laid out as words once instead of
/// widened for every tile. What is read once or twice stays in bytes, which are half to read.
void widen_bytes(GroupView* view, const Target& target);

/// Whether a product of bytes may be widened there; else nothing is.
bool holds_byte_products(const TensorProgram& program, const Target& target);

}  // namespace weft
