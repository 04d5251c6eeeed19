// SPDX-License-Identifier: Apache-2.0
// result: errors as values. A dropped Result does not compile.
//
// Error carries one clear line for a person: the field, its value and the allowed range where
// there is one. Hot paths pass a bare Code instead.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "proto/check.h"
#include "proto/status.h"

namespace hc {

struct [[nodiscard]] Error {
  Code code = Code::io_error;
  int sys_errno = 0;
  std::string text;

  std::string message() const {
    std::string line = text.empty() ? std::string(code_name(code)) : text;
    if (sys_errno != 0) {
      line += ": ";
      line += std::strerror(sys_errno);
    }
    return line;
  }
};

inline Error make_error(Code code, std::string text, int sys_errno = 0) {
  return Error{code, sys_errno, std::move(text)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that `return value;` and `return error;` both read as what they are.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const { return state_.index() == 0; }
  bool has_value() const { return state_.index() == 0; }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  T& value() {
    HC_CHECK(state_.index() == 0);
    return std::get<0>(state_);
  }
  const T& value() const {
    HC_CHECK(state_.index() == 0);
    return std::get<0>(state_);
  }
  const Error& error() const {
    HC_CHECK(state_.index() == 1);
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT

  explicit operator bool() const { return !failed_; }
  bool has_value() const { return !failed_; }
  const Error& error() const {
    HC_CHECK(failed_);
    return error_;
  }

 private:
  Error error_{};
  bool failed_ = false;
};

}  // namespace hc

// Returns the error of a Result to the caller, otherwise goes on. For Result<T>, read the value
// from the named variable afterwards.
#define HC_TRY(result)                \
  do {                                \
    if (!(result)) {                  \
      return (result).error();        \
    }                                 \
  } while (false)

#define HC_TRY_VOID(expression)                       \
  do {                                                \
    if (auto hc_try_ = (expression); !hc_try_) {      \
      return hc_try_.error();                         \
    }                                                 \
  } while (false)
