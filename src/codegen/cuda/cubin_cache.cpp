#include "codegen/cuda/cubin_cache.h"

#include <cstring>
#include <span>

namespace weft {
namespace {

constexpr const char* kKind = "cubin";
constexpr std::string_view kMagic = "weftcub1";

void put(std::string& bytes, uint64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& bytes, std::string_view text) {
  put(bytes, text.size());
  bytes.append(text);
}

/// Takes values from the front of bytes that may end anywhere.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool number(uint64_t& value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool number(int32_t& value) {
    uint64_t wide = 0;
    if (!number(wide) || wide > INT32_MAX) return false;
    value = static_cast<int32_t>(wide);
    return true;
  }
  bool text(std::string_view& value) {
    uint64_t size = 0;
    if (!number(size) || size > rest_.size()) return false;
    value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace

std::string encode_cuda_binary(const CudaBinary& binary) {
  std::string body;
  put(body,
      std::string_view(reinterpret_cast<const char*>(binary.cubin.data()), binary.cubin.size()));
  put(body, binary.kernels.size());
  for (const CudaKernelResources& kernel : binary.kernels) {
    put(body, kernel.name);
    for (const int32_t value : {kernel.registers, kernel.stack_bytes, kernel.spill_store_bytes,
                                kernel.spill_load_bytes, kernel.shared_bytes}) {
      put(body, static_cast<uint64_t>(value));
    }
  }
  std::string bytes(kMagic);
  put(bytes, hash64(body));
  return bytes + body;
}

std::optional<CudaBinary> decode_cuda_binary(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  Reader header(bytes);
  uint64_t checksum = 0;
  if (!header.number(checksum)) return std::nullopt;
  bytes.remove_prefix(sizeof checksum);
  if (hash64(bytes) != checksum) return std::nullopt;

  Reader reader(bytes);
  CudaBinary binary;
  std::string_view cubin;
  uint64_t kernels = 0;
  if (!reader.text(cubin) || !reader.number(kernels)) return std::nullopt;
  const auto* first = reinterpret_cast<const std::byte*>(cubin.data());
  binary.cubin.assign(first, first + cubin.size());
  for (uint64_t i = 0; i < kernels; ++i) {
    CudaKernelResources kernel;
    std::string_view name;
    if (!reader.text(name) || !reader.number(kernel.registers) ||
        !reader.number(kernel.stack_bytes) || !reader.number(kernel.spill_store_bytes) ||
        !reader.number(kernel.spill_load_bytes) || !reader.number(kernel.shared_bytes)) {
      return std::nullopt;
    }
    kernel.name = std::string(name);
    binary.kernels.push_back(std::move(kernel));
  }
  if (!reader.at_end()) return std::nullopt;
  return binary;
}

std::optional<CudaBinary> CubinCache::find(const Hash128& key) const {
  const std::optional<MappedFile> file = entries_.find(key, kKind);
  if (!file) return std::nullopt;
  return decode_cuda_binary(
      {reinterpret_cast<const char*>(file->bytes.data()), file->bytes.size()});
}

void CubinCache::insert(const Hash128& key, const CudaBinary& binary) const {
  const std::string bytes = encode_cuda_binary(binary);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(bytes))};
  entries_.insert(key, kKind, parts);
}

}  // namespace weft
