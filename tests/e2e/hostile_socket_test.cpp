// SPDX-License-Identifier: Apache-2.0
// hostile_socket_test: what a client can send over the sockets ends its connection at worst.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "e2e/raw_client.h"
#include "e2e/scene.h"
#include "shm/control_message.h"
#include "support/catch.h"
#include "support/lingering.h"

namespace hc::test {
namespace {

struct BadAttach {
  std::string name;
  std::function<void(RawClient&, AttachTry&)> spoil;
  Code code;
  std::string text;
};

UniqueFd pipe_end() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

const std::vector<BadAttach>& bad_attaches() {
  using A = AttachTry;
  static const std::vector<BadAttach> table{
      {"another protocol", [](RawClient&, A& a) { a.request.protocol = 99; }, Code::refused,
       "protocol 99"},
      {"another layout", [](RawClient&, A& a) { a.request.fingerprint ^= 1; }, Code::refused,
       "layout"},
      {"no group", [](RawClient&, A& a) { a.request.group.fill('\0'); }, Code::bad_argument,
       "group"},
      {"a group without an end", [](RawClient&, A& a) { a.request.group.fill('x'); },
       Code::bad_argument, "group"},
      {"a group that is no UTF-8",
       [](RawClient&, A& a) { a.request.group[0] = static_cast<char>(0xFF); }, Code::bad_argument,
       "group is not UTF-8"},
      {"no world",
       [](RawClient&, A& a) { a.request.world = 0; }, Code::bad_argument, "world = 0"},
      {"a quota of less than a page", [](RawClient&, A& a) { a.request.quota_bytes = 77; },
       Code::bad_argument, "quota_bytes = 77"},
      {"a rank outside the world", [](RawClient&, A& a) { a.request.rank = 1; },
       Code::bad_argument, "rank = 1"},
      {"unknown flags",
       [](RawClient&, A& a) { a.request.flags = 4; }, Code::bad_argument, "flags = 4"},
      {"a shard outside the world",
       [](RawClient&, A& a) { a.request.tensor = 7; }, Code::bad_argument, "tensor"},
      {"a cut-off message", [](RawClient&, A& a) { a.message_bytes_max = 40; },
       Code::bad_argument, "message"},
      {"a cut-off descriptor",
       [](RawClient&, A& a) { a.message_bytes_max = sizeof(AttachRequest) + 20; },
       Code::bad_argument, "descriptor_bytes"},
      {"a descriptor that ends early",
       [](RawClient&, A& a) {
         a.descriptor.resize(20);
         a.request.descriptor_bytes = 20;
       },
       Code::bad_argument, ""},
      {"a descriptor of noise", [](RawClient&, A& a) { std::ranges::fill(a.descriptor, 0xEE); },
       Code::bad_argument, ""},
      {"leases without their list", [](RawClient&, A& a) { a.request.lease_count = 1; },
       Code::bad_argument, "descriptors"},
      {"one descriptor of two", [](RawClient&, A& a) { a.send_pidfd = false; },
       Code::bad_argument, "descriptors"},
      {"a pipe in the place of the memory file",
       [](RawClient&, A& a) { a.client_file = pipe_end(); }, Code::refused, ""},
      {"a memory file without seals",
       [](RawClient&, A& a) { a.client_file = plain_memory_file(kClientFileBytes); },
       Code::refused, "seal"},
      {"a memory file that is too small",
       [](RawClient&, A& a) {
         auto file = MemoryFile::create("hicache-small", kBlockBytes);
         a.client_file = UniqueFd(::dup(file->fd()));
       },
       Code::refused, ""},
      {"a memory file of something else", [](RawClient& c, A&) { c.header().magic = 1; },
       Code::refused, "client file"},
      {"shards that the store is not split for",
       [](RawClient&, A& a) { a.request.shards_on_node = 9; }, Code::bad_argument,
       "shards_on_node = 9"},
  };
  return table;
}

TEST_CASE("An attach that is wrong in any way is refused in one line") {
  Scene scene;
  scene.expect_unaffected();
  const std::size_t descriptors = scene.daemon().open_descriptors();
  for (const BadAttach& bad : bad_attaches()) {
    INFO(bad.name);
    RawClient client(scene.hostile());
    AttachTry attempt = client.make_attach();
    bad.spoil(client, attempt);

    const Result<void> answer = client.attach(std::move(attempt));

    REQUIRE_FALSE(answer);
    INFO(answer.error().text);
    CHECK(answer.error().code == bad.code);
    CHECK(missing(answer.error().text, {bad.text}) == "");
    CHECK(answer.error().text.find('\n') == std::string::npos);
    CHECK(client.await_end() == "attach refused");
  }
  scene.expect_unaffected();
  CHECK(eventually([&] { return scene.daemon().open_descriptors() == descriptors; }));
}

// The group and rank of the honest client, a newer incarnation, and a client file of nothing.
TEST_CASE("An attach that is refused leaves the session that it would have superseded alone") {
  Scene scene;
  RankOptions options = scene.hostile();
  options.group = "honest";
  RawClient client(options);
  AttachTry attempt = client.make_attach();
  attempt.request.incarnation = UINT64_MAX;
  attempt.client_file = plain_memory_file(kClientFileBytes);

  CHECK_FALSE(client.attach(std::move(attempt)));

  scene.expect_unaffected();
}

TEST_CASE("A goodbye is heard, whatever its client has left unread") {
  const bool is_answered = GENERATE(true, false);  // else the answer meets a socket that is closed
  INFO("answered " << is_answered);
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());
  if (is_answered) {
    REQUIRE(client.send(MessageType::stats, {}, {}));
    REQUIRE(readable_within(client.control(), kPatienceMs));
  }
  REQUIRE(::kill(scene.daemon().pid(), SIGSTOP) == 0);
  if (!is_answered) {
    REQUIRE(client.send(MessageType::stats, {}, {}));
  }
  REQUIRE(client.send(MessageType::detach, {}, {}));
  client.hang_up();
  REQUIRE(::kill(scene.daemon().pid(), SIGCONT) == 0);

