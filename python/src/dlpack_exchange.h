#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace weft_python {

/// The array's memory by the C functions that its type offers (DLPack 1.3:
/// `__dlpack_c_exchange_api__`, which torch has), in a tenth of the time of a call of `__dlpack__`.
/// Nothing is held: shape, strides and elements stay where the array has them. False where the type
/// offers none, or refuses the array.
bool look_by_exchange(nanobind::handle array, nanobind::dlpack::dltensor* tensor);

}  // namespace weft_python
