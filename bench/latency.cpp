// How well the evaluator `latency` (src/cost/latency.h) orders kernels by what they take.
//
//     latency kernels [--threads N] [--rounds R] [--json FILE] MODEL...
//     latency groups  [--rounds R] [--json FILE] [--only TEXT]
//     latency chains  [--rounds R] [--json FILE] [--only TEXT]
//     latency groups|chains --measured FILE [--only TEXT]
//     latency merges  [--threads N] [--rounds R] [--json FILE] MODEL...
//
// `kernels` times each kernel of the models in its place; figures are minima of the runs, and equal
// kernels count once. `groups` builds one group in many ways: leaves of other tiles, rows and kept
// values than the chooser's, and blocks of stages by each partition. Their runs, on one thread,
// alternate, and figures are minima of its processor time over the rounds. `chains` does the same
// with the chains of MCFuser (SC'24, tables II and III) as one kernel each: tiles of rows, lengths
// of steps and register tiles, about 220 of a chain. The way that was quickest and the one
// predicted to be are then timed afresh in alternating turns. With `--measured` times are those of
// a file that
// `--json` wrote before: what a change of the evaluator does to the order. `merges` compares what
// planners expect of a kernel in the place of several (KernelTimes::saved) with what it saves: of
// each kernel that `greedy` makes of several expressions, the times of these as kernels of their
// own less its own. All print Spearman's correlation of ranks.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cost/latency.h"
#include "driver/compiler.h"
#include "driver/models/prepare_model.h"
#include "driver/report/time_runs.h"
#include "driver/session.h"
#include "expr/text_cursor.h"
#include "io/npz.h"
#include "plan/kernel_times.h"
#include "plan/planners/plan_fusion.h"
#include "row_graphs.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/partitions.h"
#include "tile/text/tile_text.h"

namespace {

using namespace weft;
using namespace weft_bench;
using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "latency: {}\n", what);
  std::exit(1);
}

struct Options {
  std::string mode, json, only, measured;
  int threads = 1, rounds = 15;
  std::vector<std::string> models;
};

/// A kernel with what it took and what is predicted.
struct Point {
  std::string name;
  double us = 0;
  Latency latency;
  double traffic_us = 0;
};

