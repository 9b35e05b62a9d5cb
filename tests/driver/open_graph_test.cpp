// Random models with open dimensions: one code for several bindings, composed kernels included.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "tests/graph/random_graph.h"
#include "tests/import/onnx/model_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// An extent: a number, or `times` the length that a name is bound to and `more`.
struct OpenExtent {
  std::string name;
  int64_t times = 0, more = 0;

  bool operator==(const OpenExtent&) const = default;
  bool is_open() const { return !name.empty(); }
};
OpenExtent number(int64_t n) { return {"", 0, n}; }

/// Grows a model node by node: values of three axes, any of which may be open.
class OpenModel {
 public:
  explicit OpenModel(uint64_t seed) : random_(seed) {
    const int64_t channels = random_.pick(std::vector<int64_t>{3, 8, 16, 24, 32});
    const std::vector<OpenExtent> first =
        random_.chance(50) ? std::vector<OpenExtent>{{"B", 1, 0}, {"L", 1, 0}, number(channels)}
        : random_.chance(50)
            ? std::vector<OpenExtent>{number(2), {"L", 1, 0}, number(channels)}
            : std::vector<OpenExtent>{number(random_.between(1, 3)), number(channels), {"L", 1, 0}};
    add_input(first);
    if (random_.chance(40)) add_input(first);
    const int64_t nodes = random_.between(3, 12);
    for (int64_t n = 0; n < nodes; ++n) add_some();
    for (size_t v = 0; v < values_.size(); ++v) {
      if (v + 1 == values_.size() || (v >= inputs_ && random_.chance(12))) model_.output(name(v));
    }
  }

  std::string text() const { return model_.model(); }
  const std::string& said() const { return said_; }
  bool has_batch() const { return values_[0][0].is_open(); }

 private:
  using Value = std::vector<OpenExtent>;

  static std::string name(size_t v) { return "v" + std::to_string(v); }

