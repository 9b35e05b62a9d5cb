#include "runtime/artefact.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "runtime/program_codec.h"
#include "runtime/verify_program.h"
#include "support/atomic_file.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

constexpr char kMagic[8] = {'\x7f', 'w', 'e', 'f', 't', 'a', 'r', '\n'};
constexpr uint32_t kByteOrder = 0x01020304;  ///< reads otherwise on a machine of the other order
constexpr uint64_t kConstantAlignment = 64;  ///< bytes: a cache line, the widest vector
/// The constants start on a page, so that they share none with what is read at load.
constexpr uint64_t kPartAlignment = 4096;

struct Part {
  uint64_t offset = 0, bytes = 0, hash = 0;
};

/// Written as it stands: no padding.
struct Header {
  char magic[8] = {};
  uint32_t version = 0, byte_order = 0;
  uint64_t file_bytes = 0;
  Part programs, constants;
  uint64_t hash = 0;  ///< of all before it
};
static_assert(sizeof(Header) == 80);

uint64_t header_hash(const Header& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, hash)));
}

uint64_t rounded(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::span<const std::byte> bytes_of(const HostTensor& tensor) {
  return {tensor.raw(), static_cast<size_t>(tensor.bytes())};
}

/// Gathers programs into an archive; equal kernels and constants get one entry.
class ArchiveBuilder {
 public:
  ProgramArchive archive;
  std::vector<const HostTensor*> constants;  ///< in the order of archive.constants
  uint64_t constant_bytes = 0;

  void add(const Program& program) {
    ProgramArchive::Entry& entry = archive.entries.emplace_back();
    entry.program = program;
    entry.program.kernels.clear();
    entry.program.constants.clear();
    for (const KernelImage& kernel : program.kernels) entry.kernels.push_back(number_of(kernel));
    for (const HostTensor& tensor : program.constants) {
      entry.constants.push_back(number_of(tensor));
    }
  }

 private:
  uint32_t number_of(const KernelImage& kernel) {
    Hasher hasher;
    hasher.add_text(kernel.name);
    hasher.add_bytes(kernel.bytes);
    for (uint64_t entry : kernel.phase_entries) hasher.add_value(entry);
    const DeviceLaunch& d = kernel.device;
    hasher.add_text(d.entry);
    for (const int64_t value :
         {d.blocks, int64_t{d.threads}, int64_t{d.cluster}, d.shared_bytes, int64_t{d.cooperative},
          int64_t{d.blocks_per_sm}, int64_t{d.registers}, int64_t{d.spill_bytes}}) {
      hasher.add_value(static_cast<uint64_t>(value));
    }
    const auto next = static_cast<uint32_t>(archive.kernels.size());
    const auto [found, is_new] = kernels_.try_emplace(hasher.digest128(), next);
    if (is_new) archive.kernels.push_back(kernel);
    return found->second;
  }

  uint32_t number_of(const HostTensor& tensor) {
    Hasher hasher;
    hasher.add_value(static_cast<uint64_t>(tensor.dtype()));
    for (int64_t extent : tensor.shape()) hasher.add_value(static_cast<uint64_t>(extent));
    hasher.add_bytes(bytes_of(tensor));
    const auto next = static_cast<uint32_t>(constants.size());
    const auto [found, is_new] = constants_.try_emplace(hasher.digest128(), next);
    if (is_new) {
      archive.constants.push_back({tensor.dtype(), tensor.shape(), constant_bytes});
      constants.push_back(&tensor);
      constant_bytes = rounded(constant_bytes + bytes_of(tensor).size(), kConstantAlignment);
    }
    return found->second;
  }

  std::map<Hash128, uint32_t> kernels_, constants_;
};

/// Calls each(bytes) for the constants with the zeros between them, as they lie in the file.
template <typename Each>
Status for_constant_bytes(const ArchiveBuilder& builder, const Each& each) {
  static constexpr std::byte kZeros[kConstantAlignment] = {};
  for (const HostTensor* tensor : builder.constants) {
    const std::span<const std::byte> bytes = bytes_of(*tensor);
    WEFT_RETURN_IF_ERROR(each(bytes));
    const uint64_t padding = rounded(bytes.size(), kConstantAlignment) - bytes.size();
    WEFT_RETURN_IF_ERROR(each(std::span<const std::byte>(kZeros).first(padding)));
  }
  return {};
}

Error damaged(const std::string& path, const std::string& what) {
  return invalid_input("'" + path + "' is damaged: " + what + "; compile the model again");
}

/// The parts lie in the file, one behind the other.
bool parts_fit(const Header& header, uint64_t file_bytes) {
  const Part &programs = header.programs, &constants = header.constants;
  return header.file_bytes == file_bytes && programs.offset == sizeof(Header) &&
         programs.bytes <= file_bytes - sizeof(Header) && constants.offset % kPartAlignment == 0 &&
         constants.offset >= programs.offset + programs.bytes && constants.offset <= file_bytes &&
         constants.bytes == file_bytes - constants.offset;
}

Result<Header> read_header(const std::string& path, std::span<const std::byte> file) {
  if (!is_artefact(file)) return invalid_input("'" + path + "' is not a weft artefact");
  Header header;
  if (file.size() < sizeof header) return damaged(path, "it is truncated");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.byte_order != kByteOrder) {
    return invalid_input("'" + path + "' was written on a machine of another byte order");
  }
  if (header.version != kArtefactVersion) {
    return invalid_input("'" + path + "' has format version " + std::to_string(header.version) +
                         ", this runtime reads version " + std::to_string(kArtefactVersion) +
                         "; compile the model again with the same release of weft");
  }
  if (header.hash != header_hash(header)) return damaged(path, "the header's checksum is wrong");
  if (header.file_bytes > file.size()) {
    return damaged(path, "it is truncated, " + std::to_string(file.size()) + " of " +
                             std::to_string(header.file_bytes) + " bytes are there");
  }
  if (!parts_fit(header, file.size())) return damaged(path, "its parts do not fit together");
  return header;
}

