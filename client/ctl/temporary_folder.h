// SPDX-License-Identifier: Apache-2.0
// temporary_folder: a folder of our own that is gone when its owner goes.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "proto/result.h"

namespace hc {

class TemporaryFolder {
 public:
  // Below `parent`; empty means $TMPDIR, or /tmp.
  static Result<TemporaryFolder> make(const std::string& parent);
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, std::string())), kept_(other.kept_) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    if (!path_.empty() && !kept_) {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    }
  }

  const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  bool kept_ = false;
};

}  // namespace hc
