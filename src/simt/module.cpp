#include "simt/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/cuda/prelude.h"
#include "simt/run_process.h"
#include "support/hash.h"

namespace weft::simt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTextFile = "kernel.cu";

/// A folder under the system's temporary one that goes away with this value.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "weft-simt-XXXXXX").string();
    if (!error && ::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  bool ok() const { return !path_.empty(); }
  fs::path operator/(const char* name) const { return fs::path(path_) / name; }

 private:
  std::string path_;
};

std::vector<std::string> compiler_flags(const CompileOptions& options) {
  // Barriers and collectives are told apart by their calls, so no two of them may become one.
  std::vector<std::string> flags = {"-std=c++17",
                                    "-O1",
                                    "-g1",
                                    "-w",
                                    "-fPIC",
                                    "-shared",
                                    "-nostdlib",
                                    "-Wl,-Bsymbolic",
                                    "-fno-exceptions",
                                    "-fno-crossjumping",
                                    "-fno-optimize-sibling-calls",
                                    "-fno-strict-aliasing",
                                    "-fno-math-errno",
                                    "-ffp-contract=off",
                                    "-fwrapv",
                                    "-fno-stack-protector"};
  if (options.instrument) {
    flags.insert(flags.end(), {"-fsanitize=thread", "--param", "tsan-distinguish-volatile=1",
                               "--param", "tsan-instrument-func-entry-exit=0"});
  }
  return flags;
}

/// Where along PATH a program is; empty if nowhere.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Result<std::string> find_compiler(const CompileOptions& options) {
  std::vector<std::string> names = {"g++", "g++-14", "g++-13", "g++-12"};
  if (!options.compiler.empty()) names = {options.compiler};
  std::string wanted;
  for (const std::string& name : names) {
    if (std::string program = find_program(name); !program.empty()) return program;
    wanted += (wanted.empty() ? "'" : ", '") + name + "'";
  }
  return Error{ErrorCode::kMissingDevice,
               "the emulator compiles kernels with the GNU C++ compiler, which is not on PATH "
               "(looked for " +
                   wanted + "); install g++ or choose another target"};
}

/// The compiler's file, as its size and time tell one version from another.
std::string compiler_version(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return path;
  return path + ":" + std::to_string(status.st_size) + ":" + std::to_string(status.st_mtim.tv_sec);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

bool write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

/// Keeps `object` under `path`, complete or not at all; failing is no error.
void keep(const fs::path& path, const std::string& object) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path unfinished = path.string() + "." + std::to_string(::getpid()) + "-" +
                              to_hex(reinterpret_cast<uintptr_t>(&object));
  if (write_file(unfinished, object)) fs::rename(unfinished, path, ignored);
  fs::remove(unfinished, ignored);
}

Result<std::string> compile_object(const std::string& text, const std::string& name,
                                   const std::string& compiler,
                                   const std::vector<std::string>& flags) {
  const TemporaryFolder folder;
  if (!folder.ok() || !write_file(folder / "weft_cuda.h", emulator_prelude()) ||
      !write_file(folder / kTextFile, text)) {
    return Error{ErrorCode::kMissingDevice,
                 "the emulator cannot write to the folder for temporary files"};
  }
  std::vector<std::string> arguments = {compiler};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const fs::path object = folder / "kernel.so";
  arguments.insert(arguments.end(), {"-o", object.string(), "-x", "c++",
                                     (folder / kTextFile).string(), "-x", "none", "-lm", "-lc"});
  WEFT_ASSIGN_OR_RETURN(const ProcessOutput output, run_process(arguments));
  if (output.exit_status != 0) {
    return Error{ErrorCode::kInternal, "g++ refuses '" + name + "':\n" + output.text};
  }
  return read_file(object);
}

