// SPDX-License-Identifier: Apache-2.0
// handshake_test: one attempt to attach, against replies that do not fit.
#include "client/handshake.h"

#include <string>

#include "shm/doorbell.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::FakeDaemon;
using test::FakeOptions;

// The outcome of an attempt against a fake with these options.
Result<Attached> attempt(FakeOptions options, std::uint64_t timeout_ms = 30000) {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  const FakeDaemon daemon(socket, std::move(options));
  const hicache_options open = test::sample_options(socket);
  const test::SampleSpace space;
  auto stop = make_doorbell();
  auto plan = check_open(&open, &space.space);
  REQUIRE(plan.has_value());
  AttachPlan attach_plan;
  attach_plan.open = std::move(*plan);
  attach_plan.attachment = 7;
  attach_plan.deadline = deadline_after_ms(timeout_ms);
  attach_plan.stop_fd = stop->get();
  return attach(attach_plan);
}

TEST_CASE("a handshake maps the files, the table and every arena") {
  const auto attached = attempt({});

  REQUIRE(attached.has_value());
  Session& session = *attached->session;
  CHECK(session.attachment() == 7);
  CHECK(session.state() == SessionState::serving);
  CHECK(session.arenas()->count() == 2);
  CHECK(session.reply().shard == 1);
  CHECK(session.ops().in_flight() == 0);
  CHECK(attached->refused_regions.empty());
}

TEST_CASE("a daemon of another protocol or layout is refused for good") {
  FakeOptions protocol;
  protocol.reply_protocol = kProtocolVersion + 1;
  FakeOptions layout;
  layout.reply_fingerprint ^= 1;

  for (const FakeOptions& options : {protocol, layout}) {
    const auto session = attempt(options);
    REQUIRE_FALSE(session.has_value());
    CHECK(session.error().code == Code::refused);
    CHECK(attach_is_final(session.error().code));
    CHECK(session.error().text.find("protocol") != std::string::npos);
  }
}

TEST_CASE("a reply for another shard is a protocol error") {
  FakeOptions options;
  options.shard_offset = 1;

  const auto session = attempt(options);

  REQUIRE_FALSE(session.has_value());
  CHECK(session.error().code == Code::protocol);
}

TEST_CASE("a daemon that announces more arenas than it sends times the attempt out") {
  FakeOptions options;
  options.arena_count_offset = 1;

  const auto session = attempt(options, 50);

  REQUIRE_FALSE(session.has_value());
  CHECK(session.error().code == Code::timed_out);
  CHECK_FALSE(attach_is_final(session.error().code));
}

TEST_CASE("a pool without arenas is attached to all the same") {
  FakeOptions options;
  options.arenas_at_all = false;

  const auto session = attempt(options);

  REQUIRE(session.has_value());
  CHECK(session->session->arenas()->count() == 0);
}

TEST_CASE("only answers that no repetition can change are final") {
  CHECK(attach_is_final(Code::refused));
  CHECK(attach_is_final(Code::superseded));
  CHECK(attach_is_final(Code::bad_argument));
  CHECK_FALSE(attach_is_final(Code::disconnected));
  CHECK_FALSE(attach_is_final(Code::busy));
  CHECK_FALSE(attach_is_final(Code::no_space));
  CHECK_FALSE(attach_is_final(Code::protocol));
}

}  // namespace
}  // namespace hc
