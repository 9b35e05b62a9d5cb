#include "target/library_call.h"

#include <algorithm>

namespace weft {

std::string_view library_of(const LibraryCall& call) {
  return kKnownLibraries[std::holds_alternative<ProductCall>(call) ? 0 : 1];
}

std::string print(const LibraryCall& call) {
  return std::string(library_of(call)) + " " +
         std::visit([](const auto& of) { return print(of); }, call);
}

Result<LibraryCall> parse_library_call(std::string_view text) {
  const std::string_view library = text.substr(0, text.find(' '));
  const std::string_view rest = text.substr(std::min(text.size(), library.size() + 1));
  if (library == kKnownLibraries[0]) {
    WEFT_ASSIGN_OR_RETURN(const ProductCall call, parse_product_call(rest));
    return LibraryCall(call);
  }
  if (library == kKnownLibraries[1]) {
    WEFT_ASSIGN_OR_RETURN(ConvolutionCall call, parse_convolution_call(rest));
    return LibraryCall(std::move(call));
  }
  return invalid_input("library call: no library '" + std::string(library) + "' is known");
}

std::vector<CallBuffer> buffers_of(const LibraryCall& call) {
  return std::visit([](const auto& of) { return buffers_of(of); }, call);
}

namespace {

Status verify_call(const ProductCall& call) { return verify_product_call(call); }
Status verify_call(const ConvolutionCall& call) { return verify_convolution_call(call); }

}  // namespace

Status verify_library_call(const LibraryCall& call, int64_t buffer_count) {
  WEFT_RETURN_IF_ERROR(std::visit([](const auto& of) { return verify_call(of); }, call));
  const std::vector<CallBuffer> buffers = buffers_of(call);
  for (const CallBuffer& b : buffers) {
    if (b.position < 0 || b.position >= buffer_count)
      return invalid_input("library call: the kernel has no such buffer");
    const auto same = [&](const CallBuffer& other) { return other.position == b.position; };
    if (b.written && std::ranges::count_if(buffers, same) != 1)
      return invalid_input("library call: it reads what it writes");
  }
  return {};
}

}  // namespace weft