  void add_input(const Value& extents) {
    std::vector<onnx::Dim> dims;
    for (const OpenExtent& e : extents) {
      if (e.is_open()) {
        dims.emplace_back(e.name);
      } else {
        dims.emplace_back(e.more);
      }
    }
    model_.input(name(values_.size()), DType::kF32, dims);
    values_.push_back(extents);
    ++inputs_;
  }
  std::string initializer(const HostTensor& value) {
    const std::string c = "c" + std::to_string(constants_++);
    model_.initializer(c, value);
    return c;
  }
  std::string constant(const Shape& shape) {
    HostTensor t(DType::kF32, shape);
    for (int64_t i = 0; i < t.size(); ++i)
      t.set_double(i, static_cast<double>(random_.between(-8, 8)) / 8);
    return initializer(t);
  }
  std::string numbers(const std::vector<int64_t>& n) {
    return initializer(onnx::i64_tensor({static_cast<int64_t>(n.size())}, n));
  }
  /// A node whose only result is no value of its own.
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<std::string> attributes = {}) {
    std::string result = "t" + std::to_string(nodes_++);
    model_.node({op, std::move(inputs), {result}, std::move(attributes)});
    said_ += op + " ";
    return result;
  }
  void value(const std::string& op, std::vector<std::string> inputs, Value extents,
             std::vector<std::string> attributes = {}) {
    said_ += op + ";\n";
    model_.node({op, std::move(inputs), {name(values_.size())}, std::move(attributes)});
    values_.push_back(std::move(extents));
  }

  size_t any() {
    const auto last = static_cast<int64_t>(values_.size()) - 1;
    const int64_t first = random_.chance(70) ? std::max<int64_t>(0, last - 2) : 0;
    return static_cast<size_t>(random_.between(first, last));
  }
  int64_t any_axis() { return random_.between(0, 2); }
  /// Another value with the same extents, or a constant that is broadcast to them.
  std::string beside(size_t x) {
    for (size_t v = values_.size(); v-- > 0;) {
      if (v != x && values_[v] == values_[x] && random_.chance(60)) return name(v);
    }
    Shape shape;
    for (const OpenExtent& e : values_[x])
      shape.push_back(e.is_open() || random_.chance(40) ? 1 : e.more);
    return constant(shape);
  }

  void add_some() {
    const size_t x = any();
    switch (random_.between(0, 11)) {
      case 0:
        return value(random_.pick(std::vector<std::string>{"Relu", "Tanh", "Sigmoid", "Erf"}),
                     {name(x)}, values_[x]);
      case 1:
        return value(random_.pick(std::vector<std::string>{"Add", "Mul", "Sub", "Max"}),
                     {name(x), beside(x)}, values_[x]);
      case 2:
        return value("Softmax", {name(x)}, values_[x], {onnx::int_attr("axis", any_axis())});
      case 3:
        return add_norm(x);
      case 4:
      case 5:
        return add_product(x);
      case 6:
        return add_transpose(x);
      case 7:
        return add_attention(x);
      case 8:
        return add_slice_or_concat(x);
      case 9:
        return add_window(x);
      case 10:
        return add_heads(x);
      default:
        return add_reduction(x);
    }
  }
  void add_norm(size_t x) {
    const std::string axes = numbers({any_axis()});
    const std::string centred = node("Sub", {name(x), node("ReduceMean", {name(x), axes})});
    const std::string variance = node("ReduceMean", {node("Mul", {centred, centred}), axes});
    const std::string safe =
        node("Add", {node("Abs", {variance}), initializer(onnx::f32_tensor({}, {1.0F}))});
    value("Div", {centred, node("Sqrt", {safe})}, values_[x]);
  }
  void add_product(size_t x) {
    if (values_[x][2].is_open()) return add_transpose(x);
    const int64_t to = random_.pick(std::vector<int64_t>{4, 16, 20, 48});
    const std::string w = constant({values_[x][2].more, to});
    Value out = values_[x];
    out[2] = number(to);
    value("Tanh", {node("MatMul", {name(x), w})}, out);
  }
  void add_transpose(size_t x) {
    std::vector<int64_t> perm = {0, 1, 2};
    for (size_t i = 2; i > 0; --i)
      std::swap(perm[i], perm[static_cast<size_t>(random_.between(0, static_cast<int64_t>(i)))]);
    Value out;
    for (const int64_t p : perm) out.push_back(values_[x][static_cast<size_t>(p)]);
    value("Transpose", {name(x)}, out, {onnx::ints_attr("perm", perm)});
  }
  /// Scores of the rows of x with those of a value that has the same first and last axes, and what
  /// their softmax takes of these.
  void add_attention(size_t x) {
    size_t y = x;
    for (size_t v = 0; v < values_.size(); ++v) {
      if (values_[v][0] == values_[x][0] && values_[v][2] == values_[x][2] && random_.chance(30))
        y = v;
    }
    const std::string keys = node("Transpose", {name(y)}, {onnx::ints_attr("perm", {0, 2, 1})});
    const std::string scores = node("Tanh", {node("MatMul", {name(x), keys})});
    if (random_.chance(30))
      return value("Relu", {scores}, {values_[x][0], values_[x][1], values_[y][1]});
    const std::string p = node("Softmax", {scores}, {onnx::int_attr("axis", -1)});
    Value out = values_[x];
    value("MatMul", {p, name(y)}, out);
  }
  void add_slice_or_concat(size_t x) {
    const int64_t axis = any_axis();
    const OpenExtent e = values_[x][static_cast<size_t>(axis)];
    Value out = values_[x];
    OpenExtent& o = out[static_cast<size_t>(axis)];
    if (random_.chance(50) && e.is_open() && e.times + e.more > 1) {
      o.more -= 1;
      return value("Slice", {name(x), numbers({1}), numbers({int64_t{1} << 40}), numbers({axis})},
                   out);
    }
    if (e.times > 2 || e.more > 60) return;
    o.times *= 2;
    o.more *= 2;
    std::string y = beside(x);
    if (y[0] != 'v') y = node("Neg", {name(x)});
    value("Concat", {name(x), y}, out, {onnx::int_attr("axis", axis)});
  }
  /// A convolution or a pooling window along the last axis.
  void add_window(size_t x) {
    if (values_[x][1].is_open()) return add_transpose(x);
    if (random_.chance(40)) {
      return value(random_.chance(50) ? "MaxPool" : "AveragePool", {name(x)}, values_[x],
                   {onnx::ints_attr("kernel_shape", {3}), onnx::ints_attr("pads", {1, 1})});
    }
    const int64_t from = values_[x][1].more, to = random_.pick(std::vector<int64_t>{5, 16, 32});
    Value out = values_[x];
    out[1] = number(to);
    const std::string w = constant({to, from, 3});
    value("Tanh", {node("Conv", {name(x), w}, {onnx::ints_attr("pads", {1, 1})})}, out);
  }
  /// Rows in parts that change places, as an attention's heads do.
  void add_heads(size_t x) {
    const OpenExtent& last = values_[x][2];
    if (last.is_open() || last.more % 4 != 0) return add_transpose(x);
    const std::string parts = node("Reshape", {name(x), numbers({0, 0, 4, last.more / 4})});
    const std::string turned = node("Transpose", {parts}, {onnx::ints_attr("perm", {0, 2, 1, 3})});
    const std::string keys = node("Transpose", {parts}, {onnx::ints_attr("perm", {0, 2, 3, 1})});
    const std::string scores = node("Tanh", {node("MatMul", {turned, keys})});
    const std::string p = node("Softmax", {scores}, {onnx::int_attr("axis", -1)});
    const std::string mixed = node("MatMul", {p, turned});
    const std::string back = node("Transpose", {mixed}, {onnx::ints_attr("perm", {0, 2, 1, 3})});
    value("Reshape", {back, numbers({0, 0, last.more})}, values_[x]);
  }
  void add_reduction(size_t x) {
    const std::string axes = numbers({any_axis()});
    const std::string r =
        node(random_.pick(std::vector<std::string>{"ReduceMax", "ReduceMean", "ReduceMin"}),
             {name(x), axes});
    value("Sub", {name(x), random_.chance(50) ? node("Sigmoid", {r}) : r}, values_[x]);
  }

  TestRandom random_;
  onnx::TestModel model_;
  std::vector<Value> values_;
  size_t inputs_ = 0;
  int constants_ = 0, nodes_ = 0;
  std::string said_;
};

