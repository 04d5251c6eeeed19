# SPDX-License-Identifier: Apache-2.0
# HcRoom: a folder of sources becomes one library, a main.cpp becomes one program.

# hc_target_name(OUT daemon/os) sets OUT to hc_daemon_os.
function(hc_target_name out folder)
  string(REPLACE "/" "_" name "hc_${folder}")
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# hc_target_names(OUT proto daemon/os) sets OUT to the list hc_proto hc_daemon_os.
function(hc_target_names out)
  set(names "")
  foreach(folder IN LISTS ARGN)
    hc_target_name(name ${folder})
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# hc_glob(OUT [RELATIVE folder] PATTERN...) lists files and asks the build to look again before
# each run.
macro(hc_glob out)
  file(GLOB ${out} CONFIGURE_DEPENDS ${ARGN})
endmacro()

# hc_room(FOLDER [ROOMS folder...] [LIBRARIES target...] [PRECOMPILE header...]): the static
# library hc_<folder> of all FOLDER/*.cpp but main.cpp. PRECOMPILE: headers most files include,
# besides the standard ones.
function(hc_room folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ROOMS;LIBRARIES;PRECOMPILE")
  hc_target_name(target ${folder})
  hc_target_names(rooms ${arg_ROOMS})
  hc_glob(sources ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  hc_glob(headers ${CMAKE_SOURCE_DIR}/${folder}/*.h)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(${target} STATIC ${sources})
  hc_precompile(${target} ${arg_PRECOMPILE})
  if(arg_PRECOMPILE)
    # Templates of those headers: two minutes to compile if sanitized and optimised.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Sanitize>:-O0>)
  endif()
  # A room wraps its outside libraries: who links the room compiles without their flags.
  target_link_libraries(${target} PUBLIC hc_flags ${rooms} PRIVATE ${arg_LIBRARIES})
  target_sources(${target} PUBLIC FILE_SET HEADERS
                 BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${headers})
endfunction()

# hc_program(NAME MAIN [ROOMS folder...] [LIBRARIES target...])
function(hc_program name main)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ROOMS;LIBRARIES")
  hc_target_names(rooms ${arg_ROOMS})
  add_executable(${name} ${main})
  # A main is the command line's parser, half a minute to compile if sanitized and optimised.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Sanitize>:-O0>)
  target_link_libraries(${name} PRIVATE hc_flags ${rooms} ${arg_LIBRARIES})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
