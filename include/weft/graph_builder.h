/// graph_builder.h: a model written down operation by operation, for frontends that read no file.
///
///     weft::GraphBuilder b;
///     const weft::Extent n = weft::Extent::open("batch");
///     weft::Tensor x = b.input("x", weft::DType::kF32, {n, 4});
///     weft::Tensor w = b.constant(weft::DType::kF32, {4, 5}, weights, owner);
///     weft::Tensor h = b.dot_general(x, w, {.lhs_contract = {1}, .rhs_contract = {0}},
///                                    weft::DType::kF32);
///     b.output(b.elementwise("max", {h, b.scalar(weft::DType::kF32, 0)}), "y");
///     auto model = b.finish({{"batch", 2}});                         // Result<Model>
///
/// Operations are the primitives that `weft dump --stage graph` prints; docs/architecture.md says
/// what becomes of them. What is wrong with one is the error of finish(), or of the compilation
/// that binds an open dimension to what it does not allow.

#ifndef WEFT_GRAPH_BUILDER_H_
#define WEFT_GRAPH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/weft.h"

namespace weft_v1 {

/// An extent: a number, or an expression over open dimensions.
class Extent {
 public:
  Extent(int64_t number) : number_(number) {}  // NOLINT: implicit
  /// The open dimension of that name, which an input has.
  static Extent open(std::string name);

  friend Extent operator+(const Extent& a, const Extent& b) { return join('+', a, b); }
  friend Extent operator-(const Extent& a, const Extent& b) { return join('-', a, b); }
  friend Extent operator*(const Extent& a, const Extent& b) { return join('*', a, b); }
  /// Rounded towards minus infinity.
  friend Extent floor_div(const Extent& a, const Extent& b) { return join('/', a, b); }

  /// Its value where the open dimensions have these; nullopt where one has none, on overflow and
  /// division by zero.
  std::optional<int64_t> value(const std::map<std::string, int64_t>& bound) const;
  /// The name of one that is an open dimension alone, else empty.
  std::string_view name() const;

 private:
  struct Expression;
  static Extent join(char op, const Extent& a, const Extent& b);
  int64_t number_ = 0;
  std::shared_ptr<const Expression> expression_;  ///< null for a number
};

/// A tensor of the graph that a builder builds.
struct Tensor {
  int32_t id = -1;
};

/// Which axes a product shares and sums over. Result: shared axes, a's others, b's others.
struct DotAxes {
  std::vector<int64_t> lhs_batch = {}, rhs_batch = {}, lhs_contract = {}, rhs_contract = {};
};

/// One entry per axis of the window (convolution: spatial axis); empty: ones, or zeros for padding.
struct WindowAxes {
  std::vector<int64_t> window = {};  ///< not of a convolution
  std::vector<int64_t> strides = {}, dilations = {};
  std::vector<int64_t> low = {}, high = {};   ///< padding
  std::vector<int64_t> input_dilations = {};  ///< of a convolution
  int64_t groups = 1;                         ///< of a convolution
};

/// Combiners of reductions: "sum", "prod", "min", "max", "and", "or".
class GraphBuilder {
 public:
  GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  ~GraphBuilder();

  /// An extent is a number or an open dimension alone.
  Tensor input(std::string name, DType dtype, std::vector<Extent> shape);
  /// Dense elements in row-major order; used where they are, as long as `owner` keeps them.
  Tensor constant(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> elements,
                  std::shared_ptr<const void> owner);
  /// The same of rank 0; the value is converted as by a cast.
  Tensor scalar(DType dtype, double value);
  Tensor scalar_int(DType dtype, int64_t value);
  /// An extent as a value: i64 of rank 0.
  Tensor value_of(Extent extent);
  /// 0, 1, 2, … along an axis.
  Tensor iota(DType dtype, std::vector<Extent> shape, int64_t axis);

  /// Random numbers, each a function of the seed and of its place: "uniform" in [0, 1), or "normal"
  /// of mean 0 and variance 1. Calls of one graph draw others from one seed. `seed`: an integer of
  /// rank 0; without one each run draws others (set_seed()). Not in the bodies of loops.
  Tensor random(std::string_view distribution, DType dtype, std::vector<Extent> shape,
                std::optional<Tensor> seed = std::nullopt);

  /// By the operation's name ("add", "exp", "select", …). Operands have one type (of select: the
  /// last two) and broadcast as in numpy.
  Tensor elementwise(std::string_view op, std::vector<Tensor> operands);
  Tensor convert(Tensor x, DType dtype);
  Tensor bitcast(Tensor x, DType dtype);  ///< of one width