/// Ranks from 0; those of equal values are their mean.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> out(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) out[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return out;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ra = ranks(a), rb = ranks(b);
  const double n = static_cast<double>(a.size()), mean = (n - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double spearman_of(const std::vector<Point>& points, double (*predicted)(const Point&)) {
  std::vector<double> a, b;
  for (const Point& p : points) {
    a.push_back(p.us);
    b.push_back(predicted(p));
  }
  return spearman(a, b);
}

Json json_of(const Point& p) {
  return {{"name", p.name},
          {"us", p.us},
          {"predicted_us", p.latency.microseconds},
          {"compute_us", p.latency.compute_us},
          {"second_cache_us", p.latency.second_cache_us},
          {"third_cache_us", p.latency.third_cache_us},
          {"memory_us", p.latency.memory_us},
          {"traffic_us", p.traffic_us},
          {"bound", bound_name(p.latency.bound)}};
}

/// MODEL.onnx, or MODEL.onnx:INPUTS.npz where dimensions are open.
ModelRequest request_for(const std::string& model, const Options& o) {
  ModelRequest out;
  out.options.threads = o.threads;
  const size_t colon = model.rfind(':');
  out.model = model.substr(0, colon);
  if (colon == std::string::npos) return out;
  auto inputs = load_npz(model.substr(colon + 1));
  if (!inputs.ok()) fail(inputs.error().message);
  out.inputs.values = std::move(*inputs);
  out.options.import.known_inputs = out.inputs.values;
  return out;
}

/// Microseconds of this thread's processor, which others do not take from it as they do of a clock.
double processor_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

/// What a session of one thread takes at least.
double least_of_runs(Session& session, const std::vector<HostTensor>& inputs,
                     std::vector<HostTensor>* outputs) {
  double least = INFINITY;
  for (int r = 0; r < 3; ++r) {
    const double start = processor_us();
    if (!session.run_into(inputs, outputs).ok()) fail("a run failed");
    least = std::min(least, processor_us() - start);
  }
  return least;
}

/// What each step of sessions takes at least, in runs that take turns: several of one in a row, so
/// that weights which a cache holds are there, as they are in a model that runs alone.
std::vector<std::map<std::string, double>> least_us(const std::vector<ReadyModel*>& models,
                                                    int runs) {
  struct Turn {
    std::vector<int64_t> ns, least;
    std::vector<HostTensor> outputs;
  };
  std::vector<Turn> turns;
  for (ReadyModel* model : models) {
    const size_t steps = model->session->executable().steps().size();
    auto outputs = model->session->run(model->inputs);
    if (!outputs.ok()) fail(outputs.error().message);
    turns.push_back({std::vector<int64_t>(steps, 0), std::vector<int64_t>(steps, INT64_MAX),
                     std::move(*outputs)});
  }
  constexpr int kInARow = 6;
  for (int r = 0; r < runs; r += kInARow) {
    for (size_t i = 0; i < models.size() * kInARow; ++i) {
      const size_t m = i / kInARow;
      Turn& turn = turns[m];
      std::ranges::fill(turn.ns, 0);
      RunOptions options;
      options.step_nanoseconds = turn.ns;
      if (!models[m]->session->run_into(models[m]->inputs, &turn.outputs, options).ok())
        fail("a run failed");
      for (size_t s = 0; s < turn.ns.size(); ++s)
        turn.least[s] = std::min(turn.least[s], turn.ns[s]);
    }
  }
  std::vector<std::map<std::string, double>> out(models.size());
  for (size_t m = 0; m < models.size(); ++m) {
    const auto& steps = models[m]->session->executable().steps();
    for (size_t s = 0; s < steps.size(); ++s) {
      const double us = static_cast<double>(turns[m].least[s]) * 1e-3;
      if (steps[s].depth == 0) out[m].emplace(steps[s].name, us);
    }
  }
  return out;
}

void add_kernels(const std::string& model, const Options& o, std::set<uint64_t>* seen,
                 std::vector<Point>* points) {
  ModelRequest request = request_for(model, o);
  auto ready = prepare_model(request);
  if (!ready.ok()) fail(model + ": " + ready.error().message);
  const Compilation& c = *ready->compilation;
  const auto times = least_us({&*ready}, o.rounds)[0];
  for (const PlannedKernel& kernel : c.plan.kernels) {
    const auto time = times.find(kernel.name);
    if (time == times.end() || !seen->insert(tile_program_hash(kernel.schedule.program)).second)
      continue;
    const Estimate& e = kernel.schedule.estimate;
    points->push_back({kernel.name, time->second,
                       cpu_latency(kernel.schedule.program, kernel.schedule.scopes, c.target),
                       latency_us(e.bytes_read + e.bytes_written, e.flops, c.target)});
  }
}

Json measure_kernels(const Options& o) {
  std::set<uint64_t> seen;
  std::vector<Point> points;
  Json models = Json::array();
  for (const std::string& model : o.models) {
    const size_t before = points.size();
    add_kernels(model, o, &seen, &points);
    Json kernels = Json::array();
    for (size_t i = before; i < points.size(); ++i) kernels.push_back(json_of(points[i]));
    models.push_back({{"model", model}, {"kernels", kernels}});
    fmt::print(stderr, "{}: {} kernels\n", model, points.size() - before);
  }
  const double own = spearman_of(points, [](const Point& p) { return p.latency.microseconds; });
  const double traffic = spearman_of(points, [](const Point& p) { return p.traffic_us; });
  fmt::print("| kernels | latency | traffic |\n|---|---|---|\n| {} | {:.3f} | {:.3f} |\n",
             points.size(), own, traffic);
  return {{"threads", o.threads}, {"spearman", own}, {"of_traffic", traffic}, {"models", models}};
}

/// The model by a plan of its expressions.
ReadyModel ready_by(const FusionPlan& plan, const Compilation& planned, const std::string& model,
                    const Options& o) {
  ModelRequest request = request_for(model, o);
  request.options.plan_text = print(plan, planned.tensors);
  auto ready = prepare_model(request);
  if (!ready.ok()) fail(model + ": " + ready.error().message);
  return std::move(*ready);
}

struct Merge {
  std::string name;
  double saved_us = 0, predicted_us = 0;
  double apart_us = 0;  ///< of the parts
  double built_us = 0;  ///< what `latency` says of the kernels built
};

void add_merges(const std::string& model, const Options& o, std::set<Hash128>* seen,
                std::vector<Merge>* merges) {
  ModelRequest request = request_for(model, o);
  request.options.planner = "greedy";
  auto ready = prepare_model(request);
  if (!ready.ok()) fail(model + ": " + ready.error().message);
  const Compilation& c = *ready->compilation;
  PlanOptions apart;
  apart.planner = "none";
  auto parts = plan_fusion(c.tensors, c.target, apart);
  if (!parts.ok()) fail(model + ": " + parts.error().message);
  parts->planner = "greedy";  // the same passes before it
  ReadyModel merged = ready_by(c.plan, c, model, o), unmerged = ready_by(*parts, c, model, o);
  const auto times_of = least_us({&merged, &unmerged}, o.rounds);
  const auto &together = times_of[0], &alone = times_of[1];
  GroupAnswers answers;
  KnownGroups known(c.tensors, c.target, answers);
  KernelTimes times(c.tensors, c.target, known);
  for (const PlannedKernel& kernel : c.plan.kernels) {
    const auto time = together.find(kernel.name);
    if (kernel.group.exprs.size() < 2 || time == together.end() ||
        !seen->insert(known.keys().of(kernel.group).hash).second)
      continue;
    Merge merge{kernel.name, -time->second};
    std::vector<Group> groups;
    for (const PlannedKernel& part : parts->kernels) {
      if (std::ranges::find(kernel.group.exprs, part.group.exprs[0]) == kernel.group.exprs.end())
        continue;
      groups.push_back(part.group);
      merge.saved_us += alone.at(part.name);
      merge.apart_us += alone.at(part.name);
      const ScheduledKernel& s = part.schedule;
      merge.built_us += cpu_latency(s.program, s.scopes, c.target).microseconds;
    }
    merge.predicted_us = times.saved(groups, kernel.group).microseconds;
    const ScheduledKernel& s = kernel.schedule;
    merge.built_us -= cpu_latency(s.program, s.scopes, c.target).microseconds;
    merges->push_back(std::move(merge));
  }
}

Json measure_merges(const Options& o) {
  std::set<Hash128> seen;
  std::vector<Merge> merges;
  for (const std::string& model : o.models) {
    const size_t before = merges.size();
    add_merges(model, o, &seen, &merges);
    fmt::print(stderr, "{}: {} merges\n", model, merges.size() - before);
  }
  std::vector<double> saved, predicted, built;
  Json list = Json::array();
  for (const Merge& m : merges) {
    saved.push_back(m.saved_us);
    predicted.push_back(m.predicted_us);
    built.push_back(m.built_us);
    list.push_back({{"name", m.name},
                    {"saved_us", m.saved_us},
                    {"predicted_us", m.predicted_us},
                    {"built_us", m.built_us},
                    {"apart_us", m.apart_us}});
  }
  const double rank = spearman(saved, predicted), of_built = spearman(saved, built);
  fmt::print("| merges | Spearman | of `latency` |\n|---|---|---|\n| {} | {:.3f} | {:.3f} |\n",
             merges.size(), rank, of_built);
  return {{"threads", o.threads}, {"spearman", rank}, {"of_latency", of_built}, {"merges", list}};
}

/// A graph of one group.
struct Case {
  std::string name, graph;
};

std::string product(int64_t m, int64_t k, int64_t n, bool transposed, const std::string& behind) {
  return fmt::format(
      "(x: f32[{0},{1}], w: f32[{2}], b: f32[{3}]) {{\n"
      "  p = dot_general x, w, lhs_contract={{1}}, rhs_contract={{{4}}} : f32[{0},{3}]\n"
      "  bb = broadcast b, dims={{1}} : f32[{0},{3}]\n  s = add p, bb : f32[{0},{3}]\n"
      "  y = {5} s : f32[{0},{3}]\n}} -> (y)",
      m, k, transposed ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n), n,
      transposed ? 1 : 0, behind);
}

