#include "graph_builder.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "errors.h"
#include "specs.h"
#include "tensors.h"
#include "weft/graph_builder.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft_python {

namespace {

using weft::Extent;
using weft::GraphBuilder;
using weft::Tensor;
using Ints = std::vector<int64_t>;

weft::DType dtype_of(const std::string& name) {
  if (const auto type = dtype_by_numpy_name(name)) return *type;
  raise_invalid("there is no element type '" + name + "'");
}

Extent extent_of(nb::handle value) {
  int64_t number = 0;
  if (nb::try_cast(value, number)) return number;
  return nb::cast<Extent>(value);
}

std::vector<Extent> extents_of(const nb::sequence& values) {
  std::vector<Extent> extents;
  for (const nb::handle value : values) extents.push_back(extent_of(value));
  return extents;
}

/// The array stays alive as long as the model does; it is dense.
Tensor constant(GraphBuilder& b, nb::handle array) {
  std::shared_ptr<HeldTensor> held(new HeldTensor, [](HeldTensor* tensor) {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire locked;
    delete tensor;
  });
  held->keep(array, "constant");
  const weft::Input dense = held->input();
  if (!dense.strides.empty()) raise_invalid("a constant is dense in row-major order");
  int64_t bytes = weft::byte_size(dense.dtype);
  for (const int64_t extent : dense.shape) bytes *= extent;
  const std::span elements(static_cast<const std::byte*>(dense.data), static_cast<size_t>(bytes));
  return b.constant(dense.dtype, Ints(dense.shape.begin(), dense.shape.end()), elements, held);
}

weft::WindowAxes window_axes(Ints window, Ints strides, Ints dilations, Ints low, Ints high,
                             Ints input_dilations, int64_t groups) {
  return {std::move(window),
          std::move(strides),
          std::move(dilations),
          std::move(low),
          std::move(high),
          std::move(input_dilations),
          groups};
}

void bind_extent(nb::module_& m) {
  nb::class_<Extent>(m, "Extent", "An extent: a number, or an expression over open dimensions.")
      .def(nb::init<int64_t>(), "number"_a)
      .def_static("open", &Extent::open, "name"_a,
                  "The open dimension of that name, which an input has.")
      .def("__add__", [](const Extent& a, nb::handle b) { return a + extent_of(b); })
      .def("__radd__", [](const Extent& a, nb::handle b) { return extent_of(b) + a; })
      .def("__sub__", [](const Extent& a, nb::handle b) { return a - extent_of(b); })
      .def("__rsub__", [](const Extent& a, nb::handle b) { return extent_of(b) - a; })
      .def("__mul__", [](const Extent& a, nb::handle b) { return a * extent_of(b); })
      .def("__rmul__", [](const Extent& a, nb::handle b) { return extent_of(b) * a; })
      .def("__floordiv__", [](const Extent& a, nb::handle b) { return floor_div(a, extent_of(b)); })
      .def("__rfloordiv__",
           [](const Extent& a, nb::handle b) { return floor_div(extent_of(b), a); })
      .def("value", &Extent::value, "bound"_a,
           "Its value where the open dimensions have these; None where one has none.");
}

void bind_movement(nb::class_<GraphBuilder>& c) {
  c.def(
       "broadcast_to",
       [](GraphBuilder& b, Tensor x, const nb::sequence& shape) {
         return b.broadcast_to(x, extents_of(shape));
       },
       "x"_a, "shape"_a)
      .def(
          "broadcast_in_dim",
          [](GraphBuilder& b, Tensor x, const nb::sequence& shape, Ints dims) {
            return b.broadcast_in_dim(x, extents_of(shape), std::move(dims));
          },
          "x"_a, "shape"_a, "dims"_a)
      .def(
          "reshape",
          [](GraphBuilder& b, Tensor x, const nb::sequence& shape) {
            return b.reshape(x, extents_of(shape));
          },
          "x"_a, "shape"_a)
      .def("transpose", &GraphBuilder::transpose, "x"_a, "permutation"_a)
      .def(
          "slice",
          [](GraphBuilder& b, Tensor x, const nb::sequence& start, Ints step,
             const nb::sequence& extents) {
            return b.slice(x, extents_of(start), std::move(step), extents_of(extents));
          },
          "x"_a, "start"_a, "step"_a, "extents"_a,
          "Elements start + k * step of each axis, `extents` of them.")
      .def(
          "pad",
          [](GraphBuilder& b, Tensor x, Tensor fill, const nb::sequence& low,
             const nb::sequence& high) {
            return b.pad(x, fill, extents_of(low), extents_of(high));
          },
          "x"_a, "fill"_a, "low"_a, "high"_a, "Negative amounts crop.")
      .def("concat", &GraphBuilder::concat, "xs"_a, "axis"_a)
      .def("gather", &GraphBuilder::gather, "data"_a, "indices"_a, "axis"_a, "batch_dims"_a = 0)
      .def("gather_elements", &GraphBuilder::gather_elements, "data"_a, "indices"_a, "axis"_a)
      .def("gather_nd", &GraphBuilder::gather_nd, "data"_a, "indices"_a, "batch_dims"_a = 0)
      .def("scatter_elements", &GraphBuilder::scatter_elements, "data"_a, "indices"_a, "updates"_a,
           "axis"_a, "combiner"_a = nb::none())
      .def("scatter_nd", &GraphBuilder::scatter_nd, "data"_a, "indices"_a, "updates"_a,
           "combiner"_a = nb::none());
}

void bind_reductions(nb::class_<GraphBuilder>& c) {
  c.def(
       "reduce",
       [](GraphBuilder& b, const std::string& combiner, Tensor x, Ints axes, bool keep_dims) {
         return b.reduce(combiner, x, std::move(axes), keep_dims);
       },
       "combiner"_a, "x"_a, "axes"_a, "keep_dims"_a,
       "The combiner is sum, prod, min, max, and, or.")
      .def(
          "arg_reduce",
          [](GraphBuilder& b, const std::string& combiner, Tensor x, int64_t axis, bool keep_dims) {
            return b.arg_reduce(combiner, x, axis, keep_dims);
          },
          "combiner"_a, "x"_a, "axis"_a, "keep_dims"_a)
      .def(
          "reduce_window",
          [](GraphBuilder& b, const std::string& combiner, Tensor x, Ints window, Ints strides,
             Ints dilations, Ints low, Ints high) {
            return b.reduce_window(
                combiner, x,
                window_axes(std::move(window), std::move(strides), std::move(dilations),
                            std::move(low), std::move(high), {}, 1));
          },
          "combiner"_a, "x"_a, "window"_a, "strides"_a = Ints(), "dilations"_a = Ints(),
          "low"_a = Ints(), "high"_a = Ints(), "One entry per axis of x.")
      .def(
          "cumulative",
          [](GraphBuilder& b, const std::string& combiner, Tensor x, int64_t axis) {
            return b.cumulative(combiner, x, axis);
          },
          "combiner"_a, "x"_a, "axis"_a)
      .def(
          "dot_general",
          [](GraphBuilder& b, Tensor lhs, Tensor rhs, Ints lhs_contract, Ints rhs_contract,
             Ints lhs_batch, Ints rhs_batch, const std::string& result) {
            return b.dot_general(lhs, rhs,
                                 {std::move(lhs_batch), std::move(rhs_batch),
                                  std::move(lhs_contract), std::move(rhs_contract)},
                                 dtype_of(result));
          },
          "lhs"_a, "rhs"_a, "lhs_contract"_a, "rhs_contract"_a, "lhs_batch"_a = Ints(),
          "rhs_batch"_a = Ints(), "result"_a = "float32")
      .def(
          "convolution",
          [](GraphBuilder& b, Tensor x, Tensor w, Ints strides, Ints low, Ints high, Ints dilations,
             Ints input_dilations, int64_t groups, const std::string& result) {
            return b.convolution(
                x, w,
                window_axes({}, std::move(strides), std::move(dilations), std::move(low),
                            std::move(high), std::move(input_dilations), groups),
                dtype_of(result));
          },
          "x"_a, "w"_a, "strides"_a = Ints(), "low"_a = Ints(), "high"_a = Ints(),
          "dilations"_a = Ints(), "input_dilations"_a = Ints(), "groups"_a = 1,
          "result"_a = "float32",
          "x [N, C, spatial…], w [O, C / groups, window…] to [N, O, spatial…].")
      .def(
          "fourier",
          [](GraphBuilder& b, Tensor real, std::optional<Tensor> imaginary, int64_t axis,
             bool inverse,
             int64_t bins) { return b.fourier(real, imaginary, axis, inverse, bins); },
          "real"_a, "imaginary"_a, "axis"_a, "inverse"_a = false, "bins"_a = 0,
          "The discrete Fourier transform of complex numbers, as their parts, or of real ones,\n"
          "along an axis: the first `bins` of its numbers, 0 for all. The inverse is divided by\n"
          "the length.")
      .def("real_fourier_inverse", &GraphBuilder::real_fourier_inverse, "real"_a, "imaginary"_a,
           "axis"_a, "length"_a,
           "The real signal whose transform begins with length / 2 + 1 numbers.")
      .def("sort", &GraphBuilder::sort, "x"_a, "axis"_a, "descending"_a,
           "Values and i64 positions, stable.")
      .def("top_k", &GraphBuilder::top_k, "x"_a, "k"_a, "axis"_a, "largest"_a);
}

std::vector<Tensor> tensors_of(const nb::object& result) {
  if (nb::isinstance<Tensor>(result)) return {nb::cast<Tensor>(result)};
  return nb::cast<std::vector<Tensor>>(result);
}

/// What a callable records that is given tensors.
GraphBuilder::Body body_of(const nb::callable& function) {
  return [&function](const std::vector<Tensor>& tensors) {
    nb::list arguments;
    for (const Tensor& tensor : tensors) arguments.append(nb::cast(tensor));
    return tensors_of(function(*arguments));
  };
}

void bind_regions(nb::class_<GraphBuilder>& c) {
  c.def(
       "conditional",
       [](GraphBuilder& b, Tensor condition, const nb::callable& then,
          const nb::callable& otherwise) {
         return b.conditional(
             condition, [&] { return tensors_of(then()); },
             [&] { return tensors_of(otherwise()); });
       },
       "condition"_a, "then"_a, "otherwise"_a,
       "The results of one branch, each a function that is called at once and returns tensors. It\n"
       "may read all tensors that were made before; what it makes is known inside it alone.")
      .def(
          "while_loop",
          [](GraphBuilder& b, std::vector<Tensor> carries, const nb::callable& condition,
             const nb::callable& body) {
            return b.while_loop(std::move(carries), body_of(condition), body_of(body));
          },
          "carries"_a, "condition"_a, "body"_a,
          "The carries after as many runs of the body as the condition allows. Both functions are\n"
          "given the carries; the condition makes a scalar bool, the body the next carries.")
      .def(
          "scan",
          [](GraphBuilder& b, std::vector<Tensor> carries, std::vector<Tensor> xs,
             const nb::callable& body, bool reverse) {
            return b.scan(std::move(carries), std::move(xs), body_of(body), reverse);
          },
          "carries"_a, "xs"_a, "body"_a, "reverse"_a = false,
          "Runs along the leading axis of xs. The body is given the carries and a slice of each "
          "x;\n"
          "it makes the next carries, then slices. Returns the last carries, then the slices\n"
          "stacked.");
}

void bind_values(nb::class_<GraphBuilder>& c) {
  c.def(
       "input",
       [](GraphBuilder& b, std::string name, const std::string& dtype, const nb::sequence& shape) {
         return b.input(std::move(name), dtype_of(dtype), extents_of(shape));
       },
       "name"_a, "dtype"_a, "shape"_a, "An extent is a number or an open dimension alone.")
      .def("constant", &constant, "array"_a,
           "A dense array, which is not copied and stays as long as the model does.")
      .def(
          "scalar",
          [](GraphBuilder& b, const std::string& dtype, nb::handle value) {
            const weft::DType type = dtype_of(dtype);
            int64_t number = 0;
            if (PyLong_Check(value.ptr()) && nb::try_cast(value, number))
              return b.scalar_int(type, number);
            return b.scalar(type, nb::cast<double>(value));
          },
          "dtype"_a, "value"_a, "The value is converted as by a cast.")
      .def(
          "value_of",
          [](GraphBuilder& b, nb::handle extent) { return b.value_of(extent_of(extent)); },
          "extent"_a, "An extent as a value: int64 of rank 0.")
      .def(
          "iota",
          [](GraphBuilder& b, const std::string& dtype, const nb::sequence& shape, int64_t axis) {
            return b.iota(dtype_of(dtype), extents_of(shape), axis);
          },
          "dtype"_a, "shape"_a, "axis"_a)
      .def(
          "random",
          [](GraphBuilder& b, const std::string& distribution, const std::string& dtype,
             const nb::sequence& shape, std::optional<Tensor> seed) {
            return b.random(distribution, dtype_of(dtype), extents_of(shape), seed);
          },
          "distribution"_a, "dtype"_a, "shape"_a, "seed"_a = nb::none(),
          "Random numbers, each a function of the seed and of its place: uniform in [0, 1), or\n"
          "normal of mean 0 and variance 1. Calls of one graph draw others from one seed, an\n"
          "integer of rank 0; without one each run draws others (weft.set_seed). Not in bodies\n"
          "of loops.")
      .def(
          "elementwise",
          [](GraphBuilder& b, const std::string& op, std::vector<Tensor> operands) {
            return b.elementwise(op, std::move(operands));
          },
          "op"_a, "operands"_a,
          "By the operation's name (add, exp, select, …). Operands have one type (of select: the\n"
          "last two) and broadcast as in numpy.")
      .def(
          "convert",
          [](GraphBuilder& b, Tensor x, const std::string& dtype) {
            return b.convert(x, dtype_of(dtype));
          },
          "x"_a, "dtype"_a)
      .def(
          "bitcast",
          [](GraphBuilder& b, Tensor x, const std::string& dtype) {
            return b.bitcast(x, dtype_of(dtype));
          },
          "x"_a, "dtype"_a);
}

}  // namespace

