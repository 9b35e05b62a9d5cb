// Every template and composition of a GPU at three shapes whose sizes leave tails: each through
// NVRTC for each architecture, and on the emulator beside the interpreter.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/nvrtc.h"
#include "tests/driver/emulated_graph.h"

namespace weft::testing {
namespace {

/// What barriers cost decides whether rows are split, and over what. Only kCluster has clusters. On
/// the two SMs of kFew blocks go through several rows.
enum class Barrier : uint8_t { kAsDescribed, kFree, kDear, kCluster, kFew };

Target with_barriers(Barrier barrier) {
  Target target = *find_target("h100-sxm");
  if (barrier == Barrier::kFree) target.barrier_us = 0;
  if (barrier == Barrier::kDear || barrier == Barrier::kCluster) target.barrier_us = 1e6;
  if (barrier == Barrier::kFew) target = with_sms(target, 2);
  if (barrier == Barrier::kCluster) {
    target.cluster_barrier_us = 0;
  } else {
    target.cluster_blocks = 0;
  }
  return target;
}

struct Template {
  std::string name;
  std::string graph;                ///< over $M, $N, $K and elements T
  std::string type = "f32";         ///< T
  std::vector<std::string> shapes;  ///< $M $N $K
  std::string expected;             ///< part of the name of the first kernel's template
  double tolerance = 1e-4;
  Barrier barrier = Barrier::kAsDescribed;
  bool fast_math = false;
  friend void PrintTo(const Template& t, std::ostream* out) { *out << t.name; }
};

const char* const kSoftmax = R"((x: T[$M,$N]) {
  m = reduce x, axes={1}, combiner=max : T[$M]
  mb = broadcast m, dims={0} : T[$M,$N]
  d = sub x, mb : T[$M,$N]
  e = exp d : T[$M,$N]
  s = reduce e, axes={1}, combiner=sum : T[$M]
  sb = broadcast s, dims={0} : T[$M,$N]
  y = div e, sb : T[$M,$N]
} -> (y))";

const char* const kLogSoftmax = R"((x: T[$M,$N]) {
  m = reduce x, axes={1}, combiner=max : T[$M]
  mb = broadcast m, dims={0} : T[$M,$N]
  d = sub x, mb : T[$M,$N]
  e = exp d : T[$M,$N]
  s = reduce e, axes={1}, combiner=sum : T[$M]
  l = log s : T[$M]
  lb = broadcast l, dims={0} : T[$M,$N]
  y = sub d, lb : T[$M,$N]
} -> (y))";

/// Of rows of $N, which may be `channels` with weights times pixels.
std::string norm(bool mean, const char* row, const char* axes, const char* weights,
                 const char* along, const char* terms) {
  std::string text = R"((x: T[$M,ROW], w: T[WEIGHTS], b: T[WEIGHTS]) {
  n = constant TERMS : T[]
  nb = broadcast n, dims={} : T[$M])";
  text += mean ? R"(
  s = reduce x, axes={AXES}, combiner=sum : T[$M]
  mu = div s, nb : T[$M]
  mb = broadcast mu, dims={0} : T[$M,ROW]
  d = sub x, mb : T[$M,ROW])"
               : "\n  d = neg x : T[$M,ROW]";
  text += R"(
  q = mul d, d : T[$M,ROW]
  v = reduce q, axes={AXES}, combiner=sum : T[$M]
  va = div v, nb : T[$M]
  r = rsqrt va : T[$M]
  rb = broadcast r, dims={0} : T[$M,ROW]
  t = mul d, rb : T[$M,ROW]
  wb = broadcast w, dims={ALONG} : T[$M,ROW]
  u = mul t, wb : T[$M,ROW]
  bb = broadcast b, dims={ALONG} : T[$M,ROW]
  y = add u, bb : T[$M,ROW]
} -> (y))";
  for (const auto& [from, to] : {std::pair{"ROW", row},
                                 {"AXES", axes},
                                 {"WEIGHTS", weights},
                                 {"ALONG", along},
                                 {"TERMS", terms}}) {
    text = replaced(std::move(text), from, to);
  }
  return text;
}
std::string row_norm(bool mean) { return norm(mean, "$N", "1", "$N", "1", "$N"); }

