#include "codegen/cuda/group_unit.h"

#include <vector>

#include "fmt/format.h"

namespace weft {

namespace {

constexpr int64_t kStep = 16;  ///< of the depth, of one instruction
constexpr int64_t kElementBytes = 2;
constexpr int64_t kDescriptorUnit = 16;  ///< bytes that one in a descriptor's address stands for

/// What an operand's address grows by from its begin to step `s` of the depth, in a descriptor.
int64_t behind(int64_t s, int64_t panel, bool across) {
  const int64_t k = s * kStep;
  const int64_t elements = across ? k * kPanelRow : k / kPanelRow * panel + k % kPanelRow;
  return elements * kElementBytes / kDescriptorUnit;
}

std::string numbered(std::string_view format, int64_t n) {
  std::string out;
  for (int64_t i = 0; i < n; ++i) {
    out += (i == 0 ? "" : ", ") + fmt::format(fmt::runtime(format), i);
  }
  return out;
}

}  // namespace

std::string group_unit_name(size_t i) { return fmt::format("wf_group_{}", i); }

std::string group_unit_text(size_t i, const GroupMultiplyPayload& unit) {
  const int64_t sums = unit.columns / 2;
  const char* type = unit.unit == KernelUnit::kM64K16F16 ? "f16" : "bf16";
  std::vector<std::string> lines{
      ".reg .pred on;", ".reg .b64 a, b;",
      fmt::format("setp.ne.b64 on, %{}, 0;", sums),  // a descriptor is never 0: sums are added to
      "wgmma.fence.sync.aligned;"};
  for (int64_t s = 0; s * kStep < unit.depth; ++s) {
    lines.push_back(
        fmt::format("add.s64 a, %{}, {};", sums, behind(s, unit.left_panel, unit.left_across)));
    lines.push_back(fmt::format("add.s64 b, %{}, {};", sums + 1,
                                behind(s, unit.right_panel, unit.right_across)));
    lines.push_back(fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, a, b, on, 1, 1, {:d}, "
        "{:d};",
        unit.columns, type, type, numbered("%{}", sums), unit.left_across, unit.right_across));
  }
  lines.emplace_back("wgmma.commit_group.sync.aligned;");
  lines.push_back(fmt::format("wgmma.wait_group.sync.aligned {};", unit.under_way ? 1 : 0));
  std::string text = fmt::format(
      "#ifdef WF_ON_DEVICE\nWF_DEVICE void {}(float (&d)[{}], u64 a, u64 b) {{\n  asm volatile(\n"
      "      \"{{\\n\"\n",
      group_unit_name(i), sums);
  for (const std::string& line : lines) text += fmt::format("      \"{}\\n\"\n", line);
  text += fmt::format(
      "      \"}}\"\n      : {}\n      : \"l\"(a), \"l\"(b) : \"memory\");\n}}\n#endif\n",
      numbered("\"+f\"(d[{}])", sums));
  return text;
}

}  // namespace weft
