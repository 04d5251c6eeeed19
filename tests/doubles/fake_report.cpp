// SPDX-License-Identifier: Apache-2.0
// fake_report: names, and the file.
#include "fake_report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hc::fake {

namespace {

constexpr int kKinds = static_cast<int>(Count::kinds);
constexpr const char* kNames[] = {"device",        "device_bytes", "pinned",        "registered",
                                  "registrations", "mappings",     "mapped_bytes",  "peer_opens",
                                  "streams",       "events",       "opened_events", "retains",
                                  "handles",       "reservations", "maps",          "copies",
                                  "bytes",         "batches",      "outlived"};
static_assert(sizeof(kNames) / sizeof(*kNames) == static_cast<std::size_t>(kKinds));
constexpr std::size_t kBytes = sizeof(FakeRecord) * (static_cast<std::size_t>(kKinds) + 1);

void* map_records(int fd) {
  const int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) {
    std::perror("fake_report: mmap");
    std::abort();
  }
  return memory;
}

}  // namespace

FakeReport::FakeReport() : records_(static_cast<FakeRecord*>(map_records(-1))) {
  for (int kind = 0; kind < kKinds; ++kind) {
    std::strncpy(records_[kind].name, kNames[kind], sizeof(records_[kind].name) - 1);
  }
}

void FakeReport::publish() {
  const char* const folder = std::getenv("HC_FAKE_CUDA_REPORT");
  if (folder == nullptr || *folder == '\0') {
    return;
  }
  const std::string path = std::string(folder) + "/" + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(kBytes)) != 0) {
    std::perror(path.c_str());
    std::abort();
  }
  auto* const published = static_cast<FakeRecord*>(map_records(fd));
  ::close(fd);
  std::memcpy(published, records_, kBytes);
  ::munmap(records_, kBytes);
  records_ = published;
}

std::int64_t FakeReport::get(const std::string& name) const {
  for (int kind = 0; kind < kKinds; ++kind) {
    if (name == kNames[kind]) {
      return get(static_cast<Count>(kind));
    }
  }
  return -1;
}

}  // namespace hc::fake
