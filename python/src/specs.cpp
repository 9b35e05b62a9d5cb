#include "specs.h"

#include <string>

#include "errors.h"
#include "tensors.h"

namespace nb = nanobind;

namespace weft_python {

namespace {

nb::object tensor_spec(const std::string& name, weft::DType dtype, nb::object shape) {
  const nb::object type = nb::module_::import_("weft.tensor_spec").attr("TensorSpec");
  return type(text_of(name), nb::str(numpy_name(dtype).data()), std::move(shape));
}

}  // namespace

nb::object spec_of(const weft::ModelTensor& tensor) {
  if (!tensor.shape) return tensor_spec(tensor.name, tensor.dtype, nb::none());
  nb::list shape;
  for (const auto& [extent, name] : *tensor.shape) {
    if (extent != weft::kOpen) {
      shape.append(extent);
    } else if (name.empty()) {
      shape.append(nb::none());
    } else {
      shape.append(text_of(name));
    }
  }
  return tensor_spec(tensor.name, tensor.dtype, nb::tuple(shape));
}

nb::object spec_of(const weft::TensorSpec& tensor) {
  nb::list shape;
  for (const int64_t extent : tensor.shape) shape.append(extent);
  return tensor_spec(tensor.name, tensor.dtype, nb::tuple(shape));
}

}  // namespace weft_python