/// Rows are normed, then multiplied with a few others.
std::string normed_product(int64_t rows, int64_t n, int64_t with) {
  return fmt::format(
      "(x: f32[{0},{1}], q: f32[{2},{1}]) {{\n  sq = mul x, x : f32[{0},{1}]\n"
      "  s = reduce sq, axes={{1}}, combiner=sum : f32[{0}]\n  r = sqrt s : f32[{0}]\n"
      "  rb = broadcast r, dims={{0}} : f32[{0},{1}]\n  d = div x, rb : f32[{0},{1}]\n"
      "  y = dot_general q, d, lhs_contract={{1}}, rhs_contract={{1}} : f32[{2},{0}]\n}} -> (y)",
      rows, n, with);
}

/// Two products with a nonlinear function between.
std::string feed_forward(int64_t m, int64_t n, int64_t inner) {
  return fmt::format(
      "(x: f32[{0},{1}], w: f32[{1},{2}], u: f32[{2},{1}]) {{\n"
      "  p = dot_general x, w, lhs_contract={{1}}, rhs_contract={{0}} : f32[{0},{2}]\n"
      "  e = erf p : f32[{0},{2}]\n  g = mul p, e : f32[{0},{2}]\n"
      "  y = dot_general g, u, lhs_contract={{1}}, rhs_contract={{0}} : f32[{0},{1}]\n}} -> (y)",
      m, n, inner);
}

