# SPDX-License-Identifier: Apache-2.0
# HcInstall: what `cmake --install` puts where, apart from the programs (hc_program installs those).
#
# Every destination is relative to the prefix, which may be given as late as at the installation.
# So nothing goes to /etc: the configuration is an example among the documents, and an installation
# never overwrites the one that an operator has edited.

# --- the client library ---------------------------------------------------------------------------
install(FILES client/hicache.h client/hicache_group.h client/hicache.hpp client/hicache_group.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS hicache EXPORT hicache LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT hicache FILE hicache-config.cmake NAMESPACE hicache::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hicache)

# hicache.pc finds the prefix from where it lies itself.
foreach(folder CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  if(IS_ABSOLUTE ${${folder}})
    message(FATAL_ERROR "${folder} must be relative to the prefix: hicache.pc is relocatable")
  endif()
endforeach()
file(RELATIVE_PATH hc_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" hc_pc_to_prefix ${hc_pc_to_prefix})
configure_file(cmake/hicache.pc.in hicache.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hicache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# --- systemd (systemd/README.md) ------------------------------------------------------------------
install(FILES systemd/hicached.service DESTINATION lib/systemd/system)
install(FILES systemd/hicached.sysusers.conf DESTINATION lib/sysusers.d RENAME hicached.conf)
install(FILES systemd/hicached.tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME hicached.conf)

# --- documents, in the folders of the tree, so that their links hold ------------------------------
hc_glob(hc_documents RELATIVE ${CMAKE_SOURCE_DIR}
        ${CMAKE_SOURCE_DIR}/docs/*.md ${CMAKE_SOURCE_DIR}/examples/*.c
        ${CMAKE_SOURCE_DIR}/examples/*.md ${CMAKE_SOURCE_DIR}/configs/*)
foreach(document README.md CHANGELOG.md LICENSE proto/README.md ${hc_documents})
  get_filename_component(folder ${document} DIRECTORY)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