  const char* goodbye = "group=hostile rank=0 code=cancelled reason=detached";
  CHECK(eventually([&] { return missing(scene.daemon().log(), {goodbye}).empty(); }));
  scene.expect_unaffected();
}

template <WireStruct T>
std::vector<std::uint8_t> bytes_of(const T& record, std::size_t more = 0) {
  const auto bytes = struct_bytes(record);
  std::vector<std::uint8_t> out(bytes.begin(), bytes.end());
  out.resize(out.size() + more, 7);
  return out;
}

TEST_CASE("Descriptors that take an hour to close hold nobody up") {
  Scene scene;
  std::vector<UniqueFd> peers;  // they never read
  RawClient attached(scene.hostile());
  REQUIRE(attached.attach());
  RawClient connected(scene.hostile());
  // Stopped, so that the last descriptors of these sockets are surely the daemon's.
  REQUIRE(::kill(scene.daemon().pid(), SIGSTOP) == 0);
  for (RawClient* client : {&attached, &connected}) {
    for (const MessageType type : {MessageType::register_region, MessageType::attach,
                                   MessageType::stats}) {
      const UniqueFd first = lingering_socket(peers);
      const UniqueFd second = lingering_socket(peers);
      REQUIRE(client->send(type, std::vector<std::uint8_t>(200), {first.get(), second.get()}));
    }
  }
  // Well made but for one field, so that what is judged late is judged too.
  for (const BoardReply& board : {BoardReply{0, 1, 8}, BoardReply{1, 9, 8}, BoardReply{1, 1, 8},
                                  BoardReply{1, 1, 9999}}) {
    const UniqueFd fd = lingering_socket(peers);
    REQUIRE(attached.send(MessageType::board_watch, bytes_of(board), {fd.get()}));
  }
  RawClient comes(scene.hostile());
  AttachTry attempt = comes.make_attach();
  attempt.client_file = lingering_socket(peers);
  REQUIRE(comes.send_attach(std::move(attempt)));
  REQUIRE(::kill(scene.daemon().pid(), SIGCONT) == 0);

  scene.expect_unaffected();
}

// Fills what may wait for its end with descriptors that wait behind one that does not close.
Result<ControlMessage> send_stuck(Scene& scene, RawClient& client, std::vector<UniqueFd>& peers,
                                  int messages) {
  // Stopped, so that the last descriptor of this socket is surely the daemon's.
  REQUIRE(::kill(scene.daemon().pid(), SIGSTOP) == 0);
  REQUIRE(client.send(MessageType::stats, {}, {lingering_socket(peers).get()}));
  REQUIRE(::kill(scene.daemon().pid(), SIGCONT) == 0);
  auto answer = client.call(MessageType::stats, {}, {});
  const UniqueFd pipe = pipe_end();
  for (int i = 0; i < messages && answer; ++i) {
    answer = client.call(MessageType::stats, {}, std::vector<int>(kMessageFdsMax, pipe.get()));
  }
  return answer;
}

TEST_CASE("Descriptors that do not close are bounded, and nobody loses by them what he has") {
  constexpr std::size_t kClosingMax = 1024;
  Scene scene;
  RawClient other(scene.hostile());
  REQUIRE(other.attach());
  auto flood = scene.hostile();
  flood.group = "flood";
  RawClient client(flood);
  REQUIRE(client.attach());
  const std::size_t before = scene.daemon().open_descriptors();
  std::vector<UniqueFd> peers;

  const auto answer = send_stuck(scene, client, peers, 100);

  CHECK_FALSE(answer);
  CHECK(client.end_code() == Code::busy);
  CHECK(scene.daemon().open_descriptors() <= before + kClosingMax + kMessageFdsMax);
  CHECK(missing(scene.daemon().log(), {"session.descriptors_stuck", "sent before do not close"}) ==
        "");
  CHECK(other.call(MessageType::stats, {}));  // without descriptors all goes on
  scene.expect_unaffected();
  Rank late({scene.daemon().client_socket(), "late", 0});
  peers.clear();
  CHECK(late.open() == HICACHE_OK);
  CHECK(late.close() == HICACHE_OK);
  client.hang_up();
  CHECK(eventually([&] { return scene.daemon().open_descriptors() < before; }));
  CHECK(missing(scene.daemon().log(), {"session.descriptors_closed"}) == "");
  scene.expect_unaffected();
}

TEST_CASE("A daemon whose clients' descriptors do not close stops all the same") {
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());
  std::vector<UniqueFd> peers;
  REQUIRE(send_stuck(scene, client, peers, 3));
  UniqueFd unheard = lingering_socket(peers);
  REQUIRE(::kill(scene.daemon().pid(), SIGSTOP) == 0);
  std::vector<std::unique_ptr<RawClient>> queue;  // more than one turn accepts
  for (int i = 0; i < 40; ++i) {
    queue.push_back(std::make_unique<RawClient>(scene.hostile()));
  }
  REQUIRE(queue.back()->send(MessageType::stats, {}, {unheard.get()}));
  unheard.reset();
  ::kill(scene.daemon().pid(), SIGTERM);
  REQUIRE(::kill(scene.daemon().pid(), SIGCONT) == 0);

  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("Messages without sense end the session, and not the daemon") {
  Scene scene;
  const std::vector<std::vector<std::uint8_t>> messages{
      {1}, std::vector<std::uint8_t>(23, 0), std::vector<std::uint8_t>(24, 0xFF),
      std::vector<std::uint8_t>(5000, 0x41)};
  for (const auto& message : messages) {
    RawClient client(scene.hostile());
    REQUIRE(client.attach());

    REQUIRE(client.send_bytes(message));

    CHECK(missing(client.await_end(), {"wrong header"}) == "");
  }
  RawClient client(scene.hostile());
  auto early = client.call(MessageType::stats, {});
  CHECK_FALSE(early);
  CHECK(early.error().code == Code::refused);
  REQUIRE(client.attach());
  for (const auto type : {MessageType::attach, MessageType::arenas, MessageType::admin,
                          MessageType::board_reply, static_cast<MessageType>(99)}) {
    auto answer = client.call(type, {});
    CHECK_FALSE(answer);
    CHECK(answer.error().code == Code::unsupported);
  }
  scene.expect_unaffected();
}

TEST_CASE("Messages of a group that make no sense are refused, and the session goes on") {
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());
  const auto refused = [&](MessageType type, const std::vector<std::uint8_t>& body) {
    const auto answer = client.call(type, body);
    return !answer && answer.error().code == Code::bad_argument;
  };
  CHECK(refused(MessageType::board_join, {}));
  CHECK(refused(MessageType::board_join, bytes_of(BoardRequest{0, 0})));
  CHECK(refused(MessageType::board_join, bytes_of(BoardRequest{257, 0})));
  CHECK(refused(MessageType::board_join, bytes_of(BoardRequest{8, 0}, 1)));
  CHECK(refused(MessageType::board_watch, {}));
  CHECK(refused(MessageType::board_watch, bytes_of(BoardReply{1, 1, 8})));  // without a board
  CHECK(refused(MessageType::blackboard_post, {}));
  CHECK(refused(MessageType::blackboard_post, bytes_of(BlackboardRequest{1, 0})));
  CHECK(refused(MessageType::blackboard_post, bytes_of(BlackboardRequest{1, 9}, 8)));
  CHECK(refused(MessageType::blackboard_post,
                bytes_of(BlackboardRequest{1, kBlackboardBytesMax + 1}, kBlackboardBytesMax + 1)));
  CHECK(refused(MessageType::blackboard_get, {}));
  CHECK(refused(MessageType::blackboard_get, bytes_of(BlackboardRequest{1, 0}, 4)));