/// A product whose rows are normed.
std::string product_normed(int64_t m, int64_t k, int64_t n) {
  return fmt::format(
      "(x: f32[{0},{1}], w: f32[{1},{2}]) {{\n"
      "  p = dot_general x, w, lhs_contract={{1}}, rhs_contract={{0}} : f32[{0},{2}]\n"
      "  sq = mul p, p : f32[{0},{2}]\n  s = reduce sq, axes={{1}}, combiner=sum : f32[{0}]\n"
      "  r = rsqrt s : f32[{0}]\n  rb = broadcast r, dims={{0}} : f32[{0},{2}]\n"
      "  y = mul p, rb : f32[{0},{2}]\n}} -> (y)",
      m, k, n);
}

/// softmax(q kT) v of each head.
std::string attention(int64_t heads, int64_t m, int64_t n, int64_t d) {
  return fmt::format(
      "(q: f32[{0},{1},{3}], k: f32[{0},{2},{3}], v: f32[{0},{2},{3}]) {{\n"
      "  s = dot_general q, k, lhs_batch={{0}}, rhs_batch={{0}}, lhs_contract={{2}}, "
      "rhs_contract={{2}} : f32[{0},{1},{2}]\n"
      "  m = reduce s, axes={{2}}, combiner=max : f32[{0},{1}]\n"
      "  mb = broadcast m, dims={{0,1}} : f32[{0},{1},{2}]\n  c = sub s, mb : f32[{0},{1},{2}]\n"
      "  e = exp c : f32[{0},{1},{2}]\n"
      "  z = reduce e, axes={{2}}, combiner=sum : f32[{0},{1}]\n"
      "  zb = broadcast z, dims={{0,1}} : f32[{0},{1},{2}]\n  p = div e, zb : f32[{0},{1},{2}]\n"
      "  y = dot_general p, v, lhs_batch={{0}}, rhs_batch={{0}}, lhs_contract={{2}}, "
      "rhs_contract={{1}} : f32[{0},{1},{3}]\n}} -> (y)",
      heads, m, n, d);
}

/// (a b) d.
std::string two_products(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t h) {
  return fmt::format(
      "(a: f32[{0},{1},{3}], b: f32[{0},{3},{2}], d: f32[{0},{2},{4}]) {{\n"
      "  c = dot_general a, b, lhs_batch={{0}}, rhs_batch={{0}}, lhs_contract={{2}}, "
      "rhs_contract={{1}} : f32[{0},{1},{2}]\n"
      "  y = dot_general c, d, lhs_batch={{0}}, rhs_batch={{0}}, lhs_contract={{2}}, "
      "rhs_contract={{1}} : f32[{0},{1},{4}]\n}} -> (y)",
      batch, m, n, k, h);
}