std::span<const std::byte> bytes_of(const Part& part, std::span<const std::byte> file) {
  return file.subspan(static_cast<size_t>(part.offset), static_cast<size_t>(part.bytes));
}

/// A view of the mapped file, or an error.
Result<HostTensor> view_constant(const StoredConstant& stored,
                                 const std::shared_ptr<const void>& file,
                                 std::span<const std::byte> constants) {
  if (stored.dtype > DType::kF64) return invalid_input("a constant of an unknown type");
  const std::optional<int64_t> bytes = checked_byte_size(stored.dtype, stored.shape);
  if (!bytes.has_value() || stored.offset % kConstantAlignment != 0 ||
      stored.offset > constants.size() ||
      static_cast<uint64_t>(*bytes) > constants.size() - stored.offset) {
    return invalid_input("a constant lies outside the file");
  }
  return HostTensor(
      stored.dtype, stored.shape, file,
      constants.subspan(static_cast<size_t>(stored.offset), static_cast<size_t>(*bytes)));
}

/// The tables' entries by number; false when one is out of range.
template <typename T>
bool pick(const std::vector<uint32_t>& numbers, const std::vector<T>& table, std::vector<T>& to) {
  for (uint32_t number : numbers) {
    if (number >= table.size()) return false;
    to.push_back(table[number]);
  }
  return true;
}

/// Programs share the stored kernels but own their copies: a file must not ask for more than this.
constexpr size_t kMaxCodeBytes = size_t{1} << 30;

Result<std::vector<Program>> assemble(ProgramArchive archive,
                                      const std::vector<HostTensor>& constants) {
  for (const KernelImage& kernel : archive.kernels) {
    WEFT_RETURN_IF_ERROR(verify_kernel_image(kernel));
  }
  std::vector<Program> programs;
  size_t code_bytes = 0;
  for (ProgramArchive::Entry& entry : archive.entries) {
    for (uint32_t number : entry.kernels) {
      if (number < archive.kernels.size()) code_bytes += archive.kernels[number].bytes.size();
      if (code_bytes > kMaxCodeBytes) return invalid_input("its programs have too much code");
    }
    Program& program = programs.emplace_back(std::move(entry.program));
    if (!pick(entry.kernels, archive.kernels, program.kernels) ||
        !pick(entry.constants, constants, program.constants)) {
      return invalid_input("a program names a kernel or constant that does not exist");
    }
    WEFT_RETURN_IF_ERROR(verify_program(program));
  }
  return programs;
}

bool same_inputs(const Program& a, const Program& b) {
  return std::ranges::equal(a.inputs, b.inputs, [](const ProgramIo& x, const ProgramIo& y) {
    return x.name == y.name && x.shape == y.shape;
  });
}

/// Of programs for the same target kind and shapes the one that this processor runs and that uses
/// most of what it has.
Result<std::vector<Program>> best_for_processor(std::vector<Program> programs,
                                                std::span<const std::string> features) {
  std::vector<Program> best;
  std::vector<Program> refused;
  for (Program& program : programs) {
    if (!check_features(program, features).ok()) {
      refused.push_back(std::move(program));
      continue;
    }
    const auto rival = std::ranges::find_if(best, [&](const Program& other) {
      return program.arch.empty() && other.arch.empty() && same_inputs(program, other);
    });
    if (rival == best.end())
      best.push_back(std::move(program));
    else if (program.required_features.size() > rival->required_features.size())
      *rival = std::move(program);
  }
  for (const Program& program : refused) {
    const bool served = std::ranges::any_of(
        best, [&](const Program& other) { return same_inputs(program, other); });
    if (!served) return check_features(program, features).error();
  }
  return best;
}

}  // namespace

