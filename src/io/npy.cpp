#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "support/mapped_file.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the Python dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
/// 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> run() {
    Header header;
    if (!accept('{')) return std::nullopt;
    while (!accept('}')) {
      std::string_view key;
      if (!read_string(key) || !accept(':') || !read_value(key, header)) return std::nullopt;
      accept(',');
    }
    if (header.descr.empty() || !has_shape_) return std::nullopt;
    return header;
  }

 private:
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool read_string(std::string_view& to) {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return false;
    to = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool read_value(std::string_view key, Header& header) {
    if (key == "descr") return read_string(header.descr);
    if (key == "fortran_order") {
      header.fortran_order = accept_word("True");
      return header.fortran_order || accept_word("False");
    }
    return key == "shape" && read_shape(header.shape);
  }
  bool read_shape(Shape& shape) {
    if (!accept('(')) return false;
    shape.clear();
    while (!accept(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [end, failed] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (failed != std::errc() || extent < 0 || shape.size() == kMaxRank) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      accept_word("L");  // Python 2 wrote long integers so
      shape.push_back(extent);
      accept(',');
    }
    has_shape_ = true;
    return true;
  }

  std::string_view text_;
  bool has_shape_ = false;
};

std::optional<DType> dtype_of(std::string_view kind) {
  constexpr std::pair<std::string_view, DType> kKinds[] = {
      {"b1", DType::kBool}, {"i1", DType::kI8},  {"i2", DType::kI16},  {"i4", DType::kI32},
      {"i8", DType::kI64},  {"u1", DType::kU8},  {"u2", DType::kU16},  {"u4", DType::kU32},
      {"u8", DType::kU64},  {"f2", DType::kF16}, {"V2", DType::kBF16}, {"f4", DType::kF32},
      {"f8", DType::kF64}};
  for (const auto& [name, type] : kKinds) {
    if (name == kind) return type;
  }
  return std::nullopt;
}

std::string_view kind_of(DType type) {
  switch (type) {
    case DType::kBool:
      return "|b1";
    case DType::kI8:
      return "|i1";
    case DType::kI16:
      return "<i2";
    case DType::kI32:
      return "<i4";
    case DType::kI64:
      return "<i8";
    case DType::kU8:
      return "|u1";
    case DType::kU16:
      return "<u2";
    case DType::kU32:
      return "<u4";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kBF16:
      return "<V2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
  }
  WEFT_CHECK(false, "element type out of range");
}

/// Row-major copy of elements in file order, each turned to the machine's byte order.
HostTensor copy_elements(DType type, const Header& header, bool swap,
                         std::span<const std::byte> data) {
  HostTensor tensor(type, header.shape);
  const auto width = static_cast<size_t>(byte_size(type));
  const size_t rank = header.shape.size();
  std::vector<int64_t> index(rank, 0);
  std::vector<int64_t> stride(rank, 1);  // in the file, in elements
  for (size_t i = 1; i < rank; ++i) {
    const size_t axis = header.fortran_order ? i : rank - 1 - i;
    const size_t inner = header.fortran_order ? i - 1 : rank - i;
    stride[axis] = stride[inner] * header.shape[inner];
  }
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < rank; ++axis) from += index[axis] * stride[axis];
    std::byte* to = tensor.mutable_raw() + static_cast<size_t>(i) * width;
    std::memcpy(to, data.data() + static_cast<size_t>(from) * width, width);
    if (swap) std::reverse(to, to + width);
    if (type == DType::kBool && *to != std::byte{0}) *to = std::byte{1};
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < header.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return tensor;
}

/// The dictionary's text and the bytes behind it.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

std::optional<Parts> split_file(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) return std::nullopt;
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(text[i])); };
  const bool long_form = byte(6) >= 2;
  if (byte(6) < 1 || byte(6) > 3 || (long_form && text.size() < 12)) return std::nullopt;
  size_t length = byte(8) | byte(9) << 8;
  if (long_form) length |= byte(10) << 16 | byte(11) << 24;
  const size_t start = long_form ? 12 : 10;
  if (length > text.size() - start) return std::nullopt;
  return Parts{text.substr(start, length), bytes.subspan(start + length)};
}

}  // namespace

Result<HostTensor> parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const std::optional<Parts> parts = split_file(bytes);
  if (!parts) return invalid_input("not a .npy file, or cut short");
  const std::optional<Header> header = HeaderParser(parts->header).run();
  if (!header) return invalid_input("a .npy file with a broken header");
  const std::string_view descr = header->descr;
  const std::optional<DType> type = dtype_of(descr.substr(std::min<size_t>(1, descr.size())));
  if (!type || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) {
    return unsupported("a .npy file with elements of type '" + std::string(descr) + "'");
  }
  const std::optional<int64_t> size = checked_byte_size(*type, header->shape);
  if (!size || static_cast<size_t>(*size) != parts->data.size()) {
    return invalid_input("a .npy file with " + std::to_string(parts->data.size()) +
                         " bytes of data where its header says " +
                         (size ? std::to_string(*size) : "more than there can be"));
  }
  const bool swap = descr[0] == '>' && byte_size(*type) > 1;
  const bool aligned =
      reinterpret_cast<uintptr_t>(parts->data.data()) % static_cast<uintptr_t>(byte_size(*type)) ==
      0;
  const bool turned = header->fortran_order && header->shape.size() > 1;
  if (!swap && aligned && !turned && *type != DType::kBool && owner != nullptr) {
    return HostTensor(*type, header->shape, std::move(owner), parts->data);
  }
  return copy_elements(*type, *header, swap, parts->data);
}

std::string npy_header(const HostTensor& tensor) {
  std::string dict = "{'descr': '" + std::string(kind_of(tensor.dtype())) +
                     "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : tensor.shape()) dict += std::to_string(extent) + ", ";
  if (tensor.shape().size() > 1) dict.resize(dict.size() - 2);
  if (tensor.shape().size() == 1) dict.pop_back();
  dict += "), }";
  constexpr size_t kAlignment = 64;
  const size_t prefix = kMagic.size() + 4;
  dict.append(kAlignment - 1 - (prefix + dict.size()) % kAlignment, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00'};
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

Result<HostTensor> load_npy(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(MappedFile file, map_file(path));
  auto tensor = parse_npy(file.bytes, file.owner);
  if (tensor.ok()) return tensor;
  return Error{tensor.error().code, "'" + path + "': " + tensor.error().message};
}

Status write_npy(AtomicFile& file, const HostTensor& tensor) {
  const std::string header = npy_header(tensor);
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(header.data(), header.size()))));
  return file.write({tensor.raw(), static_cast<size_t>(tensor.bytes())});
}

Status save_npy(const std::string& path, const HostTensor& tensor) {
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  WEFT_RETURN_IF_ERROR(write_npy(file, tensor));
  return file.commit(/*durable=*/false);
}

}  // namespace weft
