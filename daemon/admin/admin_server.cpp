// SPDX-License-Identifier: Apache-2.0
// admin_server: peers of the admin socket and their pending orders.
#include "daemon/admin/admin_server.h"

#include <algorithm>
#include <cstring>

#include "daemon/log/log.h"
#include "proto/check.h"
#include "shm/control_message.h"
#include "shm/socket_message.h"

namespace hc {

namespace {

constexpr std::size_t kPeersMax = 32;
constexpr std::uint64_t kFlushTimeoutMsDefault = 60'000;

}  // namespace

AdminServer::AdminServer(Epoll& epoll, UnixListener listener, std::uint64_t listener_tag,
                         std::uint64_t socket_tag)
    : epoll_(epoll),
      listener_(epoll, std::move(listener), listener_tag, "admin.accept_failed"),
      socket_tag_(socket_tag),
      peers_(kPeersMax) {
  message_.resize(kMessageBytesMax);
  listener_.watch();
}

void AdminServer::bind(Engine& engine, AdminFacts facts) {
  engine_ = &engine;
  facts_ = std::move(facts);
}

void AdminServer::on_listener() {
  auto socket = listener_.accept(now_);
  if (!socket) {
    return;
  }
  const std::uint32_t number = make_place();
  if (number == peers_.size()) {
    log_warn("admin.refused",
             {{"reason", std::to_string(kPeersMax) + " connections wait for an answer"}});
    return;
  }
  if (epoll_.add(socket->get(), Trigger::level, socket_tag_ | number)) {
    peers_[number] = Peer{};
    peers_[number].socket = std::move(*socket);
    peers_[number].heard = now_;
  }
}

// A free place, or that of the peer that has been silent longest, so that connections which their
// owners forgot can't lock an operator out. peers_.size() when every peer waits for an answer.
std::uint32_t AdminServer::make_place() {
  auto idle = static_cast<std::uint32_t>(peers_.size());
  for (std::uint32_t number = 0; number < peers_.size(); ++number) {
    const Peer& peer = peers_[number];
    if (!peer.socket) {
      return number;
    }
    if (peer.wait == Wait::none && (idle == peers_.size() || peer.heard < peers_[idle].heard)) {
      idle = number;
    }
  }
  if (idle < peers_.size()) {
    close(idle);
  }
  return idle;
}

void AdminServer::close(std::uint32_t number) {
  epoll_.remove(peers_[number].socket.get());
  peers_[number] = Peer{};
}

void AdminServer::on_socket(std::uint32_t number) {
  if (number >= peers_.size() || !peers_[number].socket) {
    return;
  }
  auto received = receive_message(peers_[number].socket.get(), message_, SocketWait::none);
  if (!received) {
    if (received.error().code != Code::busy) {
      close(number);
    }
    return;
  }
  MessageHeader header{};
  if (received->size_bytes >= sizeof header) {
    std::memcpy(&header, message_.data(), sizeof header);
  }
  const bool sound = header.magic == kMessageMagic && header.bytes == received->size_bytes &&
                     header.type == static_cast<std::uint16_t>(MessageType::admin) &&
                     peers_[number].wait == Wait::none;
  if (!sound) {
    close(number);
    return;
  }
  const auto* text = reinterpret_cast<const char*>(message_.data()) + sizeof header;
  handle(number, header, std::string(text, received->size_bytes - sizeof header));
}

void AdminServer::answer(Peer& peer, const Result<std::string>& outcome) {
  MessageHeader header = header_for(MessageType::admin_reply, peer.request_id);
  header.status = outcome ? 0 : static_cast<std::int32_t>(outcome.error().code);
  std::string text = outcome ? *outcome : outcome.error().message();
  if (sizeof header + text.size() > kMessageBytesMax) {
    header.status = static_cast<std::int32_t>(Code::no_space);
    text = "the answer has " + std::to_string(text.size()) + " bytes, more than fits into " +
           std::to_string(kMessageBytesMax);
  }
  peer.wait = Wait::none;
  const auto sent = send_message(peer.socket.get(), message_bytes(header, text_bytes(text), 0), {},
                                 SocketWait::none);
  if (!sent) {
    log_warn("admin.answer_lost", {{"reason", sent.error().message()}});
    peer.lost = true;  // closed by the turn: better no connection than one that says nothing
  }
}

void AdminServer::handle(std::uint32_t number, const MessageHeader& header,
                         const std::string& text) {
  Peer& peer = peers_[number];
  peer.request_id = header.request_id;
  peer.heard = now_;
  auto request = parse_admin_request(text);
  if (!request) {
    answer(peer, request.error());
    return;
  }
  if (request->verb == "version") {
    answer(peer, report_version());
  } else if (request->verb == "status") {
    answer(peer, report_status(*engine_, facts_, now_));
  } else if (request->verb == "stats") {
    answer(peer, report_stats(*engine_));
  } else if (request->verb == "spaces") {
    answer(peer, report_spaces(*engine_, request->from));
  } else if (request->verb == "flush") {
    start_flush(peer, request->timeout_ms);
  } else if (request->verb == "clear") {
    start_clear(peer, request->space);
  } else if (request->verb == "cold-start") {
    start_cold_start(peer, request->mode);
  } else {
    answer(peer, make_error(Code::bad_argument,
                            "verb = '" + request->verb +
                                "': must be version, status, stats, spaces, flush, clear or "
                                "cold-start"));
  }
}

void AdminServer::start_flush(Peer& peer, std::uint64_t timeout_ms) {
  const std::uint64_t limit = timeout_ms == 0 ? kFlushTimeoutMsDefault : timeout_ms;
  if (limit > kDeadlineMsMax) {
    answer(peer, make_error(Code::bad_argument, "timeout_ms = " + std::to_string(limit) +
                                                    ": must be 1.." +
                                                    std::to_string(kDeadlineMsMax)));
    return;
  }
  if (engine_->state() != EngineState::serving) {
    answer(peer, not_serving(engine_->state()));
    return;
  }
  peer.wait = Wait::flush;
  peer.barrier = engine_->barrier_now();
  peer.deadline = now_ + static_cast<std::int64_t>(limit) * kNsPerMs;
}

Result<std::uint64_t> AdminServer::clear_space(const std::string& digits) {
  const bool hex = !digits.empty() && digits.find_first_not_of("0123456789abcdef") ==
                                          std::string::npos;
  if (!hex) {
    return make_error(Code::bad_argument,
                      "space = '" + digits + "': must be the first digits of a space id, 0-9 a-f");
  }
  if (engine_->state() != EngineState::serving) {
    return not_serving(engine_->state());
  }
  std::vector<SpaceNo> matches;
  for (const Space* known : engine_->core().spaces->all()) {
    if (to_hex(known->id.bytes).rfind(digits, 0) == 0) {
      matches.push_back(known->number);
    }
  }
  if (matches.empty()) {
    return make_error(Code::not_found, "space '" + digits + "' is not known");
  }
  if (matches.size() > 1) {
    return make_error(Code::bad_argument, "space '" + digits + "' names " +
                                              std::to_string(matches.size()) +
                                              " spaces: give more digits");
  }
  return engine_->start_clear_space(matches[0]);
}

// Without a space everything goes. An empty one is an error: it is a script's unset variable.
void AdminServer::start_clear(Peer& peer, const std::optional<std::string>& space) {
  const auto started = space ? clear_space(*space) : engine_->start_clear();
  if (!started) {
    answer(peer, started.error());
    return;
  }
  log_info("admin.clear", {{"space", space.value_or("all")}, {"pages", *started}});
  peer.wait = Wait::order;
  peer.pages = *started;
}

void AdminServer::start_cold_start(Peer& peer, const std::string& mode) {
  if (mode != "load" && mode != "clear") {
    answer(peer, make_error(Code::bad_argument, "mode = '" + mode + "': must be load or clear"));
    return;
  }
  if (engine_->state() != EngineState::holding) {
    answer(peer, make_error(Code::refused, "cold-start is for a daemon that holds; this one " +
                                               std::string(engine_->state() ==
                                                                   EngineState::loading
                                                               ? "loads"
                                                               : "serves") +
                                               " already. To empty it: cachectl clear"));
    return;
  }
  const auto started =
      facts_.cold_start_now(mode == "load" ? ColdStartMode::load : ColdStartMode::clear);
  if (!started) {
    answer(peer, started.error());
    return;
  }
  peer.wait = Wait::cold_start;
}

void AdminServer::turn(Instant now) {
  now_ = now;
  listener_.turn(now);
  const OrderState order = engine_->order_state();
  for (Peer& peer : peers_) {
    if (!peer.socket || peer.wait == Wait::none) {
      continue;
    }
    if (peer.wait == Wait::flush && engine_->barrier_reached(peer.barrier)) {
      const auto kept = engine_->barrier_result(peer.barrier);
      answer(peer, kept ? Result<std::string>(std::string("{}")) : kept.error());
    } else if (peer.wait == Wait::flush && peer.deadline <= now) {
      answer(peer, make_error(Code::timed_out, "flush: not durable within the time limit"));
    } else if (peer.wait == Wait::order && order == OrderState::done) {
      const auto& cleared = engine_->order_result();
      answer(peer, cleared ? Result<std::string>(report_dropped(peer.pages)) : cleared.error());
    } else if (peer.wait == Wait::cold_start && engine_->state() == EngineState::serving) {
      answer(peer, std::string("{}"));
    }
  }
  if (order == OrderState::done) {
    engine_->finish_order();
  }
  for (std::uint32_t number = 0; number < peers_.size(); ++number) {
    if (peers_[number].socket && peers_[number].lost) {
      close(number);
    }
  }
}

}  // namespace hc