std::vector<Case> chain_cases() {
  return {{"g1", two_products(1, 512, 256, 64, 64)},
          {"g2", two_products(1, 512, 256, 64, 128)},
          {"g3", two_products(1, 512, 256, 64, 256)},
          {"g4", two_products(1, 512, 512, 256, 256)},
          {"g5", two_products(1, 512, 512, 512, 256)},
          {"g6", two_products(1, 512, 512, 1024, 256)},
          {"g7", two_products(1, 512, 512, 128, 128)},
          {"g8", two_products(1, 1024, 512, 128, 128)},
          {"g9", two_products(1, 2048, 512, 128, 128)},
          {"g10", two_products(1, 1024, 1024, 128, 128)},
          {"g11", two_products(4, 1024, 1024, 128, 128)},
          {"g12", two_products(8, 1024, 1024, 128, 128)},
          {"s1", attention(8, 512, 512, 64)},
          {"s2", attention(12, 512, 512, 64)},
          {"s3", attention(16, 512, 512, 64)},
          {"s4", attention(12, 256, 256, 64)},
          {"s5", attention(16, 256, 256, 64)},
          {"s6", attention(16, 256, 256, 80)},
          {"s7", attention(1, 512, 256, 64)},
          {"s8", attention(1, 768, 384, 64)},
          {"s9", attention(1, 1024, 512, 64)}};
}

std::vector<Case> cases() {
  return {{"softmax-512x768", softmax("f32", 512, 768)},
          {"softmax-12288x128", softmax("f32", 12288, 128)},
          {"softmax-75000x32", softmax("f32", 75000, 32)},
          {"softmax-64x30000", softmax("f32", 64, 30000)},
          {"softmax-24000x94", softmax("f32", 24000, 94)},
          {"softmax-middle-16x256x192", column_softmax(16, 256, 192)},
          {"layernorm-512x768", layer_norm("f32", 512, 768)},
          {"layernorm-75000x32", layer_norm("f32", 75000, 32)},
          {"rmsnorm-4096x1024", layer_norm("f32", 4096, 1024, false)},
          {"rowsum-75000x32", reduction("f32", {75000, 32}, 1, "sum")},
          {"rowmax-4096x1024", reduction("f32", {4096, 1024}, 1, "max")},
          {"gelu-512x3072", gelu("f32", 512, 3072, false)},
          {"residual-512x768", residual("f32", 512, 768)},
          {"transpose-48x512x64", transposition("f32", 48, 512, 64)},
          {"product-128x768x768", product(128, 768, 768, false, "neg")},
          {"product-512x64x512", product(512, 64, 512, false, "exp")},
          {"product-transposed-6x200x5000", product(6, 200, 5000, true, "neg")},
          {"product-128x384x1536-erf", product(128, 384, 1536, false, "erf")},
          {"product-7x128x1000", product(7, 128, 1000, false, "neg")},
          {"normed-product-50000x200x6", normed_product(50000, 200, 6)},
          {"normed-product-4096x64x64", normed_product(4096, 64, 64)},
          {"feed-forward-512x128x512", feed_forward(512, 128, 512)},
          {"product-normed-2048x96x192", product_normed(2048, 96, 192)},
          {"attention-12x128x128x64", attention(12, 128, 128, 64)},
          {"attention-8x512x512x64", attention(8, 512, 512, 64)},
          {"attention-12x128x128x32", attention(12, 128, 128, 32)},
          {"attention-4x256x256x64", attention(4, 256, 256, 64)},
          {"attention-64x49x49x32", attention(64, 49, 49, 32)}};
}

Composition leaf(Choice choice) {
  Composition out;
  out.choice = std::move(choice);
  return out;
}

