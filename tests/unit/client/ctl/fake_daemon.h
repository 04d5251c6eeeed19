// SPDX-License-Identifier: Apache-2.0
// fake_daemon: an admin socket that answers as a test tells it to.
//
// Owner thread: the test; one thread of its own answers. Invariants: it ends with the object.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/ctl/temporary_folder.h"
#include "proto/handshake.h"
#include "proto/status.h"
#include "shm/unique_fd.h"

namespace hc::test {

struct FakeAnswer {
  Code code = Code::ok;
  std::string text = "{}";
  bool silent = false;  // no answer at all
};

class FakeDaemon {
 public:
  using Handler = std::function<FakeAnswer(const nlohmann::json& question)>;

  explicit FakeDaemon(Handler handler)
      : folder_(*TemporaryFolder::make("")), handler_(std::move(handler)) {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof(address.sun_path) - 1);
    HC_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    HC_CHECK(::listen(listener_.get(), 16) == 0);
    std::array<int, 2> fds{};
    HC_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    stop_ = UniqueFd(fds[0]);
    stopped_ = UniqueFd(fds[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeDaemon() {
    stop_.reset();
    thread_.join();
  }

  std::string path() const { return folder_.path() + "/admin.sock"; }
  std::vector<nlohmann::json> questions() {
    const std::lock_guard lock(mutex_);
    return questions_;
  }

 private:
  void serve() {
    std::vector<UniqueFd> clients;
    for (;;) {
      std::vector<pollfd> events{{stopped_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const UniqueFd& client : clients) {
        events.push_back({client.get(), POLLIN, 0});
      }
      ::poll(events.data(), events.size(), -1);
      if (events[0].revents != 0) {
        return;
      }
      for (std::size_t i = 0; i < clients.size(); ++i) {
        if (events[i + 2].revents != 0 && !answer(clients[i].get())) {
          clients[i].reset();
        }
      }
      if (events[1].revents != 0) {
        clients.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      }
    }
  }

  bool answer(int fd) {
    std::vector<char> message(kMessageBytesMax);
    const ssize_t got = ::recv(fd, message.data(), message.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(MessageHeader))) {
      return false;
    }
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof(header));
    const auto question =
        nlohmann::json::parse(message.data() + sizeof(header), message.data() + got);
    const FakeAnswer reply = handler_(question);
    {
      const std::lock_guard lock(mutex_);
      questions_.push_back(question);
    }
    if (reply.silent) {
      return true;
    }
    header.type = static_cast<std::uint16_t>(MessageType::admin_reply);
    header.status = static_cast<std::int32_t>(reply.code);
    header.bytes = static_cast<std::uint32_t>(sizeof(header) + reply.text.size());
    std::vector<char> out(header.bytes);
    std::memcpy(out.data(), &header, sizeof(header));
    std::memcpy(out.data() + sizeof(header), reply.text.data(), reply.text.size());
    return ::send(fd, out.data(), out.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(out.size());
  }

  TemporaryFolder folder_;
  Handler handler_;
  UniqueFd listener_;
  UniqueFd stop_;
  UniqueFd stopped_;
  std::mutex mutex_;
  std::vector<nlohmann::json> questions_;
  std::thread thread_;
};

}  // namespace hc::test