void bind_graph_builder(nb::module_& m) {
  bind_extent(m);
  nb::class_<Tensor>(m, "GraphTensor", "A tensor of the graph that a builder builds.");
  nb::class_<weft::Model>(m, "Model", "A model that weft.compile takes.")
      .def_prop_ro(
          "inputs", [](const weft::Model& model) { return specs_of(model.inputs()); },
          nb::sig("def inputs(self) -> list[weft.tensor_spec.TensorSpec]"),
          "The inputs in the model's order.")
      .def_prop_ro(
          "outputs", [](const weft::Model& model) { return specs_of(model.outputs()); },
          nb::sig("def outputs(self) -> list[weft.tensor_spec.TensorSpec]"),
          "The outputs in the model's order; their shapes are None where they are open.");
  nb::class_<GraphBuilder> c(
      m, "GraphBuilder",
      "A model written down operation by operation. Element types are numpy's names; shapes are\n"
      "numbers and Extents. What is wrong with an operation is the error of finish(), or of the\n"
      "compilation that binds an open dimension to what it does not allow.");
  c.def(nb::init<>());
  bind_values(c);
  bind_movement(c);
  bind_reductions(c);
  bind_regions(c);
  c.def("begin_origin", &GraphBuilder::begin_origin, "name"_a, "op"_a,
        "Operations from now on belong to this one of the frontend's, in explanations and errors.")
      .def("output", &GraphBuilder::output, "x"_a, "name"_a, "In the order of the calls.")
      .def(
          "finish",
          [](GraphBuilder& b, const std::map<std::string, int64_t>& example) {
            return check(b.finish(example));
          },
          "example"_a = std::map<std::string, int64_t>(),
          "The model; the builder is empty then. `example` gives all open dimensions values, for\n"
          "which the graph is checked.");
}

}  // namespace weft_python