HostTensor random_input(const Shape& shape, uint64_t seed) {
  TestRandom random(seed);
  HostTensor t(DType::kF32, shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.set_double(i, static_cast<double>(random.between(-1000, 1000)) / 700);
  return t;
}

/// "" where the program computes what the interpreter does.
std::string difference(const Compilation& c) {
  std::vector<HostTensor> inputs;
  for (const ValueId v : c.graph.inputs)
    inputs.push_back(random_input(c.graph.type(v).shape, inputs.size() + 5));
  const auto expected = interpret(c.graph, inputs);
  if (!expected.ok()) return expected.error().message;
  auto session = Session::create(c.program, 2);
  if (!session.ok()) return session.error().message;
  const auto got = (*session)->run(inputs);
  if (!got.ok()) return got.error().message;
  for (size_t o = 0; o < got->size(); ++o) {
    if ((*got)[o].shape() != (*expected)[o].shape()) return fmt::format("output {}: its shape", o);
    for (int64_t i = 0; i < (*got)[o].size(); ++i) {
      const double e = (*expected)[o].at_double(i), g = (*got)[o].at_double(i);
      if (!(std::abs(g - e) <= 2e-4 + 2e-4 * std::abs(e)))
        return fmt::format("output {} element {}: {}, not {}", o, i, g, e);
    }
  }
  return "";
}

struct Counts {
  int composed = 0, with_numbers = 0;
};

/// Compiles and runs a model at several bindings, one cache for all of them.
class OpenGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("weft_open_graphs_" + std::to_string(getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string fault(uint64_t seed, Counts* counts) const {
    const OpenModel model(seed);
    const std::string file = (root_ / (std::to_string(seed) + ".onnx")).string();
    std::ofstream(file, std::ios::binary) << model.text();
    TestRandom random(seed + 1000);
    CompileOptions options;
    options.verify = random.chance(50);
    options.threads = 2;
    options.cache_dir = (root_ / "cache").string();
    options.planner = random.pick(
        std::vector<std::string>{"auto", "auto", "best", "dp", "span", "chain", "subprogram"});
    if (random.chance(25)) options.compositions = "leaf,block,grid";
    for (int binding = 0; binding < 3; ++binding) {
      const int64_t batch = random.between(1, 4);
      if (model.has_batch()) options.import.bind["B"] = batch;
      options.import.bind["L"] = random.chance(50) ? random.between(3, 20) : random.between(20, 70);
      const std::string at =
          fmt::format("seed {} --plan {} --compositions {} B={} L={}\n{}", seed, options.planner,
                      options.compositions, batch, options.import.bind["L"], model.said());
      const auto c = compile_model(file, options);
      if (!c.ok()) return at + c.error().message;
      for (const CompiledKernel& k : (*c)->kernels) {
        const bool composed = k.planned->schedule.composition.has_members() ||
                              k.planned->schedule.composition.kind == Composition::Kind::kBlock;
        counts->composed += composed;
        counts->with_numbers += composed && k.arguments.empty();
      }
      const std::string wrong = difference(**c);
      if (!wrong.empty()) return at + wrong;
    }
    return "";
  }

  fs::path root_;
};

TEST_F(OpenGraphs, AreRightAtEveryBinding) {
  const auto asked = [](const char* name, uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::stoull(value);
  };
  Counts counts;
  for (uint64_t seed = asked("WEFT_FUZZ_FIRST", 0); seed < asked("WEFT_FUZZ_LAST", 40); ++seed) {
    const std::string text = fault(seed, &counts);
    EXPECT_EQ(text, "");
  }
  // What does not depend on a length has no sizes; the rest of what is composed has.
  EXPECT_GT(counts.composed, 2 * counts.with_numbers);
}

}  // namespace
}  // namespace weft