  CHECK(client.call(MessageType::board_join, bytes_of(BoardRequest{8, 0})));
  scene.expect_unaffected();
}

TEST_CASE("A thousand connections that never attach keep nobody out for long") {
  Scene scene;
  const std::size_t descriptors = scene.daemon().open_descriptors();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = scene.daemon().client_socket();
  std::memcpy(address.sun_path, path.data(), path.size());
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 1000; ++i) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    REQUIRE(static_cast<bool>(fd));
    // A full backlog is one more thing that must not harm anybody.
    static_cast<void>(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                                sizeof address));
    idle.push_back(std::move(fd));
  }

  scene.expect_unaffected();
  Rank late({scene.daemon().client_socket(), "late"});
  CHECK(late.open() == HICACHE_OK);
  CHECK(late.store({1, 2, 0}).code == HICACHE_OK);
  CHECK(late.close() == HICACHE_OK);

  // Nobody has hung up, and still they are gone.
  CHECK(eventually([&] { return scene.daemon().open_descriptors() <= descriptors; }));
  scene.expect_unaffected();
}

TEST_CASE("A client that connects to the admin socket and talks nonsense is hung up on") {
  Scene scene;
  RankOptions options = scene.hostile();
  options.socket = scene.daemon().admin_socket();
  RawClient client(options);

  REQUIRE(client.send_bytes(std::vector<std::uint8_t>(100, 0x7B)));

  CHECK(client.await_end().empty());
  scene.expect_unaffected();
}

}  // namespace
}  // namespace hc::test
