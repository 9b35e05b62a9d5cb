#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "target/convolution_call.h"
#include "target/product_call.h"

namespace weft {

/// What a kernel asks of a vendor's library instead of running code of its own. The kernel's own
/// code computes the same: emulators and checks run that, and devices without the library.
using LibraryCall = std::variant<ProductCall, ConvolutionCall>;

/// Libraries that a target may name, ascending.
inline constexpr std::string_view kKnownLibraries[] = {"cublaslt", "cudnn"};

/// The one of them that the call asks.
std::string_view library_of(const LibraryCall& call);

/// The library's name and the call's own text.
std::string print(const LibraryCall& call);
/// kInvalidInput for a text that print() does not write.
Result<LibraryCall> parse_library_call(std::string_view text);

/// A call that its library takes, on positions below `buffer_count`; what it writes it does not
/// read. kInvalidInput says what is wrong.
Status verify_library_call(const LibraryCall& call, int64_t buffer_count);

/// What the call touches, in the order of its text. Requires: the call is verified.
std::vector<CallBuffer> buffers_of(const LibraryCall& call);

}  // namespace weft
