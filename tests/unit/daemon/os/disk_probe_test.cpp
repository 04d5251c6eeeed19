// SPDX-License-Identifier: Apache-2.0
// disk_probe_test: which back end is chosen, and what happens where io_uring is forbidden.
#include "daemon/os/disk_probe.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>

#include "support/catch.h"
#include "support/child.h"
#include "support/io_uring.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

// What a container's default profile does: io_uring_setup is not permitted.
void forbid_io_uring() {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{code.size(), code.data()};
  HC_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  HC_CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// As a service without LimitMEMLOCK: few bytes, and no right to pass the limit.
void lock_little_memory() {
  const rlimit limit{1 << 20, 1 << 20};
  HC_CHECK(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  HC_CHECK(::syscall(SYS_capset, &head, none.data()) == 0);
}

bool starts_with(const std::string& text, const std::string& head) {
  return text.compare(0, head.size(), head) == 0;
}

}  // namespace

TEST_CASE("threads asked for by name are what runs") {
  const TempDir dir;

  const auto disk = make_disk({{dir.str()}, DiskBackend::threads, 0, 3});

  REQUIRE(disk);
  CHECK(starts_with((*disk)->description(), "threads (3)"));
  CHECK((*disk)->event_fd() >= 0);
}

TEST_CASE("io_uring asked for by name is what runs, or an error where the kernel denies it") {
  const TempDir dir;

  const auto disk = make_disk({{dir.str()}, DiskBackend::uring, 0, 3});

  if (has_io_uring()) {
    REQUIRE(disk);
    CHECK(starts_with((*disk)->description(), "io_uring ("));
    CHECK((*disk)->event_fd() >= 0);
  } else {
    WARN("the kernel denies io_uring: errno " << io_uring_refusal(8));
    REQUIRE_FALSE(disk);
    CHECK(disk.error().code == Code::unsupported);
    CHECK(disk.error().sys_errno == io_uring_refusal(8));
  }
}

TEST_CASE("automatic is io_uring where the kernel gives it, else threads") {
  const TempDir dir;

  const auto disk = make_disk({{dir.str()}, DiskBackend::automatic, 0, 2});

  REQUIRE(disk);
  CHECK(starts_with((*disk)->description(), has_io_uring() ? "io_uring " : "threads (2)"));
}

TEST_CASE("the probe leaves no file behind") {
  const TempDir dir;

  const auto disk = make_disk({{dir.str()}, DiskBackend::automatic, 0, 2});

  REQUIRE(disk);
  CHECK((*disk)->list(0)->empty());
}

TEST_CASE("where io_uring is forbidden, automatic steps down to threads") {
  const TempDir dir;
  const auto result = Child([&] {
    forbid_io_uring();
    const auto disk = make_disk({{dir.str()}, DiskBackend::automatic, 0, 2});
    return disk && starts_with((*disk)->description(), "threads") ? 0 : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("where io_uring is forbidden, asking for it is an error that says why") {
  const TempDir dir;
  const auto result = Child([&] {
    forbid_io_uring();
    const auto disk = make_disk({{dir.str()}, DiskBackend::uring, 0, 2});
    return !disk && disk.error().code == Code::unsupported &&
                   disk.error().message() ==
                       "io_uring_setup (defer_taskrun): Operation not permitted"
               ? 0
               : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("registered io_uring asked for by name is what runs, where the kernel gives it") {
  if (!has_io_uring()) {
    WARN("not tested, the kernel denies io_uring");
    return;
  }
  const TempDir dir;

  const auto disk = make_disk({{dir.str()}, DiskBackend::uring_fixed, 0, 2, 1 << 20});

  REQUIRE(disk);
  CHECK(starts_with((*disk)->description(), "io_uring registered ("));
}

TEST_CASE("where too little memory may be locked, automatic goes on without registered buffers") {
  if (!has_io_uring()) {
    WARN("not tested, the kernel denies io_uring");
    return;
  }
  const TempDir dir;
  const auto result = Child([&] {
    lock_little_memory();
    const auto insisting = make_disk({{dir.str()}, DiskBackend::uring_fixed, 0, 2, 64 << 20});
    const auto disk = make_disk({{dir.str()}, DiskBackend::automatic, 0, 2, 64 << 20});
    const bool named = !insisting && insisting.error().message().find("RLIMIT_MEMLOCK") !=
                                         std::string::npos;
    return named && disk && starts_with((*disk)->description(), "io_uring (") ? 0 : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("a folder that can't be opened is an error of every back end") {
  const TempDir dir;
  const auto backend =
      GENERATE(DiskBackend::automatic, DiskBackend::uring_fixed, DiskBackend::uring,
               DiskBackend::threads);

  const auto disk = make_disk({{dir.file("a/b")}, backend, 0, 2});

  REQUIRE_FALSE(disk);
  CHECK(disk.error().code == Code::not_found);
}

}  // namespace hc::test
