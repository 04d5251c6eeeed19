// SPDX-License-Identifier: Apache-2.0
// transfer_test: what each kernel result means for a request.
#include "daemon/os/transfer.h"

#include <cerrno>

#include "disk_fixture.h"

namespace hc::test {

namespace {

struct Fixture {
  Blocks header{kBlockBytes};
  Blocks payload{4 * kBlockBytes};
  Transfer write{{DiskOp::write, FileId{}, 40960, {header.buffer(), payload.buffer()}, 5}, 3};
};

}  // namespace

TEST_CASE("a full transfer is done") {
  Fixture at;

  CHECK(at.write.advance(5 * kBlockBytes) == Transfer::Next::done);
  CHECK(at.write.completion().code == Code::ok);
  CHECK(at.write.completion().ticket == 5);
}

TEST_CASE("a short transfer goes on where it stopped, across both buffers") {
  Fixture at;

  REQUIRE(at.write.advance(1024) == Transfer::Next::again);
  CHECK(at.write.offset_bytes() == 40960 + 1024);
  REQUIRE(at.write.remaining().size() == 2);
  CHECK(at.write.remaining()[0].iov_base == at.header.data() + 1024);
  CHECK(at.write.remaining()[0].iov_len == 3072);

  REQUIRE(at.write.advance(3072 + 512) == Transfer::Next::again);
  REQUIRE(at.write.remaining().size() == 1);
  CHECK(at.write.remaining()[0].iov_base == at.payload.data() + 512);

  CHECK(at.write.advance(4 * kBlockBytes - 512) == Transfer::Next::done);
  CHECK(at.write.completion().code == Code::ok);
}

TEST_CASE("a transfer that stops inside a sector, or moves nothing, is an error") {
  Fixture at;
  const auto result = GENERATE(100, 0);

  CHECK(at.write.advance(result) == Transfer::Next::done);
  CHECK(at.write.completion().code == Code::io_error);
  CHECK(at.write.completion().sys_errno == EIO);
}

TEST_CASE("an interrupted transfer is retried, with a bound") {
  Fixture at;
  const auto error = GENERATE(EINTR, EAGAIN);

  for (std::uint32_t i = 0; i < kTransferStepsMax; ++i) {
    REQUIRE(at.write.advance(-error) == Transfer::Next::again);
  }
  CHECK(at.write.advance(-error) == Transfer::Next::done);
  CHECK(at.write.completion().code == Code::io_error);
  CHECK(at.write.completion().sys_errno == error);
}

TEST_CASE("continuations are bounded as well") {
  Fixture at;

  for (std::uint32_t i = 0; i < kTransferStepsMax; ++i) {
    REQUIRE(at.write.advance(512) == Transfer::Next::again);
  }
  CHECK(at.write.advance(512) == Transfer::Next::done);
  CHECK(at.write.completion().code == Code::io_error);
}

TEST_CASE("errno values become no_space or io_error") {
  Fixture at;
  const auto [error, code] = GENERATE(table<int, Code>({
      {ENOSPC, Code::no_space},
      {EDQUOT, Code::no_space},
      {EIO, Code::io_error},
      {EINVAL, Code::io_error},
      {EROFS, Code::io_error},
      {ENODEV, Code::io_error},
  }));

  CHECK(at.write.advance(-error) == Transfer::Next::done);
  CHECK(at.write.completion().code == code);
  CHECK(at.write.completion().sys_errno == error);
}

}  // namespace hc::test
