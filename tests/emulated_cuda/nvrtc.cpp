// NVRTC's functions: "compiling" keeps the text, after the architecture. Kernels of more lines than
// WEFT_EMULATED_REGISTERS spill a byte for each line more; without it none does.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>

#include "tests/emulated_cuda/image.h"

namespace {

using weft::kImageMagic;

struct Program {
  std::string text, image, log;
};

constexpr int kArchitectures[] = {75, 80, 86, 90, 100};

long spilled_bytes(const std::string& text) {
  const char* most = std::getenv("WEFT_EMULATED_REGISTERS");
  if (most == nullptr) return 0;
  const long lines = std::count(text.begin(), text.end(), '\n');
  return std::max(lines - std::strtol(most, nullptr, 10), 0L);
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int error) { return error == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR"; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return 0;
}

int nvrtcGetSupportedArchs(int* archs) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), archs);
  return 0;
}

int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Program{text, "", ""};
  return 0;
}

int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}

int nvrtcCompileProgram(void* handle, int count, const char* const* options) {
  auto& program = *static_cast<Program*>(handle);
  std::string arch;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    const std::string key = "--gpu-architecture=";
    if (option.starts_with(key)) arch = option.substr(key.size());
  }
  const std::regex kernel("WF_KERNEL\\((\\w+), (\\d+), (\\d+)\\)");
  for (std::sregex_iterator at(program.text.begin(), program.text.end(), kernel), end; at != end;
       ++at) {
    program.log +=
        "ptxas info    : Compiling entry function '" + (*at)[1].str() + "' for '" + arch + "'\n" +
        "    0 bytes stack frame, " + std::to_string(spilled_bytes(program.text)) +
        " bytes spill stores, 0 bytes spill loads\n" + "ptxas info    : Used 32 registers\n";
  }
  program.image = kImageMagic + arch + "\n" + program.text + '\0';
  return 0;
}

int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->image.size();
  return 0;
}

int nvrtcGetCUBIN(void* program, char* bytes) {
  const std::string& image = static_cast<Program*>(program)->image;
  std::copy(image.begin(), image.end(), bytes);
  return 0;
}

int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}

int nvrtcGetProgramLog(void* program, char* bytes) {
  std::strcpy(bytes, static_cast<Program*>(program)->log.c_str());
  return 0;
}

}  // extern "C"