void vary(const SweepChoice& c, std::vector<Composition>* out) {
  for (const int64_t rows : {1, 2, 4, 8}) {
    if (rows > 1 && c.grid.empty()) continue;
    for (const int64_t vectors : {1, 2, 4}) {
      for (const int kept : {-1, 0, 1}) {
        SweepChoice v = c;
        if (c.row_vector) {
          v.rows = rows;
          v.row_axis = rows > 1 ? c.grid.back() : -1;
        }
        v.vectors = vectors;
        if (kept >= 0) v.kept.assign(c.kept.size(), kept == 1);
        out->push_back(leaf(v));
      }
    }
  }
}

void vary(const PanelChoice& c, std::vector<Composition>* out) {
  for (const int64_t rows : {1, 2, 3, 4, 6, 8, 12}) {
    for (const int64_t vectors : {1, 2, 3, 4}) {
      for (const bool outermost : {false, true}) {
        PanelChoice v = c;
        v.rows = rows;
        v.vectors = vectors;
        v.rows_outermost = outermost;
        out->push_back(leaf(v));
      }
    }
  }
}

/// All expressions as one kernel.
PlannedKernel one_kernel(const TensorProgram& program) {
  PlannedKernel out;
  out.name = "k0_y";
  for (size_t e = 0; e < program.exprs.size(); ++e)
    out.group.exprs.push_back(static_cast<ExprId>(e));
  out.group.outputs = program.outputs;
  out.is_compute =
      std::ranges::any_of(program.exprs, [](const TensorExpr& e) { return e.is_contraction; });
  return out;
}

/// All ways in which the group may be composed.
std::vector<Composition> ways_of(const TensorProgram& program, const PlannedKernel& kernel,
                                 const Target& target) {
  std::vector<Composition> out;
  if (const auto leaf = schedule_leaf(program, kernel.group, target, kernel.name); leaf.ok()) {
    out.push_back(leaf->composition);
    if (const auto* sweep = std::get_if<SweepChoice>(&leaf->composition.choice)) vary(*sweep, &out);
    if (const auto* panel = std::get_if<PanelChoice>(&leaf->composition.choice)) vary(*panel, &out);
  }
  const BlockSpace space(program, kernel.group, target);
  for (const BlockPartition& partition : partitions_of(space)) {
    const auto demand = demand_boxes(space.program(), space.group(), partition);
    if (!demand.ok()) continue;
    const auto stages = form_stages(space, *demand, target);
    if (!stages.ok()) continue;
    auto built = build_block(space, partition, *demand, *stages, nullptr, target, "k");
    if (built.ok()) out.push_back(std::move(built->composition));
  }
  return out;
}

/// Ways in which blocks may carry the group's reductions: the chosen one with other tiles of rows,
/// other steps and other register tiles of its products.
std::vector<Composition> chain_ways(const TensorProgram& program, const PlannedKernel& kernel,
                                    const Target& target) {
  constexpr size_t kMostWays = 220;
  const auto chosen = schedule_chain(program, kernel.group, target, kernel.name);
  if (!chosen.ok()) fail(chosen.error().message);
  std::vector<Composition> all;
  for (const int64_t panel_rows : {0, 3, 4}) {
    for (const int64_t rows : {8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192}) {
      for (const int64_t step : {16, 32, 48, 64, 96, 128, 192, 256, 384, 512}) {
        Composition way = chosen->composition;
        way.partition.loops.back().step = rows;
        way.carried.step = step;
        for (Composition& stage : way.members) {
          auto* panel = std::get_if<PanelChoice>(&stage.choice);
          if (panel != nullptr && panel_rows > 0) panel->rows = panel_rows;
        }
        if (build_composition(program, kernel.group, way, target, kernel.name).ok())
          all.push_back(std::move(way));
      }
    }
  }
  std::vector<Composition> out{chosen->composition};
  for (size_t i = 0; i < all.size(); ++i) {
    if (i * kMostWays / all.size() != (i + 1) * kMostWays / all.size() || all.size() < kMostWays)
      out.push_back(std::move(all[i]));
  }
  return out;
}

std::vector<HostTensor> random_inputs(const Graph& g) {
  std::vector<HostTensor> out;
  uint32_t state = 1;
  for (const ValueId v : g.inputs) {
    HostTensor t(g.type(v).dtype, g.type(v).shape);
    for (int64_t i = 0; i < t.size(); ++i) {
      state = state * 1664525 + 1013904223;
      t.set_double(i, static_cast<double>(state >> 8) * 0x1p-22 - 2);
    }
    out.push_back(std::move(t));
  }
  return out;
}

