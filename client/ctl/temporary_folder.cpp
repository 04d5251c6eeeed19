// SPDX-License-Identifier: Apache-2.0
// temporary_folder: mkdtemp.
#include "client/ctl/temporary_folder.h"

#include <cerrno>
#include <cstdlib>

namespace hc {

Result<TemporaryFolder> TemporaryFolder::make(const std::string& parent) {
  std::string base = parent;
  if (base.empty()) {
    const char* const given = std::getenv("TMPDIR");
    base = given != nullptr && *given != '\0' ? given : "/tmp";
  }
  std::string pattern = base + "/cachectl-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return make_error(Code::bad_argument, base + ": no temporary folder can be made there", errno);
  }
  return TemporaryFolder(std::move(pattern));
}

}  // namespace hc
