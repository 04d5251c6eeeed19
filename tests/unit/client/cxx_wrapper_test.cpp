// SPDX-License-Identifier: Apache-2.0
// cxx_wrapper_test: client/hicache.hpp: ownership of the handle, spans, and the hash chain.
#include "client/hicache.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

TEST_CASE("the wrapper submits, waits and closes through the C interface") {
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  test::FakeDaemon daemon(socket);
  const test::SampleSpace space;
  const test::SamplePages pages(2);

  auto opened = hicache::Client::open(test::sample_options(socket), space.space);
  REQUIRE(opened);
  hicache::Client client = std::move(opened.value);
  CHECK_FALSE(opened.value);
  CHECK(client.state() == HICACHE_OK);
  CHECK(client.instances().value == 1);
  const auto submitted = client.reload(test::sample_op(7), pages.pages);
  REQUIRE(submitted);
  daemon.complete(test::FakeDaemon::answer(daemon.next_request(), Code::ok, Ack::done));
  std::array<hicache_completion, 8> room{};
  const auto done = client.wait(room, test::kCallMs);

  REQUIRE(done);
  REQUIRE(done.value.size() == 1);
  CHECK(done.value[0].op_id == submitted.value);
  CHECK(done.value[0].user_data == 7);
  CHECK(client.exists_prefix(pages.pages).value.usable_pages == 0);
  CHECK(client.stats(test::kCallMs).value.commits == 22);
  CHECK(client.register_cuda_region({}, test::kCallMs) == HICACHE_BAD_ARGUMENT);
  CHECK(client.close(test::kCallMs) == HICACHE_OK);
  CHECK(client.state() == HICACHE_BAD_ARGUMENT);
}

TEST_CASE("a failed open gives the code and no client") {
  const test::SampleSpace space;
  const std::string no_socket;
  const hicache_options options = test::sample_options(no_socket);

  const auto opened = hicache::Client::open(options, space.space);

  CHECK(opened.code == HICACHE_BAD_ARGUMENT);
  CHECK_FALSE(opened.value);
}

TEST_CASE("a hash chain fed in pieces gives the keys of the whole") {
  std::vector<std::uint64_t> tokens(23);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = 100 + i;
  }
  for (const bool bigram : {false, true}) {
    std::vector<hicache::Key> whole;
    hicache::HashChain at_once(4, bigram);
    REQUIRE(at_once.start("lora", nullptr) == HICACHE_OK);
    REQUIRE(at_once.extend(tokens, whole) == HICACHE_OK);
    CHECK(whole.size() == 5);

    for (std::size_t piece = 1; piece < tokens.size(); ++piece) {
      std::vector<hicache::Key> keys;
      hicache::HashChain chain(4, bigram);
      REQUIRE(chain.start("lora", nullptr) == HICACHE_OK);
      for (std::size_t at = 0; at < tokens.size(); at += piece) {
        const std::size_t count = std::min(piece, tokens.size() - at);
        REQUIRE(chain.extend(std::span(tokens).subspan(at, count), keys) == HICACHE_OK);
      }
      CHECK(keys == whole);
    }
  }
}

TEST_CASE("a chain with a namespace differs from one without") {
  const std::vector<std::uint64_t> tokens(4, 9);
  std::vector<hicache::Key> plain;
  std::vector<hicache::Key> salted;
  hicache::HashChain first(4, false);
  hicache::HashChain second(4, false);
  REQUIRE(second.start(nullptr, "salt") == HICACHE_OK);

  REQUIRE(first.extend(tokens, plain) == HICACHE_OK);
  REQUIRE(second.extend(tokens, salted) == HICACHE_OK);

  CHECK(plain.size() == 1);
  CHECK(plain != salted);
}

}  // namespace
}  // namespace hc
