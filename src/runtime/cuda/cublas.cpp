#include "runtime/cuda/cublas.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "support/dynamic_library.h"

namespace weft {
namespace {

// Values of cublasLt.h, cublas_api.h and library_types.h.
constexpr int kComputeF32 = 68;
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8,
              kDescBiasType = 26;
constexpr uint32_t kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4;
constexpr int kLayoutBatchCount = 5, kLayoutBatchOffset = 6;
constexpr int kPreferenceWorkspace = 1;
/// Of A, B, C and D: 5 to 8.
constexpr int kPreferenceAlignment = 5;
constexpr int32_t kTransposed = 1;

int type_of(DType type) {
  switch (type) {
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 14;
    default:
      return 0;
  }
}

/// cublasLtMatmulHeuristicResult_t.
struct Proposal {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

void bind(DynamicLibrary& library, CublasFunctions& functions) {
#define WEFT_BIND(name) library.bind(functions.name, #name)
  WEFT_BIND(cublasLtCreate);
  WEFT_BIND(cublasLtDestroy);
  WEFT_BIND(cublasLtMatmulDescCreate);
  WEFT_BIND(cublasLtMatmulDescDestroy);
  WEFT_BIND(cublasLtMatmulDescSetAttribute);
  WEFT_BIND(cublasLtMatrixLayoutCreate);
  WEFT_BIND(cublasLtMatrixLayoutDestroy);
  WEFT_BIND(cublasLtMatrixLayoutSetAttribute);
  WEFT_BIND(cublasLtMatmulPreferenceCreate);
  WEFT_BIND(cublasLtMatmulPreferenceDestroy);
  WEFT_BIND(cublasLtMatmulPreferenceSetAttribute);
  WEFT_BIND(cublasLtMatmulAlgoGetHeuristic);
  WEFT_BIND(cublasLtMatmul);
#undef WEFT_BIND
}

Error too_old(const std::string& library, const std::string& lacking) {
  return {ErrorCode::kMissingDevice,
          library + " has no function " + lacking + "; cuBLAS 12 or later is needed"};
}

}  // namespace

Result<std::shared_ptr<const Cublas>> Cublas::load(const std::string& path) {
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12"};
  const std::string variable = environment_variable("WEFT_CUBLASLT");
  if (!path.empty() || !variable.empty()) names = {path.empty() ? variable : path};
  std::string tried;
  DynamicLibrary library = DynamicLibrary::open_first(names, &tried);
  if (!library.is_open()) {
    return Error{ErrorCode::kMissingDevice,
                 "the program calls cuBLASLt, which was not found (looked for " + tried +
                     "): install it, or compile for a target that names no libraries"};
  }
  CublasFunctions functions = {};
  bind(library, functions);
  if (!library.lacking().empty()) return too_old(library.file(), library.lacking());
  return from_functions(functions);
}

std::shared_ptr<const Cublas> Cublas::from_functions(const CublasFunctions& functions) {
  std::shared_ptr<Cublas> library(new Cublas);
  library->functions_ = functions;
  return library;
}

Status CublasProduct::check(int status, const char* what) const {
  if (status == 0) return {};
  // CUBLAS_STATUS_NOT_INITIALIZED, ALLOC_FAILED, ARCH_MISMATCH and NOT_SUPPORTED are the machine's.
  const bool lacking = status == 1 || status == 3 || status == 8 || status == 15;
  return Error{lacking ? ErrorCode::kMissingDevice : ErrorCode::kInternal,
               "'" + name_ + "': cuBLASLt, " + what + ", says " + std::to_string(status)};
}

Result<CublasProduct> CublasProduct::create(std::shared_ptr<const Cublas> library,
                                            const ProductCall& call, const std::string& name) {
  CublasProduct product;
  product.library_ = std::move(library);
  product.name_ = name;
  product.call_ = call;
  WEFT_RETURN_IF_ERROR(product.prepare(call));
  return product;
}

/// The library stores columns together, so it is asked for the transposed product: C' = B' * A'.
Status CublasProduct::prepare(const ProductCall& call) {
  const CublasFunctions& f = library_->functions();
  WEFT_RETURN_IF_ERROR(check(f.cublasLtCreate(&handles_.library), "starting"));
  WEFT_RETURN_IF_ERROR(
      check(f.cublasLtMatmulDescCreate(&handles_.operation, kComputeF32, type_of(DType::kF32)),
            "describing the product"));
  const auto attribute = [&](int which, const auto& value) {
    return check(f.cublasLtMatmulDescSetAttribute(handles_.operation, which, &value, sizeof value),
                 "describing the product");
  };
  if (call.b_transposed) WEFT_RETURN_IF_ERROR(attribute(kDescTransA, kTransposed));
  if (call.a_transposed) WEFT_RETURN_IF_ERROR(attribute(kDescTransB, kTransposed));
  const uint32_t epilogue =
      (call.clamps ? kEpilogueRelu : 0) | (call.bias >= 0 ? kEpilogueBias : 0);
  WEFT_RETURN_IF_ERROR(attribute(kDescEpilogue, epilogue == 0 ? kEpilogueNone : epilogue));
  if (call.bias >= 0) WEFT_RETURN_IF_ERROR(attribute(kDescBiasType, int32_t{type_of(call.result)}));

  const auto layout = [&](void** handle, DType type, int64_t rows, int64_t columns, int64_t row,
                          int64_t next) -> Status {
    const auto made = f.cublasLtMatrixLayoutCreate(
        handle, type_of(type), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), row);
    WEFT_RETURN_IF_ERROR(check(made, "describing a matrix"));
    const auto batch = static_cast<int32_t>(call.batch);
    WEFT_RETURN_IF_ERROR(
        check(f.cublasLtMatrixLayoutSetAttribute(*handle, kLayoutBatchCount, &batch, sizeof batch),
              "describing a matrix"));
    return check(
        f.cublasLtMatrixLayoutSetAttribute(*handle, kLayoutBatchOffset, &next, sizeof next),
        "describing a matrix");
  };
  WEFT_RETURN_IF_ERROR(layout(&handles_.a, call.operands, call.a_transposed ? call.k : call.m,
                              call.a_transposed ? call.m : call.k, call.a_row, call.a_matrix));
  WEFT_RETURN_IF_ERROR(layout(&handles_.b, call.operands, call.b_transposed ? call.n : call.k,
                              call.b_transposed ? call.k : call.n, call.b_row, call.b_matrix));
  WEFT_RETURN_IF_ERROR(layout(&handles_.c, call.result, call.m, call.n, call.c_row, call.c_matrix));

