#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernel/kernel_function.h"

namespace weft {

/// What the reference executors of CPU and GPU kernels share: the value of a register in one
/// thread, one element a vector lane, and the meaning of what touches neither memory nor other
/// threads.
using ScalarLanes = std::vector<ScalarValue>;

ScalarValue read_element(DType type, const std::byte* at);
void write_element(DType type, const ScalarValue& value, std::byte* at);

/// Requires an instruction of one result that touches no memory, no other lanes and no regions, and
/// is no position.
ScalarLanes evaluate_pure(const KernelInstruction& in, KernelType type,
                          const std::vector<const ScalarLanes*>& operands,
                          const std::vector<int64_t>& arguments);

/// execute_kernel for is_gpu() kernels.
Status execute_gpu_kernel(const KernelFunction& kernel,
                          const std::vector<std::span<std::byte>>& buffers,
                          const std::vector<int64_t>& arguments);

}  // namespace weft
