#include "codegen/cpu/store_single_lanes.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <optional>

namespace weft::cpu {
namespace {

/// The lane that a constant mask has, if it is exactly one.
std::optional<unsigned> only_lane(const llvm::Value* mask) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (constant == nullptr || type == nullptr) return std::nullopt;
  std::optional<unsigned> only;
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    const llvm::Constant* bit = constant->getAggregateElement(lane);
    if (bit == nullptr || bit->isNullValue()) continue;
    if (only || !bit->isOneValue()) return std::nullopt;
    only = lane;
  }
  return only;
}

}  // namespace

void store_single_lanes(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (store == nullptr || store->getIntrinsicID() != llvm::Intrinsic::masked_store) continue;
    // Operands: value, pointer, …, mask.
    const auto lane = only_lane(store->getArgOperand(store->arg_size() - 1));
    if (!lane) continue;
    llvm::IRBuilder<> b(store);
    llvm::Value* element = b.CreateExtractElement(store->getArgOperand(0), *lane);
    llvm::Value* at =
        b.CreateConstInBoundsGEP1_64(element->getType(), store->getArgOperand(1), *lane);
    llvm::StoreInst* plain = b.CreateAlignedStore(element, at, llvm::Align(1));
    plain->copyMetadata(*store);
    store->eraseFromParent();
  }
}

}  // namespace weft::cpu
