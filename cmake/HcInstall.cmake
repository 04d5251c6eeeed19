# SPDX-License-Identifier: Apache-2.0
# HcInstall: what `cmake --install` puts where, apart from the programs (hc_program installs those).

if(TARGET hicache)
  hc_glob(hc_public_headers ${CMAKE_SOURCE_DIR}/client/hicache.h
                            ${CMAKE_SOURCE_DIR}/client/hicache.hpp)
  install(FILES ${hc_public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS hicache EXPORT hicache LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT hicache FILE hicache-config.cmake NAMESPACE hicache::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hicache)
  configure_file(cmake/hicache.pc.in hicache.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/hicache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

hc_glob(hc_units ${CMAKE_SOURCE_DIR}/systemd/*.service ${CMAKE_SOURCE_DIR}/systemd/*.socket)
install(FILES ${hc_units} DESTINATION lib/systemd/system)

hc_glob(hc_configs ${CMAKE_SOURCE_DIR}/configs/*.toml)
install(FILES ${hc_configs} DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/hicached)

foreach(section 1 3 5 8)
  hc_glob(hc_pages ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
  install(FILES ${hc_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