std::string reduction(int axis, const char* combiner) {
  return replaced(replaced(replaced("(x: T[$M,$N]) {\n  s = reduce x, axes={AXIS}, combiner=COMB : "
                                    "T[LEFT]\n  y = add s, s : T[LEFT]\n} -> (y)",
                                    "AXIS", std::to_string(axis)),
                           "COMB", combiner),
                  "LEFT", axis == 0 ? "$N" : "$M");
}

/// `function` makes g of f, the scaled element.
std::string gelu(const char* function) {
  return replaced(R"((x: T[$M,$N], c: T[$N]) {
  cb = broadcast c, dims={1} : T[$M,$N]
  z = add x, cb : T[$M,$N]
  k = constant 0.7071 : T[]
  kb = broadcast k, dims={} : T[$M,$N]
  f = mul z, kb : T[$M,$N]
  FUNCTION
  one = constant 1 : T[]
  ob = broadcast one, dims={} : T[$M,$N]
  h = add g, ob : T[$M,$N]
  y = mul z, h : T[$M,$N]
} -> (y))",
                  "FUNCTION", function);
}

/// A product of [$M,$K] and [$K,$N] with what follows it.
const char* const kProduct = R"((a: T[$M,$K], b: T[$K,$N], c: T[$N]) {
  p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
  d = broadcast c, dims={1} : T[$M,$N]
  q = add p, d : T[$M,$N]
  y = tanh q : T[$M,$N]
} -> (y))";
const char* const kBatched = R"((a: T[3,$M,$K], b: T[3,$N,$K]) {
  y = dot_general a, b, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : T[3,$M,$N]
} -> (y))";
const char* const kVector = R"((a: T[$M,$K], b: T[$K]) {
  y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M]
} -> (y))";
const char* const kConvolution = R"((x: T[2,$K,$M,$N], w: T[24,$K,3,3], b: T[24]) {
  c = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : T[2,24,$M,$N]
  d = broadcast b, dims={1} : T[2,24,$M,$N]
  y = add c, d : T[2,24,$M,$N]
} -> (y))";
const char* const kDepthwise = R"((x: T[2,$K,$M,$N], w: T[$K,1,3,3]) {
  c = convolution x, w, strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=$K : T[2,$K,$M,$N]
  y = tanh c : T[2,$K,$M,$N]
} -> (y))";
const char* const kPooling = R"((x: T[$K,$M,$N]) {
  y = reduce_window x, window={1,3,3}, strides={1,1,1}, dilations={1,1,1}, low={0,1,1}, high={0,1,1}, combiner=max : T[$K,$M,$N]
} -> (y))";

const char* const kAttention = R"((q: T[2,$M,$K], k: T[2,$N,$K], v: T[2,$N,$K], z: T[$M,$N]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : T[2,$M,$N]
  zb = broadcast z, dims={1,2} : T[2,$M,$N]
  t = add a, zb : T[2,$M,$N]
  m = reduce t, axes={2}, combiner=max : T[2,$M]
  mb = broadcast m, dims={0,1} : T[2,$M,$N]
  d = sub t, mb : T[2,$M,$N]
  e = exp d : T[2,$M,$N]
  s = reduce e, axes={2}, combiner=sum : T[2,$M]
  sb = broadcast s, dims={0,1} : T[2,$M,$N]
  p = div e, sb : T[2,$M,$N]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : T[2,$M,$K]
} -> (y))";

