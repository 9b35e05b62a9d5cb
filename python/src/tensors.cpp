#include "tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "dlpack_exchange.h"
#include "errors.h"

namespace nb = nanobind;

namespace weft_python {

namespace {

using weft::DType;

static_assert(std::is_same_v<Py_ssize_t, int64_t>);

constexpr std::array<std::string_view, 13> kNumpyNames = {
    "bool",   "int8",   "int16",   "int32",    "int64",   "uint8",  "uint16",
    "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
constexpr DType kLastType = DType::kF64;
static_assert(kNumpyNames.size() == static_cast<size_t>(kLastType) + 1);

std::optional<DType> integer_type(bool is_signed, Py_ssize_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    case 8:
      return is_signed ? DType::kI64 : DType::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> float_type(Py_ssize_t bytes) {
  switch (bytes) {
    case 2:
      return DType::kF16;
    case 4:
      return DType::kF32;
    case 8:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

/// The element type of a buffer's format (Python's struct module); nullopt for what weft lacks.
std::optional<DType> type_of_format(const char* format, Py_ssize_t bytes) {
  if (format == nullptr) return DType::kU8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  if (std::strchr("bhilqn", *format) != nullptr) return integer_type(true, bytes);
  if (std::strchr("BHILQN", *format) != nullptr) return integer_type(false, bytes);
  if (std::strchr("efd", *format) != nullptr) return float_type(bytes);
  return *format == '?' ? std::optional(DType::kBool) : std::nullopt;
}

std::optional<DType> type_of(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return std::nullopt;
  switch (static_cast<Code>(type.code)) {
    case Code::Int:
      return integer_type(true, type.bits / 8);
    case Code::UInt:
      return integer_type(false, type.bits / 8);
    case Code::Float:
      return float_type(type.bits / 8);
    case Code::Bfloat:
      return type.bits == 16 ? std::optional(DType::kBF16) : std::nullopt;
    case Code::Bool:
      return type.bits == 8 ? std::optional(DType::kBool) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// "numpy.ndarray", "Tensor", …
std::string name_of_type(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

bool is_dense(std::span<const int64_t> shape, const int64_t* strides, int64_t unit) {
  int64_t dense = unit;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != dense) return false;
    dense *= shape[axis];
  }
  return true;
}

bool is_numpy(nb::handle array) {
  return nb::hasattr(array, "dtype") && nb::hasattr(array, "__array_interface__");
}

/// The type of ml_dtypes, which no buffer has a format for.
bool is_numpy_bfloat16(nb::handle array) {
  if (!is_numpy(array)) return false;
  const nb::object type = array.attr("dtype");
  return nb::cast<std::string>(nb::str(type)) == "bfloat16";
}

/// Whether some stride is no number of elements (a field of a record).
bool is_numpy_of_odd_strides(nb::handle array) {
  if (!is_numpy(array)) return false;
  const auto bytes = nb::cast<int64_t>(array.attr("itemsize"));
  const nb::object strides = array.attr("strides");
  for (const nb::handle stride : strides) {
    if (bytes == 0 || nb::cast<int64_t>(stride) % bytes != 0) return true;
  }
  return false;
}

/// What take() asks of a view.
template <typename Array>
nb::dlpack::dltensor as_dltensor(const Array& array) {
  nb::dlpack::dltensor tensor;
  tensor.data = const_cast<void*>(static_cast<const void*>(array.data()));
  tensor.device.device_type = array.device_type();
  tensor.device.device_id = array.device_id();
  tensor.ndim = static_cast<int32_t>(array.ndim());
  tensor.dtype = array.dtype();
  tensor.shape = const_cast<int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<int64_t*>(array.stride_ptr());
  return tensor;
}

}  // namespace

std::string_view numpy_name(DType type) { return kNumpyNames[static_cast<size_t>(type)]; }

std::optional<DType> dtype_by_numpy_name(std::string_view name) {
  const auto found = std::ranges::find(kNumpyNames, name);
  if (found == kNumpyNames.end()) return std::nullopt;
  return static_cast<DType>(found - kNumpyNames.begin());
}

/// The buffer protocol; false, and nothing held, where the array has none that fits.
bool HeldTensor::hold_buffer(nb::handle array, bool writable) {
  const int flags = writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO;
  if (PyObject_CheckBuffer(array.ptr()) == 0) return false;
  if (PyObject_GetBuffer(array.ptr(), &buffer_, flags) != 0) {
    PyErr_Clear();
    return false;
  }
  has_buffer_ = true;
  const auto type = type_of_format(buffer_.format, buffer_.itemsize);
  if (!type) {
    release();
    return false;
  }
  dtype_ = *type;
  data_ = buffer_.buf;
  shape_ = {buffer_.shape, static_cast<size_t>(buffer_.ndim)};
  strides_ = {};
  if (is_dense(shape_, buffer_.strides, buffer_.itemsize)) return true;
  own_strides_.assign(buffer_.strides, buffer_.strides + buffer_.ndim);
  for (int64_t& stride : own_strides_) {
    if (stride % buffer_.itemsize != 0) {
      release();
      return false;
    }
    stride /= buffer_.itemsize;
  }
  strides_ = own_strides_;
  return true;
}

void HeldTensor::take(const nb::dlpack::dltensor& tensor, const std::string& name) {
  const int device = tensor.device.device_type;
  on_device_ = device == nb::device::cuda::value && tensor.device.device_id == 0;
  if (!on_device_ && device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
    raise_invalid("tensor '" + name +
                  "' is in the memory of another device; weft takes tensors of the host (.cpu()) "
                  "and of the first GPU of NVIDIA's driver");
  }
  const auto type = type_of(tensor.dtype);
  if (!type) raise_invalid("tensor '" + name + "' has an element type that weft does not have");
  dtype_ = *type;
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  shape_ = {tensor.shape, static_cast<size_t>(tensor.ndim)};
  const bool dense = is_dense(shape_, tensor.strides, 1);
  strides_ =
      dense ? std::span<const int64_t>() : std::span<const int64_t>(tensor.strides, shape_.size());
}

/// Without a hold on anything: the caller's argument is one.
bool HeldTensor::hold_exchange(nb::handle array, const std::string& name) {
  nb::dlpack::dltensor tensor;
  if (!look_by_exchange(array, &tensor)) return false;
  take(tensor, name);
  return true;
}

void HeldTensor::hold_dlpack(nb::handle array, const std::string& name, bool writable) {
  // The array's shape and strides live as long as the capsule, which `owner_` keeps.
  nb::ndarray<nb::ro> view;
  nb::ndarray<> writable_view;
  const bool found = writable ? nb::try_cast(array, writable_view) : nb::try_cast(array, view);
  if (!found) {
    const bool readable = writable && nb::try_cast(array, view);
    raise_invalid("tensor '" + name + "': " +
                  (readable ? "the array is read-only"
                            : "a " + name_of_type(array) +
                                  " is no array (buffer protocol or DLPack) that weft can use"));
  }
  if (writable) {
    take(as_dltensor(writable_view), name);
    held_ = std::move(writable_view);
  } else {
    take(as_dltensor(view), name);
    held_readonly_ = std::move(view);
  }
}

void HeldTensor::hold(nb::handle array, const std::string& name, bool writable) {
  release();
  on_device_ = false;
  if (hold_buffer(array, writable)) return;
  if (!hold_exchange(array, name)) hold_other(array, name, writable);
  if (on_device_ && kind_of(array) == ArrayKind::kTorchOnDevice)
    nb::module_::import_("torch").attr("cuda").attr("current_stream")().attr("synchronize")();
}

void HeldTensor::keep(nb::handle array, const std::string& name) {
  release();
  if (!hold_buffer(array, /*writable=*/false)) hold_other(array, name, /*writable=*/false);
}

void HeldTensor::hold_other(nb::handle array, const std::string& name, bool writable) {
  if (!writable && is_numpy_of_odd_strides(array)) {
    owner_ = nb::module_::import_("numpy").attr("ascontiguousarray")(array);
    if (hold_buffer(owner_, writable)) return;
    release();
  }
  if (is_numpy_bfloat16(array)) {
    owner_ = array.attr("view")("uint16");
    if (hold_buffer(owner_, writable)) {
      dtype_ = DType::kBF16;
      return;
    }
    release();
  }
  hold_dlpack(array, name, writable);
}

void HeldTensor::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  if (held_.is_valid()) held_ = {};
  if (held_readonly_.is_valid()) held_readonly_ = {};
  if (owner_.is_valid()) owner_.reset();
}

namespace {

/// torch.empty, and torch's element types by ours.
struct TorchNames {
  nb::object empty;
  std::array<nb::object, kNumpyNames.size()> types;

  /// Made once; never destroyed, as the interpreter may be gone by then.
  static const TorchNames& get() {
    static const TorchNames* names = nullptr;
    if (names != nullptr) return *names;
    const nb::module_ torch = nb::module_::import_("torch");
    auto made = std::make_unique<TorchNames>();
    made->empty = torch.attr("empty");
    for (size_t i = 0; i < kNumpyNames.size(); ++i)
      made->types[i] = torch.attr(std::string(kNumpyNames[i]).c_str());
    names = made.release();
    return *names;
  }
};

}  // namespace

ArrayKind kind_of(nb::handle array) {
  if (PyObject_CheckBuffer(array.ptr()) != 0) return ArrayKind::kNumpy;
  // Subclasses of torch.Tensor (Parameter) are of torch, too.
  if (!nb::hasattr(array, "__torch_function__")) return ArrayKind::kNumpy;
  return nb::cast<bool>(array.attr("is_cuda")) ? ArrayKind::kTorchOnDevice : ArrayKind::kTorch;
}

nb::object new_array(ArrayKind kind, const weft::TensorSpec& spec) {
  nb::list shape;
  for (const int64_t extent : spec.shape) shape.append(extent);
  if (kind != ArrayKind::kNumpy) {
    const TorchNames& torch = TorchNames::get();
    const nb::object& type = torch.types[static_cast<size_t>(spec.dtype)];
    if (kind == ArrayKind::kTorch) return torch.empty(shape, nb::arg("dtype") = type);
    return torch.empty(shape, nb::arg("dtype") = type, nb::arg("device") = "cuda:0");
  }
  nb::object type = nb::str(std::string(numpy_name(spec.dtype)).c_str());
  if (spec.dtype == DType::kBF16) {
    try {
      type = nb::module_::import_("ml_dtypes").attr("bfloat16");
    } catch (const nb::python_error&) {
      raise({weft::ErrorCode::kMissingDevice,
             "output '" + spec.name +
                 "' is bfloat16, which numpy has by the package ml_dtypes: "
                 "install it, or give an output of your own (run_into)"});
    }
  }
  return nb::module_::import_("numpy").attr("empty")(shape, type);
}

}  // namespace weft_python
