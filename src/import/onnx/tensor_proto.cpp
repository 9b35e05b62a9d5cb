#include "import/onnx/tensor_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "import/onnx/external_data.h"
#include "import/onnx/narrow_type.h"
#include "import/onnx/wire_message.h"

namespace weft::onnx {
namespace {

/// A TensorProto with its data still as it stands in the file.
struct RawTensor {
  std::string_view name;
  std::vector<int64_t> dims;
  int64_t type = 0;
  std::optional<std::string_view> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> int32s, int64s;
  bool external = false, segmented = false;
  std::string_view location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

int64_t parse_number(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    refuse_invalid(fmt::format("external data: {} '{}' is not a number", what, text));
  }
  return value;
}

void read_external_entry(std::string_view message, RawTensor& tensor) {
  std::string_view key, value;
  for (WireMessage m(message); m.next();) {
    if (m.field() == 1) {
      key = m.bytes();
    } else if (m.field() == 2) {
      value = m.bytes();
    } else {
      m.skip();
    }
  }
  if (key == "location") tensor.location = value;
  if (key == "offset") tensor.offset = parse_number(value, "offset");
  if (key == "length") tensor.length = parse_number(value, "length");
}

RawTensor read_raw_tensor(std::string_view message) {
  RawTensor tensor;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        m.append_integers(tensor.dims);
        break;
      case 2:
        tensor.type = m.integer();
        break;
      case 3:
        tensor.segmented = true, m.skip();
        break;
      case 4:
        m.append_f32(tensor.floats);
        break;
      case 5:
        m.append_integers(tensor.int32s);
        break;
      case 7:
      case 11:
        m.append_integers(tensor.int64s);
        break;
      case 8:
        tensor.name = m.bytes();
        break;
      case 9:
        tensor.raw = m.bytes();
        break;
      case 10:
        m.append_f64(tensor.doubles);
        break;
      case 13:
        read_external_entry(m.bytes(), tensor);
        break;
      case 14:
        tensor.external = m.integer() == 1;
        break;
      default:
        m.skip();
    }
  }
  return tensor;
}