/// $M channels of $N pixels, squeezed to $K.
const char* const kSqueeze = R"((x: T[$M,$N], w: T[$K,$M], u: T[$M,$K]) {
  s = reduce x, axes={1}, combiner=sum : T[$M]
  n = constant $N : T[]
  nb = broadcast n, dims={} : T[$M]
  a = div s, nb : T[$M]
  f = dot_general w, a, lhs_contract={1}, rhs_contract={0} : T[$K]
  g = tanh f : T[$K]
  h = dot_general u, g, lhs_contract={1}, rhs_contract={0} : T[$M]
  i = sigmoid h : T[$M]
  ib = broadcast i, dims={0} : T[$M,$N]
  y = mul x, ib : T[$M,$N]
} -> (y))";

const char* const kScan = R"((h: T[$M,$K], xs: T[$N,$M,$K], w: T[$K,$K]) {
  last, all = scan h, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : T[$M,$K], T[$N,$M,$K]
    region (h: T[$M,$K], x: T[$M,$K], w: T[$K,$K]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : T[$M,$K]
      q = add p, x : T[$M,$K]
      n = tanh q : T[$M,$K]
    } -> (n, y=n)
} -> (last, all))";

const char* const kTransposing = R"((x: T[3,$M,$N], z: T[3,$N,$M]) {
  t = transpose x, permutation={0,2,1} : T[3,$N,$M]
  y = add t, z : T[3,$N,$M]
} -> (y))";
const char* const kArgMax = R"((x: T[$M,$N]) {
  a = round_even x : T[$M,$N]
  y = arg_reduce a, axis=1, combiner=arg_max : i64[$M]
} -> (y))";
const char* const kColumnSoftmax = R"((x: T[$M,$N,$K]) {
  m = reduce x, axes={1}, combiner=max : T[$M,$K]
  mb = broadcast m, dims={0,2} : T[$M,$N,$K]
  d = sub x, mb : T[$M,$N,$K]
  e = exp d : T[$M,$N,$K]
  s = reduce e, axes={1}, combiner=sum : T[$M,$K]
  sb = broadcast s, dims={0,2} : T[$M,$N,$K]
  y = div e, sb : T[$M,$N,$K]
} -> (y))";

/// Softmax over what a product makes.
const char* const kLogits = R"((a: T[$M,$K], b: T[$K,$N]) {
  p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
  c = constant 0.015625 : T[]
  cb = broadcast c, dims={} : T[$M,$N]
  t = mul p, cb : T[$M,$N]
  m = reduce t, axes={1}, combiner=max : T[$M]
  mb = broadcast m, dims={0} : T[$M,$N]
  u = sub t, mb : T[$M,$N]
  e = exp u : T[$M,$N]
  s = reduce e, axes={1}, combiner=sum : T[$M]
  sb = broadcast s, dims={0} : T[$M,$N]
  y = div e, sb : T[$M,$N]
} -> (y))";

const char* const kBothSums = R"((x: T[$M,$N]) {
  t = tanh x : T[$M,$N]
  r = reduce t, axes={1}, combiner=sum : T[$M]
  q = reduce t, axes={0}, combiner=sum : T[$N]
} -> (r, q))";

const char* const kApart = R"((x: T[$M,$N], u: T[$K,5,3]) {
  y = reduce x, axes={1}, combiner=sum : T[$M]
  t = transpose u, permutation={2,0,1} : T[3,$K,5]
  z = exp t : T[3,$K,5]
} -> (y, z))";

/// Products of 8-bit integers, scaled, rounded and narrowed again.
const char* const kQuantised = R"((a: i8[$M,$K], b: i8[$K,$N]) {
  aw = convert a : i32[$M,$K]
  bw = convert b : i32[$K,$N]
  p = dot_general aw, bw, lhs_contract={1}, rhs_contract={0} : i32[$M,$N]
  f = convert p : f32[$M,$N]
  c = constant 0.25 : f32[]
  cb = broadcast c, dims={} : f32[$M,$N]
  g = mul f, cb : f32[$M,$N]
  r = round_even g : f32[$M,$N]
  l = constant 127 : f32[]
  lb = broadcast l, dims={} : f32[$M,$N]
  h = min r, lb : f32[$M,$N]
  y = convert h : i8[$M,$N]
} -> (y))";

