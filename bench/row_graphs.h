#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

/// Graphs of primitives whose kernels move more than they compute.
namespace weft_bench {

inline std::string softmax(const char* type, int64_t rows, int64_t n, bool log = false) {
  return fmt::format(
      R"((x: {0}[{1},{2}]) {{
  m = reduce x, axes={{1}}, combiner=max : {0}[{1}]
  mb = broadcast m, dims={{0}} : {0}[{1},{2}]
  d = sub x, mb : {0}[{1},{2}]
  e = exp d : {0}[{1},{2}]
  z = reduce e, axes={{1}}, combiner=sum : {0}[{1}]
  {3}
  zb = broadcast zl, dims={{0}} : {0}[{1},{2}]
  y = {4}, zb : {0}[{1},{2}]
}} -> (y))",
      type, rows, n, fmt::format("zl = {2} z : {0}[{1}]", type, rows, log ? "log" : "reshape"),
      log ? "sub d" : "div e");
}

/// `groups` and `n` as for group norm: weight and bias hold one value for each `per` elements of
/// every row.
inline std::string layer_norm(const char* type, int64_t rows, int64_t n, bool mean = true) {
  const std::string centred = mean ? fmt::format(R"(
  s = reduce x, axes={{1}}, combiner=sum : {0}[{1}]
  mu = div s, nb : {0}[{1}]
  mub = broadcast mu, dims={{0}} : {0}[{1},{2}]
  d = sub x, mub : {0}[{1},{2}])",
                                                 type, rows, n)
                                   : "";
  return fmt::format(R"((x: {0}[{1},{2}], w: {0}[{2}], b: {0}[{2}]) {{
  n = constant {2} : {0}[]
  nb = broadcast n, dims={{}} : {0}[{1}]{3}
  sq = mul {4}, {4} : {0}[{1},{2}]
  v = reduce sq, axes={{1}}, combiner=sum : {0}[{1}]
  va = div v, nb : {0}[{1}]
  eps = constant 1e-05 : {0}[]
  epsb = broadcast eps, dims={{}} : {0}[{1}]
  ve = add va, epsb : {0}[{1}]
  r = rsqrt ve : {0}[{1}]
  rb = broadcast r, dims={{0}} : {0}[{1},{2}]
  t = mul {4}, rb : {0}[{1},{2}]
  wb = broadcast w, dims={{1}} : {0}[{1},{2}]
  tw = mul t, wb : {0}[{1},{2}]
  bb = broadcast b, dims={{1}} : {0}[{1},{2}]
  y = add tw, bb : {0}[{1},{2}]
}} -> (y))",
                     type, rows, n, centred, mean ? "d" : "x");
}

inline std::string group_norm(int64_t rows, int64_t channels, int64_t pixels) {
  const std::string t = fmt::format("f32[{},{},{}]", rows, channels, pixels);
  return fmt::format(R"((x: {0}, w: f32[{1},{2}], b: f32[{1},{2}]) {{
  s = reduce x, axes={{1,2}}, combiner=sum : f32[{1}]
  n = constant {3} : f32[]
  nb = broadcast n, dims={{}} : f32[{1}]
  mu = div s, nb : f32[{1}]
  mub = broadcast mu, dims={{0}} : {0}
  d = sub x, mub : {0}
  sq = mul d, d : {0}
  v = reduce sq, axes={{1,2}}, combiner=sum : f32[{1}]
  va = div v, nb : f32[{1}]
  eps = constant 1e-05 : f32[]
  epsb = broadcast eps, dims={{}} : f32[{1}]
  ve = add va, epsb : f32[{1}]
  r = rsqrt ve : f32[{1}]
  rb = broadcast r, dims={{0}} : {0}
  g = mul d, rb : {0}
  wb = broadcast w, dims={{0,1}} : {0}
  tw = mul g, wb : {0}
  bb = broadcast b, dims={{0,1}} : {0}
  y = add tw, bb : {0}
}} -> (y))",
                     t, rows, channels, channels * pixels);
}

