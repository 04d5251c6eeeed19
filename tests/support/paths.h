// SPDX-License-Identifier: Apache-2.0
// paths: where a test finds the tree (golden files, corpora) and the programs it was built beside.
#pragma once

#include <filesystem>
#include <string_view>

namespace hc::test {

// The root of the source tree, as the build system gave it.
[[nodiscard]] inline std::filesystem::path source_dir() {
  return HC_TEST_SOURCE_DIR;
}

// A program of this build, for example program("hicached"). All programs of a build lie in one
// folder, so the path follows the running test and needs no environment.
[[nodiscard]] inline std::filesystem::path program(std::string_view name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

// A stand-in library of this build (tests/doubles), for example double_library("libcuda.so.1").
[[nodiscard]] inline std::filesystem::path double_library(std::string_view name) {
  return program("..").lexically_normal().parent_path() / "doubles" / name;
}

}  // namespace hc::test
