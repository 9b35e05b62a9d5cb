#include "tests/simt/kernel_cases.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "support/dtype.h"
#include "tests/paths.h"
#include "tests/simt/kernel_fixture.h"

namespace weft::simt {
namespace {

using Use = Buffer::Use;

/// Gathers a launch's buffers and arguments and the expectation of its output.
class Runner {
 public:
  Runner(const Module& module, Emulator& emulator, const LaunchOptions& options)
      : module_(module), emulator_(emulator), options_(options) {}

  template <typename T>
  Runner& array(const std::string& name, DeviceArray<T>& values, Use use) {
    buffers_.push_back(values.buffer(name, use));
    arguments_.emplace_back(values.data());
    return *this;
  }
  Runner& number(int64_t value) {
    arguments_.emplace_back(value);
    return *this;
  }
  KernelOutcome launch(const std::string& kernel, const LaunchShape& shape, std::span<float> got,
                       const std::function<double(size_t)>& expected) {
    KernelOutcome outcome;
    Result<Report> report =
        emulator_.launch(module_, kernel, shape, buffers_, arguments_, options_);
    if (!report.ok()) {
      ADD_FAILURE() << report.error().message;
      return outcome;
    }
    outcome.report = std::move(*report);
    for (size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(got[i] - expected(i));
      outcome.error = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                             : std::max(outcome.error, difference);
    }
    return outcome;
  }

