#include "import/hlo/attribute_values.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/graph.h"

namespace weft::hlo {
namespace {

/// A part of a window or a padding, small enough that sums and products with extents stay in range.
int64_t parse_offset(TextScanner& value, std::string_view what) {
  const int64_t number = value.integer(what);
  if (number > kMaxOffset || number < -kMaxOffset) {
    value.fail(fmt::format("{} beyond 2^40", what));
  }
  return number;
}

/// 3x3: one number per axis.
std::vector<int64_t> parse_extents(TextScanner& value) {
  std::vector<int64_t> numbers;
  do {
    numbers.push_back(parse_offset(value, "a number"));
  } while (value.take("x"));
  return numbers;
}

std::vector<PaddingAmount> parse_amounts(TextScanner& value) {
  std::vector<PaddingAmount> amounts;
  do {
    PaddingAmount amount;
    amount.low = parse_offset(value, "a padding");
    value.expect("_");
    amount.high = parse_offset(value, "a padding");
    if (value.take("_")) amount.interior = parse_offset(value, "a padding");
    amounts.push_back(amount);
  } while (value.take("x"));
  return amounts;
}

/// b01f: `first` and `second` say which letters the two axes that are not spatial have.
AxisLabels parse_labels(TextScanner& value, char first, char second) {
  AxisLabels labels{-1, -1, {}};
  int64_t axis = 0;
  for (; !value.at_end(); ++axis) {
    if (value.take(std::string_view(&first, 1))) {
      labels.first = axis;
    } else if (value.take(std::string_view(&second, 1))) {
      labels.second = axis;
    } else if (value.peek() >= '0' && value.peek() <= '9') {
      const char digit[] = {value.peek(), '\0'};
      const auto at = static_cast<size_t>(digit[0] - '0');
      if (labels.spatial.size() <= at) labels.spatial.resize(at + 1, -1);
      labels.spatial[at] = axis;
      value.expect(digit);
    } else {
      break;
    }
  }
  bool complete = labels.first >= 0 && labels.second >= 0 &&
                  axis == static_cast<int64_t>(labels.spatial.size()) + 2;
  for (const int64_t at : labels.spatial) complete = complete && at >= 0;
  if (!complete) value.fail("the labels do not name each axis once");
  return labels;
}

}  // namespace

std::vector<int64_t> parse_ints(TextScanner value) {
  std::vector<int64_t> numbers;
  if (!value.take("{")) {
    numbers.push_back(value.integer("a number"));
    value.expect_end();
    return numbers;
  }
  while (!value.take("}")) {
    if (!numbers.empty()) value.expect(",");
    numbers.push_back(value.integer("a number"));
  }
  value.expect_end();
  return numbers;
}

double parse_number(TextScanner value) {
  const std::string_view token = value.number();
  double number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (error != std::errc() || end != token.data() + token.size()) value.fail("expected a number");
  value.expect_end();
  return number;
}

std::vector<std::string_view> parse_names(TextScanner value) {
  std::vector<std::string_view> names;
  if (!value.take("{")) {
    names.push_back(value.name("a name"));
    value.expect_end();
    return names;
  }
  while (!value.take("}")) {
    if (!names.empty()) value.expect(",");
    names.push_back(value.name("a name"));
  }
  value.expect_end();
  return names;
}

std::vector<SliceRange> parse_slice_ranges(TextScanner value) {
  std::vector<SliceRange> ranges;
  value.expect("{");
  while (!value.take("}")) {
    if (!ranges.empty()) value.expect(",");
    SliceRange range;
    value.expect("[");
    range.start = value.integer("a start");
    value.expect(":");
    range.limit = value.integer("a limit");
    if (value.take(":")) range.step = value.integer("a stride");
    value.expect("]");
    ranges.push_back(range);
  }
  value.expect_end();
  return ranges;
}

std::vector<PaddingAmount> parse_padding(TextScanner value) {
  std::vector<PaddingAmount> amounts;
  if (!value.at_end()) amounts = parse_amounts(value);
  value.expect_end();
  return amounts;
}

WindowValue parse_window(TextScanner value) {
  WindowValue window;
  value.expect("{");
  while (!value.take("}")) {
    const std::string_view key = value.name("a part of the window");
    value.expect("=");
    if (key == "size") {
      window.size = parse_extents(value);
    } else if (key == "stride") {
      window.stride = parse_extents(value);
    } else if (key == "pad") {
      window.padding = parse_amounts(value);
    } else if (key == "lhs_dilate") {
      window.lhs_dilation = parse_extents(value);
    } else if (key == "rhs_dilate") {
      window.rhs_dilation = parse_extents(value);
    } else if (key == "rhs_reversal") {
      window.reversal = parse_extents(value);
    } else {
      value.fail(fmt::format("a window has no '{}'", key));
    }
  }
  value.expect_end();
  const size_t rank = window.size.size();
  const auto complete = [&](auto& part, auto otherwise) {
    if (part.empty()) part.resize(rank, otherwise);
    if (part.size() != rank) value.fail("the window's parts differ in their number of axes");
  };
  complete(window.stride, int64_t{1});
  complete(window.lhs_dilation, int64_t{1});
  complete(window.rhs_dilation, int64_t{1});
  complete(window.reversal, int64_t{0});
  complete(window.padding, PaddingAmount{});
  return window;
}

ConvolutionLabels parse_dim_labels(TextScanner value) {
  ConvolutionLabels labels;
  labels.input = parse_labels(value, 'b', 'f');
  value.expect("_");
  labels.kernel = parse_labels(value, 'o', 'i');
  value.expect("->");
  labels.output = parse_labels(value, 'b', 'f');
  value.expect_end();
  return labels;
}

}  // namespace weft::hlo
