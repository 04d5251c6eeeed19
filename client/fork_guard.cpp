// SPDX-License-Identifier: Apache-2.0
// fork_guard: one anonymous page.
#include "client/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hc {

ForkGuard::ForkGuard() : page_bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
  void* const page =
      ::mmap(nullptr, page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  if (::madvise(page, page_bytes_, MADV_WIPEONFORK) != 0) {
    ::munmap(page, page_bytes_);
    return;
  }
  page_ = static_cast<unsigned char*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) {
    ::munmap(const_cast<unsigned char*>(page_), page_bytes_);
  }
}

}  // namespace hc
