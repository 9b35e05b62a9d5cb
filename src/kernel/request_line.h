#pragma once

#include "kernel/kernel_function.h"

namespace weft {

/// Appends a request for the line of a buffer's element at `address`, or of its last element where
/// that lies behind it. Behind a buffer there may be no page, and looking for it in vain takes some
/// 140 cycles, in which the core translates no other address (measured on a Zen 1). Of a buffer
/// whose length is open, the address as it is.
void append_request(KernelFunction& kernel, std::vector<KernelInstruction>& body, int32_t buffer,
                    Reg address);

}  // namespace weft
