#include "kernel/request_line.h"

#include "kernel/clone_block.h"

namespace weft {

void append_request(KernelFunction& kernel, std::vector<KernelInstruction>& body, int32_t buffer,
                    Reg address) {
  const int64_t elements = kernel.buffers[static_cast<size_t>(buffer)].elements;
  if (elements > 0) {
    const Reg last =
        append_constant(kernel, body, {DType::kI64, 1}, int_value(DType::kI64, elements - 1));
    address = append_apply(kernel, body, ScalarOp::kMin, {address, last}, DType::kI64);
  }
  body.emplace_back(KernelOp::kPrefetch, PrefetchPayload{buffer, false}, std::vector<Reg>{address});
}

}  // namespace weft
