// SPDX-License-Identifier: Apache-2.0
// catch: the one way into Catch2, the same for version 2 (Debian 12) and version 3 (Debian 13).
//
// A test file includes this header and never catch2/ itself, because the two versions share their
// macros and not their headers. After it, both versions offer the macros (TEST_CASE, SECTION,
// REQUIRE, CHECK, INFO, CAPTURE, GENERATE, ...), the matchers in Catch::Matchers, and a global name
// `Approx`.
#pragma once

#if defined(__has_include) && __has_include(<catch2/catch_test_macros.hpp>)

#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>

using Catch::Approx;

#else

#include <catch2/catch.hpp>

#endif
