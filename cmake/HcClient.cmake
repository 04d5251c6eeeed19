# SPDX-License-Identifier: Apache-2.0
# HcClient: the client library, once static for our own programs and tests, once shared to install.
#
# hc_client          what our own targets link: hicache_static
# hicache_static     all of client/ but the command line tool; what ranks decide together
#                    (client/reload, client/agree) and device memory (client/gpu) come out of
#                    their own rooms
# hicache            libhicache.so; exports hicache_* and hc_*, hides everything else

hc_glob(hc_client_sources ${CMAKE_SOURCE_DIR}/client/*.cpp ${CMAKE_SOURCE_DIR}/client/group/*.cpp)
hc_glob(hc_client_headers ${CMAKE_SOURCE_DIR}/client/*.h ${CMAKE_SOURCE_DIR}/client/group/*.h)

add_library(hc_client_objects OBJECT ${hc_client_sources})
hc_precompile(hc_client_objects)
target_link_libraries(hc_client_objects PUBLIC hc_flags hc_client_agree hc_client_reload
                      hc_client_gpu hc_shm hc_proto Threads::Threads)
target_sources(hc_client_objects PUBLIC FILE_SET HEADERS
               BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${hc_client_headers})

add_library(hicache_static STATIC $<TARGET_OBJECTS:hc_client_objects>)
target_link_libraries(hicache_static PUBLIC hc_flags hc_client_agree hc_client_reload
                      hc_client_gpu hc_shm hc_proto Threads::Threads)
add_library(hc_client ALIAS hicache_static)

add_library(hicache SHARED $<TARGET_OBJECTS:hc_client_objects>)
target_link_libraries(hicache PRIVATE hc_flags hc_client_agree hc_client_reload hc_client_gpu hc_shm
                      hc_proto Threads::Threads)
target_link_options(hicache PRIVATE
  -Wl,--exclude-libs,ALL -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/hicache.map)
set_target_properties(hicache PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/hicache.map)
target_include_directories(hicache INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
