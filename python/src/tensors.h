#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/weft.h"

namespace weft_python {

/// numpy's name of an element type: "float32", "bfloat16", "bool", …
std::string_view numpy_name(weft::DType type);
/// The type of that name; nullopt for what weft lacks.
std::optional<weft::DType> dtype_by_numpy_name(std::string_view name);

/// What of an array a run needs: where its elements are, and whatever keeps them there. Arrays come
/// by the buffer protocol or by DLPack, and are not copied. Filled and emptied with the GIL.
class HeldTensor {
 public:
  HeldTensor() = default;
  HeldTensor(HeldTensor&& other) noexcept = delete;
  HeldTensor& operator=(HeldTensor&&) = delete;
  ~HeldTensor() { release(); }

  /// Takes hold of `array` for a call that has it as an argument. Throws InvalidInput, naming the
  /// tensor, where it is no dense or strided array in the memory of the host or of the first GPU,
  /// or is to be written to and read-only. Waits for what torch has queued for a tensor of a GPU.
  void hold(nanobind::handle array, const std::string& name, bool writable);
  /// The same for as long as this lives, whatever becomes of the array object meanwhile.
  void keep(nanobind::handle array, const std::string& name);
  void release();

  std::span<const int64_t> shape() const { return shape_; }
  weft::Input input() const { return {dtype_, shape_, data_, strides_, on_device_}; }
  weft::Output output() const { return {dtype_, shape_, data_, strides_, on_device_}; }

 private:
  bool hold_buffer(nanobind::handle array, bool writable);
  bool hold_exchange(nanobind::handle array, const std::string& name);
  void hold_other(nanobind::handle array, const std::string& name, bool writable);
  void hold_dlpack(nanobind::handle array, const std::string& name, bool writable);
  void take(const nanobind::dlpack::dltensor& tensor, const std::string& name);

  weft::DType dtype_ = weft::DType::kF32;
  std::span<const int64_t> shape_;
  std::span<const int64_t> strides_;  ///< empty where dense
  void* data_ = nullptr;
  bool on_device_ = false;
  bool has_buffer_ = false;
  Py_buffer buffer_{};
  std::vector<int64_t> own_strides_;
  nanobind::object owner_;
  nanobind::ndarray<> held_;
  nanobind::ndarray<nanobind::ro> held_readonly_;
};

/// The kind of array that results come in.
enum class ArrayKind : uint8_t { kNumpy, kTorch, kTorchOnDevice };

/// That of an input.
ArrayKind kind_of(nanobind::handle array);

/// A new array, dense and writable. Its elements have any value.
nanobind::object new_array(ArrayKind kind, const weft::TensorSpec& spec);

}  // namespace weft_python
