#pragma once

#include <memory>
#include <span>
#include <string>

#include "support/atomic_file.h"
#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// Tensors in numpy's .npy form, versions 1 to 3: all element types of weft, either byte order, C
/// or Fortran order. bfloat16, which numpy lacks, is its two-byte void type ("<V2"), as ml_dtypes
/// writes it.

/// A tensor that views `bytes` where order and alignment allow, else a copy. kInvalidInput when the
/// bytes are not a .npy file or are fewer or more than its header says; kUnsupported for strings,
/// objects, complex numbers.
Result<HostTensor> parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// Everything of a .npy file that stands before the data.
std::string npy_header(const HostTensor& tensor);

Result<HostTensor> load_npy(const std::string& path);

/// The file's content; visible when the caller commits it.
Status write_npy(AtomicFile& file, const HostTensor& tensor);

/// Replaces the file at once, or leaves what was there: kInvalidInput with the system's reason.
Status save_npy(const std::string& path, const HostTensor& tensor);

}  // namespace weft
