// How near kernels that move more than they compute come to a copy of as many bytes.
//
//     rows [--threads N,N] [--rounds R] [--json FILE] [--only TEXT] [--fast-math]
//
// Each case is a graph of primitives that becomes one kernel. Its runs alternate with copies of an
// array as large as the case's larger side (inputs or outputs), plain and with non-temporal stores,
// by a pool of as many threads in this process; figures are medians of the rounds. "of copy" is the
// plain copy's time over the kernel's, "of best" the faster copy's. "cached" runs the same rows,
// or fewer, on one thread over data that stays in half of the second-level cache and scales that to
// the rows of the case: its arithmetic alone. The limit is the longer of that and of the plain
// copy.

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "copies.h"
#include "driver/compiler.h"
#include "driver/session.h"
#include "row_graphs.h"
#include "runtime/thread_pool.h"

namespace {

using namespace weft;
using namespace weft_bench;
using Clock = std::chrono::steady_clock;

/// A graph over `rows` independent pieces of work.
struct Case {
  std::string name;
  int64_t rows;
  std::function<std::string(int64_t rows)> graph;
};

std::vector<Case> all_cases() {
  std::vector<Case> out;
  const auto add = [&](const std::string& what, const std::string& shape, int64_t rows,
                       std::function<std::string(int64_t)> graph) {
    out.push_back({what + "-" + shape, rows, std::move(graph)});
  };
  const auto rows_of = [&](const std::string& what,
                           const std::vector<std::pair<int64_t, int64_t>>& sizes,
                           const std::function<std::string(int64_t, int64_t)>& graph) {
    for (const auto& size : sizes) {
      const int64_t n = size.second;
      add(what, fmt::format("{}x{}", size.first, n), size.first,
          [graph, n](int64_t r) { return graph(r, n); });
    }
  };
  rows_of("softmax",
          {{4096, 1024},
           {512, 768},
           {64, 30000},
           {1, 1000000},
           {75000, 32},
           {1700, 1023},
           {12288, 128}},
          [](int64_t r, int64_t n) { return softmax("f32", r, n); });
  rows_of("log-softmax", {{4096, 1024}, {64, 30000}},
          [](int64_t r, int64_t n) { return softmax("f32", r, n, true); });
  rows_of("softmax-f16", {{4096, 1024}}, [](int64_t r, int64_t n) { return softmax("f16", r, n); });
  rows_of("softmax-bf16", {{4096, 1024}},
          [](int64_t r, int64_t n) { return softmax("bf16", r, n); });
  add("softmax-middle", "64x256x192", 64, [](int64_t r) { return column_softmax(r, 256, 192); });
  rows_of("layernorm", {{4096, 1024}, {512, 768}, {64, 30000}, {75000, 32}, {1700, 1023}},
          [](int64_t r, int64_t n) { return layer_norm("f32", r, n); });
  rows_of("layernorm-f16", {{4096, 1024}},
          [](int64_t r, int64_t n) { return layer_norm("f16", r, n); });
  rows_of("rmsnorm", {{4096, 1024}, {512, 768}},
          [](int64_t r, int64_t n) { return layer_norm("f32", r, n, false); });
  add("groupnorm", "64x16x3136", 64, [](int64_t r) { return group_norm(r, 16, 3136); });
  rows_of("gelu-erf", {{2048, 3072}},
          [](int64_t r, int64_t n) { return gelu("f32", r, n, false); });
  rows_of("gelu-tanh", {{2048, 3072}},
          [](int64_t r, int64_t n) { return gelu("f32", r, n, true); });
  rows_of("residual", {{512, 768}, {4096, 1024}},
          [](int64_t r, int64_t n) { return residual("f32", r, n); });
  rows_of("rowsum", {{75000, 32}, {4096, 1024}, {1, 4000000}},
          [](int64_t r, int64_t n) { return reduction("f32", {r, n}, 1, "sum"); });
  rows_of("colsum", {{4096, 1024}, {75000, 32}},
          [](int64_t r, int64_t n) { return reduction("f32", {r, n}, 0, "sum"); });
  add("midmax", "64x256x192", 64,
      [](int64_t r) { return reduction("f32", {r, 256, 192}, 1, "max"); });
  rows_of("transpose", {{2048, 2048}, {1000, 3000}},
          [](int64_t r, int64_t n) { return transposition("f32", 1, r, n); });
  add("transpose", "48x512x64", 48, [](int64_t r) { return transposition("f32", r, 512, 64); });
  return out;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "rows: {}\n", what);
  std::exit(1);
}

