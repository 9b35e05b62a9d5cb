#include "tests/driver/tangled_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "driver/compiler.h"
#include "driver/models/emulated_kernels.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "lower/lower.h"
#include "plan/fusion_graph.h"
#include "schedule/schedule_key.h"
#include "tests/driver/emulated_graph.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/tangled_graph.h"
#include "tests/lower/run_kernel.h"
#include "tests/schedule/expressed.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

/// A planner of these tests: merges whatever one kernel can hold, profitable or not.
constexpr const char* kBold = "bold";

/// What a program computes, and how far rounding may move it: the same expressions with every
/// rounded number moved by a few units of its last place.
class Reference {
 public:
  static Result<Reference> of(const TensorProgram& program, std::vector<HostTensor> inputs) {
    Reference r(program, std::move(inputs));
    WEFT_ASSIGN_OR_RETURN(r.values_, all_tensors(program, r.inputs_));
    return r;
  }

  const std::vector<HostTensor>& values() const { return values_; }

  /// "" where `got` is as near to `expected`, a value of the tensor, as rounding explains.
  std::string difference(TensorId tensor, const HostTensor& expected, const HostTensor& got) {
    if (expected.dtype() != got.dtype() || expected.shape() != got.shape()) return "another type";
    double largest = 0;
    for (int64_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected.at_double(i)));
    }
    const double near = is_float(expected.dtype()) ? 4 * unit(tensor) * largest : 0;
    const std::string text = beyond(expected, got, near, is_half(tensor));
    if (text.empty() || !is_float(expected.dtype())) return text;
    // One alone may move a number of few digits back to where it was.
    for (uint64_t seed = 17; moved_.size() < 4; ++seed) moved_.push_back(moved(seed));
    const auto t = static_cast<size_t>(tensor);
    double noise = 0;
    for (const std::vector<HostTensor>& other : moved_) {
      for (int64_t i = 0; i < values_[t].size(); ++i) {
        noise = std::max(noise, std::abs(values_[t].at_double(i) - other[t].at_double(i)));
      }
    }
    return beyond(expected, got, near + 4 * noise, is_half(tensor));
  }

 private:
  Reference(const TensorProgram& program, std::vector<HostTensor> inputs)
      : program_(program), inputs_(std::move(inputs)), half_(program.tensors.size()) {
    for (size_t t = 0; t < half_.size(); ++t) {
      half_[t] = program.tensors[t].type.dtype == DType::kF16;
    }
    for (const TensorProgram::Step& step : program.steps) {
      bool half = false;
      const auto index = static_cast<size_t>(step.index);
      if (step.opaque) {
        for (const TensorId t : program.opaques[index].operands) half |= is_half(t);
        for (const TensorId t : program.opaques[index].results)
          half_[static_cast<size_t>(t)] = half;
        continue;
      }
      visit(program.exprs[index].body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) half |= is_half(s.symbol);
      });
      const TensorId t = program.exprs[index].output;
      half_[static_cast<size_t>(t)] = half || is_half(t);
    }
  }

  /// Whether a tensor depends on 16-bit floats, which a kernel may keep as float32.
  bool is_half(TensorId t) const { return half_[static_cast<size_t>(t)]; }
  /// How far a sum of float32 is moved whose terms come to about 1.
  static constexpr double kSumUnit = 0x1p-20;
  /// How far a number of about 1 is moved.
  double unit(TensorId t) const { return is_half(t) ? 0x1p-10 : 0x1p-20; }

  /// `overflows`: what 16 bits do not hold is finite where a kernel keeps it as float32.
  static std::string beyond(const HostTensor& expected, const HostTensor& got, double near,
                            bool overflows) {
    for (int64_t i = 0; i < expected.size(); ++i) {
      const double x = expected.at_double(i), y = got.at_double(i);
      if (overflows && !std::isfinite(x)) continue;
      if (x == y || std::abs(x - y) <= near || (std::isnan(x) && std::isnan(y))) continue;
      return fmt::format("element {} of {}: {} and {}, which rounding moves by {:.3g}", i,
                         expected.size(), x, y, near);
    }
    return "";
  }

  /// Whether no order of evaluation rounds the numbers: of 24 bits they need few.
  static bool few_bits(double x) {
    constexpr int kFewBits = 14;
    int exponent = 0;
    const double scaled = std::ldexp(std::frexp(x, &exponent), kFewBits);
    return scaled == std::floor(scaled);
  }
  static bool few_bits(const HostTensor& value) {
    for (int64_t i = 0; i < value.size(); ++i) {
      if (!few_bits(value.at_double(i))) return false;
    }
    return true;
  }

  /// Numbers that are exact and made of such stay; what depends on a short type does not tell. A
  /// rounded number may be a round one.
  bool is_exact(const TensorProgram::Step& step, TensorId t, const HostTensor& value) const {
    bool exact = !is_half(t) && few_bits(value);
    const auto index = static_cast<size_t>(step.index);
    const auto operand = [&](int id) { exact &= exact_[static_cast<size_t>(id)]; };
    if (step.opaque) {
      for (const TensorId o : program_.opaques[index].operands) operand(o);
      return exact;
    }
    visit(program_.exprs[index].body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) operand(s.symbol);
      if (s.kind == Scalar::Kind::kConstant && is_float(s.type)) exact &= few_bits(s.value.f);
    });
    return exact;
  }

  /// The program of one step, of tensors that are known.
  TensorProgram alone(const TensorProgram::Step& step, const std::vector<TensorId>& known) const {
    TensorProgram one = program_;
    one.steps = {step};
    one.inputs = known;
    one.outputs = step.opaque ? program_.opaques[static_cast<size_t>(step.index)].results
                              : std::vector{program_.exprs[static_cast<size_t>(step.index)].output};
    one.output_names.assign(one.outputs.size(), "");
    return one;
  }

  /// Of a sum what its terms come to, each without its sign: so far may it be from its value in
  /// units of its accumulator, however near to 0 that is. Empty for what is no sum.
  std::vector<double> sums_of_terms(const TensorProgram::Step& step,
                                    const std::vector<TensorId>& known,
                                    const std::vector<HostTensor>& numbers) const {
    if (step.opaque) return {};
    TensorProgram one = alone(step, known);
    TensorExpr& sum = one.exprs[static_cast<size_t>(step.index)];
    if (sum.reduce_extents.empty() || sum.combiner != Combiner::kSum) return {};
    sum.body = scalar_apply(ScalarOp::kAbs, {sum.body}, sum.body->type);
    const Result<std::vector<HostTensor>> made = evaluate(one, numbers);
    WEFT_CHECK(made.ok(), "a sum of terms without signs is refused: " + made.error().message);
    std::vector<double> out;
    for (int64_t i = 0; i < made->front().size(); ++i) out.push_back((*made)[0].at_double(i));
    return out;
  }

  std::vector<HostTensor> moved(uint64_t seed) {
    TestRandom random(seed);
    std::vector<HostTensor> out = values_;
    exact_.clear();
    for (const HostTensor& value : values_) exact_.push_back(few_bits(value));
    std::vector<TensorId> known = program_.inputs;
    std::vector<HostTensor> numbers = inputs_;
    for (const TensorProgram::Step& step : program_.steps) {
      const TensorProgram one = alone(step, known);
      Result<std::vector<HostTensor>> made = evaluate(one, numbers);
      WEFT_CHECK(made.ok(), "an expression that was evaluated is refused: " + made.error().message);
      for (size_t o = 0; o < one.outputs.size(); ++o) {
        const TensorId t = one.outputs[o];
        HostTensor& value = (*made)[o];
        exact_[static_cast<size_t>(t)] = is_exact(step, t, value);
        if (is_float(value.dtype()) && !exact_[static_cast<size_t>(t)]) {
          const std::vector<double> summed = sums_of_terms(step, known, numbers);
          for (int64_t i = 0; i < value.size(); ++i) {
            const double by = static_cast<double>(random.between(-64, 64)) / 64;
            const double terms = summed.empty() ? 0 : summed[static_cast<size_t>(i)] * kSumUnit;
            const double v = value.at_double(i);
            value.set_double(i, v + by * (std::abs(v) * unit(t) + terms));
          }
        }
        known.push_back(t);
        numbers.push_back(value.reshaped(program_.tensors[static_cast<size_t>(t)].type.shape));
        out[static_cast<size_t>(t)] = value;
      }
    }
    return out;
  }

  const TensorProgram& program_;
  std::vector<HostTensor> inputs_, values_;
  std::vector<std::vector<HostTensor>> moved_;
  std::vector<bool> half_, exact_;
};

