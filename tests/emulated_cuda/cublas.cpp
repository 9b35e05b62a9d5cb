// cuBLASLt over the emulated device's memory, which is the host's: float32 and float16 products,
// column by column as the library stores matrices.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>

#include "tests/emulated_cuda/streams.h"

namespace {

struct Descriptor {
  std::map<int, uint64_t> attributes;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  uint64_t next = 0;  ///< elements from one matrix of the batch to the next
  int type = 0;
};

int create(void** handle) {
  *handle = std::make_unique<Descriptor>().release();
  return 0;
}

int destroy(void* handle) {
  const std::unique_ptr<Descriptor> owner(static_cast<Descriptor*>(handle));
  return 0;
}

int set(void* handle, int which, const void* value, size_t bytes) {
  uint64_t read = 0;
  std::memcpy(&read, value, bytes);
  static_cast<Descriptor*>(handle)->attributes[which] = read;
  return 0;
}

constexpr int kHalf = 2;

float load(const void* base, int type, uint64_t at) {
  if (type != kHalf) return static_cast<const float*>(base)[at];
  return static_cast<float>(static_cast<const _Float16*>(base)[at]);
}

uint64_t place(const Descriptor& d, uint64_t batch, uint64_t i, uint64_t j) {
  return batch * d.next + i + j * static_cast<uint64_t>(d.leading);
}

struct Product {
  Descriptor operation, da, db, dd;
  const void* a;
  const void* b;
  void* d;
};

int run(const Product& p) {
  const auto& [operation, da, db, dd, a, b, d] = p;
  const auto flag = [&op = operation.attributes](int which) {
    const auto found = op.find(which);
    return found == op.end() ? 0 : found->second;
  };
  const bool a_turned = flag(3) != 0, b_turned = flag(4) != 0;
  const uint64_t epilogue = flag(7), depth = a_turned ? da.rows : da.columns;
  for (uint64_t batch = 0; batch < dd.attributes.at(5); ++batch) {
    for (uint64_t j = 0; j < dd.columns; ++j) {
      for (uint64_t i = 0; i < dd.rows; ++i) {
        float sum = 0;
        for (uint64_t l = 0; l < depth; ++l) {
          sum += load(a, da.type, a_turned ? place(da, batch, l, i) : place(da, batch, i, l)) *
                 load(b, db.type, b_turned ? place(db, batch, j, l) : place(db, batch, l, j));
        }
        if ((epilogue & 4) != 0) sum += load(reinterpret_cast<const void*>(flag(8)), dd.type, i);
        if ((epilogue & 2) != 0) sum = std::max(sum, 0.0F);
        if (dd.type == kHalf) {
          static_cast<_Float16*>(d)[place(dd, batch, i, j)] = static_cast<_Float16>(sum);
        } else {
          static_cast<float*>(d)[place(dd, batch, i, j)] = sum;
        }
      }
    }
  }
  return 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int cublasLtCreate(void** handle) { return create(handle); }
int cublasLtDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(void** handle, int, int) { return create(handle); }
int cublasLtMatmulDescDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulDescSetAttribute(void* handle, int which, const void* value, size_t bytes) {
  return set(handle, which, value, bytes);
}
int cublasLtMatrixLayoutCreate(void** handle, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  create(handle);
  auto& d = *static_cast<Descriptor*>(*handle);
  d.type = type;
  d.rows = rows;
  d.columns = columns;
  d.leading = leading;
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* handle) { return destroy(handle); }
int cublasLtMatrixLayoutSetAttribute(void* handle, int which, const void* value, size_t bytes) {
  if (which == 6) std::memcpy(&static_cast<Descriptor*>(handle)->next, value, sizeof(uint64_t));
  return set(handle, which, value, bytes);
}
int cublasLtMatmulPreferenceCreate(void** handle) { return create(handle); }
int cublasLtMatmulPreferenceDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulPreferenceSetAttribute(void* handle, int which, const void* value, size_t bytes) {
  return set(handle, which, value, bytes);
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* found) {
  *found = 1;
  return 0;
}

int cublasLtMatmul(void*, void* operation, const void*, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void*, const void*, void*, void* d,
                   void* d_layout, const void*, void*, size_t, void* stream) {
  const Product product{*static_cast<Descriptor*>(operation),
                        *static_cast<Descriptor*>(a_layout),
                        *static_cast<Descriptor*>(b_layout),
                        *static_cast<Descriptor*>(d_layout),
                        a,
                        b,
                        d};
  return weft::submit_to_stream(stream, [product] { return run(product); });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