 private:
  const Module& module_;
  Emulator& emulator_;
  LaunchOptions options_;
  std::vector<Buffer> buffers_;
  std::vector<Argument> arguments_;
};

uint32_t blocks_for(size_t items, size_t each) {
  return static_cast<uint32_t>((items + each - 1) / each);
}

KernelOutcome run_elementwise(const Module& module, Emulator& emulator,
                              const LaunchOptions& options) {
  const size_t n = 1027;
  DeviceArray<float> x(n), b(n), y(n);
  fill(x.span(), 1);
  fill(b.span(), 2);
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("b", b, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(n)
      .launch("elementwise", {{blocks_for(n, 512), 1, 1}, 128}, y.span(),
              [&](size_t i) { return x[i] / (1 + std::exp(-double{x[i]})) + b[i]; });
}

double softmax(DeviceArray<float>& x, size_t n, size_t i) {
  double sum = 0;
  for (size_t j = 0; j < n; ++j) sum += std::exp(double{x[i / n * n + j]});
  return std::exp(double{x[i]}) / sum;
}

KernelOutcome run_softmax_warp(const Module& module, Emulator& emulator,
                               const LaunchOptions& options) {
  const size_t rows = 7, n = 77;
  DeviceArray<float> x(rows * n), y(rows * n);
  fill(x.span());
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(rows)
      .number(n)
      .launch("softmax_warp", {{blocks_for(rows, 4), 1, 1}, 128}, y.span(),
              [&](size_t i) { return softmax(x, n, i); });
}

KernelOutcome run_softmax_block(const Module& module, Emulator& emulator,
                                const LaunchOptions& options) {
  const size_t rows = 3, n = 515;
  DeviceArray<float> x(rows * n), y(rows * n);
  fill(x.span());
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(n)
      .launch("softmax_block", {{rows, 1, 1}, 128, 1, false, 64 + n * 4}, y.span(),
              [&](size_t i) { return softmax(x, n, i); });
}

KernelOutcome run_grid_reduction(const Module& module, Emulator& emulator,
                                 const LaunchOptions& options) {
  const size_t n = 1999, blocks = 5;
  DeviceArray<float> x(n), partial(blocks), y(n);
  DeviceArray<uint32_t> counter(1);
  counter[0] = 0;
  fill(x.span());
  double sum = 0;
  for (const float v : x.span()) sum += v;
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("partial", partial, Use::kScratch)
      .array("y", y, Use::kWrite)
      .number(n)
      .array("counter", counter, Use::kReadWrite)
      .launch("grid_reduction", {{blocks, 1, 1}, 128, 1, true, 64}, y.span(),
              [&](size_t i) { return x[i] / sum; });
}

KernelOutcome run_last_block(const std::string& kernel, const Module& module, Emulator& emulator,
                             const LaunchOptions& options) {
  const size_t n = 1999, blocks = 5;
  DeviceArray<float> x(n), partial(blocks), y(1);
  DeviceArray<uint32_t> counter(1);
  counter[0] = 0;
  fill(x.span());
  double sum = 0;
  for (const float v : x.span()) sum += v;
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("partial", partial, Use::kScratch)
      .array("y", y, Use::kWrite)
      .number(n)
      .array("counter", counter, Use::kReadWrite)
      .launch(kernel, {{blocks, 1, 1}, 128, 1, false, 128}, y.span(), [&](size_t) { return sum; });
}

KernelOutcome run_transpose(const std::string& kernel, const Module& module, Emulator& emulator,
                            const LaunchOptions& options) {
  const size_t rows = 65, columns = 70;
  DeviceArray<float> x(rows * columns), y(rows * columns);
  fill(x.span());
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(rows)
      .number(columns)
      .launch(kernel, {{blocks_for(columns, 32), blocks_for(rows, 32), 1}, 128, 1, false, 4224},
              y.span(), [&](size_t i) { return x[i % rows * columns + i / rows]; });
}

KernelOutcome run_reverse_warp(const Module& module, Emulator& emulator,
                               const LaunchOptions& options) {
  const size_t rows = 11;
  DeviceArray<float> x(rows * 64), y(rows * 64);
  fill(x.span());
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(rows)
      .launch("reverse_warp", {{2, 1, 1}, 64, 1, false, 512}, y.span(),
              [&](size_t i) { return x[i / 64 * 64 + 63 - i % 64]; });
}

KernelOutcome run_gemm_f32(const Module& module, Emulator& emulator, const LaunchOptions& options) {
  const size_t m = 70, n = 67, k = 37;
  DeviceArray<float> a(m * k), b(k * n), c(m * n);
  fill(a.span(), 1);
  fill(b.span(), 2);
  return Runner(module, emulator, options)
      .array("a", a, Use::kRead)
      .array("b", b, Use::kRead)
      .array("c", c, Use::kWrite)
      .number(m)
      .number(n)
      .number(k)
      .launch("gemm_f32",
              {{blocks_for(n, 64), blocks_for(m, 64), 1}, 256, 1, false, 2 * 16 * 68 * 4}, c.span(),
              [&](size_t i) {
                double sum = 0;
                for (size_t q = 0; q < k; ++q) sum += double{a[i / n * k + q]} * b[q * n + i % n];
                return sum;
              });
}

void fill_half(std::span<uint16_t> values, uint32_t seed) {
  std::vector<float> wide(values.size());
  fill(wide, seed);
  for (size_t i = 0; i < wide.size(); ++i) values[i] = float_to_half(wide[i]);
}

KernelOutcome run_gemm_f16(const Module& module, Emulator& emulator, const LaunchOptions& options) {
  const size_t m = 70, n = 67, k = 136;
  DeviceArray<uint16_t> a(m * k), b(n * k);
  DeviceArray<float> c(m * n);
  fill_half(a.span(), 1);
  fill_half(b.span(), 2);
  return Runner(module, emulator, options)
      .array("a", a, Use::kRead)
      .array("b", b, Use::kRead)
      .array("c", c, Use::kWrite)
      .number(m)
      .number(n)
      .number(k)
      .launch("gemm_f16", {{blocks_for(n, 64), blocks_for(m, 64), 1}, 128, 1, false, 3 * 8192},
              c.span(), [&](size_t i) {
                double sum = 0;
                for (size_t q = 0; q < k; ++q) {
                  sum += double{half_to_float(a[i / n * k + q])} * half_to_float(b[i % n * k + q]);
                }
                return sum;
              });
}

KernelOutcome run_cluster_sum(const Module& module, Emulator& emulator,
                              const LaunchOptions& options) {
  const size_t rows = 3, n = 301;
  DeviceArray<float> x(rows * n), y(rows);
  fill(x.span());
  return Runner(module, emulator, options)
      .array("x", x, Use::kRead)
      .array("y", y, Use::kWrite)
      .number(n)
      .launch("cluster_sum", {{rows * 2, 1, 1}, 64, 2, false, 64}, y.span(), [&](size_t i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += x[i * n + j];
        return sum;
      });
}

KernelOutcome run_matrix_units(const Module& module, Emulator& emulator,
                               const LaunchOptions& options) {
  DeviceArray<uint16_t> a16(256), b16(128), abf(256), bbf(128);
  DeviceArray<float> a32(128), b32(64), c(384);
  fill_half(a16.span(), 1);
  fill_half(b16.span(), 2);
  fill(a32.span(), 3);
  fill(b32.span(), 4);
  for (size_t i = 0; i < 256; ++i) abf[i] = float_to_bfloat16(a32[i / 2] - a32[i % 7]);
  for (size_t i = 0; i < 128; ++i) bbf[i] = float_to_bfloat16(b32[i / 2] + b32[i % 5]);
  const auto expected = [&](size_t i) {
    const size_t row = i % 128 / 8, column = i % 8;
    double sum = 0;
    for (size_t k = 0; k < 16; ++k) {
      if (i < 128) {
        sum += double{half_to_float(a16[row * 16 + k])} * half_to_float(b16[k * 8 + column]);
      } else if (i < 256) {
        sum +=
            double{bfloat16_to_float(abf[row * 16 + k])} * bfloat16_to_float(bbf[column * 16 + k]);
      } else if (k < 8) {
        sum += double{a32[row * 8 + k]} * b32[column * 8 + k];
      }
    }
    return sum;
  };
  return Runner(module, emulator, options)
      .array("a16", a16, Use::kRead)
      .array("b16", b16, Use::kRead)
      .array("abf", abf, Use::kRead)
      .array("bbf", bbf, Use::kRead)
      .array("a32", a32, Use::kRead)
      .array("b32", b32, Use::kRead)
      .array("c", c, Use::kWrite)
      .launch("matrix_units", {{1, 1, 1}, 32, 1, false, 768}, c.span(), expected);
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
  const auto named = [](auto* run, const char* kernel) {
    return [run, kernel](const Module& module, Emulator& emulator, const LaunchOptions& options) {
      return run(kernel, module, emulator, options);
    };
  };
  return {
      {"elementwise", "elementwise.cu", 1e-6, run_elementwise},
      {"softmax_warp", "softmax_warp.cu", 1e-7, run_softmax_warp},
      {"softmax_block", "softmax_block.cu", 1e-7, run_softmax_block},
      {"grid_reduction", "grid_reduction.cu", 1e-4, run_grid_reduction},
      {"last_block", "last_block.cu", 1e-4, named(run_last_block, "last_block")},
      {"last_block_fences", "last_block.cu", 1e-4, named(run_last_block, "last_block_fences")},
      {"transpose_padded", "transpose.cu", 0, named(run_transpose, "transpose_padded")},
      {"transpose_plain", "transpose.cu", 0, named(run_transpose, "transpose_plain")},
      {"reverse_warp", "reverse_warp.cu", 0, run_reverse_warp},
      {"gemm_f32", "gemm_f32.cu", 1e-5, run_gemm_f32},
      {"gemm_f16", "gemm_f16.cu", 1e-4, run_gemm_f16},
      {"cluster_sum", "cluster_sum.cu", 1e-5, run_cluster_sum},
      // Operands rounded to 11 bits, eight products of at most 1.
      {"matrix_units", "matrix_units.cu", 4e-3, run_matrix_units},
  };
}

std::string read_kernel(const std::string& file) {
  std::ifstream stream(std::string(WEFT_SOURCE_DIR) + "/tests/simt/kernels/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace weft::simt