std::string kernel_fault(const TensorProgram& program, const ScheduledKernel& schedule,
                         const KernelFunction& kernel, Reference* reference) {
  const Status right = verify_kernel(kernel);
  if (!right.ok()) {
    return "kernel: " + right.error().message + "\n" + print(schedule.program) + print(kernel);
  }
  if (reference == nullptr) return "";
  for (const int parts : {1, 3}) {
    if (kernel.is_gpu() && parts > 1) break;
    const auto run = run_planned(program, schedule, kernel, reference->values(), parts);
    if (!run.ok()) {
      return "executor: " + run.error().message + "\n" + print(schedule.program) + print(kernel);
    }
    for (size_t o = 0; o < run->tensors.size(); ++o) {
      const std::string apart =
          reference->difference(run->tensors[o], run->expected[o], run->got[o]);
      if (apart.empty()) continue;
      return fmt::format("kernel differs:\n{} ({} parts), output {}, {}\n", apart, parts, o,
                         schedule.schedule_template) +
             print(schedule.program) + print(kernel);
    }
  }
  return "";
}

/// Whether the kernel for all groups of a key, made for the first that is met, is that of each.
class OneOfEachKey {
 public:
  OneOfEachKey(const TensorProgram& program, const Target& target)
      : program_(program), target_(target), keys_(program) {}

