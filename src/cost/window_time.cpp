#include "cost/window_time.h"

#include <algorithm>
#include <limits>

#include "support/rounding.h"
#include "target/multiplies_bfloat16.h"

namespace weft {

namespace {

constexpr double kElement = sizeof(float);

/// Of the peak that windows reach where products of matrices reach all of it: borders, and panels
/// of weights that are as deep as a window is large.
constexpr double kOfDirect = 0.85;

/// Steps of a sum that beginning and storing it take as long as.
constexpr double kBegin = 8;

/// Operations that an element of a window takes, beside its way through the cache.
constexpr double kOfWindow = 12;

/// Operations that an element of weights takes that vary: a sum of three or nine of them.
constexpr double kOfWeights = 40;

/// Below which part of the direct time it is clearly quicker.
constexpr double kClearly = 0.8;

/// To write so many bytes and to read them again, among so many that lie about.
double handed_us(double bytes, double among, const Target& target) {
  return 2 * bytes / target.bandwidth_gb_per_s(static_cast<int64_t>(among)) / 1e3;
}

}  // namespace

WindowTime window_time(const WindowSum& sum, const Target& target) {
  const auto tiles = static_cast<double>(sum.tiles), groups = static_cast<double>(sum.groups),
             inputs = groups * static_cast<double>(sum.inputs),
             outputs = static_cast<double>(sum.outputs),
             columns = static_cast<double>(round_up(sum.outputs, target.lanes(sizeof(float)))),
             products = static_cast<double>(sum.products), places = static_cast<double>(sum.places),
             results = static_cast<double>(sum.results);
  const double memory =
      target.bandwidth_gb_per_s(std::numeric_limits<int64_t>::max()) * 1e3;  // bytes a microsecond
  const double peak = target.peak_gflops * 1e3;
  const auto weights_us = [&](double each) { return each * inputs * outputs * kElement / memory; };
  WindowTime out;
  out.direct_us = 2 * results * places * inputs * columns / (kOfDirect * peak) + weights_us(places);
  // Windows go into the products' panels block by block; sums wait for all products of theirs.
  const double second = static_cast<double>(target.l2_bytes) / 2 * std::max(target.threads, 1);
  const double windows = tiles * products * inputs * kElement,
               sums = tiles * products * groups * outputs * kElement;
  const double steps = inputs + kBegin * groups;
  out.filtered_us = tiles * products * (2 * steps * columns + kOfWindow * inputs) / peak +
                    weights_us(products) + handed_us(windows, second, target) +
                    handed_us(sums, sums, target);
  if (sum.varies) {
    const double elements = products * inputs * outputs;
    out.filtered_us +=
        kOfWeights * elements / peak + handed_us(elements * kElement, elements * kElement, target);
  }
  return out;
}

bool pays_filtered(const WindowSum& sum, const Target& target) {
  if (sum.of_pairs && multiplies_bfloat16(target)) return false;
  const WindowTime time = window_time(sum, target);
  return sum.along_vectors && time.filtered_us < kClearly * time.direct_us;
}

}  // namespace weft