const char* const kEmbedding = R"((t: T[$N,$K], i: i64[$M]) {
  g = gather t, i, axis=0, batch_dims=0 : T[$M,$K]
  m = reduce g, axes={1}, combiner=max : T[$M]
  mb = broadcast m, dims={0} : T[$M,$K]
  y = sub g, mb : T[$M,$K]
} -> (y))";

/// $N rows become $M, between which lines are drawn.
const char* const kResize = R"((x: f32[$N,$K]) {
  i = iota axis=0 : f32[$M]
  c = constant 0.43 : f32[]
  cb = broadcast c, dims={} : f32[$M]
  p = mul i, cb : f32[$M]
  f = floor p : f32[$M]
  l = convert f : i64[$M]
  o = constant 1 : i64[]
  ob = broadcast o, dims={} : i64[$M]
  h = add l, ob : i64[$M]
  a = gather x, l, axis=0, batch_dims=0 : f32[$M,$K]
  b = gather x, h, axis=0, batch_dims=0 : f32[$M,$K]
  w = sub p, f : f32[$M]
  wb = broadcast w, dims={0} : f32[$M,$K]
  d = sub b, a : f32[$M,$K]
  e = mul d, wb : f32[$M,$K]
  y = add a, e : f32[$M,$K]
} -> (y))";

const char* const kJoined = R"((x: T[1,$M,$N], z: T[2,$M,$N]) {
  c = concat x, z, axis=0 : T[3,$M,$N]
  h = constant 0.5 : T[]
  p = pad c, h, low={0,1,-2}, high={0,-1,2} : T[3,$M,$N]
  y = tanh p : T[3,$M,$N]
} -> (y))";

const char* const kMeans = R"((x: T[$K,$M,$N]) {
  s = reduce_window x, window={1,2,3}, strides={1,1,1}, dilations={1,1,1}, low={0,0,1}, high={0,1,1}, combiner=sum : T[$K,$M,$N]
  c = constant 0.1666 : T[]
  cb = broadcast c, dims={} : T[$K,$M,$N]
  y = mul s, cb : T[$K,$M,$N]
} -> (y))";