  std::string difference(const Group& group, const ScheduledKernel& own) {
    const GroupKey key = keys_.of(group);
    auto known = kernels_.find(key.hash);
    if (known == kernels_.end()) {
      auto made = schedule_key(key, program_, group, target_);
      if (!made.ok()) return "";  // not a leaf
      known = kernels_.emplace(key.hash, std::move(*made)).first;
    }
    const auto named = kernel_of_key(known->second, key, program_, own.program.name);
    if (!named) return "";
    const std::string text = print(named->program, named->scopes);
    const std::string expected = print(own.program, own.scopes);
    const bool same = text == expected && named->parameters == own.parameters &&
                      print(named->composition) == print(own.composition);
    return same ? "" : "kernel of the key:\n" + text + "own:\n" + expected;
  }

 private:
  const TensorProgram& program_;
  const Target& target_;
  GroupKeys keys_;
  std::map<Hash128, ScheduledKernel> kernels_;
};

/// Merges groups along edges in a random order where that is legal, then schedules what came of it.
std::string bold_fault(const Compilation& c, uint64_t seed, Reference* reference) {
  const bool blocks = !c.options.compositions.empty();
  const TensorProgram& program = c.tensors;
  TestRandom random(seed ^ 0xb01d);
  FusionGraph graph(program);
  std::vector<FusionGraph::Edge> edges;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].opaque) continue;
    for (const FusionGraph::Edge& edge : graph.edges_into(static_cast<int>(s))) {
      if (!program.steps[static_cast<size_t>(edge.producer)].opaque) edges.push_back(edge);
    }
  }
  for (size_t n = edges.size(); n > 1; --n) {
    std::swap(edges[n - 1],
              edges[static_cast<size_t>(random.between(0, static_cast<int64_t>(n) - 1))]);
  }
  // What blocks of stages hold is asked by building them.
  const size_t most = blocks ? 12 : 40;
  for (const FusionGraph::Edge& edge : edges) {
    const std::array<int, 2> both = {graph.group_of(edge.producer), graph.group_of(edge.consumer)};
    if (both[0] == both[1] || !graph.is_convex(both)) continue;
    const Group merged = graph.merged(both[0], both[1]);
    const auto holds = blocks ? can_schedule : is_leaf;
    if (merged.exprs.size() <= most && holds(program, merged, c.target))
      graph.merge(both[0], both[1]);
  }
  int k = 0;
  OneOfEachKey by_key(program, c.target);
  for (const Group& group : graph.groups()) {
    const std::string name = fmt::format("k{}", k++);
    const auto schedule = schedule_group(program, group, c.target, name);
    if (!schedule.ok()) return "schedule: " + schedule.error().message;
    const Status verified = verify_tile_program(schedule->program);
    if (!verified.ok()) {
      return "tile program: " + verified.error().message + "\n" + print(schedule->program);
    }
    const auto kernel = lower_to_kernel(schedule->program, schedule->scopes, c.target);
    if (!kernel.ok()) {
      return "lower: " + kernel.error().message + "\n" + print(schedule->program);
    }
    const std::string apart = by_key.difference(group, *schedule);
    if (!apart.empty()) return apart;
    const std::string wrong = kernel_fault(program, *schedule, *kernel, reference);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

CompileOptions options_for(const TangledCase& c) {
  CompileOptions options;
  options.planner = c.planner == kBold ? "auto" : c.planner;
  options.compositions = c.compositions;
  // Blocks of stages are made whatever they save, so that more of them are checked.
  constexpr std::array<std::string_view, 6> kTakeGain = {"greedy", "span",  "dp",
                                                         "ilp",    "chain", "auto"};
  if (!c.compositions.empty() && std::ranges::find(kTakeGain, options.planner) != kTakeGain.end())
    options.planner_parameters = "gain=0";
  // Sums over windows are small here, and filtered all the same.
  if (!c.target.is_gpu() && c.planner != "none" && c.planner != "xla")
    options.planner_parameters += options.planner_parameters.empty() ? "filter=2" : ",filter=2";
  options.device = c.target;
  options.fast_math = c.fast_math;
  options.verify = true;
  options.threads = 2;
  return options;
}

/// Machine code for this machine, or CUDA text on the emulator.
std::string whole_fault(const TangledCase& c, const std::vector<HostTensor>& inputs,
                        const std::vector<HostTensor>& expected,
                        const std::vector<TensorId>& tensors, Reference* reference) {
  CompileOptions options = options_for(c);
  if (!c.target.is_gpu()) {
    options.device =
        host_cpu_target(2, std::min(c.target.vector_bytes, host_cpu_target().vector_bytes));
  }
  const auto compiled = compile_graph(c.graph, options);
  if (!compiled.ok()) return "compile: " + compiled.error().message;
  const Compilation& done = **compiled;
  Result<std::unique_ptr<Session>> session = std::unique_ptr<Session>();
  if (c.target.is_gpu()) {
    const auto launcher = emulate_kernels(functions_of(done), "", {});
    if (!launcher.ok()) return "emulator: " + launcher.error().message;
    session = Session::create(done.program, *launcher);
  } else {
    session = Session::create(done.program, 2);
  }
  if (!session.ok()) return "session: " + session.error().message;
  const auto got = (*session)->run(inputs);
  if (!got.ok()) return "run: " + got.error().message;
  for (size_t o = 0; o < expected.size(); ++o) {
    const std::string apart = reference->difference(tensors[o], expected[o], (*got)[o]);
    if (!apart.empty()) return fmt::format("program differs:\noutput {} {}", o, apart);
  }
  return "";
}

std::string fault_unguarded(const TangledCase& c, TangledRun how) {
  CompileOptions options = options_for(c);
  options.stop_after = c.planner == kBold ? "assign-layouts" : "shorten-exponentials";
  const auto compiled = compile_graph(c.graph, options);
  if (!compiled.ok()) return "compile: " + compiled.error().message;
  const Compilation& done = **compiled;
  std::vector<HostTensor> inputs, expected;
  std::optional<Reference> reference;
  if (c.runs) {
    inputs = random_inputs(c.graph, c.seed, false);
    auto right = interpret(c.graph, inputs);
    if (!right.ok()) return "interpreter: " + right.error().message;
    expected = std::move(*right);
    auto of_expressions = Reference::of(done.tensors, inputs);
    if (!of_expressions.ok()) return "expressions: " + of_expressions.error().message;
    reference.emplace(std::move(*of_expressions));
    for (size_t o = 0; o < expected.size(); ++o) {
      const TensorId t = done.tensors.outputs[o];
      const HostTensor& value = reference->values()[static_cast<size_t>(t)];
      const std::string apart = reference->difference(t, expected[o], value);
      if (!apart.empty()) return fmt::format("expressions differ:\noutput {} {}", o, apart);
    }
  }
  Reference* right = reference ? &*reference : nullptr;
  if (c.planner == kBold) {
    const std::string wrong = bold_fault(done, c.seed, right);
    if (!wrong.empty()) return wrong;
  } else {
    for (size_t k = 0; k < done.plan.kernels.size(); ++k) {
      const std::string wrong = kernel_fault(done.tensors, done.plan.kernels[k].schedule,
                                             done.kernels[k].function, right);
      if (!wrong.empty()) return wrong;
    }
  }
  if (!c.runs || how != TangledRun::kWhole) return "";
  return whole_fault(c, inputs, expected, done.tensors.outputs, right);
}

/// What faults of one cause have in common: their first line without names and numbers.
std::string kind_of(const std::string& fault) {
  std::string kind;
  for (const char ch : fault.substr(0, fault.find('\n'))) {
    if (std::isdigit(static_cast<unsigned char>(ch)) != 0) continue;
    kind += ch;
  }
  return kind.substr(0, 60);
}

/// The outputs and what they need, values of `cuts` as inputs.
std::optional<Graph> cut_graph(const Graph& graph, const std::vector<size_t>& outputs,
                               const std::set<ValueId>& cuts) {
  std::vector<bool> needed(graph.values.size(), false);
  for (const size_t o : outputs) needed[static_cast<size_t>(graph.outputs[o])] = true;
  const auto is_cut = [&](const Node& node) {
    return std::ranges::any_of(node.results, [&](ValueId v) { return cuts.contains(v); });
  };
  const auto is_needed = [&](const Node& node) {
    return std::ranges::any_of(node.results,
                               [&](ValueId v) { return needed[static_cast<size_t>(v)]; });
  };
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (!is_needed(node) || is_cut(node)) continue;
    for (const ValueId v : node.operands) needed[static_cast<size_t>(v)] = true;
  }
  Graph out;
  std::map<ValueId, ValueId> renamed;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const bool input = std::ranges::find(graph.inputs, id) != graph.inputs.end();
    if (!needed[v] || (!input && !cuts.contains(id))) continue;
    renamed[id] = out.add_input(graph.values[v].name, graph.values[v].type);
  }
  for (const Node& node : graph.nodes) {
    if (!is_needed(node) || is_cut(node)) continue;
    std::vector<ValueId> operands;
    for (const ValueId v : node.operands) operands.push_back(renamed.at(v));
    const ValueId result = node.results[0];
    const auto made = out.add1(node.op, node.attrs, operands, graph.type(result),
                               graph.values[static_cast<size_t>(result)].name);
    if (!made.ok()) return std::nullopt;
    renamed[result] = *made;
  }
  for (const size_t o : outputs) {
    if (cuts.contains(graph.outputs[o])) return std::nullopt;
    out.add_output(renamed.at(graph.outputs[o]), graph.output_names[o]);
  }
  return out;
}

}  // namespace