struct Built {
  Point point;
  std::unique_ptr<Session> session;
};

Graph graph_of(const Case& c) {
  auto graph = parse_graph(c.graph);
  if (!graph.ok()) fail(c.name + ": " + graph.error().message + "\n" + c.graph);
  return std::move(*graph);
}

/// The ways of a group that `--json` wrote into a file, and what they took.
std::vector<Composition> ways_in(const std::string& path, const std::string& group,
                                 std::vector<double>* times) {
  std::ifstream file(path);
  const Json all = Json::parse(file, nullptr, false);
  if (!all.is_object()) fail("cannot read " + path);
  std::vector<Composition> out;
  for (const Json& known : all.value("groups", Json::array())) {
    if (known["group"] != group) continue;
    for (const Json& way : known["ways"]) {
      const std::string text = way["name"];
      TextCursor cursor(text);
      auto parsed = parse_composition(cursor);
      if (!parsed.ok()) fail(parsed.error().message);
      out.push_back(std::move(*parsed));
      times->push_back(way["us"]);
    }
  }
  if (out.empty()) fail(path + " has no ways of " + group);
  return out;
}

std::vector<Built> build_all(const Case& c, const Options& o) {
  CompileOptions options;
  options.threads = 1;
  auto planned = compile_graph(graph_of(c), options);
  if (!planned.ok()) fail(c.name + ": " + planned.error().message);
  const Compilation& first = **planned;
  FusionPlan plan;
  plan.planner = "greedy";
  plan.order = {{false, 0}};
  plan.kernels = {one_kernel(first.tensors)};
  PlannedKernel& kernel = plan.kernels[0];
  std::vector<Built> out;
  std::set<uint64_t> seen;
  std::vector<double> times;
  const auto ways = !o.measured.empty()  ? ways_in(o.measured, c.name, &times)
                    : o.mode == "chains" ? chain_ways(first.tensors, kernel, first.target)
                                         : ways_of(first.tensors, kernel, first.target);
  for (size_t i = 0; i < ways.size(); ++i) {
    const Composition& way = ways[i];
    auto schedule = build_composition(first.tensors, kernel.group, way, first.target, kernel.name);
    if (!schedule.ok() || !seen.insert(tile_program_hash(schedule->program)).second) continue;
    kernel.schedule = std::move(*schedule);
    std::unique_ptr<Session> session;
    if (o.measured.empty()) {
      options.plan_text = print(plan, first.tensors);
      auto compiled = compile_graph(graph_of(c), options);
      if (!compiled.ok()) continue;
      auto ready = Session::create(std::move((*compiled)->program), 1);
      if (!ready.ok()) fail(ready.error().message);
      session = std::move(*ready);
    }
    const Estimate& e = kernel.schedule.estimate;
    out.push_back({{print(way), times.empty() ? 0 : times[i],
                    cpu_latency(kernel.schedule.program, kernel.schedule.scopes, first.target),
                    latency_us(e.bytes_read + e.bytes_written, e.flops, first.target)},
                   std::move(session)});
  }
  return out;
}

/// Two ways of a group, timed afresh in alternating turns.
struct Pair {
  double quickest = INFINITY, chosen = INFINITY;
};

/// Times all ways, then the quickest of them and the one predicted to be in turns of their own.
Pair time_ways(const Case& c, int rounds, std::vector<Built>* built) {
  const std::vector<HostTensor> inputs = random_inputs(graph_of(c));
  auto outputs_of_first = built->front().session->run(inputs);
  if (!outputs_of_first.ok()) fail(c.name + ": " + outputs_of_first.error().message);
  std::vector<HostTensor> outputs = std::move(*outputs_of_first);
  for (Built& b : *built) b.point.us = INFINITY;
  for (int round = 0; round < rounds; ++round) {
    for (Built& b : *built)
      b.point.us = std::min(b.point.us, least_of_runs(*b.session, inputs, &outputs));
  }
  const auto quickest = std::ranges::min_element(*built, {}, [](auto& b) { return b.point.us; });
  const auto chosen =
      std::ranges::min_element(*built, {}, [](auto& b) { return b.point.latency.microseconds; });
  Pair out;
  constexpr int kTurns = 7;
  for (int turn = 0; turn < kTurns; ++turn) {
    out.quickest = std::min(out.quickest, least_of_runs(*quickest->session, inputs, &outputs));
    out.chosen = std::min(out.chosen, least_of_runs(*chosen->session, inputs, &outputs));
  }
  return out;
}

