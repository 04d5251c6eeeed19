// SPDX-License-Identifier: Apache-2.0
// catch_main: the main function of every Catch2 test program, compiled once.
//
// Catch2 version 2 compiles its whole runner into the file that defines CATCH_CONFIG_RUNNER (about
// 20 seconds), so no test file may do that itself.
#if defined(__has_include) && __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <csignal>

int main(int argc, char** argv) {
  // A peer that went away is an error code in the product, so it must be one in its tests too.
  std::signal(SIGPIPE, SIG_IGN);
  return Catch::Session().run(argc, argv);
}
