// SPDX-License-Identifier: Apache-2.0
// client_fds: counts, and hands over to threads that close.
#include "daemon/session/client_fds.h"

#include <memory>
#include <utility>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

void ClientFds::close_socket(UniqueFd socket) {
  sockets_.dispose(std::make_shared<UniqueFd>(std::move(socket)));
}

bool ClientFds::check_full() {
  const std::size_t waiting = fds_.waiting() + sockets_.waiting();
  const bool full = waiting >= (is_full_ ? limits_.closing_max / 2 + 1 : limits_.closing_max);
  if (full && !is_full_) {
    log_warn("session.descriptors_stuck",
             {{"waiting", std::uint64_t{waiting}},
              {"reason", "descriptors that clients sent do not close: no client is accepted, and "
                         "one that sends more of them is ended, until they do"}});
  } else if (!full && is_full_) {
    log_info("session.descriptors_closed", {{"waiting", std::uint64_t{waiting}}});
  }
  is_full_ = full;
  return full;
}

bool ClientFds::begin_opening(std::size_t count) {
  if (count > limits_.opening_max - opening_) {
    return false;
  }
  opening_ += count;
  return true;
}

void ClientFds::end_opening(std::vector<UniqueFd>& fds) {
  HC_CHECK(fds.size() <= opening_);
  opening_ -= fds.size();
  close(fds);
}

}  // namespace hc
