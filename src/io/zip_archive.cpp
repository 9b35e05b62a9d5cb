#include "io/zip_archive.h"

#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "support/atomic_file.h"

namespace weft {
namespace {

using Bytes = std::span<const std::byte>;

/// An archive in memory, as minizip's files: read from `source`, or written to `made`.
struct MemoryFile {
  Bytes source = {};
  std::vector<std::byte> made = {};
  bool writes = false;
  uint64_t position = 0;

  uint64_t size() const { return writes ? made.size() : source.size(); }

  static MemoryFile& of(voidpf file) { return *static_cast<MemoryFile*>(file); }
  static voidpf open(voidpf opaque, const void*, int) {
    of(opaque).position = 0;
    return opaque;
  }
  static uLong read(voidpf, voidpf file, void* to, uLong bytes) {
    MemoryFile& f = of(file);
    const uint64_t count = std::min<uint64_t>(bytes, f.size() - std::min(f.position, f.size()));
    if (count != 0) std::memcpy(to, f.source.data() + f.position, count);
    f.position += count;
    return count;
  }
  static uLong write(voidpf, voidpf file, const void* from, uLong bytes) {
    MemoryFile& f = of(file);
    if (f.position + bytes > f.made.size()) f.made.resize(f.position + bytes);
    if (bytes != 0) std::memcpy(f.made.data() + f.position, from, bytes);
    f.position += bytes;
    return bytes;
  }
  static ZPOS64_T tell(voidpf, voidpf file) { return of(file).position; }
  static long seek(voidpf, voidpf file, ZPOS64_T offset, int origin) {
    MemoryFile& f = of(file);
    const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                          : origin == ZLIB_FILEFUNC_SEEK_CUR ? f.position
                                                             : f.size();
    uint64_t to = 0;
    if (__builtin_add_overflow(base, offset, &to) || to > f.size()) return -1;
    f.position = to;
    return 0;
  }
  static int close(voidpf, voidpf) { return 0; }
  static int error(voidpf, voidpf) { return 0; }