std::vector<Template> templates() {
  const std::vector<std::string> maps = {"37 41", "3 1003", "129 70"};
  const std::vector<std::string> products = {"37 45 51", "70 72 200", "129 17 33"};
  const std::vector<std::string> images = {"9 11 20", "7 13 35", "17 5 8"};
  const std::vector<std::string> logits = {"37 46 50", "19 101 33", "21 39 27"};
  constexpr auto kFree = Barrier::kFree, kDear = Barrier::kDear, kCluster = Barrier::kCluster;
  constexpr auto kFew = Barrier::kFew, kAsDescribed = Barrier::kAsDescribed;
  return {
      {"elementwise", gelu("g = tanh f : T[$M,$N]"), "f32", maps, "elementwise"},
      {"elementwise_f16", gelu("g = erf f : T[$M,$N]"), "f16", maps, "elementwise", 1e-2},
      {"gelu_by_sigmoid", gelu("g = sigmoid f : T[$M,$N]"), "f32", maps, "elementwise"},
      {"transposing", kTransposing, "f32", {"61 131", "33 70", "100 76"}, "tiles across"},
      {"transposing_f16", kTransposing, "f16", {"61 131", "34 70", "100 76"}, "tiles across", 1e-2},
      {"rows_on_lanes", kSoftmax, "f32", {"37 5", "129 17", "70 3"}, "rows in registers"},
      {"rows_on_a_warp", kSoftmax, "f32", {"9 33", "5 100", "11 127"}, "rows in registers"},
      {"rows_on_a_block",
       kSoftmax,
       "f32",
       {"3 1003", "2 9001", "5 2047"},
       "rows in registers",
       1e-4,
       kDear},
      {"rows_over_blocks",
       kSoftmax,
       "f32",
       {"2 9001", "1 20011", "3 4099"},
       "over blocks",
       1e-4,
       kFree},
      {"rows_over_a_cluster",
       kSoftmax,
       "f32",
       {"3 20011", "2 9001", "5 12347"},
       "over a cluster",
       1e-4,
       kCluster},
      {"layer_norm_over_a_cluster",
       row_norm(true),
       "f32",
       {"3 20011", "2 9001", "5 12347"},
       "over a cluster",
       1e-3,
       kCluster},
      {"rows_in_sweeps",
       kSoftmax,
       "f32",
       {"1 70001", "2 65539", "1 131073"},
       "rows in sweeps",
       1e-4,
       kDear},
      {"rows_f16", kSoftmax, "f16", {"37 5", "5 1003", "3 4099"}, "rows", 4e-3},
      {"rows_bf16", kSoftmax, "bf16", {"37 5", "5 1003", "3 4099"}, "rows", 3e-2},
      {"row_products", reduction(1, "prod"), "f32", {"37 5", "5 1003", "2 30001"}, "rows"},
      {"columns", reduction(0, "sum"), "f32", {"7 70", "301 71", "1001 130"}, "rows", 1e-4, kDear},
      {"columns_over_blocks",
       reduction(0, "max"),
       "f32",
       {"5003 70", "2001 33", "9001 5"},
       "over blocks",
       1e-4,
       kFree},
      {"argmax", kArgMax, "f32", {"37 5", "5 1003", "1 70001"}, "rows", 0, kDear},
      {"argmax_over_blocks",
       kArgMax,
       "f32",
       {"2 9001", "1 30011", "3 70001"},
       "over blocks",
       0,
       kFree},
      {"log_softmax", kLogSoftmax, "f32", {"37 5", "5 1003", "2 9001"}, "rows"},
      {"column_softmax", kColumnSoftmax, "f32", {"3 37 70", "2 301 33", "5 7 129"}, "rows"},
      {"layer_norm", row_norm(true), "f32", {"37 5", "5 1003", "2 9001"}, "rows", 1e-3},
      {"layer_norm_f16", row_norm(true), "f16", {"37 5", "5 1003", "129 77"}, "rows", 4e-2},
      {"layer_norm_in_sweeps",
       row_norm(true),
       "f32",
       {"1 70001", "2 65539", "1 80003"},
       "rows in sweeps",
       1e-3,
       kDear},
      {"layer_norm_over_blocks",
       row_norm(true),
       "f32",
       {"2 9001", "1 20011", "3 4099"},
       "over blocks",
       1e-3,
       kFree},
      {"rms_norm", row_norm(false), "f32", {"37 5", "5 1003", "2 9001"}, "rows", 1e-3},
      {"group_norm",
       norm(true, "$N,$K", "1,2", "$N", "1", "1"),
       "f32",
       {"6 5 49", "3 7 121", "2 33 65"},
       "rows",
       1e-3},
      {"squeeze_and_excite", kSqueeze, "f32", {"33 49 5", "70 121 9", "17 1003 3"}, "rows", 1e-3},
      {"product_f16", kProduct, "f16", products, "matrix units", 6e-3},
      {"product_bf16", kProduct, "bf16", products, "matrix units", 4e-2},
      {"product_tf32", kProduct, "f32", products, "matrix units", 3e-2, Barrier::kAsDescribed,
       true},
      {"product_f32", kProduct, "f32", products, "on cores"},
      {"product_small", kProduct, "f32", {"5 3 100", "1 50 64", "70 1 19"}, ""},
      {"batched_f16", kBatched, "f16", products, "matrix units", 3e-2},
      {"batched_f32", kBatched, "f32", products, "contract"},
      {"matrix_vector", kVector, "f32", {"37 1 1003", "129 1 77", "3 1 9001"}, "", 1e-3},
      {"matrix_vector_f16", kVector, "f16", {"37 1 1003", "129 1 77", "3 1 9001"}, "", 4e-2},
      {"depth_over_blocks",
       kProduct,
       "f16",
       {"32 64 4099", "37 18 2500", "16 8 3001"},
       "depth over",
       1e-2},
      {"convolution_f16", kConvolution, "f16", images, "matrix units", 3e-2},
      {"convolution_f32", kConvolution, "f32", images, "contract", 1e-3},
      {"depthwise", kDepthwise, "f32", images, "contract", 1e-3},
      {"depthwise_f16", kDepthwise, "f16", images, "contract", 1e-2},
      {"pooling", kPooling, "f32", images, "contract"},
      {"attention", kAttention, "f32", {"37 45 16", "19 70 24", "65 33 8"}, "", 1e-3},
      {"attention_f16", kAttention, "f16", {"37 45 16", "19 70 24", "65 33 8"}, "", 1e-2},
      {"logits_f16", kLogits, "f16", logits, "matrix units", 6e-3},
      {"logits_bf16", kLogits, "bf16", logits, "matrix units", 5e-2},
      {"logits_tf32", kLogits, "f32", logits, "matrix units", 5e-2, kAsDescribed, true},
      {"logits_f32", kLogits, "f32", logits, "on cores"},
      {"logits_over_blocks",
       kLogits,
       "f16",
       {"16 70 2049", "9 35 1500", "13 50 3001"},
       "depth over",
       1e-2},
      {"rows_and_columns", kBothSums, "f32", {"257 129", "67 1003", "130 70"}, "rows and columns"},
      {"side_by_side", kApart, "f32", {"96 65 7", "33 101 3", "70 31 9"}, "side by side"},
      {"walking_rows",
       row_norm(true),
       "f32",
       {"603 77", "311 103", "407 45"},
       "rows in registers",
       1e-3,
       kFew},
      {"walking_rows_f16",
       row_norm(false),
       "f16",
       {"603 77", "311 103", "407 45"},
       "rows in registers",
       4e-2,
       kFew},
      {"weights_by_clusters",
       row_norm(true),
       "f32",
       {"1403 97", "2001 41", "3001 80"},
       "by clusters",
       1e-3,
       kCluster},
      {"quantised", kQuantised, "f32", products, "", 0},
      {"embedding", kEmbedding, "f32", {"37 50 70", "9 11 1003", "129 7 33"}, "rows"},
      {"embedding_f16", kEmbedding, "f16", {"37 50 70", "9 11 1003", "129 7 33"}, "rows", 1e-2},
      {"resize", kResize, "f32", {"37 17 70", "9 5 1003", "129 60 33"}, "elementwise"},
      {"joined", kJoined, "f32", maps, "elementwise"},
      {"joined_f16", kJoined, "f16", maps, "elementwise", 1e-2},
      {"means_of_windows", kMeans, "f32", images, "contract"},
      {"scan", kScan, "f32", {"3 5 17", "1 7 33", "5 4 9"}, "", 1e-3},
  };
}