/// A whole shared object ends in its section headers, so a truncated one shows by its size.
bool is_whole_object(const std::string& object) {
  if (object.size() < sizeof(ElfW(Ehdr)) || !object.starts_with("\177ELF")) return false;
  ElfW(Ehdr) header;
  std::memcpy(&header, object.data(), sizeof header);
  return header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize <= object.size();
}

}  // namespace

Result<std::shared_ptr<const Module>> Module::compile(const std::string& text,
                                                      const std::string& name,
                                                      const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const std::string compiler, find_compiler(options));
  const std::vector<std::string> flags = compiler_flags(options);
  Hasher key;
  key.add_text(emulator_prelude());
  key.add_text(text);
  key.add_text(compiler_version(compiler));
  for (const std::string& flag : flags) key.add_text(flag);
  const fs::path cached =
      fs::path(options.cache_directory) / (to_hex(key.digest128()) + ".simt.so");

  std::string object;
  if (!options.cache_directory.empty()) object = read_file(cached);
  if (!is_whole_object(object)) {
    WEFT_ASSIGN_OR_RETURN(object, compile_object(text, name, compiler, flags));
    if (!options.cache_directory.empty()) keep(cached, object);
  }

  std::shared_ptr<Module> module(new Module);
  module->name_ = name;
  module->file_ = ::memfd_create("weft-simt", MFD_CLOEXEC);
  size_t written = 0;
  while (module->file_ >= 0 && written < object.size()) {
    const ssize_t n = ::write(module->file_, object.data() + written, object.size() - written);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(module->file_);
  module->handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  link_map* map = nullptr;
  if (module->handle_ == nullptr || ::dlinfo(module->handle_, RTLD_DI_LINKMAP, &map) != 0) {
    const char* reason = ::dlerror();
    return Error{ErrorCode::kInternal, "cannot load the compiled '" + name +
                                           "': " + (reason == nullptr ? "no memory" : reason)};
  }
  module->base_ = map->l_addr;
  return std::shared_ptr<const Module>(std::move(module));
}

Module::~Module() {
  if (handle_ != nullptr) ::dlclose(handle_);
  if (file_ >= 0) ::close(file_);
}

Result<Module::Kernel> Module::kernel(const std::string& name) const {
  void* enter = ::dlsym(handle_, ("wf_enter_" + name).c_str());
  void* arity = ::dlsym(handle_, ("wf_arity_" + name).c_str());
  if (enter == nullptr || arity == nullptr) {
    return invalid_input("'" + name_ + "' exports no kernel '" + name + "'");
  }
  return Kernel{reinterpret_cast<Entry>(enter), reinterpret_cast<uint32_t (*)()>(arity)()};
}

void Module::bind(void* machine) const {
  void* bind = ::dlsym(handle_, "wf_sim_bind");
  WEFT_CHECK(bind != nullptr, "the emulator's prelude defines wf_sim_bind");
  reinterpret_cast<void (*)(void*)>(bind)(machine);
}

uint32_t Module::offset_of(const void* code) const {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - base_);
}

std::vector<int> Module::lines_of(const std::vector<uint32_t>& offsets) const {
  std::vector<int> lines(offsets.size(), 0);
  if (offsets.empty()) return lines;
  std::ostringstream addresses;
  // A return address is behind its call, whose line is asked for.
  for (const uint32_t offset : offsets) addresses << "0x" << std::hex << offset - 1 << "\n";
  const std::string object = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
  const Result<ProcessOutput> output = run_process({"addr2line", "-e", object}, addresses.str());
  if (!output.ok() || output->exit_status != 0) return lines;
  std::istringstream answers(output->text);
  std::string answer;
  for (size_t i = 0; i < lines.size() && std::getline(answers, answer); ++i) {
    const size_t colon = answer.rfind(':');
    if (colon == std::string::npos || !answer.substr(0, colon).ends_with(kTextFile)) continue;
    lines[i] = static_cast<int>(std::strtol(answer.c_str() + colon + 1, nullptr, 10));
  }
  return lines;
}

}  // namespace weft::simt
