# SPDX-License-Identifier: Apache-2.0
# HcPrecompile: what makes a whole build fast: the standard headers that nearly every file includes,
# compiled once for all rooms, and (HC_UNITY) the files of a room compiled a dozen at a time.
#
# A file still includes what it uses: the preset dev builds without either, and a fuzzer
# (HC_LIBFUZZER) compiles each room with flags of its own, for which these would not fit.

if(HC_LIBFUZZER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

set(hc_standard_headers
  <algorithm> <array> <cstdint> <cstring> <functional> <memory> <optional> <span> <string>
  <string_view> <utility> <vector>)

# A precompiled header belongs to a target with a source; this one has an empty source.
set(hc_precompile_source ${CMAKE_BINARY_DIR}/precompile.cpp)
file(CONFIGURE OUTPUT ${hc_precompile_source} CONTENT "" @ONLY)
add_library(hc_standard_pch OBJECT ${hc_precompile_source})
target_link_libraries(hc_standard_pch PRIVATE hc_flags)
target_precompile_headers(hc_standard_pch PRIVATE ${hc_standard_headers})

# hc_precompile(TARGET [HEADER...]): the shared copy, or one of its own with further headers.
function(hc_precompile target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HC_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${hc_standard_headers} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM hc_standard_pch)
  endif()
endfunction()
