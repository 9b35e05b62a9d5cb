#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "support/check.h"

namespace weft {

/// What went wrong, in the classes that a caller can act on. The values are the command's exit
/// codes.
enum class ErrorCode : int {
  kComparison = 1,     ///< ran, but a comparison failed
  kInvalidInput = 2,   ///< a file, an option or a model is wrong
  kUnsupported = 3,    ///< the model uses something that weft does not support
  kMissingDevice = 4,  ///< a device or a library is missing
  kInternal = 70,      ///< a defect of weft itself
  kInterrupted = 130,  ///< cancelled; nothing partial is left
};

/// One message: what is wrong, where, and what to do about it.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

inline Error invalid_input(std::string message) {
  return {ErrorCode::kInvalidInput, std::move(message)};
}
inline Error unsupported(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message)};
}

/// A value or an Error. `Result<void>` (alias Status) carries only the error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    WEFT_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    WEFT_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    WEFT_CHECK(ok(), error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }
  Error take_error() { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }
  Error take_error() { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

/// A yes, or a no with its reason: legality and profit return one.
class [[nodiscard]] Decision {
 public:
  static Decision allow() { return Decision(true, {}); }
  static Decision allow(std::string reason) { return Decision(true, std::move(reason)); }
  static Decision forbid(std::string reason) { return Decision(false, std::move(reason)); }

  explicit operator bool() const { return allowed_; }
  const std::string& reason() const { return reason_; }

 private:
  Decision(bool allowed, std::string reason) : allowed_(allowed), reason_(std::move(reason)) {}
  bool allowed_;
  std::string reason_;
};

}  // namespace weft

#define WEFT_CONCAT_INNER_(a, b) a##b
#define WEFT_CONCAT_(a, b) WEFT_CONCAT_INNER_(a, b)

/// Returns the error of a Status or Result expression to the caller.
#define WEFT_RETURN_IF_ERROR(expr)                        \
  do {                                                    \
    if (auto weft_status_ = (expr); !weft_status_.ok()) { \
      return weft_status_.take_error();                   \
    }                                                     \
  } while (false)

/// Declares `decl` with the value of a Result expression, or returns its error to the caller.
#define WEFT_ASSIGN_OR_RETURN(decl, expr) \
  WEFT_ASSIGN_OR_RETURN_IMPL_(WEFT_CONCAT_(weft_result_, __LINE__), decl, expr)
#define WEFT_ASSIGN_OR_RETURN_IMPL_(result, decl, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.take_error();         \
  decl = std::move(result).value()
