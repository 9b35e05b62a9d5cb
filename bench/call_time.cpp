// call_time FILE.weft: nanoseconds of one run of an artefact by the C++ interface, on zeros and one
// thread: the least mean of some rounds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr int kRounds = 20, kCalls = 20000;

/// Memory for the tensors of a model.
template <typename Tensor>
std::vector<Tensor> tensors_of(const std::vector<weft::TensorSpec>& specs,
                               std::vector<std::vector<std::byte>>& memory) {
  std::vector<Tensor> tensors;
  for (const weft::TensorSpec& spec : specs) {
    int64_t bytes = weft::byte_size(spec.dtype);
    for (const int64_t extent : spec.shape) bytes *= extent;
    memory.emplace_back(static_cast<size_t>(bytes));
    tensors.push_back({spec.dtype, spec.shape, memory.back().data()});
  }
  return tensors;
}

int fail(const weft::Error& error) {
  std::fprintf(stderr, "call_time: %s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::LoadOptions options;
  options.threads = 1;
  const auto model = weft::load(argv[1], options);
  if (!model) return fail(model.error());
  auto context = model->new_context();
  if (!context) return fail(context.error());
  std::vector<std::vector<std::byte>> memory;
  const auto inputs = tensors_of<weft::Input>(model->inputs(), memory);
  const auto outputs = tensors_of<weft::Output>(model->outputs(), memory);
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < kCalls; ++call) {
      if (const weft::Status done = context->run(inputs, outputs); !done) return fail(done.error());
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    least = std::min(least, spent.count() / kCalls);
  }
  std::printf("%.0f\n", least);
  return 0;
}