std::string sized(std::string text, const std::string& sizes, const std::string& type) {
  std::istringstream in(sizes);
  for (const char* name : {"$M", "$N", "$K"}) {
    std::string size = "1";
    in >> size;
    text = replaced(std::move(text), name, size);
  }
  return replaced(std::move(text), "T[", type + "[");
}

/// Kernels as one text, each under a name of its own with its functions in a namespace; empty
/// without any.
std::string text_of(std::vector<KernelFunction> kernels, const std::string& arch) {
  const std::string include = "#include \"weft_cuda.h\"";
  std::string text;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].cluster > 1 && arch == "sm_80") continue;  // has none
    kernels[k].name = fmt::format("k{}", k);
    const CudaKernel code = emit_cuda(kernels[k]);
    if (!runs_on(code, arch)) continue;
    text += fmt::format("namespace of_{} {{\n{}}}\n", kernels[k].name,
                        replaced(code.text, include, ""));
  }
  return text.empty() ? text : include + "\n" + text;
}

/// For each architecture; a thread of no kernel needs more registers than its launch leaves it.
void expect_no_spills_anywhere(const std::vector<KernelFunction>& kernels) {
  const auto nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) return;
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    const std::string text = text_of(kernels, arch);
    if (text.empty()) continue;
    const auto binary = nvrtc->compile(text, "kernels.cu", {.arch = own_arch(arch)});
    ASSERT_TRUE(binary.ok()) << binary.error().message << text;
    EXPECT_FALSE(binary->kernels.empty());
    for (const CudaKernelResources& r : binary->kernels) {
      EXPECT_EQ(r.spill_store_bytes + r.spill_load_bytes, 0)
          << arch << ", " << r.registers << " registers: " << r.name;
    }
  }
}

