#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "support/result.h"

namespace weft::onnx {

/// How a builder, a reader or a translator gives up. Thrown only inside src/import and src/io, next
/// to protozero's own exceptions, and turned into an Error before anything leaves them: a
/// translator is forty helper calls that can each meet a hostile model, and stays readable this
/// way.
class Refusal : public std::exception {
 public:
  explicit Refusal(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

/// The model breaks the rules of its format, or of an operation (kInvalidInput).
[[noreturn]] void refuse_invalid(std::string message);
/// The model is right, but beyond what weft does (kUnsupported).
[[noreturn]] void refuse_unsupported(std::string message);

/// Refuses (kInvalidInput) unless `condition`.
inline void require(bool condition, std::string_view message) {
  if (!condition) refuse_invalid(std::string(message));
}

/// The value of a Result, or its error as a Refusal.
template <typename T>
T take(Result<T> result) {
  if (!result.ok()) throw Refusal(result.take_error());
  return std::move(result).value();
}

}  // namespace weft::onnx