inline std::string gelu(const char* type, int64_t rows, int64_t n, bool tanh) {
  const std::string t = fmt::format("{}[{},{}]", type, rows, n);
  const auto number = [&](const char* name, double value) {
    return fmt::format("  {0}c = constant {1} : {2}[]\n  {0} = broadcast {0}c, dims={{}} : {3}\n",
                       name, value, type, t);
  };
  std::string body = number("half", 0.5) + number("one", 1.0);
  if (tanh) {
    body += number("k", 0.044715) + number("s", 0.7978845608) +
            fmt::format(
                "  a = mul x, x : {0}\n  c = mul a, x : {0}\n  d = mul c, k : {0}\n"
                "  e = add x, d : {0}\n  f = mul e, s : {0}\n  g = tanh f : {0}\n",
                t);
  } else {
    body += number("s", 0.70710678) + fmt::format("  f = mul x, s : {0}\n  g = erf f : {0}\n", t);
  }
  body += fmt::format("  h = add g, one : {0}\n  i = mul x, h : {0}\n  y = mul i, half : {0}\n", t);
  return fmt::format("(x: {0}) {{\n{1}}} -> (y)", t, body);
}

inline std::string reduction(const char* type, const std::vector<int64_t>& shape, int axis,
                             const char* combiner) {
  std::vector<int64_t> left = shape;
  left.erase(left.begin() + axis);
  return fmt::format(
      "(x: {0}[{1}]) {{\n  y = reduce x, axes={{{2}}}, combiner={3} : {0}[{4}]\n}} -> (y)", type,
      fmt::join(shape, ","), axis, combiner, fmt::join(left, ","));
}

/// Softmax over the axis that is not contiguous.
inline std::string column_softmax(int64_t rows, int64_t reduced, int64_t n) {
  const std::string t = fmt::format("f32[{},{},{}]", rows, reduced, n);
  return fmt::format(R"((x: {0}) {{
  m = reduce x, axes={{1}}, combiner=max : f32[{1},{2}]
  mb = broadcast m, dims={{0,2}} : {0}
  d = sub x, mb : {0}
  e = exp d : {0}
  z = reduce e, axes={{1}}, combiner=sum : f32[{1},{2}]
  zb = broadcast z, dims={{0,2}} : {0}
  y = div e, zb : {0}
}} -> (y))",
                     t, rows, n);
}

inline std::string transposition(const char* type, int64_t batch, int64_t rows, int64_t n) {
  return fmt::format(
      "(x: {0}[{1},{2},{3}]) {{\n  y = transpose x, permutation={{0,2,1}} : {0}[{1},{3},{2}]\n}} "
      "-> (y)",
      type, batch, rows, n);
}

inline std::string residual(const char* type, int64_t rows, int64_t n) {
  return fmt::format(R"((x: {0}[{1},{2}], r: {0}[{1},{2}], b: {0}[{2}]) {{
  bb = broadcast b, dims={{1}} : {0}[{1},{2}]
  t = add x, bb : {0}[{1},{2}]
  y = add t, r : {0}[{1},{2}]
}} -> (y))",
                     type, rows, n);
}

inline std::string arg_max(const char* type, int64_t rows, int64_t n) {
  return fmt::format(
      "(x: {0}[{1},{2}]) {{\n  y = arg_reduce x, axis=1, combiner=arg_max : i64[{1}]\n}} -> (y)",
      type, rows, n);
}

/// Sums of one map along its rows and along its columns.
inline std::string both_sums(int64_t rows, int64_t n) {
  return fmt::format(R"((x: f32[{0},{1}]) {{
  e = exp x : f32[{0},{1}]
  r = reduce e, axes={{1}}, combiner=sum : f32[{0}]
  c = reduce e, axes={{0}}, combiner=sum : f32[{1}]
}} -> (r, c))",
                     rows, n);
}

}  // namespace weft_bench
