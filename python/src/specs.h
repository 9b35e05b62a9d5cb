#pragma once

#include <nanobind/nanobind.h>

#include "weft/weft.h"

namespace weft_python {

/// As TensorSpec of weft/tensor_spec.py.
nanobind::object spec_of(const weft::ModelTensor& tensor);
nanobind::object spec_of(const weft::TensorSpec& tensor);

template <typename Specs>
nanobind::list specs_of(const Specs& specs) {
  nanobind::list list;
  for (const auto& spec : specs) list.append(spec_of(spec));
  return list;
}

}  // namespace weft_python
