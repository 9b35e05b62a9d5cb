#include "import/builder/refusal.h"

namespace weft::onnx {

void refuse_invalid(std::string message) { throw Refusal(invalid_input(std::move(message))); }

void refuse_unsupported(std::string message) { throw Refusal(unsupported(std::move(message))); }

}  // namespace weft::onnx
