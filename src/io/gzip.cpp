#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace weft {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's way to say: gzip's header and checksum
constexpr size_t kStep = size_t{1} << 20;

class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, kGzipWindow) == Z_OK; }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Result<std::string> run(std::span<const std::byte> bytes, size_t max_bytes) {
    if (!ready_) return invalid_input("there is no memory to unpack it");
    std::string out;
    size_t used = 0, filled = 0;
    while (used < bytes.size()) {
      if (filled == out.size()) out.resize(std::min(max_bytes + 1, filled + kStep));
      const auto input = std::min<size_t>(bytes.size() - used, std::numeric_limits<uInt>::max());
      const auto room = std::min<size_t>(out.size() - filled, kStep);
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data() + used));
      stream_.avail_in = static_cast<uInt>(input);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      used += input - stream_.avail_in;
      filled += room - stream_.avail_out;
      ended_ = code == Z_STREAM_END;
      if (filled > max_bytes) {
        return invalid_input("it unpacks to more than " + std::to_string(max_bytes) + " bytes");
      }
      if (code != Z_OK && !ended_) return invalid_input("its gzip data is damaged");
      if (ended_ && used < bytes.size() && inflateReset(&stream_) != Z_OK) break;
    }
    if (!finish(out, filled, max_bytes)) return invalid_input("its gzip data is cut short");
    out.resize(filled);
    return out;
  }

 private:
  /// Output that is still held back once all input is in.
  bool finish(std::string& out, size_t& filled, size_t max_bytes) {
    while (!ended_) {
      out.resize(std::min(max_bytes + 1, filled + kStep));
      if (filled == out.size()) return false;
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
      const size_t room = out.size() - filled;
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      filled += room - stream_.avail_out;
      ended_ = code == Z_STREAM_END;
      if (code != Z_OK && !ended_) return false;
    }
    return filled <= max_bytes;
  }

  z_stream stream_ = {};
  bool ready_ = false, ended_ = false;
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::string> unpack_gzip(std::span<const std::byte> bytes, size_t max_bytes) {
  return Inflater().run(bytes, max_bytes);
}

}  // namespace weft