/// The bytes as they are; only those of a bool that is neither 0 nor 1 are copied, as 1.
HostTensor view(DType type, const Shape& shape, std::shared_ptr<const void> owner,
                std::span<const std::byte> bytes) {
  const bool clean =
      type != DType::kBool ||
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
  if (clean) return HostTensor(type, shape, std::move(owner), bytes);
  HostTensor copy(type, shape);
  std::transform(bytes.begin(), bytes.end(), copy.mutable_raw(),
                 [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  return copy;
}

/// The bytes of a tensor in another file, which is mapped once for all that lie in it.
MappedFile find_external(const RawTensor& raw, int64_t bytes, const TensorSource& source) {
  const std::string location(raw.location);
  auto found = source.files->find(location);
  if (found == source.files->end()) {
    found = source.files->emplace(location, take(map_external_file(source.folder, location))).first;
  }
  return take(external_range(found->second, location, raw.offset, raw.length.value_or(bytes)));
}

template <typename T>
void check_count(const std::vector<T>& values, int64_t count, std::string_view name) {
  if (static_cast<int64_t>(values.size()) != count) {
    refuse_invalid(fmt::format("tensor '{}' holds {} elements, its shape says {}", name,
                               values.size(), count));
  }
}

/// The typed *_data fields: which one is the element type's business.
HostTensor copy_typed(const RawTensor& raw, DType type, int64_t count) {
  const auto fill = [&](const auto& values, auto convert) {
    check_count(values, count, raw.name);
    HostTensor tensor(type, raw.dims);
    auto* to = tensor.mutable_data<decltype(convert(values[0]))>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = convert(values[i]);
    return tensor;
  };
  const auto same = [](auto value) { return value; };
  switch (type) {
    case DType::kF32:
      return fill(raw.floats, same);
    case DType::kF64:
      return fill(raw.doubles, same);
    case DType::kI64:
    case DType::kU64:
      return fill(raw.int64s, same);
    case DType::kU32:
      return fill(raw.int64s, [](int64_t v) { return static_cast<uint32_t>(v); });
    case DType::kI32:
      return fill(raw.int32s, [](int64_t v) { return static_cast<int32_t>(v); });
    case DType::kBool:
      return fill(raw.int32s, [](int64_t v) { return static_cast<uint8_t>(v != 0); });
    case DType::kI8:
    case DType::kU8:
      return fill(raw.int32s, [](int64_t v) { return static_cast<uint8_t>(v); });
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return fill(raw.int32s, [](int64_t v) { return static_cast<uint16_t>(v); });
  }
  refuse_invalid("element type out of range");
}

/// Integers of 2 or 4 bits, packed as they stand in the file.
HostTensor unpack(const RawTensor& raw, NarrowType type, int64_t count,
                  const TensorSource& source) {
  const int64_t held = packed_bytes(type, count);
  const auto check = [&](size_t bytes) {
    if (static_cast<int64_t>(bytes) == held) return;
    refuse_invalid(fmt::format("tensor '{}' of {}[{}] holds {} bytes, its shape says {}", raw.name,
                               onnx_type_name(raw.type), fmt::join(raw.dims, ","), bytes, held));
  };
  if (raw.external) {
    const MappedFile file = find_external(raw, held, source);
    check(file.bytes.size());
    return unpacked(type, raw.dims, file.bytes);
  }
  if (raw.raw && (!raw.raw->empty() || raw.int32s.empty())) {
    check(raw.raw->size());
    return unpacked(type, raw.dims, std::as_bytes(std::span(raw.raw->data(), raw.raw->size())));
  }
  check(raw.int32s.size());
  std::vector<std::byte> bytes;
  for (const int64_t v : raw.int32s) bytes.push_back(static_cast<std::byte>(v));
  return unpacked(type, raw.dims, bytes);
}

HostTensor build_tensor(const RawTensor& raw, const TensorSource& source) {
  const DType type = to_dtype(raw.type);
  const std::optional<int64_t> count = element_count(raw.dims);
  const std::optional<int64_t> bytes = checked_byte_size(type, raw.dims);
  constexpr size_t kMaxRank = 64;
  if (!count || !bytes || raw.dims.size() > kMaxRank) {
    refuse_invalid(fmt::format("tensor '{}' has an impossible shape [{}]", raw.name,
                               fmt::join(raw.dims, ",")));
  }
  if (raw.segmented) refuse_unsupported(fmt::format("tensor '{}' is segmented", raw.name));
  if (const auto narrow = narrow_type_of(raw.type)) return unpack(raw, *narrow, *count, source);
  const auto check_bytes = [&](size_t held) {
    if (static_cast<int64_t>(held) != *bytes) {
      refuse_invalid(fmt::format("tensor '{}' of {}[{}] holds {} bytes, its shape says {}",
                                 raw.name, dtype_name(type), fmt::join(raw.dims, ","), held,
                                 *bytes));
    }
  };
  if (raw.external) {
    MappedFile file = find_external(raw, *bytes, source);
    check_bytes(file.bytes.size());
    return view(type, raw.dims, std::move(file.owner), file.bytes);
  }
  const bool typed =
      !raw.floats.empty() || !raw.doubles.empty() || !raw.int32s.empty() || !raw.int64s.empty();
  if (!raw.raw || (raw.raw->empty() && typed)) return copy_typed(raw, type, *count);
  check_bytes(raw.raw->size());
  return view(type, raw.dims, source.owner,
              std::as_bytes(std::span(raw.raw->data(), raw.raw->size())));
}

}  // namespace

TensorDef read_tensor_def(std::string_view message) {
  TensorDef tensor{{}, message};
  for (WireMessage m(message); m.next();) {
    if (m.field() == 8) {
      tensor.name = m.bytes();
    } else {
      m.skip();
    }
  }
  return tensor;
}

int64_t element_type(std::string_view message) {
  int64_t type = 0;
  for (WireMessage m(message); m.next();) {
    if (m.field() == 2) {
      type = m.integer();
    } else {
      m.skip();
    }
  }
  return type;
}

HostTensor read_tensor(std::string_view message, const TensorSource& source) {
  return build_tensor(read_raw_tensor(message), source);
}

HostTensor read_sparse_tensor(std::string_view message, const TensorSource& source) {
  std::string_view values_message, indices_message;
  Shape dims;
  for (WireMessage m(message); m.next();) {
    switch (m.field()) {
      case 1:
        values_message = m.bytes();
        break;
      case 2:
        indices_message = m.bytes();
        break;
      case 3:
        m.append_integers(dims);
        break;
      default:
        m.skip();
    }
  }
  const HostTensor values = read_tensor(values_message, source);
  const HostTensor indices = read_tensor(indices_message, source);
  constexpr int64_t kMaxDenseBytes = int64_t{1} << 30;
  const std::optional<int64_t> bytes = checked_byte_size(values.dtype(), dims);
  if (!bytes || *bytes > kMaxDenseBytes) {
    refuse_unsupported(fmt::format("a sparse tensor of shape [{}]", fmt::join(dims, ",")));
  }
  const auto rank = static_cast<int64_t>(dims.size());
  const bool linear = indices.shape().size() == 1;
  const Shape expected = linear ? Shape{values.size()} : Shape{values.size(), rank};
  if (indices.dtype() != DType::kI64 || indices.shape() != expected) {
    refuse_invalid("a sparse tensor's indices do not match its values");
  }
  HostTensor dense(values.dtype(), dims);
  std::memset(dense.mutable_raw(), 0, static_cast<size_t>(*bytes));
  const auto width = static_cast<size_t>(byte_size(values.dtype()));
  for (int64_t i = 0; i < values.size(); ++i) {
    int64_t at = linear ? indices.at_int(i) : 0;
    for (int64_t axis = 0; !linear && axis < rank; ++axis) {
      const int64_t index = indices.at_int(i * rank + axis);
      const int64_t extent = dims[static_cast<size_t>(axis)];
      if (index < 0 || index >= extent) refuse_invalid("a sparse tensor's index is out of range");
      at = at * extent + index;
    }
    if (at < 0 || at >= dense.size()) refuse_invalid("a sparse tensor's index is out of range");
    std::memcpy(dense.mutable_raw() + static_cast<size_t>(at) * width,
                values.raw() + static_cast<size_t>(i) * width, width);
  }
  return dense;
}

Result<NamedTensor> parse_tensor_proto(std::string_view message, const TensorSource& source) {
  try {
    const RawTensor raw = read_raw_tensor(message);
    return NamedTensor{std::string(raw.name), build_tensor(raw, source)};
  } catch (const Refusal& refusal) {
    return refusal.error();
  } catch (const protozero::exception&) {
    return invalid_input("not a tensor in protobuf form, or cut short");
  }
}

}  // namespace weft::onnx