  zlib_filefunc64_def functions() { return {open, read, write, tell, seek, close, error, this}; }
};

/// Deflate's best ratio is 1032 to 1: a member that claims more is not believed.
bool is_plausible(const unz_file_info64& info, uint64_t archive_bytes) {
  constexpr uint64_t kRatio = 1040, kSlack = 1024;
  if (info.compressed_size > archive_bytes) return false;
  if (info.compression_method == 0) return info.uncompressed_size == info.compressed_size;
  return info.uncompressed_size <= info.compressed_size * kRatio + kSlack;
}

class Reader {
 public:
  explicit Reader(Bytes archive) : file_{.source = archive} {
    zlib_filefunc64_def functions = file_.functions();
    zip_ = unzOpen2_64("", &functions);
  }
  ~Reader() {
    if (zip_ != nullptr) unzClose(zip_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool is_open() const { return zip_ != nullptr; }
  unzFile zip() const { return zip_; }

 private:
  MemoryFile file_;
  unzFile zip_ = nullptr;
};

Result<ZipMember> current_member(const Reader& reader, uint64_t archive_bytes) {
  unz_file_info64 info;
  std::vector<char> name(size_t{1} << 16);
  if (unzGetCurrentFileInfo64(reader.zip(), &info, name.data(), name.size() - 1, nullptr, 0,
                              nullptr, 0) != UNZ_OK) {
    return invalid_input("its directory is damaged");
  }
  ZipMember member;
  member.name.assign(name.data(), std::min<size_t>(info.size_filename, name.size() - 1));
  const auto fault = [&](const std::string& what) {
    return invalid_input("member '" + member.name + "': " + what);
  };
  if ((info.flag & 1) != 0) return fault("it is encrypted");
  if (info.compression_method != 0 && info.compression_method != Z_DEFLATED)
    return fault("an unknown compression");
  if (!is_plausible(info, archive_bytes)) return fault("its size cannot be true");
  member.bytes = info.uncompressed_size;
  member.stored_bytes = info.compressed_size;
  member.record = static_cast<uint64_t>(unzGetOffset64(reader.zip()));
  return member;
}

}  // namespace

Result<std::vector<ZipMember>> read_zip_directory(Bytes archive) {
  const Reader reader(archive);
  unz_global_info64 global;
  if (!reader.is_open() || unzGetGlobalInfo64(reader.zip(), &global) != UNZ_OK)
    return invalid_input("it is no zip archive, or a damaged one");
  std::vector<ZipMember> members;
  uint64_t stored = 0;
  for (uint64_t i = 0; i < global.number_entry; ++i) {
    const int found = i == 0 ? unzGoToFirstFile(reader.zip()) : unzGoToNextFile(reader.zip());
    if (found != UNZ_OK) return invalid_input("its directory is damaged");
    WEFT_ASSIGN_OR_RETURN(ZipMember member, current_member(reader, archive.size()));
    // Members that share bytes of the archive could claim them many times over.
    stored += member.stored_bytes;
    if (stored > archive.size()) return invalid_input("its members overlap");
    members.push_back(std::move(member));
  }
  return members;
}

Result<std::vector<std::byte>> extract(Bytes archive, const ZipMember& member) {
  const Reader reader(archive);
  if (!reader.is_open() || unzSetOffset64(reader.zip(), member.record) != UNZ_OK ||
      unzOpenCurrentFile(reader.zip()) != UNZ_OK) {
    return invalid_input("it is not where the directory says");
  }
  constexpr size_t kChunk = 1 << 20;
  std::vector<std::byte> content;
  // As much as really comes out, rather than what the directory claims.
  while (content.size() <= member.bytes) {
    const size_t before = content.size();
    const size_t room = std::min<size_t>(kChunk, member.bytes - before + 1);
    content.resize(before + room);
    const int got =
        unzReadCurrentFile(reader.zip(), content.data() + before, static_cast<unsigned>(room));
    content.resize(before + static_cast<size_t>(std::max(got, 0)));
    if (got < 0) return invalid_input("its compressed bytes are damaged");
    if (got == 0) break;
  }
  const int closed = unzCloseCurrentFile(reader.zip());
  if (content.size() != member.bytes) return invalid_input("its size is not what the archive says");
  if (closed != UNZ_OK) return invalid_input("its checksum is wrong");
  return content;
}

Status write_zip(const std::string& path, std::span<const ZipSource> members) {
  constexpr uLong kFirstOf1980 = 0x21UL << 16, kPlainFile = 0100644UL << 16;
  constexpr uLong kMadeByUnix = 0x32d, kNameIsUtf8 = 0x800;
  constexpr uint64_t kLarge = 0xffffffff;
  constexpr size_t kChunk = size_t{1} << 30;
  MemoryFile memory{.writes = true};
  zlib_filefunc64_def functions = memory.functions();
  const zipFile zip = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions);
  int state = zip == nullptr ? ZIP_INTERNALERROR : ZIP_OK;
  for (const ZipSource& source : members) {
    zip_fileinfo info = {};
    info.dosDate = kFirstOf1980;
    info.external_fa = kPlainFile;
    uint64_t bytes = 0;
    for (const Bytes part : source.parts) bytes += part.size();
    if (state == ZIP_OK) {
      state = zipOpenNewFileInZip4_64(zip, source.name.c_str(), &info, nullptr, 0, nullptr, 0,
                                      nullptr, 0, 0, 0, -MAX_WBITS, DEF_MEM_LEVEL, 0, nullptr, 0,
                                      kMadeByUnix, kNameIsUtf8, bytes >= kLarge ? 1 : 0);
    }
    for (Bytes rest : source.parts) {
      while (state == ZIP_OK && !rest.empty()) {
        const Bytes part = rest.first(std::min(rest.size(), kChunk));
        state = zipWriteInFileInZip(zip, part.data(), static_cast<unsigned>(part.size()));
        rest = rest.subspan(part.size());
      }
    }
    if (state == ZIP_OK) state = zipCloseFileInZip(zip);
  }
  if (zip != nullptr) {
    const int closed = zipClose(zip, nullptr);
    if (state == ZIP_OK) state = closed;
  }
  if (state != ZIP_OK) return invalid_input("'" + path + "': these arrays make no zip archive");
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  WEFT_RETURN_IF_ERROR(file.write(memory.made));
  return file.commit(/*durable=*/false);
}

}  // namespace weft
