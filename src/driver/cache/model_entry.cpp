#include "driver/cache/model_entry.h"

#include <algorithm>
#include <cstring>

#include "assemble/lay_out_constants.h"
#include "runtime/byte_codec.h"
#include "runtime/kernel_image.h"
#include "runtime/program_codec.h"
#include "runtime/verify_program.h"
#include "support/file_identity.h"
#include "support/folder_of.h"

namespace weft {

namespace {

constexpr uint64_t kAlignment = 64;

uint64_t rounded(uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

/// Where a constant's bytes are.
struct StoredPlace {
  enum class Kind : uint8_t { kInline, kFile, kEntry };
  Kind kind = Kind::kInline;
  uint32_t file = 0;
  uint64_t offset = 0;  ///< into the file, or the entry's own constants
  Hash128 key;          ///< kEntry
};

struct StoredFile {
  std::string location;  ///< relative to the model's folder; empty: the model itself
  Hash128 identity;
};

struct StoredInput {
  std::string name;
  TensorType type;
  std::vector<std::string> symbols;
  int64_t graph_input = -1;
  bool has_range = false, is_specialised = false;
  int64_t low = 0, high = 0;
  Hash128 value;  ///< of what the model is specialised on
};

struct Pair {
  std::string key, value;
};

struct Description {
  std::vector<std::byte> program;  ///< program_codec.h
  std::vector<StoredFile> files;
  std::vector<StoredPlace> places;  ///< by constant of the program
  std::vector<StoredInput> inputs;
  std::vector<Pair> metadata;
  PlanTotals totals;
  int64_t unique_kernels = 0;
};

template <typename A>
void hash(A& a, Like<A, Hash128>& h) {
  values(a, h.high, h.low);
}

template <typename A>
void fields(A& a, Like<A, Description>& d) {
  a.bytes(d.program);
  a.list(d.files, [&](auto& f) {
    a.text(f.location);
    hash(a, f.identity);
  });
  a.list(d.places, [&](auto& p) {
    values(a, p.kind, p.file, p.offset);
    hash(a, p.key);
  });
  a.list(d.inputs, [&](auto& i) {
    a.text(i.name);
    a.value(i.type.dtype);
    numbers(a, i.type.shape);
    a.list(i.symbols, [&](auto& s) { a.text(s); });
    values(a, i.graph_input, i.has_range, i.is_specialised, i.low, i.high);
    hash(a, i.value);
  });
  a.list(d.metadata, [&](auto& m) {
    a.text(m.key);
    a.text(m.value);
  });
  values(a, d.totals.ops, d.totals.memory_kernels, d.totals.compute_kernels, d.totals.library_calls,
         d.totals.bytes_read, d.totals.bytes_written, d.totals.flops, d.totals.predicted_us,
         d.unique_kernels);
}

Hash128 value_hash(const HostTensor& t) {
  Hasher hasher;
  hasher.add_text(print(TensorType{t.dtype(), t.shape()}));
  hasher.add_bytes({t.raw(), static_cast<size_t>(t.bytes())});
  return hasher.digest128();
}

StoredInput describe(const ImportedInput& input) {
  StoredInput out{input.name, input.type, input.symbols, input.graph_input, {}, {}, 0, 0, {}};
  if (input.range) {
    out.has_range = true;
    out.low = input.range->lo;
    out.high = input.range->hi;
  }
  if (input.specialised) {
    out.is_specialised = true;
    out.value = value_hash(*input.specialised);
  }
  return out;
}

/// Locations start with the folder of the model, which may be another one next time.
std::string location_of(const ModelFile& file, const std::string& folder) {
  return file.path.starts_with(folder + "/") ? file.path.substr(folder.size() + 1) : file.path;
}

StoredPlace place_of(const ModelToStore& model, size_t constant,
                     std::vector<std::byte>* inline_bytes) {
  const HostTensor& value = model.program.constants[constant];
  if (const auto& key = model.cached_constants[constant])
    return {StoredPlace::Kind::kEntry, 0, 0, *key};
  if (const auto found = model.files.find(value))
    return {StoredPlace::Kind::kFile, static_cast<uint32_t>(found->file), found->offset, {}};
  const uint64_t offset = rounded(inline_bytes->size());
  inline_bytes->resize(offset);
  inline_bytes->insert(inline_bytes->end(), value.raw(), value.raw() + value.bytes());
  return {StoredPlace::Kind::kInline, 0, offset, {}};
}

/// The files that constants are views of, mapped; empty when one of them is not what it was.
std::vector<MappedFile> open_files(const Description& d, const std::string& path, bool verify) {
  std::vector<MappedFile> files;
  for (const StoredFile& stored : d.files) {
    const std::string at = stored.location.empty() ? path : folder_of(path) + "/" + stored.location;
    const Result<Hash128> identity = identify_file(at, verify);
    if (!identity.ok() || *identity != stored.identity) return {};
    Result<MappedFile> file = map_file(at);
    if (!file.ok()) return {};
    files.push_back(std::move(*file));
  }
  return files;
}

/// The constant of a type, at an offset of `file`.
std::optional<HostTensor> view(const StoredConstant& like, const MappedFile& file,
                               uint64_t offset) {
  const auto bytes = checked_byte_size(like.dtype, like.shape);
  if (!bytes || offset > file.bytes.size() ||
      static_cast<uint64_t>(*bytes) > file.bytes.size() - offset) {
    return std::nullopt;
  }
  return HostTensor(like.dtype, like.shape, file.owner,
                    file.bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(*bytes)));
}

bool same_specialisation(const Description& d,
                         const std::map<std::string, HostTensor>& known_inputs) {
  for (const StoredInput& input : d.inputs) {
    if (!input.is_specialised) continue;
    const auto given = known_inputs.find(input.name);
    if (given == known_inputs.end() || value_hash(given->second) != input.value) return false;
  }
  return true;
}

std::optional<std::vector<HostTensor>> find_constants(const Description& d,
                                                      const ProgramArchive& archive,
                                                      const std::vector<MappedFile>& files,
                                                      const MappedFile& own,
                                                      const EntryCache& cache) {
  std::vector<HostTensor> out;
  for (size_t i = 0; i < archive.constants.size(); ++i) {
    const StoredPlace& place = d.places[i];
    std::optional<MappedFile> file;
    if (place.kind == StoredPlace::Kind::kInline) file = own;
    if (place.kind == StoredPlace::Kind::kFile && place.file < files.size())
      file = files[place.file];
    if (place.kind == StoredPlace::Kind::kEntry) file = cache.find(place.key, kLaidOutKind);
    if (!file) return std::nullopt;
    std::optional<HostTensor> constant = view(archive.constants[i], *file, place.offset);
    if (!constant) return std::nullopt;
    out.push_back(std::move(*constant));
  }
  return out;
}

ImportedInput restored(const StoredInput& stored,
                       const std::map<std::string, HostTensor>& known_inputs) {
  ImportedInput input;
  input.name = stored.name;
  input.type = stored.type;
  input.symbols = stored.symbols;
  input.graph_input = stored.graph_input;
  if (stored.has_range) input.range = Interval{stored.low, stored.high};
  if (stored.is_specialised) input.specialised = known_inputs.at(stored.name);
  return input;
}

}  // namespace

ModelEntry encode_model_entry(const ModelToStore& model) {
  ModelEntry entry;
  Description d;
  d.totals = model.totals;
  d.unique_kernels = model.unique_kernels;
  const std::string folder = folder_of(model.path);
  for (size_t i = 0; i < model.files.files().size(); ++i) {
    const ModelFiles::File& file = model.files.files()[i];
    d.files.push_back({i == 0 ? "" : location_of(file.file, folder), file.identity});
  }
  ProgramArchive archive;
  ProgramArchive::Entry& only = archive.entries.emplace_back();
  only.program = model.program;
  only.program.kernels.clear();
  only.program.constants.clear();
  archive.kernels = model.program.kernels;
  for (size_t i = 0; i < model.program.constants.size(); ++i) {
    const HostTensor& value = model.program.constants[i];
    archive.constants.push_back({value.dtype(), value.shape(), 0});
    d.places.push_back(place_of(model, i, &entry.constants));
  }
  d.program = encode(archive);
  for (const ImportedInput& input : model.inputs) d.inputs.push_back(describe(input));
  for (const auto& [key, value] : model.metadata) d.metadata.push_back({key, value});
  ByteWriter writer;
  fields(writer, std::as_const(d));
  entry.description = writer.take();
  return entry;
}

std::vector<std::byte> join_model_entry(const ModelEntry& entry) {
  std::vector<std::byte> out(sizeof(uint64_t));
  const uint64_t length = entry.description.size();
  std::memcpy(out.data(), &length, sizeof length);
  out.insert(out.end(), entry.description.begin(), entry.description.end());
  out.resize(rounded(out.size()));
  out.insert(out.end(), entry.constants.begin(), entry.constants.end());
  return out;
}

std::optional<StoredModel> decode_model_entry(const MappedFile& entry, const ModelReading& reading,
                                              const EntryCache& cache) {
  uint64_t length = 0;
  if (entry.bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, entry.bytes.data(), sizeof length);
  if (length > entry.bytes.size() - sizeof length) return std::nullopt;
  ByteReader reader(entry.bytes.subspan(sizeof length, length));
  Description d;
  fields(reader, d);
  if (!reader.ok() || !reader.at_end() || !same_specialisation(d, reading.known_inputs))
    return std::nullopt;
  const MappedFile own{entry.owner, entry.bytes.subspan(std::min<size_t>(
                                        rounded(sizeof length + length), entry.bytes.size()))};
  Result<ProgramArchive> archive = decode(d.program);
  if (!archive.ok() || archive->entries.size() != 1 ||
      archive->constants.size() != d.places.size()) {
    return std::nullopt;
  }
  const std::vector<MappedFile> files = open_files(d, reading.path, reading.verify);
  if (files.size() != d.files.size()) return std::nullopt;
  auto constants = find_constants(d, *archive, files, own, cache);
  if (!constants) return std::nullopt;
  StoredModel model;
  model.program = std::move(archive->entries[0].program);
  model.program.model = reading.path;
  model.program.kernels = std::move(archive->kernels);
  model.program.constants = std::move(*constants);
  for (const KernelImage& kernel : model.program.kernels) {
    if (!verify_kernel_image(kernel).ok()) return std::nullopt;
  }
  if (!verify_program(model.program).ok()) return std::nullopt;
  for (const StoredInput& input : d.inputs)
    model.inputs.push_back(restored(input, reading.known_inputs));
  for (const Pair& pair : d.metadata) model.metadata.emplace(pair.key, pair.value);
  model.totals = d.totals;
  model.unique_kernels = d.unique_kernels;
  return model;
}

}  // namespace weft
