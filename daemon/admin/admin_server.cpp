// SPDX-License-Identifier: Apache-2.0
// admin_server: peers of the admin socket and their pending orders.
#include "daemon/admin/admin_server.h"

#include <algorithm>
#include <cstring>

#include "daemon/log/log.h"
#include "proto/check.h"
#include "shm/socket_message.h"

namespace hc {

namespace {

constexpr std::size_t kPeersMax = 32;
constexpr std::uint64_t kFlushTimeoutMsDefault = 60'000;

}  // namespace

AdminServer::AdminServer(Epoll& epoll, UnixListener listener, std::uint64_t listener_tag,
                         std::uint64_t socket_tag)
    : epoll_(epoll), listener_(std::move(listener)), socket_tag_(socket_tag), peers_(kPeersMax) {
  message_.resize(kMessageBytesMax);
  const auto added = epoll_.add(listener_.fd(), Trigger::level, listener_tag);
  HC_CHECK(added.has_value());
}

void AdminServer::bind(Engine& engine, AdminFacts facts) {
  engine_ = &engine;
  facts_ = std::move(facts);
}

void AdminServer::on_listener() {
  auto socket = listener_.accept();
  if (!socket || !*socket) {
    return;
  }
  for (std::uint32_t number = 0; number < peers_.size(); ++number) {
    if (peers_[number].socket) {
      continue;
    }
    if (epoll_.add((*socket)->get(), Trigger::level, socket_tag_ | number)) {
      peers_[number] = Peer{};
      peers_[number].socket = std::move(**socket);
    }
    return;
  }
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
  MessageHeader header{};
  header.magic = kMessageMagic;
  header.type = static_cast<std::uint16_t>(MessageType::admin_reply);
  header.request_id = peer.request_id;
  header.status = outcome ? 0 : static_cast<std::int32_t>(outcome.error().code);
  const std::string text = outcome ? *outcome : outcome.error().message();
  header.bytes = static_cast<std::uint32_t>(sizeof header + text.size());
  std::vector<std::uint8_t> message(header.bytes);
  std::memcpy(message.data(), &header, sizeof header);
  std::memcpy(message.data() + sizeof header, text.data(), text.size());
  peer.wait = Wait::none;
  const auto sent = send_message(peer.socket.get(), message, {}, SocketWait::none);
  if (!sent) {
    log_warn("admin.answer_lost", {{"reason", sent.error().message()}});
  }
}

void AdminServer::handle(std::uint32_t number, const MessageHeader& header,
                         const std::string& text) {
  Peer& peer = peers_[number];
  peer.request_id = header.request_id;
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
    answer(peer, report_spaces(*engine_));
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
    answer(peer, make_error(Code::not_ready, "the daemon holds its cold start: nothing to flush"));
    return;
  }
  peer.wait = Wait::flush;
  peer.barrier = engine_->barrier_now();
  peer.deadline = now_ + static_cast<std::int64_t>(limit) * kNsPerMs;
}

void AdminServer::start_clear(Peer& peer, const std::string& space) {
  Result<std::uint64_t> started = make_error(Code::not_found, "space '" + space +
                                                                  "' is not known");
  if (space.empty()) {
    started = engine_->start_clear();
  } else if (engine_->state() == EngineState::serving) {
    std::vector<SpaceNo> matches;
    for (const Space* known : engine_->core().spaces->all()) {
      if (to_hex(known->id.bytes).rfind(space, 0) == 0) {
        matches.push_back(known->number);
      }
    }
    if (matches.size() > 1) {
      started = make_error(Code::bad_argument, "space '" + space + "' names " +
                                                   std::to_string(matches.size()) +
                                                   " spaces: give more digits");
    } else if (matches.size() == 1) {
      started = engine_->start_clear_space(matches[0]);
    }
  }
  if (!started) {
    answer(peer, started.error());
    return;
  }
  log_info("admin.clear", {{"space", space.empty() ? "all" : space}, {"pages", *started}});
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
  const OrderState order = engine_->order_state();
  for (Peer& peer : peers_) {
    if (!peer.socket || peer.wait == Wait::none) {
      continue;
    }
    if (peer.wait == Wait::flush && engine_->barrier_reached(peer.barrier)) {
      answer(peer, std::string("{}"));
    } else if (peer.wait == Wait::flush && peer.deadline <= now) {
      answer(peer, make_error(Code::timed_out, "flush: not durable within the time limit"));
    } else if (peer.wait == Wait::order && order == OrderState::done) {
      answer(peer, report_dropped(peer.pages));
    } else if (peer.wait == Wait::cold_start && engine_->state() == EngineState::serving) {
      answer(peer, std::string("{}"));
    }
  }
  if (order == OrderState::done) {
    engine_->finish_order();
  }
}

}  // namespace hc