TangledCase tangled_case(uint64_t seed) {
  TestRandom random(seed * 77 + 3);
  TangledCase c;
  c.seed = seed;
  c.runs = random.chance(50);
  c.planner = random.pick(std::vector<std::string>{"auto", "best", "dp", "ilp", "chain", "xla",
                                                   "none", kBold, "span", "subprogram"});
  c.compositions = seed % 4 == 3 ? "leaf,block" : "";
  c.target = *find_target(random.pick(known_targets()));
  if (c.target.is_gpu()) {
    if (c.runs && random.chance(60)) {
      c.target = with_sms(c.target, static_cast<int32_t>(random.between(1, 6)));
    }
    c.target.grid_barriers = random.chance(80);
  }
  c.fast_math = !c.runs && random.chance(15);
  TangledGraphOptions options = c.runs ? small_tangled_graphs() : TangledGraphOptions();
  options.convolutions = seed >= kConvolutionsFrom;
  c.graph = tangled_graph(seed, options);
  return c;
}

std::string describe(const TangledCase& c) {
  std::string text =
      fmt::format("seed {}: --plan {} --target {}", c.seed, c.planner, c.target.name);
  if (c.target.is_gpu()) {
    text += fmt::format(", {} SMs{}", c.target.sm_count,
                        c.target.grid_barriers ? "" : ", no barriers of the grid");
  }
  if (!c.compositions.empty()) text += ", --compositions " + c.compositions;
  return text + (c.fast_math ? ", --fast-math" : "") +
         fmt::format(", {} nodes{}", c.graph.nodes.size(), c.runs ? ", run" : "");
}

