# SPDX-License-Identifier: Apache-2.0
# HcFlags: language, warnings, build types and tools that hold for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# Every room may end up inside libhicache.so, whose only exports are those of its C header.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# All programs of a build lie beside each other, so that tests find them (tests/support/paths.h).
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Sanitize" FORCE)
endif()

# NDEBUG silences only the asserts of other libraries; HC_CHECK does not know it.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")
set(CMAKE_CXX_FLAGS_SANITIZE
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")
set(CMAKE_EXE_LINKER_FLAGS_SANITIZE "-fsanitize=address,undefined")
set(CMAKE_SHARED_LINKER_FLAGS_SANITIZE "-fsanitize=address,undefined")

# The flags of our own code; other libraries' headers are system headers to both compilers.
add_library(hc_flags INTERFACE)
target_include_directories(hc_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(hc_flags INTERFACE HC_PRODUCT_VERSION="${PROJECT_VERSION}"
                           _GLIBCXX_ASSERTIONS)
# A target with the property HC_UNOPTIMIZED (test code) compiles faster and can't be fortified.
set(hc_unoptimized $<BOOL:$<TARGET_PROPERTY:HC_UNOPTIMIZED>>)
set(hc_optimisation
  "$<$<AND:$<CONFIG:Release>,$<NOT:${hc_unoptimized}>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
  "$<${hc_unoptimized}:-O0>")
set(hc_gnu_13 $<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>)
set(hc_cxx_warnings -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror)
target_compile_options(hc_flags INTERFACE
  ${hc_cxx_warnings}
  # They fire inside std::string of g++ 12 when it is inlined (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
  # It fires on a reference into a document that is looked up with a temporary key (g++ 13 and 14).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,${hc_gnu_13}>:-Wno-dangling-reference>
  -fstack-protector-strong
  ${hc_optimisation})
target_link_options(hc_flags INTERFACE -Wl,-z,relro -Wl,-z,now)

find_program(HC_CCACHE ccache)
if(HC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${HC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HC_CCACHE})
endif()

set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ${HC_VERIFY_HEADERS})
