#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "weft/weft.h"

namespace weft_python {

/// Text of a model's or a message's, where a hostile file may have put any bytes: those that are no
/// UTF-8 are escaped.
nanobind::str text_of(const std::string& bytes);

/// Throws the exception of weft/errors.py that stands for the error. The GIL is held.
[[noreturn]] void raise(const weft::Error& error);
[[noreturn]] void raise_invalid(const std::string& message);

inline void check(const weft::Status& status) {
  if (!status) raise(status.error());
}
template <typename T>
T check(weft::Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

}  // namespace weft_python
