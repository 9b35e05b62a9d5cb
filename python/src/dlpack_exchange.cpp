#include "dlpack_exchange.h"

#include <algorithm>
#include <array>

namespace nb = nanobind;

namespace weft_python {

namespace {

using nb::dlpack::dltensor;

/// The table of functions that a type offers, as dlpack.h of version 1.3 lays it out.
struct ExchangeApi {
  uint32_t major = 0, minor = 0;
  const ExchangeApi* older = nullptr;  ///< of another major version
  void* allocate = nullptr;
  void* managed_of_object = nullptr;
  void* object_of_managed = nullptr;
  int (*tensor_of_object)(void* object, dltensor* tensor) = nullptr;  ///< 0: done
};
constexpr uint32_t kMajor = 1;

const ExchangeApi* offered_by(PyTypeObject* type) {
  const auto capsule = nb::steal(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  void* pointer =
      capsule.is_valid() ? PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api") : nullptr;
  if (pointer == nullptr) PyErr_Clear();
  const auto* api = static_cast<const ExchangeApi*>(pointer);
  while (api != nullptr && api->major != kMajor) api = api->older;
  return api != nullptr && api->tensor_of_object != nullptr ? api : nullptr;
}

/// Types that were asked before; few exist (Tensor, Parameter). They are kept alive, so that none
/// has the address of one that is gone.
const ExchangeApi* api_of(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type = nullptr;
    const ExchangeApi* api = nullptr;
  };
  static std::array<Known, 8> known;
  const auto found = std::ranges::find_if(
      known, [&](const Known& k) { return k.type == type || k.type == nullptr; });
  if (found != known.end() && found->type == type) return found->api;
  const ExchangeApi* api = offered_by(type);
  if (api != nullptr && found != known.end()) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    *found = {type, api};
  }
  return api;
}

bool has_elements(const dltensor& tensor) {
  return std::all_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t n) { return n != 0; });
}

}  // namespace

bool look_by_exchange(nb::handle array, dltensor* tensor) {
  const ExchangeApi* api = api_of(Py_TYPE(array.ptr()));
  if (api == nullptr) return false;
  if (api->tensor_of_object(array.ptr(), tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  // A subclass may keep its elements elsewhere, and say so in `__dlpack__` alone.
  if (tensor->ndim != 0 && tensor->strides == nullptr) return false;
  return tensor->data != nullptr || !has_elements(*tensor);
}

}  // namespace weft_python