/// A compiled case with its data.
class Kernel {
 public:
  Kernel(const std::string& text, int threads, bool fast_math) {
    auto graph = parse_graph(text);
    if (!graph.ok()) fail(graph.error().message + "\n" + text);
    CompileOptions options;
    options.threads = threads;
    options.fast_math = fast_math;
    auto compiled = compile_graph(std::move(*graph), options);
    if (!compiled.ok()) fail(compiled.error().message);
    kernels_ = (*compiled)->plan.kernels.size();
    const Graph& g = (*compiled)->graph;
    uint32_t state = 1;
    for (const ValueId v : g.inputs) {
      HostTensor t(g.type(v).dtype, g.type(v).shape);
      for (int64_t i = 0; i < t.size(); ++i) {
        state = state * 1664525 + 1013904223;
        t.set_double(i, static_cast<double>(state >> 8) * 0x1p-22 - 2);
      }
      read_ += t.bytes();
      inputs_.push_back(std::move(t));
    }
    auto session = Session::create(std::move((*compiled)->program), threads);
    if (!session.ok()) fail(session.error().message);
    session_ = std::move(*session);
    auto outputs = session_->run(inputs_);
    if (!outputs.ok()) fail(outputs.error().message);
    outputs_ = std::move(*outputs);
    for (const HostTensor& t : outputs_) written_ += t.bytes();
  }

  void run() {
    if (!session_->run_into(inputs_, &outputs_).ok()) fail("a run failed");
  }
  int64_t larger_side() const { return std::max(read_, written_); }
  int64_t bytes() const { return read_ + written_; }
  size_t kernels() const { return kernels_; }

 private:
  std::unique_ptr<Session> session_;
  std::vector<HostTensor> inputs_, outputs_;
  int64_t read_ = 0, written_ = 0;
  size_t kernels_ = 0;
};

/// Copies an array in equal shares of the pool's threads.
class Copy {
 public:
  Copy(int64_t bytes, std::shared_ptr<ThreadPool> pool)
      : share_((bytes / pool->threads() + 255) / 256 * 256), pool_(std::move(pool)) {
    const auto all = static_cast<size_t>(share_ * pool_->threads());
    from_.reset(static_cast<char*>(std::aligned_alloc(4096, (all + 4095) / 4096 * 4096)));
    to_.reset(static_cast<char*>(std::aligned_alloc(4096, (all + 4095) / 4096 * 4096)));
    if (!from_ || !to_) fail("no memory");
    std::memset(from_.get(), 1, all);
    std::memset(to_.get(), 0, all);
  }
  void run(bool stream) {
    stream_ = stream;
    const ThreadPool::Body body = [](void* context, int thread) {
      auto& copy = *static_cast<Copy*>(context);
      const int64_t at = copy.share_ * thread;
      const weft_bench::Copies copies = weft_bench::best_copies();
      (copy.stream_ ? copies.stream : copies.plain)(copy.to_.get() + at, copy.from_.get() + at,
                                                    copy.share_);
      _mm_sfence();
    };
    if (!pool_->try_run(body, this)) fail("the pool is taken");
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  int64_t share_;
  std::shared_ptr<ThreadPool> pool_;
  std::unique_ptr<char, Free> from_, to_;
  bool stream_ = false;
};

/// Milliseconds a call in a turn of about `ms`, after the other engine's threads have gone to sleep
/// and the caches and branches are warm again.
double turn(double ms, const std::function<void()>& run) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto warm = Clock::now();
  int64_t calls = 0;
  while (calls < 2 || milliseconds_since(warm) < ms / 4) {
    run();
    ++calls;
  }
  calls = std::max<int64_t>(
      3, static_cast<int64_t>(ms / (milliseconds_since(warm) / static_cast<double>(calls))));
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) run();
  return milliseconds_since(start) / static_cast<double>(calls);
}