bool is_artefact(std::span<const std::byte> start) {
  return start.size() >= sizeof kMagic && std::memcmp(start.data(), kMagic, sizeof kMagic) == 0;
}

Status save_artefact(const std::string& path, std::span<const Program* const> programs) {
  ArchiveBuilder builder;
  for (const Program* program : programs) {
    WEFT_RETURN_IF_ERROR(verify_program(*program));
    builder.add(*program);
  }
  const std::vector<std::byte> description = encode(builder.archive);
  Hasher hasher;
  WEFT_RETURN_IF_ERROR(for_constant_bytes(builder, [&](std::span<const std::byte> bytes) {
    hasher.add_bytes(bytes);
    return Status();
  }));
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kArtefactVersion;
  header.byte_order = kByteOrder;
  header.programs = {sizeof header, description.size(), hash64(description)};
  header.constants = {rounded(sizeof header + description.size(), kPartAlignment),
                      builder.constant_bytes, hasher.digest64()};
  header.file_bytes = header.constants.offset + header.constants.bytes;
  header.hash = header_hash(header);
  const std::vector<std::byte> gap(header.constants.offset - sizeof header - description.size());

  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&header, 1))));
  WEFT_RETURN_IF_ERROR(file.write(description));
  WEFT_RETURN_IF_ERROR(file.write(gap));
  WEFT_RETURN_IF_ERROR(for_constant_bytes(
      builder, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
  return file.commit();
}

Result<std::vector<Program>> load_artefact(const std::string& path,
                                           std::span<const std::string> features,
                                           const ArtefactOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  return parse_artefact(file.owner, file.bytes, path, features, options);
}

Result<std::vector<Program>> parse_artefact(const std::shared_ptr<const void>& owner,
                                            std::span<const std::byte> file,
                                            const std::string& name,
                                            std::span<const std::string> features,
                                            const ArtefactOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Header header, read_header(name, file));
  const std::span<const std::byte> description = bytes_of(header.programs, file);
  if (hash64(description) != header.programs.hash) {
    return damaged(name, "the checksum of its code is wrong");
  }
  const std::span<const std::byte> constants = bytes_of(header.constants, file);
  if (options.verify_constants) {
    Hasher hasher;
    hasher.add_bytes(constants);
    if (hasher.digest64() != header.constants.hash) {
      return damaged(name, "the checksum of its constants is wrong");
    }
  }
  Result<ProgramArchive> archive = decode(description);
  if (!archive.ok()) return damaged(name, archive.error().message);
  std::vector<HostTensor> tensors;
  for (const StoredConstant& stored : archive->constants) {
    Result<HostTensor> tensor = view_constant(stored, owner, constants);
    if (!tensor.ok()) return damaged(name, tensor.error().message);
    tensors.push_back(std::move(*tensor));
  }
  if (archive->entries.empty()) return damaged(name, "it holds no program");
  Result<std::vector<Program>> programs = assemble(std::move(*archive), tensors);
  if (!programs.ok()) return damaged(name, programs.error().message);
  if (options.any_features) return programs;
  return best_for_processor(std::move(*programs), features);
}

Status check_features(const Program& program, std::span<const std::string> features) {
  std::string missing;
  for (const std::string& feature : program.required_features) {
    if (std::ranges::find(features, feature) == features.end()) {
      missing += (missing.empty() ? "" : ", ") + feature;
    }
  }
  if (missing.empty()) return {};
  return Error{ErrorCode::kMissingDevice, "'" + program.model + "' was compiled for " +
                                              program.target +
                                              ", and this processor lacks: " + missing +
                                              "; compile the model again on this machine"};
}

Result<size_t> find_program(std::span<const Program* const> programs,
                            std::span<const std::span<const int64_t>> input_shapes) {
  std::string known;
  for (size_t p = 0; p < programs.size(); ++p) {
    const Program& program = *programs[p];
    const bool seeded = input_shapes.size() == program.inputs.size();
    const std::span<const ProgramIo> inputs = seeded ? program.inputs : program.given_inputs();
    const bool fits = std::ranges::equal(inputs, input_shapes,
                                         [](const ProgramIo& io, std::span<const int64_t> shape) {
                                           return std::ranges::equal(io.shape, shape);
                                         });
    if (fits) return p;
    known += p == 0 ? "" : "; or ";
    for (size_t i = 0; i < inputs.size(); ++i) {
      known += (i == 0 ? "" : ", ") + inputs[i].name + "[";
      for (size_t axis = 0; axis < inputs[i].shape.size(); ++axis) {
        known += (axis == 0 ? "" : ",") + std::to_string(inputs[i].shape[axis]);
      }
      known += "]";
    }
  }
  return invalid_input("there is no program for these input shapes; there is " + known);
}

}  // namespace weft
