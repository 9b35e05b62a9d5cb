#include "errors.h"

namespace nb = nanobind;

namespace weft_python {

void raise(const weft::Error& error) {
  const nb::object type =
      nb::module_::import_("weft.errors").attr("exception_of")(static_cast<int>(error.code));
  // A message may quote what a hostile file holds.
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "backslashreplace"));
  PyErr_SetObject(type.ptr(), text.ptr());
  throw nb::python_error();
}

void raise_invalid(const std::string& message) { raise({weft::ErrorCode::kInvalidInput, message}); }

}  // namespace weft_python
