// SPDX-License-Identifier: Apache-2.0
// host_copier_test: copies byte by byte, and client memory that vanishes under a copy.
#include "daemon/gpu/host_copier.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "daemon/os/epoll.h"
#include "proto/checksum.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/dies.h"

namespace hc::test {

namespace {

std::unique_ptr<HostCopier> make_copier(std::uint32_t threads = 2) {
  auto copier = HostCopier::create(threads);
  REQUIRE(copier);
  return std::move(*copier);
}

CopyCompletion run(HostCopier& copier, const CopyJob& job) {
  REQUIRE(copier.submit(job) == Code::ok);
  copier.wait();
  std::vector<CopyCompletion> done;
  copier.poll(done);
  REQUIRE(done.size() == 1);
  CHECK(done[0].ticket == job.ticket);
  return done[0];
}

// Client memory with three runs of odd sizes that are scattered and out of order.
struct Client {
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(300'000);
  std::vector<CopyRun> runs;
  std::vector<std::uint8_t> payload;  // the bytes of the runs, in order

  Client() {
    std::mt19937 random(11);
    for (std::uint8_t& byte : memory) {
      byte = static_cast<std::uint8_t>(random());
    }
    for (const auto& [offset, size] : {std::pair{200'001U, 70'003U}, {3U, 1U}, {777U, 65'536U}}) {
      runs.push_back(host_run(memory.data() + offset, size));
      payload.insert(payload.end(), memory.data() + offset, memory.data() + offset + size);
    }
  }
};

// A mapped memory file that can be cut short under the mapping.
class CutFile {
 public:
  explicit CutFile(std::size_t size_bytes)
      : fd_(::memfd_create("client", MFD_CLOEXEC)), size_bytes_(size_bytes) {
    REQUIRE(::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) == 0);
    data_ = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    REQUIRE(data_ != MAP_FAILED);
  }
  CutFile(const CutFile&) = delete;
  CutFile& operator=(const CutFile&) = delete;
  ~CutFile() { ::munmap(data_, size_bytes_); }
  void cut(std::size_t size_bytes) {
    REQUIRE(::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) == 0);
  }
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  UniqueFd fd_;
  std::size_t size_bytes_;
  void* data_;
};

}  // namespace

TEST_CASE("gather puts scattered runs together, sums them and zeroes the padding") {
  const auto copier = make_copier();
  const Client client;
  const std::size_t padded = (client.payload.size() + 4095) / 4096 * 4096;
  std::vector<std::uint8_t> frame(padded + 16, 0xEE);

  const auto done = run(*copier, {CopyKind::gather, frame.data(), client.payload.size(), padded,
                                  client.runs, 5});

  CHECK(done.code == Code::ok);
  CHECK(done.payload_crc == crc32c(client.payload));
  CHECK(std::equal(client.payload.begin(), client.payload.end(), frame.begin()));
  const auto padding = std::span(frame).first(padded).subspan(client.payload.size());
  CHECK(std::all_of(padding.begin(), padding.end(), [](auto byte) { return byte == 0; }));
  CHECK(std::all_of(frame.end() - 16, frame.end(), [](auto byte) { return byte == 0xEE; }));
}

TEST_CASE("scatter puts each run in its place and touches nothing else") {
  const auto copier = make_copier();
  Client client;
  std::vector<std::uint8_t> frame(client.payload.size());
  std::iota(frame.begin(), frame.end(), std::uint8_t{1});
  std::vector<std::uint8_t> wanted = client.memory;
  std::size_t at = 0;
  for (const CopyRun& one : client.runs) {
    std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), one.size_bytes,
                wanted.begin() + (host_address(one) - client.memory.data()));
    at += one.size_bytes;
  }

  const auto done =
      run(*copier, {CopyKind::scatter, frame.data(), frame.size(), 0, client.runs, 6});

  CHECK(done.code == Code::ok);
  CHECK(client.memory == wanted);
}

