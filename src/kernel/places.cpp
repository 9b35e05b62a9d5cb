#include "kernel/places.h"

#include <cstdlib>
#include <optional>
#include <vector>

namespace weft {

LoadPlace place_of(const Definitions& definitions, const KernelInstruction& load) {
  LoadPlace place{.buffer = load.as<LoadPayload>().buffer, .from = load.operands[0]};
  for (;;) {
    const auto it = definitions.find(place.from);
    if (it == definitions.end() || it->second.op != KernelOp::kApply ||
        it->second.as<ApplyPayload>().op != ScalarOp::kAdd) {
      return place;
    }
    const std::vector<Reg>& terms = it->second.operands;
    const std::optional<int64_t> last = number_in(definitions, terms[1]);
    const std::optional<int64_t> first = number_in(definitions, terms[0]);
    if (!last && !first) return place;
    place.from = last ? terms[0] : terms[1];
    place.elements += last ? *last : *first;
  }
}

bool in_one_line(const KernelFunction& kernel, const LoadPlace& a, const LoadPlace& b) {
  const int64_t size = byte_size(kernel.buffers[static_cast<size_t>(a.buffer)].dtype);
  return a.buffer == b.buffer && a.from == b.from &&
         std::abs(a.elements - b.elements) * size < kLineBytes;
}

}  // namespace weft
