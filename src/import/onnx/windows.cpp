#include "import/onnx/windows.h"

#include <fmt/format.h>

namespace weft::onnx {
namespace {

constexpr int64_t kLargestNumber = (int64_t{1} << 31) - 1;

void check_range(const std::vector<int64_t>& values, std::string_view name, int64_t least) {
  for (int64_t value : values) {
    if (value < least || value > kLargestNumber) {
      refuse_invalid(fmt::format("{} {} is out of range", name, value));
    }
  }
}

}  // namespace

std::vector<int64_t> spatial_attr(OpContext& n, std::string_view name, size_t rank,
                                  int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = n.ints_attr(name, std::vector<int64_t>(rank, otherwise));
  if (values.size() != rank) {
    refuse_invalid(fmt::format("{} has {} entries for {} spatial axes", name, values.size(), rank));
  }
  check_range(values, name, least);
  return values;
}

int64_t table_size(const Shape& shape, std::string_view what) {
  std::optional<int64_t> count = element_count(shape);
  if (!count || *count > (int64_t{1} << 24)) {
    refuse_unsupported(fmt::format("{} of more than 2^24 elements", what));
  }
  return *count;
}

Shape spatial_extents(OpContext& n, ValueId x) {
  const Shape shape = n.b.shape(x);
  n.require(shape.size() >= 2, "the input must have a batch axis and a channel axis");
  Shape extents(shape.begin() + 2, shape.end());
  check_range(extents, "an extent of", 0);
  return extents;
}

Windows read_windows(OpContext& n, const Shape& extent, std::vector<int64_t> kernel) {
  Windows w;
  size_t rank = extent.size();
  w.extent = extent;
  w.kernel = std::move(kernel);
  n.require(w.kernel.size() == rank, "the kernel must have one extent per spatial axis");
  check_range(w.kernel, "a kernel extent of", 1);
  w.strides = spatial_attr(n, "strides", rank, 1, 1);
  w.dilations = spatial_attr(n, "dilations", rank, 1, 1);
  w.low.assign(rank, 0);
  w.high.assign(rank, 0);
  w.overhang.assign(rank, 0);
  w.out.assign(rank, 0);
  std::string auto_pad = n.string_attr("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    pad_to_same(w, auto_pad == "SAME_UPPER");
    return w;
  }
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    std::vector<int64_t> pads = spatial_attr(n, "pads", 2 * rank, 0, 0);
    auto middle = pads.begin() + static_cast<int64_t>(rank);
    w.low.assign(pads.begin(), middle);
    w.high.assign(middle, pads.end());
  } else if (auto_pad != "VALID") {
    n.invalid("auto_pad \"" + auto_pad + "\" is not one that ONNX has");
  }
  count_positions(w, n.bool_attr("ceil_mode", false));
  return w;
}

}  // namespace weft::onnx
