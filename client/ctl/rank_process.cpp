// SPDX-License-Identifier: Apache-2.0
// rank_process: waits for commands and for completions at the same time, so that an acknowledgement
// is timed when it arrives and not when the next request begins.
#include "client/ctl/rank_process.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/ctl/rank_protocol.h"

namespace hc {

namespace {

void set_text(RankReply& reply, const std::string& text) {
  const std::size_t length = std::min(text.size(), reply.text.size() - 1);
  std::memcpy(reply.text.data(), text.data(), length);
}

RankReply obey(RankEngine& engine, const RankCommand& command) {
  RankReply reply;
  reply.verb = command.verb;
  std::string why;
  switch (command.verb) {
    case RankVerb::open:
      reply.code = engine.open(why);
      break;
    case RankVerb::attached:
      reply.code = engine.client().wait_attached(command.argument);
      break;
    case RankVerb::exists:
      reply.code = engine.exists(command.request, reply.pages);
      break;
    case RankVerb::load:
      reply.code = engine.load(command.request, command.argument, reply.pages);
      break;
    case RankVerb::store:
      reply.code = engine.store(command.request, reply.pages, reply.refused);
      break;
    case RankVerb::probe:
      reply.code = engine.probe(reply.pages);
      break;
    case RankVerb::settle:
      reply.code = engine.client().settle();
      break;
    case RankVerb::close:
      reply.code = engine.client().close();
      break;
    case RankVerb::run:
    case RankVerb::forget:
      reply.code = HICACHE_UNSUPPORTED;  // of a rank without reloads
      break;
  }
  if (reply.code != HICACHE_OK) {
    set_text(reply, why.empty() ? hicache_last_error() : why);
  }
  return reply;
}

// False when the bench is gone.
bool receive(int fd, RankCommand& command) {
  for (;;) {
    const ssize_t got = ::recv(fd, &command, sizeof(command), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    return got == static_cast<ssize_t>(sizeof(command));
  }
}

}  // namespace

int serve_rank(const RankSetup& setup, std::uint32_t rank, int fd) {
  RankEngine engine(setup, rank);
  for (;;) {
    // A negative descriptor is left out by poll.
    std::array<pollfd, 2> events{{{fd, POLLIN, 0}, {engine.client().event_fd(), POLLIN, 0}}};
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) {
      return 1;
    }
    if (events[1].revents != 0) {
      engine.client().collect();
    }
    if (events[0].revents == 0) {
      continue;
    }
    RankCommand command;
    if (!receive(fd, command)) {
      return 1;
    }
    const RankReply reply = obey(engine, command);
    const ssize_t sent = ::send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(sizeof(reply)) || command.verb == RankVerb::close) {
      return sent == static_cast<ssize_t>(sizeof(reply)) ? 0 : 1;
    }
  }
}

}  // namespace hc
