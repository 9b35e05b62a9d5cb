#pragma once

#include "codegen/cpu/lane_builder.h"
#include "graph/scalar_op.h"

namespace weft::cpu {

/// How an element type lies in registers: bool is i1, integers are themselves, f16 and bf16 are
/// float32 numbers that the type can hold.
llvm::Type* register_type(const LaneBuilder& k, DType dtype);
/// In memory: bool is a byte, f16 and bf16 are 16-bit integers.
llvm::Type* memory_type(const LaneBuilder& k, DType dtype);

llvm::Value* to_register(const LaneBuilder& k, DType dtype, llvm::Value* memory);
llvm::Value* to_memory(const LaneBuilder& k, DType dtype, llvm::Value* value);
/// A float32 rounded to what f16 or bf16 can hold; others as they are.
llvm::Value* round_to(const LaneBuilder& k, DType dtype, llvm::Value* value);
/// The scalar in all lanes. One of 16 bits in memory is repeated before it becomes float32: loading
/// and repeating it is one instruction, and converting a vector takes no longer.
llvm::Value* splat(const LaneBuilder& k, llvm::Value* scalar);
llvm::Value* constant_of(const LaneBuilder& k, const ScalarValue& value);

/// float -> integer truncates and saturates, NaN -> 0; integers wrap; to bool is x != 0.
llvm::Value* convert(const LaneBuilder& k, DType from, DType to, llvm::Value* value);

/// `op` lane by lane as evaluate_scalar means it; `from` is the type of the last operand (of the
/// branches of a select), `to` of the result.
llvm::Value* emit_scalar_op(const LaneBuilder& k, ScalarOp op, DType from, DType to,
                            std::span<llvm::Value* const> operands);

}  // namespace weft::cpu
