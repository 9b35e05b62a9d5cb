#include "io/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "support/atomic_file.h"

namespace weft {
namespace {

// Records of the format (PKWARE's APPNOTE), little-endian, by signature.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint16_t kStored = 0, kDeflated = 8, kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint32_t kIn64 = 0xffffffff;  ///< the value stands in the 64-bit extra field
constexpr uint64_t kFirstOf1980 = 0x21 << 16;

using Bytes = std::span<const std::byte>;

/// A number of `width` bytes at an offset that lies inside.
uint64_t number(Bytes bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[at + i]);
  return value;
}

/// Part of the bytes, where they hold it.
std::optional<Bytes> part(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

bool has_signature(const std::optional<Bytes>& record, uint32_t signature) {
  return record.has_value() && number(*record, 0, 4) == signature;
}

struct Directory {
  uint64_t offset = 0, bytes = 0, members = 0;
};

Result<Directory> find_directory(Bytes archive) {
  if (archive.size() < kEndBytes) return invalid_input("it is no zip archive");
  size_t end = archive.size() - kEndBytes;
  const size_t lowest = end > kMaxCommentBytes ? end - kMaxCommentBytes : 0;
  while (number(archive, end, 4) != kEnd) {
    if (end == lowest) return invalid_input("it is no zip archive, or a truncated one");
    --end;
  }
  Directory directory{number(archive, end + 16, 4), number(archive, end + 12, 4),
                      number(archive, end + 10, 2)};
  const auto locator =
      end < kLocatorBytes ? std::nullopt : part(archive, end - kLocatorBytes, kLocatorBytes);
  if (has_signature(locator, kEnd64Locator)) {
    const auto end64 = part(archive, number(*locator, 8, 8), kEnd64Bytes);
    if (!has_signature(end64, kEnd64)) return invalid_input("its 64-bit directory is missing");
    directory = {number(*end64, 48, 8), number(*end64, 40, 8), number(*end64, 32, 8)};
  }
  return directory;
}

/// Takes the 64-bit values that an extra field holds for those of `values` that refer to it.
bool read_extra64(Bytes extra, std::initializer_list<uint64_t*> values) {
  while (extra.size() >= 4) {
    const uint64_t id = number(extra, 0, 2), size = number(extra, 2, 2);
    if (size > extra.size() - 4) return false;
    Bytes field = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    if (id != kExtra64) continue;
    for (uint64_t* value : values) {
      if (*value != kIn64) continue;
      if (field.size() < 8) return false;
      *value = number(field, 0, 8);
      field = field.subspan(8);
    }
    return true;
  }
  return true;
}

/// Deflate's best ratio is 1032 to 1: a member that claims more is not believed.
bool is_plausible(const ZipMember& member) {
  constexpr uint64_t kRatio = 1040, kSlack = 1024, kMaxBytes = uint64_t{1} << 40;
  if (!member.deflated) return member.bytes == member.stored.size();
  return member.bytes <= kMaxBytes && member.stored.size() <= kMaxBytes &&
         member.bytes <= member.stored.size() * kRatio + kSlack;
}

/// The member of one central record; the rest of the directory follows `record_bytes`.
Result<ZipMember> read_member(Bytes archive, Bytes directory, size_t* record_bytes) {
  const auto record = part(directory, 0, kCentralBytes);
  if (!has_signature(record, kCentral)) return invalid_input("its directory is damaged");
  const uint64_t name = number(*record, 28, 2), extra = number(*record, 30, 2);
  *record_bytes = kCentralBytes + name + extra + number(*record, 32, 2);
  if (*record_bytes > directory.size()) return invalid_input("its directory is damaged");
  ZipMember member;
  const Bytes text = directory.subspan(kCentralBytes, name);
  member.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  const auto fault = [&](const std::string& what) {
    return invalid_input("member '" + member.name + "': " + what);
  };
  const uint64_t method = number(*record, 10, 2);
  if ((number(*record, 8, 2) & kEncrypted) != 0) return fault("it is encrypted");
  if (method != kStored && method != kDeflated) return fault("an unknown compression");
  member.deflated = method == kDeflated;
  member.checksum = static_cast<uint32_t>(number(*record, 16, 4));
  uint64_t packed = number(*record, 20, 4), offset = number(*record, 42, 4);
  member.bytes = number(*record, 24, 4);
  if (!read_extra64(directory.subspan(kCentralBytes + name, extra),
                    {&member.bytes, &packed, &offset})) {
    return fault("its sizes are damaged");
  }
  const auto local = part(archive, offset, kLocalBytes);
  if (!has_signature(local, kLocal)) return fault("it is not where the directory says");
  const uint64_t start = offset + kLocalBytes + number(*local, 26, 2) + number(*local, 28, 2);
  const auto stored = part(archive, start, packed);
  if (!stored.has_value()) return fault("it is truncated");
  member.stored = *stored;
  if (!is_plausible(member)) return fault("its size cannot be true");
  return member;
}

/// Whether parts of the archive are apart: else a small file could claim its bytes many times.
bool are_apart(std::vector<Bytes> parts) {
  std::erase_if(parts, [](Bytes bytes) { return bytes.empty(); });
  std::ranges::sort(parts, {}, [](Bytes bytes) { return bytes.data(); });
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i - 1].data() + parts[i - 1].size() > parts[i].data()) return false;
  }
  return true;
}