  /// As in numpy: leading axes are added, extents of 1 grow.
  Tensor broadcast_to(Tensor x, std::vector<Extent> shape);
  /// Axis i of x becomes axis dims[i] of the result.
  Tensor broadcast_in_dim(Tensor x, std::vector<Extent> shape, std::vector<int64_t> dims);
  Tensor reshape(Tensor x, std::vector<Extent> shape);
  /// Axis i of the result is x's axis permutation[i].
  Tensor transpose(Tensor x, std::vector<int64_t> permutation);
  /// Elements start + k * step of each axis, `extents` of them.
  Tensor slice(Tensor x, std::vector<Extent> start, std::vector<int64_t> step,
               std::vector<Extent> extents);
  /// Negative amounts crop; `fill` is a scalar of x's type.
  Tensor pad(Tensor x, Tensor fill, std::vector<Extent> low, std::vector<Extent> high);
  Tensor concat(std::vector<Tensor> xs, int64_t axis);

  /// Shapes: data[:axis] + indices[batch_dims:] + data[axis + 1:]. Indices clamp into range.
  Tensor gather(Tensor data, Tensor indices, int64_t axis, int64_t batch_dims = 0);
  Tensor gather_elements(Tensor data, Tensor indices, int64_t axis);
  Tensor gather_nd(Tensor data, Tensor indices, int64_t batch_dims = 0);
  /// Without a combiner the last update counts.
  Tensor scatter_elements(Tensor data, Tensor indices, Tensor updates, int64_t axis,
                          std::optional<std::string> combiner = std::nullopt);
  Tensor scatter_nd(Tensor data, Tensor indices, Tensor updates,
                    std::optional<std::string> combiner = std::nullopt);

  Tensor reduce(std::string_view combiner, Tensor x, std::vector<int64_t> axes, bool keep_dims);
  /// The i64 position of the least ("min") or largest ("max") element, the first of several.
  Tensor arg_reduce(std::string_view combiner, Tensor x, int64_t axis, bool keep_dims);
  /// Padding contributes nothing.
  Tensor reduce_window(std::string_view combiner, Tensor x, WindowAxes axes);
  /// Running combination along an axis.
  Tensor cumulative(std::string_view combiner, Tensor x, int64_t axis);
  /// `result` is the type in which products are summed.
  Tensor dot_general(Tensor a, Tensor b, DotAxes axes, DType result);
  /// x [N, C, spatial…], w [O, C / groups, window…] to [N, O, spatial…].
  Tensor convolution(Tensor x, Tensor w, WindowAxes axes, DType result);
  /// The discrete Fourier transform of complex numbers, as their real and imaginary parts, along an
  /// axis of n: y[k] = sum over j of x[j] e^(-2 pi i j k / n); of the inverse e^(+...), divided by
  /// n. Without `imaginary` x is real. `bins`: how many of the result, the first; 0: n.
  std::pair<Tensor, Tensor> fourier(Tensor real, std::optional<Tensor> imaginary, int64_t axis,
                                    bool inverse = false, int64_t bins = 0);
  /// The real signal of `length` along the axis whose transform begins with length / 2 + 1 numbers.
  Tensor real_fourier_inverse(Tensor real, Tensor imaginary, int64_t axis, int64_t length);
  /// Values and i64 positions, stable.
  std::pair<Tensor, Tensor> sort(Tensor x, int64_t axis, bool descending);
  std::pair<Tensor, Tensor> top_k(Tensor x, int64_t k, int64_t axis, bool largest);

  /// Regions: branches, and bodies of loops. What records one is called once, at once. It may read
  /// all tensors that were made before, those of the graph around it too; what it makes is known
  /// inside it alone.
  using Branch = std::function<std::vector<Tensor>()>;
  using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  /// The results of one branch; of both they have the same types. `condition`: a scalar bool.
  std::vector<Tensor> conditional(Tensor condition, const Branch& then, const Branch& otherwise);
  /// The carries after as many runs of `body` as `condition` allows. Both are given the carries;
  /// `condition` makes one scalar bool, `body` the next carries, of the same types.
  std::vector<Tensor> while_loop(std::vector<Tensor> carries, const Body& condition,
                                 const Body& body);
  /// Along the leading axis of `xs`, which have it in common, from its end where `reverse`. `body`
  /// is given the carries and a slice of each x, without that axis; it makes the next carries, then
  /// slices. The last carries, then the slices stacked, each where its x's was.
  std::vector<Tensor> scan(std::vector<Tensor> carries, std::vector<Tensor> xs, const Body& body,
                           bool reverse = false);

  /// Operations from now on belong to this one of the frontend's, for explanations and errors.
  void begin_origin(std::string name, std::string op);
  /// In the order of the calls.
  void output(Tensor x, std::string name);

  /// The model; the builder is empty then. `example` gives the open dimensions values for which the
  /// graph is checked at once, all of them. kInvalidInput and kUnsupported name the operation.
  Result<Model> finish(const std::map<std::string, int64_t>& example = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft_v1

#endif  // WEFT_GRAPH_BUILDER_H_
