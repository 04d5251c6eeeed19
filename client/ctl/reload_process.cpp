// SPDX-License-Identifier: Apache-2.0
// reload_process: a command in, a reply out; in between, completions are taken, so that leases end.
#include "client/ctl/reload_process.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/ctl/rank_protocol.h"
#include "client/ctl/reload_engine.h"

namespace hc {

namespace {

constexpr int kRestPollMs = 5;  // leases that found no operation slot are given back then

RankReply obey_reload(ReloadEngine& engine, const RankCommand& command) {
  RankReply reply;
  reply.verb = command.verb;
  std::string why;
  switch (command.verb) {
    case RankVerb::open:
      reply.code = engine.open(why);
      break;
    case RankVerb::run:
      reply.code = engine.run();
      break;
    case RankVerb::forget:
      reply.code = engine.forget();
      break;
    case RankVerb::close:
      reply.code = engine.close();
      break;
    case RankVerb::attached:
    case RankVerb::exists:
    case RankVerb::load:
    case RankVerb::store:
    case RankVerb::probe:
    case RankVerb::settle:
      reply.code = HICACHE_UNSUPPORTED;
      break;
  }
  if (reply.code != HICACHE_OK) {
    const std::string text = why.empty() ? hicache_last_error() : why;
    std::memcpy(reply.text.data(), text.data(), std::min(text.size(), reply.text.size() - 1));
  }
  return reply;
}

}  // namespace

int serve_reload_rank(const RankSetup& setup, std::uint32_t rank, int fd) {
  ReloadEngine engine(setup, rank);
  bool is_resting = false;  // from `forget` on
  for (;;) {
    const int event_fd = is_resting ? engine.event_fd() : -1;  // a negative one is left out
    std::array<pollfd, 2> events{{{fd, POLLIN, 0}, {event_fd, POLLIN, 0}}};
    if (::poll(events.data(), events.size(), is_resting ? kRestPollMs : -1) < 0 &&
        errno != EINTR) {
      return 1;
    }
    if (events[0].revents == 0) {
      if (is_resting) {
        engine.rest();
      }
      continue;
    }
    RankCommand command;
    const ssize_t got = ::recv(fd, &command, sizeof(command), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got != static_cast<ssize_t>(sizeof(command))) {
      return 1;
    }
    is_resting = command.verb == RankVerb::forget;
    const RankReply reply = obey_reload(engine, command);
    const ssize_t sent = ::send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(sizeof(reply)) || command.verb == RankVerb::close) {
      return sent == static_cast<ssize_t>(sizeof(reply)) ? 0 : 1;
    }
  }
}

}  // namespace hc
