#pragma once

#include <llvm/IR/Function.h>

namespace weft::cpu {

/// Makes plain stores of masked stores whose constant mask has one lane:
///     masked.store(<16 x i8> %v, %p, <true, false, …>)  ->  store i8 %v[0], %p
/// LLVM's selection for x86 takes the truncation before such a store into it and then writes the
/// lane as wide as it was, over its neighbours.
void store_single_lanes(llvm::Function& function);

}  // namespace weft::cpu
