#include "codegen/cpu/flatten_object.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>

#include <cstring>
#include <limits>
#include <map>

namespace weft::cpu {
namespace {

using Object = llvm::object::ELF64LEObjectFile;
using llvm::object::ELFSectionRef;
using llvm::object::SectionRef;
using llvm::object::SymbolRef;

constexpr uint64_t kMaxAlignment = 64;  ///< bytes, of a section: kKernelImageAlignment

Error internal(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

template <typename T>
Result<T> from_llvm(llvm::Expected<T> value) {
  if (!value) return internal("object file: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

class Flattener {
 public:
  explicit Flattener(const Object& object) : object_(object) {}

  Result<FlatObject> run(std::span<const std::string> symbols) {
    for (const SectionRef& section : object_.sections()) {
      WEFT_RETURN_IF_ERROR(place(section));
    }
    for (const SectionRef& section : object_.sections()) {
      for (const llvm::object::RelocationRef& relocation : section.relocations()) {
        WEFT_RETURN_IF_ERROR(relocate(section, relocation));
      }
    }
    for (const std::string& symbol : symbols) WEFT_RETURN_IF_ERROR(find_entry(symbol));
    return std::move(out_);
  }

 private:
  static bool is_kept(const SectionRef& section) {
    const ELFSectionRef elf(section);
    if ((elf.getFlags() & llvm::ELF::SHF_ALLOC) == 0 || section.getSize() == 0) return false;
    return elf.getType() != llvm::ELF::SHT_NOTE && !is_unwind(section);
  }

  /// Nothing unwinds through kernels.
  static bool is_unwind(const SectionRef& section) {
    llvm::Expected<llvm::StringRef> name = section.getName();
    if (name) return *name == ".eh_frame";
    llvm::consumeError(name.takeError());
    return false;
  }

  Status place(const SectionRef& section) {
    if (!is_kept(section)) return {};
    const ELFSectionRef elf(section);
    WEFT_ASSIGN_OR_RETURN(const llvm::StringRef name, from_llvm(section.getName()));
    if ((elf.getFlags() & llvm::ELF::SHF_WRITE) != 0 || elf.getType() != llvm::ELF::SHT_PROGBITS) {
      return internal("generated code has a section " + name.str() + " that cannot be in an image");
    }
    const uint64_t alignment = std::max<uint64_t>(1, section.getAlignment().value());
    if (alignment > kMaxAlignment) return internal("alignment of section " + name.str());
    WEFT_ASSIGN_OR_RETURN(const llvm::StringRef contents, from_llvm(section.getContents()));
    // Code lies on whole cache lines of its own.
    const uint64_t boundary = out_.bytes.empty() ? 1 : alignment;
    uint64_t offset = (out_.bytes.size() + boundary - 1) / boundary * boundary;
    out_.bytes.resize(offset + contents.size());
    std::memcpy(out_.bytes.data() + offset, contents.data(), contents.size());
    offsets_[section.getIndex()] = offset;
    return {};
  }

  Result<uint64_t> address_of(const SymbolRef& symbol) {
    WEFT_ASSIGN_OR_RETURN(const auto section, from_llvm(symbol.getSection()));
    const auto placed =
        section == object_.section_end() ? offsets_.end() : offsets_.find(section->getIndex());
    if (placed == offsets_.end()) {
      WEFT_ASSIGN_OR_RETURN(const llvm::StringRef name, from_llvm(symbol.getName()));
      return internal("generated code refers to '" + name.str() + "' outside of itself");
    }
    WEFT_ASSIGN_OR_RETURN(const uint64_t value, from_llvm(symbol.getValue()));
    return placed->second + value;
  }

  Status relocate(const SectionRef& holder, const llvm::object::RelocationRef& relocation) {
    WEFT_ASSIGN_OR_RETURN(const auto target, from_llvm(holder.getRelocatedSection()));
    const auto placed =
        target == object_.section_end() ? offsets_.end() : offsets_.find(target->getIndex());
    if (placed == offsets_.end()) return {};
    const uint64_t type = relocation.getType();
    const bool is_relative32 =
        type == llvm::ELF::R_X86_64_PC32 || type == llvm::ELF::R_X86_64_PLT32;
    if (!is_relative32 && type != llvm::ELF::R_X86_64_PC64) {
      return internal("generated code has a relocation of type " + std::to_string(type));
    }
    const auto symbol = relocation.getSymbol();
    if (symbol == object_.symbol_end()) return internal("a relocation without a symbol");
    WEFT_ASSIGN_OR_RETURN(const uint64_t address, address_of(*symbol));
    WEFT_ASSIGN_OR_RETURN(const int64_t addend,
                          from_llvm(llvm::object::ELFRelocationRef(relocation).getAddend()));
    const uint64_t place = placed->second + relocation.getOffset();
    const auto distance = static_cast<int64_t>(address) + addend - static_cast<int64_t>(place);
    const size_t width = is_relative32 ? 4 : 8;
    if (place > out_.bytes.size() || out_.bytes.size() - place < width) {
      return internal("a relocation beyond its section");
    }
    if (is_relative32 && (distance < std::numeric_limits<int32_t>::min() ||
                          distance > std::numeric_limits<int32_t>::max())) {
      return internal("a kernel of more than 2 GiB");
    }
    std::memcpy(out_.bytes.data() + place, &distance, width);
    return {};
  }

  Status find_entry(const std::string& wanted) {
    for (const SymbolRef& symbol : object_.symbols()) {
      WEFT_ASSIGN_OR_RETURN(const llvm::StringRef name, from_llvm(symbol.getName()));
      if (name != wanted) continue;
      WEFT_ASSIGN_OR_RETURN(const uint64_t address, address_of(symbol));
      out_.entries.push_back(address);
      return {};
    }
    return internal("generated code lacks '" + wanted + "'");
  }

  const Object& object_;
  std::map<uint64_t, uint64_t> offsets_;  ///< by index of the section
  FlatObject out_;
};

}  // namespace

Result<FlatObject> flatten_object(std::string_view object, std::span<const std::string> symbols) {
  WEFT_ASSIGN_OR_RETURN(
      const Object parsed,
      from_llvm(Object::create(llvm::MemoryBufferRef(llvm::StringRef(object), "kernel"))));
  return Flattener(parsed).run(symbols);
}

}  // namespace weft::cpu