std::string fault(const TangledCase& c, TangledRun how) {
  const Status verified = verify_graph(c.graph);
  if (!verified.ok()) return "graph: " + verified.error().message;
  try {
    return fault_unguarded(c, how);
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  }
}

TangledCase reduced(const TangledCase& c, TangledRun how) {
  const std::string kind = kind_of(fault(c, how));
  TangledCase best = c;
  const auto stays = [&](const std::vector<size_t>& outputs, const std::set<ValueId>& cuts) {
    std::optional<Graph> graph = cut_graph(best.graph, outputs, cuts);
    if (!graph || graph->outputs.empty()) return false;
    TangledCase next = best;
    next.graph = std::move(*graph);
    if (kind_of(fault(next, how)) != kind) return false;
    best = std::move(next);
    return true;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t half = best.graph.outputs.size(); half > 0; half /= 2) {
      for (size_t first = 0; first < best.graph.outputs.size();) {
        std::vector<size_t> kept;
        for (size_t o = 0; o < best.graph.outputs.size(); ++o) {
          if (o < first || o >= first + half) kept.push_back(o);
        }
        if (stays(kept, {})) {
          smaller = true;
        } else {
          first += half;
        }
      }
    }
    std::vector<size_t> all(best.graph.outputs.size());
    for (size_t o = 0; o < all.size(); ++o) all[o] = o;
    for (size_t n = best.graph.nodes.size(); n-- > 0;) {
      if (n >= best.graph.nodes.size() || best.graph.nodes[n].op == GraphOp::kConstant) continue;
      smaller |= stays(all, {best.graph.nodes[n].results[0]});
    }
  }
  return best;
}

}  // namespace weft::testing