void put(std::vector<std::byte>& out, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// What the local and the central record of a member share, from the version to extract with on.
void put_common(std::vector<std::byte>& out, const ZipMember& member, size_t extra_bytes) {
  constexpr uint64_t kVersion = 45, kNameIsUtf8 = 0x800;
  const bool large = member.bytes >= kIn64;
  put(out, kVersion, 2);
  put(out, kNameIsUtf8, 2);
  put(out, kStored, 2);
  put(out, kFirstOf1980, 4);
  put(out, member.checksum, 4);
  put(out, large ? kIn64 : member.bytes, 4);
  put(out, large ? kIn64 : member.bytes, 4);
  put(out, member.name.size(), 2);
  put(out, extra_bytes, 2);
}

void put_text(std::vector<std::byte>& out, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// The 64-bit extra field of a member of these sizes at this offset, as far as they need it.
std::vector<std::byte> extra64(uint64_t bytes, uint64_t offset) {
  std::vector<std::byte> values;
  if (bytes >= kIn64) {
    put(values, bytes, 8);
    put(values, bytes, 8);
  }
  if (offset >= kIn64) put(values, offset, 8);
  if (values.empty()) return {};
  std::vector<std::byte> field;
  put(field, kExtra64, 2);
  put(field, values.size(), 2);
  field.insert(field.end(), values.begin(), values.end());
  return field;
}

std::vector<std::byte> local_record(const ZipMember& member) {
  const std::vector<std::byte> extra = extra64(member.bytes, 0);
  std::vector<std::byte> record;
  put(record, kLocal, 4);
  put_common(record, member, extra.size());
  put_text(record, member.name);
  record.insert(record.end(), extra.begin(), extra.end());
  return record;
}

void put_central(std::vector<std::byte>& out, const ZipMember& member, uint64_t offset) {
  constexpr uint64_t kMadeByUnix = 0x32d;
  const std::vector<std::byte> extra = extra64(member.bytes, offset);
  put(out, kCentral, 4);
  put(out, kMadeByUnix, 2);
  put_common(out, member, extra.size());
  put(out, 0, 6);  // no comment, first disk, not a text
  put(out, uint64_t{0100644} << 16, 4);
  put(out, std::min<uint64_t>(offset, kIn64), 4);
  put_text(out, member.name);
  out.insert(out.end(), extra.begin(), extra.end());
}

/// The 64-bit end of the directory, which any reader of large files knows, and the classic one.
void put_end(std::vector<std::byte>& out, uint64_t members, uint64_t offset) {
  const uint64_t bytes = out.size(), end = offset + bytes;
  const bool large = members >= 0xffff || end >= kIn64;
  if (large) {
    put(out, kEnd64, 4);
    put(out, kEnd64Bytes - 12, 8);
    put(out, 45 << 16 | 45, 4);
    put(out, 0, 8);  // disks
    put(out, members, 8);
    put(out, members, 8);
    put(out, bytes, 8);
    put(out, offset, 8);
    put(out, kEnd64Locator, 4);
    put(out, 0, 4);
    put(out, end, 8);
    put(out, 1, 4);
  }
  put(out, kEnd, 4);
  put(out, 0, 4);
  put(out, large ? 0xffff : members, 2);
  put(out, large ? 0xffff : members, 2);
  put(out, large ? kIn64 : bytes, 4);
  put(out, large ? kIn64 : offset, 4);
  put(out, 0, 2);
}

}  // namespace

Result<std::vector<ZipMember>> read_zip_directory(Bytes archive) {
  WEFT_ASSIGN_OR_RETURN(const Directory place, find_directory(archive));
  const auto directory = part(archive, place.offset, place.bytes);
  if (!directory.has_value() || place.members > place.bytes / kCentralBytes) {
    return invalid_input("its directory lies outside of it");
  }
  std::vector<ZipMember> members;
  std::vector<Bytes> parts = {*directory};
  Bytes rest = *directory;
  for (uint64_t i = 0; i < place.members; ++i) {
    size_t record_bytes = 0;
    WEFT_ASSIGN_OR_RETURN(ZipMember member, read_member(archive, rest, &record_bytes));
    rest = rest.subspan(record_bytes);
    parts.push_back(member.stored);
    members.push_back(std::move(member));
  }
  if (!are_apart(std::move(parts))) return invalid_input("its members overlap");
  return members;
}

Result<std::vector<std::byte>> extract(const ZipMember& member) {
  std::vector<std::byte> content;
  if (!member.deflated) {
    content.assign(member.stored.begin(), member.stored.end());
  } else {
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return invalid_input("zlib does not start");
    constexpr size_t kChunk = 1 << 20;
    size_t taken = 0;
    int state = Z_OK;
    // As much as really comes out, rather than what the directory claims.
    while (state == Z_OK && content.size() <= member.bytes) {
      const size_t before = content.size(),
                   input = std::min<size_t>(member.stored.size() - taken, kChunk);
      content.resize(before + kChunk);
      stream.next_in =
          const_cast<Bytef*>(reinterpret_cast<const Bytef*>(member.stored.data() + taken));
      stream.avail_in = static_cast<uInt>(input);
      stream.next_out = reinterpret_cast<Bytef*>(content.data() + before);
      stream.avail_out = static_cast<uInt>(kChunk);
      state = inflate(&stream, Z_NO_FLUSH);
      taken += input - stream.avail_in;
      content.resize(before + kChunk - stream.avail_out);
    }
    inflateEnd(&stream);
    if (state != Z_STREAM_END) return invalid_input("its compressed bytes are damaged");
  }
  if (content.size() != member.bytes) {
    return invalid_input("its size is not what the archive says");
  }
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (sum != member.checksum) return invalid_input("its checksum is wrong");
  return content;
}

Status write_zip(const std::string& path, std::span<const ZipSource> members) {
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  std::vector<std::byte> directory;
  uint64_t offset = 0;
  for (const ZipSource& source : members) {
    ZipMember member;
    member.name = source.name;
    uLong sum = 0;
    for (const Bytes bytes : source.parts) {
      if (bytes.empty()) continue;  // zlib takes no bytes for a new start
      member.bytes += bytes.size();
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    }
    member.checksum = static_cast<uint32_t>(sum);
    const std::vector<std::byte> record = local_record(member);
    WEFT_RETURN_IF_ERROR(file.write(record));
    for (const Bytes bytes : source.parts) WEFT_RETURN_IF_ERROR(file.write(bytes));
    put_central(directory, member, offset);
    offset += record.size() + member.bytes;
  }
  put_end(directory, members.size(), offset);
  WEFT_RETURN_IF_ERROR(file.write(directory));
  return file.commit(/*durable=*/false);
}

}  // namespace weft
