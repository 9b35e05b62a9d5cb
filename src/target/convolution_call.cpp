#include "target/convolution_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>

namespace weft {
namespace {

using Axis = ConvolutionCall::Axis;
using Sizes = std::vector<int64_t>;

constexpr size_t kMostAxes = 3;
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

/// The fields of an axis as the text names them.
struct Field {
  const char* name;
  int64_t Axis::* value;
};
constexpr Field kFields[] = {{"input", &Axis::input},
                             {"window", &Axis::window},
                             {"stride", &Axis::stride},
                             {"dilation", &Axis::dilation},
                             {"padding", &Axis::padding}};

/// The product of sizes from 0 to kMost; nullopt above kMost.
std::optional<int64_t> product_of(const Sizes& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) {
    if (size != 0 && all > kMost / size) return std::nullopt;
    all *= size;
  }
  return all;
}

Sizes shape_of_x(const ConvolutionCall& c) {
  Sizes shape = {c.images, c.channels};
  for (const Axis& a : c.axes) shape.push_back(a.input);
  return shape;
}
Sizes shape_of_w(const ConvolutionCall& c) {
  Sizes shape = {c.features, c.channels / c.groups};
  for (const Axis& a : c.axes) shape.push_back(a.window);
  return shape;
}
Sizes shape_of_y(const ConvolutionCall& c) {
  Sizes shape = {c.images, c.features};
  for (const Axis& a : c.axes) shape.push_back(output_extent(a));
  return shape;
}

/// "3x3" into one field of each axis; the first one says how many there are.
bool read_field(const std::string& text, int64_t Axis::* field, std::vector<Axis>& axes) {
  const bool first = axes.empty();
  const char* at = text.data();
  const char* end = at + text.size();
  size_t count = 0;
  for (;; ++at) {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || count == kMostAxes) return false;
    if (count == axes.size() && first) axes.emplace_back();
    if (count == axes.size()) return false;
    axes[count++].*field = value;
    at = rest;
    if (at == end) return count == axes.size();
    if (*at != 'x') return false;
  }
}

}  // namespace

int64_t output_extent(const Axis& a) {
  const int64_t reach = (a.window - 1) * a.dilation + 1, room = a.input + 2 * a.padding - reach;
  return room < 0 ? 0 : room / a.stride + 1;
}

std::string print(const ConvolutionCall& c) {
  std::string out =
      fmt::format("{} {} {} images {} -> {} groups {}", dtype_name(c.type),
                  c.channels_last ? "last" : "first", c.images, c.channels, c.features, c.groups);
  for (const Field& field : kFields) {
    Sizes values;
    for (const Axis& a : c.axes) values.push_back(a.*field.value);
    out += fmt::format(" {} {}", field.name, fmt::join(values, "x"));
  }
  out += fmt::format(" x {} w {} y {}", c.x, c.w, c.y);
  if (c.bias >= 0) out += fmt::format(" bias {}", c.bias);
  if (c.residual >= 0) out += fmt::format(" residual {}", c.residual);
  if (c.clamps) out += " clamps";
  return out;
}

Result<ConvolutionCall> parse_convolution_call(std::string_view text) {
  ConvolutionCall c;
  std::istringstream in{std::string(text)};
  std::string type, order, word;
  bool good = true;
  const auto expect = [&](const char* expected) { good = good && in >> word && word == expected; };
  good = static_cast<bool>(in >> type >> order >> c.images);
  expect("images");
  good = good && in >> c.channels;
  expect("->");
  good = good && in >> c.features;
  expect("groups");
  good = good && in >> c.groups;
  for (const Field& field : kFields) {
    expect(field.name);
    good = good && in >> word && read_field(word, field.value, c.axes);
  }
  for (const auto& [name, position] : {std::pair("x", &c.x), {"w", &c.w}, {"y", &c.y}}) {
    expect(name);
    good = good && in >> *position;
  }
  int seen = 0;  // of what may follow, each once and in this order
  while (good && in >> word) {
    const int rank = word == "bias" ? 1 : word == "residual" ? 2 : word == "clamps" ? 3 : 0;
    good = rank > seen;
    seen = rank;
    if (rank == 3) c.clamps = true;
    if (rank != 1 && rank != 2) continue;
    int32_t& position = rank == 1 ? c.bias : c.residual;
    good = good && in >> position && position >= 0;
  }
  const auto of = parse_dtype(type);
  if (!good || !of || (order != "last" && order != "first"))
    return invalid_input("'" + std::string(text) + "' is no convolution");
  c.type = *of;
  c.channels_last = order == "last";
  return c;
}

Status verify_convolution_call(const ConvolutionCall& c) {
  const auto wrong = [](const char* what) {
    return invalid_input(std::string("library call: ") + what);
  };
  if (c.type != DType::kF16 && c.type != DType::kBF16 && c.type != DType::kF32)
    return wrong("it has no such types");
  if (c.bias < 0 && (c.residual >= 0 || c.clamps))
    return wrong("a residual or a clamp without a bias");
  if (c.axes.empty() || c.axes.size() > kMostAxes) return wrong("an image has one to three axes");
  Sizes sizes = {c.images, c.channels, c.features, c.groups};
  for (const Axis& a : c.axes) {
    for (const Field& field : kFields) {
      const bool may_be_zero = field.value == &Axis::padding;
      sizes.push_back(a.*field.value + (may_be_zero && a.*field.value == 0 ? 1 : 0));
    }
  }
  if (std::ranges::min(sizes) < 1 || std::ranges::max(sizes) > kMost)
    return wrong("a size is out of range");
  if (c.channels % c.groups != 0 || c.features % c.groups != 0)
    return wrong("its groups do not divide its channels");
  if (std::ranges::any_of(c.axes, [](const Axis& a) { return output_extent(a) < 1; }))
    return wrong("its window fits nowhere");
  for (const Sizes& shape : {shape_of_x(c), shape_of_w(c), shape_of_y(c)}) {
    if (std::ranges::max(shape) > kMost || !product_of(shape))
      return wrong("a size is out of range");
  }
  return {};
}

std::vector<CallBuffer> buffers_of(const ConvolutionCall& c) {
  const auto dense = [&](int32_t position, const Sizes& shape, bool written) {
    return CallBuffer{position, c.type, product_of(shape).value_or(0), written};
  };
  std::vector<CallBuffer> buffers = {dense(c.x, shape_of_x(c), false),
                                     dense(c.w, shape_of_w(c), false),
                                     dense(c.y, shape_of_y(c), true)};
  if (c.bias >= 0) buffers.push_back(dense(c.bias, {c.features}, false));
  if (c.residual >= 0) buffers.push_back(dense(c.residual, shape_of_y(c), false));
  return buffers;
}

}  // namespace weft
