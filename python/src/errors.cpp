#include "errors.h"

namespace nb = nanobind;

namespace weft_python {

nb::str text_of(const std::string& bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

void raise(const weft::Error& error) {
  const nb::object type =
      nb::module_::import_("weft.errors").attr("exception_of")(static_cast<int>(error.code));
  const nb::str text = text_of(error.message);
  PyErr_SetObject(type.ptr(), text.ptr());
  throw nb::python_error();
}

void raise_invalid(const std::string& message) { raise({weft::ErrorCode::kInvalidInput, message}); }

}  // namespace weft_python