  WEFT_RETURN_IF_ERROR(
      check(f.cublasLtMatmulPreferenceCreate(&handles_.preference), "choosing an algorithm"));
  const uint64_t workspace = kWorkspaceBytes;
  WEFT_RETURN_IF_ERROR(
      check(f.cublasLtMatmulPreferenceSetAttribute(handles_.preference, kPreferenceWorkspace,
                                                   &workspace, sizeof workspace),
            "choosing an algorithm"));
  for (int i = 0; i < 4; ++i) {
    const uint32_t alignment = kAlignment;
    WEFT_RETURN_IF_ERROR(
        check(f.cublasLtMatmulPreferenceSetAttribute(handles_.preference, kPreferenceAlignment + i,
                                                     &alignment, sizeof alignment),
              "choosing an algorithm"));
  }
  Proposal proposal = {};
  int found = 0;
  WEFT_RETURN_IF_ERROR(check(f.cublasLtMatmulAlgoGetHeuristic(
                                 handles_.library, handles_.operation, handles_.b, handles_.a,
                                 handles_.c, handles_.c, handles_.preference, 1, &proposal, &found),
                             "choosing an algorithm"));
  if (found < 1) {
    return Error{ErrorCode::kMissingDevice,
                 "'" + name_ + "': cuBLASLt has no algorithm for " + print(call)};
  }
  std::copy(std::begin(proposal.algorithm), std::end(proposal.algorithm), std::begin(algorithm_));
  return {};
}

Status CublasProduct::run(CudaStream& stream, std::span<const CudaAddress> buffers,
                          CudaAddress workspace) {
  const CublasFunctions& f = library_->functions();
  const auto address = [&](int32_t position) { return buffers[static_cast<size_t>(position)]; };
  if (call_.bias >= 0) {
    const CudaAddress bias = address(call_.bias);
    WEFT_RETURN_IF_ERROR(check(
        f.cublasLtMatmulDescSetAttribute(handles_.operation, kDescBiasPointer, &bias, sizeof bias),
        "passing the bias"));
  }
  const auto pointer = [](CudaAddress of) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(of));
  };
  void* const a = pointer(address(call_.a));
  void* const b = pointer(address(call_.b));
  void* const c = pointer(address(call_.c));
  const float one = 1, zero = 0;
  return stream.enqueue(name_, [&](void* handle) {
    return check(f.cublasLtMatmul(handles_.library, handles_.operation, &one, b, handles_.b, a,
                                  handles_.a, &zero, c, handles_.c, c, handles_.c, algorithm_,
                                  pointer(workspace), static_cast<size_t>(kWorkspaceBytes), handle),
                 "starting the product");
  });
}

CublasProduct::CublasProduct(CublasProduct&& other) noexcept { *this = std::move(other); }

CublasProduct& CublasProduct::operator=(CublasProduct&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(name_, other.name_);
  std::swap(handles_, other.handles_);
  std::swap(algorithm_, other.algorithm_);
  std::swap(call_, other.call_);
  return *this;
}

CublasProduct::~CublasProduct() {
  if (library_ == nullptr) return;
  const CublasFunctions& f = library_->functions();
  if (handles_.preference != nullptr) f.cublasLtMatmulPreferenceDestroy(handles_.preference);
  for (void* layout : {handles_.a, handles_.b, handles_.c}) {
    if (layout != nullptr) f.cublasLtMatrixLayoutDestroy(layout);
  }
  if (handles_.operation != nullptr) f.cublasLtMatmulDescDestroy(handles_.operation);
  if (handles_.library != nullptr) f.cublasLtDestroy(handles_.library);
}

}  // namespace weft