/// The quickest of ways that were timed before, and the one predicted to be.
Pair pair_of(const std::vector<Built>& built) {
  const auto us = [](const Built& b) { return b.point.us; };
  const auto predicted = [](const Built& b) { return b.point.latency.microseconds; };
  return {std::ranges::min_element(built, {}, us)->point.us,
          std::ranges::min_element(built, {}, predicted)->point.us};
}

Json measure_group(const Case& c, const Options& o) {
  std::vector<Built> built = build_all(c, o);
  const Pair pair = o.measured.empty() ? time_ways(c, o.rounds, &built) : pair_of(built);
  std::vector<Point> points;
  Json ways = Json::array();
  for (const Built& b : built) {
    points.push_back(b.point);
    ways.push_back(json_of(b.point));
  }
  const double rank = spearman_of(points, [](const Point& p) { return p.latency.microseconds; });
  fmt::print("| {} | {} | {:.2f} | {:.1f} | {:.1f} | {:.2f} |\n", c.name, points.size(), rank,
             pair.quickest, pair.chosen, pair.chosen / pair.quickest);
  std::fflush(stdout);
  return {
      {"group", c.name}, {"spearman", rank}, {"over", pair.chosen / pair.quickest}, {"ways", ways}};
}

Json measure_groups(const Options& o) {
  fmt::print("| group | ways | Spearman | quickest, us | predicted quickest, us | over |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  Json groups = Json::array();
  std::vector<double> all;
  const std::vector<Case> all_cases = o.mode == "chains" ? chain_cases() : cases();
  const bool is_name = std::ranges::find(all_cases, o.only, &Case::name) != all_cases.end();
  for (const Case& c : all_cases) {
    if (is_name ? c.name != o.only : c.name.find(o.only) == std::string::npos) continue;
    groups.push_back(measure_group(c, o));
    all.push_back(groups.back()["spearman"].get<double>());
  }
  std::ranges::sort(all);
  if (all.empty()) fail("no such group");
  const double mean =
      std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  fmt::print("\nmedian of {}: {:.2f}, mean {:.2f}, least {:.2f}\n", all.size(), all[all.size() / 2],
             mean, all[0]);
  return {{"median", all[all.size() / 2]}, {"groups", groups}};
}

Options parse(int argc, char** argv) {
  Options o;
  if (argc > 1) o.mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      o.models.push_back(argument);
      continue;
    }
    if (i + 1 == argc) fail(argument + " needs a value");
    const std::string value = argv[++i];
    if (argument == "--threads") {
      o.threads = std::max(1, static_cast<int>(std::strtol(value.c_str(), nullptr, 10)));
    } else if (argument == "--rounds") {
      o.rounds = std::max(1, static_cast<int>(std::strtol(value.c_str(), nullptr, 10)));
    } else if (argument == "--json") {
      o.json = value;
    } else if (argument == "--only") {
      o.only = value;
    } else if (argument == "--measured") {
      o.measured = value;
    } else {
      fail("unknown option " + argument);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  if (o.mode != "kernels" && o.mode != "groups" && o.mode != "chains" && o.mode != "merges")
    fail(
        "usage: latency kernels|groups|chains|merges [--threads N] [--rounds R] [--json FILE] "
        "[MODEL...]");
  const Json results = o.mode == "kernels"  ? measure_kernels(o)
                       : o.mode == "merges" ? measure_merges(o)
                                            : measure_groups(o);
  if (!o.json.empty()) {
    std::ofstream file(o.json);
    file << results.dump(1) << "\n";
    if (!file.flush()) fail("cannot write " + o.json);
  }
  return 0;
}
