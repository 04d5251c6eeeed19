// SPDX-License-Identifier: Apache-2.0
// scene: a daemon and an honest client that must go on through whatever a hostile one does.
//
// Owner thread: the test's main thread.
#pragma once

#include <cstdint>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {

class Scene {
 public:
  Scene() : honest_({daemon_.client_socket(), "honest"}) {
    daemon_.start();
    REQUIRE(honest_.open() == HICACHE_OK);
    pid_ = daemon_.pid();
  }
  ~Scene() = default;
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  RankOptions hostile() const { return {daemon_.client_socket(), "hostile"}; }
  DaemonProcess& daemon() { return daemon_; }

  // The same process serves the same session of the other client.
  void expect_unaffected() {
    const Keys keys{next_, 6, 0};
    next_ += keys.count;
    CHECK(honest_.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    CHECK(honest_.load(keys).code == HICACHE_OK);
    CHECK(honest_.wrong_bytes(keys) == 0);
    std::uint64_t instances = 0;
    CHECK(hicache_instances(honest_.client(), &instances) == HICACHE_OK);
    CHECK(instances == 1);
    CHECK(daemon_.ask("status").at("pid") == pid_);
    CHECK(missing(daemon_.log(), {"group=honest rank=0 code="}) != "");
  }

 private:
  DaemonProcess daemon_;
  Rank honest_;
  std::uint64_t next_ = 5000;
  pid_t pid_ = 0;
};

}  // namespace hc::test