class GpuTemplates : public ::testing::TestWithParam<Template> {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
  Target target_ = with_barriers(GetParam().barrier);
};

TEST_P(GpuTemplates, AtOddShapes) {
  const Template& t = GetParam();
  ASSERT_EQ(t.shapes.size(), 3U);
  std::vector<KernelFunction> kernels;
  for (const std::string& shape : t.shapes) {
    SCOPED_TRACE(t.name + " " + shape);
    const EmulatedRun run =
        run_and_compare(sized(t.graph, shape, t.type), target_, t.tolerance, t.fast_math);
    ASSERT_NE(run.compilation, nullptr);
    if (!run.compilation->plan.kernels.empty()) {
      EXPECT_THAT(run.schedule(0).schedule_template, ::testing::HasSubstr(t.expected));
    }
    for (const KernelFunction* own : functions_of(*run.compilation)) kernels.push_back(*own);
  }
  expect_no_spills_anywhere(kernels);
}

/// The compositions of FusionStitching: by what the threads of a stitched kernel exchange values.
struct Composition {
  std::string name, graph, shape;
  std::vector<std::string> used, unused;
  Barrier barrier = Barrier::kDear;
  friend void PrintTo(const Composition& c, std::ostream* out) { *out << c.name; }
};

std::vector<Composition> compositions() {
  const std::string lanes = "wf_shfl_xor", block = "wf_sync_block", grid = "wf_sync_grid",
                    cluster = "wf_sync_cluster";
  return {
      {"thread", gelu("g = tanh f : T[$M,$N]"), "3 1003", {}, {lanes, block, grid}},
      {"warp", kSoftmax, "9 101", {lanes}, {block, grid}},
      {"block", kSoftmax, "3 9001", {lanes, block}, {grid}},
      {"cluster", kSoftmax, "2 9001", {lanes, cluster}, {grid}, Barrier::kCluster},
      {"grid", kSoftmax, "2 9001", {lanes, grid}, {}, Barrier::kFree},
  };
}

class GpuCompositions : public ::testing::TestWithParam<Composition> {};

TEST_P(GpuCompositions, ExchangeByTheNarrowestScope) {
  if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
  const Composition& c = GetParam();
  const Target target = with_barriers(c.barrier);
  const EmulatedRun run = run_and_compare(sized(c.graph, c.shape, "f32"), target, 1e-4);
  ASSERT_NE(run.compilation, nullptr);
  ASSERT_EQ(run.compilation->kernels.size(), 1U);
  const std::string code = run.code();
  for (const std::string& text : c.used) EXPECT_THAT(code, ::testing::HasSubstr(text));
  for (const std::string& text : c.unused) {
    EXPECT_THAT(code, ::testing::Not(::testing::HasSubstr(text)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuCompositions, ::testing::ValuesIn(compositions()),
                         [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(All, GpuTemplates, ::testing::ValuesIn(templates()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::testing