struct Options {
  std::vector<int> threads{2, 1};
  int rounds = 15;
  std::string json, only;
  bool fast_math = false;
};

nlohmann::ordered_json measure(const Case& c, int threads, const Options& o) {
  constexpr double kTurnMs = 4;
  Kernel kernel(c.graph(c.rows), threads, o.fast_math);
  auto pool = ThreadPool::create({threads, false});
  if (!pool.ok()) fail(pool.error().message);
  Copy copy(kernel.larger_side(), *pool);
  const int64_t row_bytes = std::max<int64_t>(1, kernel.bytes() / c.rows);
  const int64_t cached_rows =
      std::clamp<int64_t>(host_cpu_target().l2_bytes / 2 / row_bytes, 1, c.rows);
  Kernel cached(c.graph(cached_rows), 1, o.fast_math);
  std::vector<double> own, plain, stream, alone;
  for (int r = 0; r < o.rounds; ++r) {
    own.push_back(turn(kTurnMs, [&] { kernel.run(); }));
    plain.push_back(turn(kTurnMs, [&] { copy.run(false); }));
    stream.push_back(turn(kTurnMs, [&] { copy.run(true); }));
    alone.push_back(turn(kTurnMs, [&] { cached.run(); }));
  }
  const double ms = median(own), copied = median(plain), streamed = median(stream);
  const double arithmetic = median(alone) * static_cast<double>(c.rows) /
                            static_cast<double>(cached_rows * std::min<int64_t>(threads, c.rows));
  return {{"case", c.name},
          {"threads", threads},
          {"kernels", kernel.kernels()},
          {"ms", ms},
          {"gb_per_s", static_cast<double>(kernel.bytes()) * 1e-6 / ms},
          {"copy_ms", copied},
          {"stream_ms", streamed},
          {"cached_ms", arithmetic},
          {"of_copy", copied / ms},
          {"of_best", std::min(copied, streamed) / ms},
          {"of_limit", std::max(copied, arithmetic) / ms}};
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--fast-math") {
      o.fast_math = true;
      continue;
    }
    if (i + 1 == argc) fail("usage: rows [--threads N,N] [--rounds R] [--json FILE] [--only TEXT]");
    const std::string value = argv[++i];
    if (argument == "--threads") {
      o.threads.clear();
      for (const char c : value) {
        if (c >= '1' && c <= '9') o.threads.push_back(c - '0');
      }
    } else if (argument == "--rounds") {
      o.rounds = std::max(1, static_cast<int>(std::strtol(value.c_str(), nullptr, 10)));
    } else if (argument == "--json") {
      o.json = value;
    } else if (argument == "--only") {
      o.only = value;
    } else {
      fail("unknown option " + argument);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  nlohmann::ordered_json results = nlohmann::json::array();
  fmt::print(
      "| case | threads | kernels | ms | GB/s | copy ms | stream ms | cached ms | of copy | of "
      "best | of limit |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : all_cases()) {
    if (c.name.find(o.only) == std::string::npos) continue;
    for (const int threads : o.threads) {
      const nlohmann::ordered_json r = measure(c, threads, o);
      const auto number = [&](const char* key) { return r[key].get<double>(); };
      fmt::print(
          "| {} | {} | {} | {:.4f} | {:.1f} | {:.4f} | {:.4f} | {:.4f} | {:.0f}% | {:.0f}% | "
          "{:.0f}% |\n",
          c.name, threads, r["kernels"].get<int>(), number("ms"), number("gb_per_s"),
          number("copy_ms"), number("stream_ms"), number("cached_ms"), 100 * number("of_copy"),
          100 * number("of_best"), 100 * number("of_limit"));
      std::fflush(stdout);
      results.push_back(r);
    }
  }
  if (!o.json.empty()) {
    std::ofstream file(o.json);
    file << results.dump(1) << "\n";
    if (!file.flush()) fail("cannot write " + o.json);
  }
  return 0;
}