TEST_CASE("sum is the checksum of the frame") {
  const auto copier = make_copier();
  Client client;

  const auto done =
      run(*copier, {CopyKind::sum, client.payload.data(), client.payload.size(), 0, {}, 7});

  CHECK(done.code == Code::ok);
  CHECK(done.payload_crc == crc32c(client.payload));
}

TEST_CASE("client memory that was cut short ends the job, and the copier lives on") {
  const auto copier = make_copier();
  const auto kind = GENERATE(CopyKind::gather, CopyKind::scatter);
  CutFile file(256 << 10);
  std::vector<std::uint8_t> frame(128 << 10, 0x42);
  // The first run is there; the second begins before the cut and ends behind it.
  const std::vector<CopyRun> runs{host_run(file.data(), 64 << 10),
                                  host_run(file.data() + (96 << 10), 64 << 10)};
  file.cut(128 << 10);

  const auto fault = run(*copier, {kind, frame.data(), frame.size(), 0, runs, 8});
  CHECK(fault.code == Code::memory_fault);

  // Both threads may have been hit; each must be able to go on.
  for (std::uint64_t ticket = 0; ticket < 8; ++ticket) {
    const std::vector<CopyRun> good{host_run(file.data(), 128 << 10)};
    CHECK(run(*copier, {kind, frame.data(), frame.size(), 0, good, ticket}).code == Code::ok);
    CHECK(run(*copier, {kind, frame.data(), frame.size(), 0, runs, ticket}).code ==
          Code::memory_fault);
  }
}

TEST_CASE("a fault outside of client memory still ends the process") {
  CutFile frame(64 << 10);
  CutFile client(64 << 10);
  frame.cut(0);
  const std::vector<CopyRun> runs{host_run(client.data(), 64 << 10)};

  const int result = Child([&] {
    std::signal(SIGBUS, SIG_DFL);
    auto copier = HostCopier::create(1);
    const CopyJob job{CopyKind::gather, frame.data(), 64 << 10, 0, runs, 1};
    static_cast<void>((*copier)->submit(job));
    (*copier)->wait();
    return 0;
  }).wait();

  CHECK(result == -SIGBUS);
}

TEST_CASE("as many jobs as allowed are in flight, one more is busy, and all complete") {
  const auto copier = make_copier(3);
  Client client;
  std::vector<std::uint8_t> frame(4096);
  auto epoll = Epoll::create();
  REQUIRE(epoll);
  REQUIRE(epoll->add(copier->event_fd(), Trigger::edge, 1));
  for (std::uint64_t ticket = 0; ticket < kCopyJobsMax; ++ticket) {
    REQUIRE(copier->submit({CopyKind::sum, frame.data(), frame.size(), 0, {}, ticket}) == Code::ok);
  }

  CHECK(copier->submit({CopyKind::sum, frame.data(), frame.size(), 0, {}, 0}) == Code::busy);

  std::vector<CopyCompletion> done;
  while (copier->in_flight() > 0) {
    REQUIRE_FALSE(epoll->wait(-1).empty());
    copier->poll(done);
  }
  std::map<std::uint64_t, int> tickets;
  for (const CopyCompletion& one : done) {
    ++tickets[one.ticket];
  }
  CHECK(done.size() == kCopyJobsMax);
  CHECK(tickets.size() == kCopyJobsMax);
  // A worker may still be about to raise the event of a completion that was already taken.
  done.clear();
  copier->poll(done);
  CHECK(done.empty());
}

TEST_CASE("waiting with nothing in flight returns at once") {
  const auto copier = make_copier();

  copier->wait();

  CHECK(copier->in_flight() == 0);
}

TEST_CASE("runs that don't add up to the payload are our bug") {
  const auto copier = make_copier();
  Client client;
  std::vector<std::uint8_t> frame(client.payload.size());

  CHECK(dies_by_check([&] {
    static_cast<void>(copier->submit(
        {CopyKind::gather, frame.data(), frame.size() - 1, 0, client.runs, 1}));
  }));
}

}  // namespace hc::test
