#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "target/library_call.h"
#include "target/target.h"

namespace weft {
namespace {

/// One key of the text, bound to a field: reads the rest of its line, writes it back.
struct NumberField {
  enum class Of : uint8_t { kCpu, kGpu, kBoth };
  const char* key;
  Of of = Of::kBoth;
  int32_t Target::* small = nullptr;
  int64_t Target::* large = nullptr;
  double Target::* real = nullptr;
};

constexpr auto kCpu = NumberField::Of::kCpu, kGpu = NumberField::Of::kGpu,
               kBoth = NumberField::Of::kBoth;

constexpr NumberField kNumbers[] = {
    {"threads", kCpu, &Target::threads},
    {"vector_bytes", kCpu, &Target::vector_bytes},
    {"vector_registers", kCpu, &Target::vector_registers},
    {"compute_capability", kGpu, &Target::compute_capability},
    {"sm_count", kGpu, &Target::sm_count},
    {"clock_mhz", kBoth, &Target::clock_mhz},
    {"threads_per_sm", kGpu, &Target::threads_per_sm},
    {"blocks_per_sm", kGpu, &Target::blocks_per_sm},
    {"registers_per_sm", kGpu, &Target::registers_per_sm},
    {"registers_per_thread", kGpu, &Target::registers_per_thread},
    {"shared_bytes_per_block", kGpu, nullptr, &Target::shared_bytes_per_block},
    {"shared_bytes_per_sm", kGpu, nullptr, &Target::shared_bytes_per_sm},
    {"l1_bytes", kCpu, nullptr, &Target::l1_bytes},
    {"l2_bytes", kBoth, nullptr, &Target::l2_bytes},
    {"l3_bytes", kCpu, nullptr, &Target::l3_bytes},
    {"peak_gflops", kBoth, nullptr, nullptr, &Target::peak_gflops},
    {"peak_f16_gflops", kGpu, nullptr, nullptr, &Target::peak_f16_gflops},
    {"peak_bf16_gflops", kGpu, nullptr, nullptr, &Target::peak_bf16_gflops},
    {"peak_tf32_gflops", kGpu, nullptr, nullptr, &Target::peak_tf32_gflops},
    {"launch_us", kBoth, nullptr, nullptr, &Target::launch_us},
    {"barrier_us", kBoth, nullptr, nullptr, &Target::barrier_us},
    {"drain_us", kGpu, nullptr, nullptr, &Target::drain_us},
    {"cluster_blocks", kGpu, &Target::cluster_blocks},
    {"cluster_barrier_us", kGpu, nullptr, nullptr, &Target::cluster_barrier_us},
};

template <typename T>
std::optional<T> parse_positive(const std::string& text) {
  T value{};
  const char* last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  if (status != std::errc() || end != last || !(value > 0)) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

bool assign_number(const NumberField& field, const std::string& text, Target& target) {
  if (field.small != nullptr) {
    const auto value = parse_positive<int32_t>(text);
    if (value) target.*field.small = *value;
    return value.has_value();
  }
  if (field.large != nullptr) {
    const auto value = parse_positive<int64_t>(text);
    if (value) target.*field.large = *value;
    return value.has_value();
  }
  const auto value = parse_positive<double>(text);
  if (value) target.*field.real = *value;
  return value.has_value();
}

bool assign_key(const std::string& key, const std::vector<std::string>& words, Target& target) {
  if (key == "features") {
    target.features = words;
    std::sort(target.features.begin(), target.features.end());
    return true;
  }
  if (key == "libraries") {
    target.libraries = words;
    return std::ranges::all_of(words, [](const std::string& name) {
      return std::ranges::find(kKnownLibraries, name) != std::end(kKnownLibraries);
    });
  }
  if (key == "bandwidth") {
    const auto bytes = words.size() == 2 ? parse_positive<int64_t>(words[0]) : std::nullopt;
    const auto rate = words.size() == 2 ? parse_positive<double>(words[1]) : std::nullopt;
    if (!bytes || !rate) return false;
    if (!target.bandwidth.empty() && *bytes <= target.bandwidth.back().bytes) return false;
    target.bandwidth.push_back({*bytes, *rate});
    return true;
  }
  if (key == "cpi") {
    const auto cycles = words.size() == 2 ? parse_positive<double>(words[1]) : std::nullopt;
    if (cycles) target.cpi.push_back({words[0], *cycles});
    return cycles.has_value();
  }
  if (words.size() != 1) return false;
  if (key == "grid_barriers") {
    target.grid_barriers = words[0] == "yes";
    return words[0] == "yes" || words[0] == "no";
  }
  if (key == "name") return target.name = words[0], true;
  if (key == "cpu") return target.cpu = words[0], true;
  if (key == "kind") {
    target.kind = words[0] == "gpu" ? Target::Kind::kGpu : Target::Kind::kCpu;
    return words[0] == "gpu" || words[0] == "cpu";
  }
  for (const NumberField& field : kNumbers) {
    if (key == field.key) return assign_number(field, words[0], target);
  }
  return false;
}

bool is_vector_width(int32_t bytes) { return bytes == 16 || bytes == 32 || bytes == 64; }

}  // namespace

std::string print(const Target& target) {
  std::string out = fmt::format("name {}\nkind {}\n", target.name,
                                target.kind == Target::Kind::kGpu ? "gpu" : "cpu");
  if (!target.cpu.empty()) out += fmt::format("cpu {}\n", target.cpu);
  if (!target.features.empty()) {
    out += fmt::format("features {}\n", fmt::join(target.features, " "));
  }
  if (!target.libraries.empty()) {
    out += fmt::format("libraries {}\n", fmt::join(target.libraries, " "));
  }
  for (const NumberField& field : kNumbers) {
    if (field.of == (target.is_gpu() ? kCpu : kGpu)) continue;
    const bool absent = (field.real != nullptr && target.*field.real == 0) ||
                        (field.small != nullptr && target.*field.small == 0);  // no such unit
    if (absent) continue;
    if (field.small != nullptr) out += fmt::format("{} {}\n", field.key, target.*field.small);
    if (field.large != nullptr) out += fmt::format("{} {}\n", field.key, target.*field.large);
    if (field.real != nullptr) out += fmt::format("{} {}\n", field.key, target.*field.real);
  }
  if (!target.grid_barriers) out += "grid_barriers no\n";
  for (const Target::Cpi& c : target.cpi) out += fmt::format("cpi {} {}\n", c.op_class, c.cycles);
  for (const Target::BandwidthPoint& p : target.bandwidth) {
    out += fmt::format("bandwidth {} {}\n", p.bytes, p.gb_per_s);
  }
  return out;
}

Result<Target> parse_target(std::string_view text) {
  Target target;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words_in(line.substr(0, line.find('#')));
    std::string key, word;
    if (!(words_in >> key)) continue;
    std::vector<std::string> words;
    while (words_in >> word) words.push_back(word);
    if (!assign_key(key, words, target)) {
      return invalid_input(
          fmt::format("target description, line {}: cannot use '{}'", number, line));
    }
  }
  if (target.name.empty()) return invalid_input("target description: `name` is missing");
  if (!target.is_gpu() && !is_vector_width(target.vector_bytes)) {
    return invalid_input("target description: vector_bytes is 16, 32 or 64");
  }
  return target;
}

}  // namespace weft
