#include "codegen/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "codegen/cuda/prelude.h"
#include "support/dynamic_library.h"

namespace weft {
namespace {

using Program = void*;
constexpr int kSuccess = 0;  ///< NVRTC_SUCCESS of nvrtc.h
/// NVRTC 13 compiles for no older architecture.
constexpr int kOldestOfNewest = 75;

/// Folders below the one of this program's file where a build of weft or a copy of it keeps
/// libraries: beside the program, and in the virtual environment that scripts/setup makes.
std::vector<std::string> folders_near_program() {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  std::vector<std::string> folders = {(program.parent_path() / "lib/").string()};
  const fs::path environment = program.parent_path().parent_path() / "venv/lib";
  std::vector<std::string> found;
  for (const fs::directory_entry& python : fs::directory_iterator(environment, failed)) {
    for (const char* package : {"nvidia/cu13/lib/", "nvidia/cuda_nvrtc/lib/"}) {
      const fs::path folder = python.path() / "site-packages" / package;
      if (fs::is_directory(folder, failed)) found.push_back(folder.string());
    }
  }
  std::sort(found.begin(), found.end());
  folders.insert(folders.end(), found.begin(), found.end());
  return folders;
}

/// Library files to try, in order, without those of environment variables that are not set.
std::vector<std::string> candidates(const std::string& path) {
  if (!path.empty()) return {path};
  if (std::string file = environment_variable("WEFT_NVRTC"); !file.empty()) return {file};
  std::vector<std::string> files, folders;
  if (const std::string home = environment_variable("CUDA_HOME"); !home.empty()) {
    folders.push_back(home + "/lib64/");
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  for (std::string& folder : folders_near_program()) folders.push_back(std::move(folder));
  folders.emplace_back();  // the loader's own
  for (const std::string& folder : folders) {
    for (const char* version : {".13", ".12", ""}) {
      files.push_back(folder + "libnvrtc.so" + version);
    }
  }
  return files;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// The number that ends before `word` in `line`: "0 bytes spill stores" for " bytes spill stores".
std::optional<int32_t> number_before(std::string_view line, std::string_view word) {
  const size_t end = line.find(word);
  if (end == std::string_view::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int32_t number = 0;
  const auto [_, error] = std::from_chars(line.data() + begin, line.data() + end, number);
  if (begin == end || error != std::errc()) return std::nullopt;
  return number;
}

/// The digits of "sm_90a".
int arch_number(const std::string& arch) {
  int number = 0;
  if (!arch.starts_with("sm_")) return 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

}  // namespace

std::vector<CudaKernelResources> parse_ptxas_log(std::string_view log) {
  std::vector<CudaKernelResources> kernels;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size() - 1);
    const std::string_view line = log.substr(0, end + 1);
    log.remove_prefix(end + 1);
    constexpr std::string_view kEntry = "Compiling entry function '";
    if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view name = line.substr(at + kEntry.size());
      kernels.emplace_back().name = std::string(name.substr(0, name.find('\'')));
      continue;
    }
    if (kernels.empty()) continue;
    CudaKernelResources& kernel = kernels.back();
    // Behind a kernel's own lines stand those of the functions that it calls.
    const auto read = [&](std::string_view word, int32_t& field) {
      if (const std::optional<int32_t> number = number_before(line, word)) field += *number;
    };
    read(" bytes stack frame", kernel.stack_bytes);
    read(" bytes spill stores", kernel.spill_store_bytes);
    read(" bytes spill loads", kernel.spill_load_bytes);
    read(" registers", kernel.registers);
    read(" bytes smem", kernel.shared_bytes);
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return kernels;
}

/// The functions of nvrtc.h that are used, under their own names.
struct Nvrtc::Library {
  // NOLINTBEGIN(readability-identifier-naming)
  const char* (*nvrtcGetErrorString)(int) = nullptr;
  int (*nvrtcVersion)(int*, int*) = nullptr;
  int (*nvrtcGetNumSupportedArchs)(int*) = nullptr;
  int (*nvrtcGetSupportedArchs)(int*) = nullptr;
  int (*nvrtcCreateProgram)(Program*, const char*, const char*, int, const char* const*,
                            const char* const*) = nullptr;
  int (*nvrtcDestroyProgram)(Program*) = nullptr;
  int (*nvrtcCompileProgram)(Program, int, const char* const*) = nullptr;
  int (*nvrtcGetCUBINSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetCUBIN)(Program, char*) = nullptr;
  int (*nvrtcGetProgramLogSize)(Program, size_t*) = nullptr;
  int (*nvrtcGetProgramLog)(Program, char*) = nullptr;
  // NOLINTEND(readability-identifier-naming)

  void bind(DynamicLibrary& library) {
#define WEFT_BIND(name) library.bind(name, #name)
    WEFT_BIND(nvrtcGetErrorString);
    WEFT_BIND(nvrtcVersion);
    WEFT_BIND(nvrtcGetNumSupportedArchs);
    WEFT_BIND(nvrtcGetSupportedArchs);
    WEFT_BIND(nvrtcCreateProgram);
    WEFT_BIND(nvrtcDestroyProgram);
    WEFT_BIND(nvrtcCompileProgram);
    WEFT_BIND(nvrtcGetCUBINSize);
    WEFT_BIND(nvrtcGetCUBIN);
    WEFT_BIND(nvrtcGetProgramLogSize);
    WEFT_BIND(nvrtcGetProgramLog);
#undef WEFT_BIND
  }

  std::string log_of(Program program) const {
    size_t bytes = 0;
    if (nvrtcGetProgramLogSize(program, &bytes) != kSuccess || bytes <= 1) return "";
    std::string log(bytes, '\0');
    if (nvrtcGetProgramLog(program, log.data()) != kSuccess) return "";
    log.resize(bytes - 1);
    return log;
  }
};

Result<Nvrtc> Nvrtc::load(const std::string& path, const std::string& arch) {
  const std::vector<std::string> files = candidates(path);
  std::optional<Error> refused;
  for (const std::string& file : files) {
    DynamicLibrary library = DynamicLibrary::open(file);
    if (!library.is_open()) continue;
    Result<Nvrtc> nvrtc = open(std::move(library));
    Status usable = nvrtc.ok() ? Status() : Status(nvrtc.error());
    if (usable.ok() && !arch.empty()) usable = nvrtc->check_arch(arch);
    if (usable.ok()) return nvrtc;
    if (!refused.has_value()) refused = usable.take_error();
  }
  if (refused.has_value()) return *std::move(refused);
  return Error{ErrorCode::kMissingDevice,
               "compiling for a GPU needs NVIDIA's run-time compiler, which was not found; looked "
               "for " +
                   join(files) +
                   " (scripts/setup installs it into build/venv; else set WEFT_NVRTC to the "
                   "library's file)"};
}

Result<Nvrtc> Nvrtc::open(DynamicLibrary loaded) {
  auto library = std::make_shared<Library>();
  library->bind(loaded);
  Nvrtc nvrtc;
  nvrtc.path_ = loaded.file();
  if (!loaded.lacking().empty()) {
    return Error{ErrorCode::kMissingDevice,
                 "'" + loaded.file() + "' has no function " + loaded.lacking()};
  }
  if (library->nvrtcVersion(&nvrtc.major_, &nvrtc.minor_) != kSuccess) {
    return Error{ErrorCode::kMissingDevice, "'" + nvrtc.path_ + "' does not tell its version"};
  }
  nvrtc.library_ = std::move(library);
  return nvrtc;
}

Status Nvrtc::check_arch(const std::string& arch) const {
  int count = 0;
  std::vector<int> supported;
  if (library_->nvrtcGetNumSupportedArchs(&count) == kSuccess && count > 0) {
    supported.resize(static_cast<size_t>(count));
    if (library_->nvrtcGetSupportedArchs(supported.data()) != kSuccess) supported.clear();
  }
  const int number = arch_number(arch);
  if (std::find(supported.begin(), supported.end(), number) != supported.end()) return {};
  std::string known;
  for (const int one : supported) known += " sm_" + std::to_string(one);
  return Error{
      ErrorCode::kMissingDevice,
      "NVRTC " + std::to_string(major_) + "." + std::to_string(minor_) + " (" + path_ +
          ") does not compile for " + arch + "; it knows" + known +
          (number < kOldestOfNewest
               ? "; NVRTC 12 does (nvidia-cuda-nvrtc-cu12 12.9.86 from PyPI in build/venv, "
                 "or its library's file in WEFT_NVRTC)"
               : "")};
}

Result<CudaBinary> Nvrtc::compile(const std::string& text, const std::string& name,
                                  const NvrtcOptions& options) const {
  WEFT_RETURN_IF_ERROR(check_arch(options.arch));
  const std::string prelude = cuda_prelude();
  const char* headers[] = {prelude.c_str()};
  const char* header_names[] = {"weft_cuda.h"};
  Program program = nullptr;
  int result =
      library_->nvrtcCreateProgram(&program, text.c_str(), name.c_str(), 1, headers, header_names);
  const auto failure = [&](const std::string& log) {
    return Error{ErrorCode::kInternal, "NVRTC refuses '" + name +
                                           "': " + library_->nvrtcGetErrorString(result) +
                                           (log.empty() ? "" : "\n" + log)};
  };
  if (result != kSuccess) return failure("");
  const std::string arch = "--gpu-architecture=" + options.arch;
  std::vector<const char*> flags = {arch.c_str(), "--std=c++17", "--ptxas-options=-v",
                                    options.contract ? "--fmad=true" : "--fmad=false"};
  if (!options.optimizes) flags.push_back("--Ofast-compile=min");
  result = library_->nvrtcCompileProgram(program, static_cast<int>(flags.size()), flags.data());
  const std::string log = library_->log_of(program);
  CudaBinary binary;
  size_t bytes = 0;
  if (result == kSuccess) result = library_->nvrtcGetCUBINSize(program, &bytes);
  binary.cubin.resize(bytes);
  if (result == kSuccess) {
    result = library_->nvrtcGetCUBIN(program, reinterpret_cast<char*>(binary.cubin.data()));
  }
  library_->nvrtcDestroyProgram(&program);
  if (result != kSuccess) return failure(log);
  binary.kernels = parse_ptxas_log(log);
  return binary;
}

}  // namespace weft
