#include "import/hlo/parse_module.h"

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

TEST(ParseModule, ReadsWhatIsLowered) {
  const auto module = parse_module(R"(HloModule jit_f, entry_computation_layout={(f32[2]{0})->f32[]}

region_0.1 {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT c.1 = f32[] add(a.1, b.1)
}

ENTRY main.2 {
  x.1 = f32[2]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT sum = f32[] reduce(x.1, zero), dimensions={0}, to_apply=region_0.1
}
)");
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_EQ(module->name, "jit_f");
  ASSERT_EQ(module->computations.size(), 2U);
  EXPECT_EQ(module->entry, 1U);
  const HloComputation& entry = module->computations[1];
  ASSERT_EQ(entry.instructions.size(), 3U);
  const HloInstruction& reduce = entry.instructions[2];
  EXPECT_EQ(reduce.opcode, "reduce");
  EXPECT_EQ(reduce.operands, (std::vector<int32_t>{0, 1}));
  ASSERT_EQ(reduce.attributes.size(), 2U);
  EXPECT_EQ(reduce.attributes[1].name, "to_apply");
  EXPECT_EQ(reduce.attributes[1].value, "region_0.1");
}

// Everything that XLA adds when it prints an optimised module.
constexpr std::string_view kOptimised = R"(HloModule jit_f, is_scheduled=true, num_partitions=1

FileNames
1 "/tmp/{model}.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=2 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%fused_computation (param_0: f32[2,3], param_1.2: f32[3]) -> f32[2,3] {
  %param_0 = f32[2,3]{1,0:T(8,128)S(1)} parameter(0)
  %param_1.2 = f32[3]{0} parameter(1)
  %b = f32[2,3]{1,0} broadcast(f32[3]{0} %param_1.2), dimensions={1}, metadata={op_name="a, {b" stack_frame_id=1}
  ROOT %c = f32[2,3]{1,0} add(f32[2,3]{1,0} %param_0, %b)
}

// A comment.
ENTRY %main.1 (x: f32[2,3], y: (f32[3], s32[])) -> (f32[2,3], s32[]) {
  %x = f32[2,3]{1,0} parameter(0), sharding={replicated}
  %y = (f32[3]{0}, /*index=1*/s32[]) parameter(1)
  %y0 = f32[3]{0} get-tuple-element((f32[3]{0}, s32[]) %y), index=0
  %y1 = s32[] get-tuple-element(%y), index=1
  %f = f32[2,3]{1,0} fusion(%x, %y0), kind=kLoop, calls=%fused_computation, backend_config={"outer_dimension_partitions":["2"],"note":"a \" } b"}
  ROOT %t = (f32[2,3]{1,0}, s32[]) tuple(%f, %y1)
}, execution_thread="main"
)";

TEST(ParseModule, ReadsWhatXlaHasOptimised) {
  EXPECT_EQ(import_text(kOptimised), R"((arg0: f32[2,3], arg1.0: f32[3], arg1.1: i32[]) {
  b = broadcast arg1.0, dims={1} : f32[2,3]
  out0 = add arg0, b : f32[2,3]
} -> (out0, out1=arg1.1)
)");
}

TEST(ParseModule, SaysWhereTheTextIsWrong) {
  const auto error = [](std::string_view text) { return import_error(text); };
  EXPECT_THAT(error(""), HasSubstr("line 1, column 1: expected 'HloModule'"));
  EXPECT_THAT(error("HloModule m"), HasSubstr("no ENTRY"));
  EXPECT_THAT(error(module_of("  x = f32[2 parameter(0)")),
              HasSubstr("line 4, column 13: expected ','"));
  EXPECT_THAT(error(module_of("  x = q7[2] parameter(0)")),
              HasSubstr("line 4, column 7: there is no element type 'q7'"));
  EXPECT_THAT(error(module_of("  x = f32[2]{1} parameter(0)")), HasSubstr("the layout"));
  EXPECT_THAT(error(module_of("  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(z)")),
              HasSubstr("line 5, column 26: no instruction above is called 'z'"));
  EXPECT_THAT(error(module_of("  x = f32[2] parameter(0)\n  x = f32[2] negate(x)")),
              HasSubstr("two instructions 'x'"));
  EXPECT_THAT(error(module_of("  x = f32[2] parameter(1)")), HasSubstr("no such parameter"));
  EXPECT_THAT(error(module_of("  x = f32[2] parameter(1)\n  y = f32[2] negate(x)")),
              HasSubstr("has no parameter 0"));
  EXPECT_THAT(error(module_of("  ROOT x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)")),
              HasSubstr("two ROOT"));
  EXPECT_THAT(error(module_of("")), HasSubstr("is empty"));
  EXPECT_THAT(error("HloModule m\nENTRY main {\n  x = f32[] constant(1"),
              HasSubstr("never closed"));
  EXPECT_THAT(error("HloModule m /* no end"), HasSubstr("a comment has no end"));
  EXPECT_THAT(error("HloModule m, a=\"no end"), HasSubstr("a string has no end"));
}

TEST(ParseModule, RefusesWhatOnlyTheRunDecides) {
  EXPECT_THAT(import_error(module_of("  x = f32[<=4] parameter(0)"), ErrorCode::kUnsupported),
              HasSubstr("line 4, column 13"));
}

TEST(ParseModule, BoundsTypes) {
  EXPECT_THAT(import_error(module_of("  x = f32[4000000000,4000000000] parameter(0)")),
              HasSubstr("impossible"));
  EXPECT_THAT(import_error(module_of("  x = f32[99999999999999999999] parameter(0)")),
              HasSubstr("too large"));
  EXPECT_THAT(import_error(module_of("  x = f32[-1] parameter(0)")), HasSubstr("impossible"));
  const std::string deep(100'000, '(');
  EXPECT_THAT(import_error(module_of("  x = " + deep + " parameter(0)")),
              HasSubstr("nested too deeply"));
}

TEST(ParseModule, ReadsLongNestingWithoutRecursion) {
  const std::string open(1'000'000, '{'), close(1'000'000, '}');
  const auto module =
      parse_module(module_of("  x = f32[2] parameter(0), frontend=" + open + close));
  EXPECT_TRUE(module.ok()) << module.error().message;
}

TEST(ParseShape, KeepsLayouts) {
  const std::string_view text = "(f32[2,3]{0,1:T(8,128)}, (pred[], token[]), f8e4m3fn[1])";
  TextScanner scanner(text);
  const HloShape shape = parse_shape(scanner);
  EXPECT_EQ(print(shape), "(f32[2,3], (pred[], token[]), f8e4m3fn[1])");
  EXPECT_EQ(shape.leaf_count, 3U);
  EXPECT_EQ(shape.elements[0].minor_to_major, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(shape.elements[2].dtype, std::nullopt);
}

}  // namespace
}  // namespace weft::hlo
