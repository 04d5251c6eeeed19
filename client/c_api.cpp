// SPDX-License-Identifier: Apache-2.0
// c_api: the functions of hicache.h: pointers judged, exceptions stopped, errors kept per thread.
//
// Owner thread: any. Invariants: in a forked child nothing of the client is touched; no exception
// leaves a function; on failure the output is what hicache.h promises, or zero.
#include "client/hicache.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "client/argument_error.h"
#include "client/client.h"
#include "client/last_error.h"
#include "client/open_arguments.h"
#include "proto/page_hash.h"
#include "proto/versions.h"

namespace {

using hc::Client;
using hc::Code;
using hc::Result;

static_assert(HICACHE_OK == static_cast<int>(Code::ok));
static_assert(HICACHE_DISCONNECTED == static_cast<int>(Code::disconnected));
static_assert(HICACHE_PROTOCOL == static_cast<int>(Code::protocol));
static_assert(HICACHE_VERB_CANCEL == static_cast<int>(hc::Verb::cancel));
static_assert(HICACHE_ACK_DONE == static_cast<int>(hc::Ack::done));
static_assert(HICACHE_STORE_EVERY_ACK == hc::kFlagEveryAck);
static_assert(HICACHE_STORE_KEEP_LEASE == hc::kFlagKeepLease);
static_assert(HICACHE_LOAD_MAX_PREFIX == hc::kFlagMaxPrefix);
static_assert(HICACHE_AFTER_STREAM == hc::kFlagAwaitEvent);

// Runs `body`, which returns a Result<void>; memory that can't be had is an answer like others.
template <typename Body>
hicache_code guarded(Body&& body) {
  try {
    const Result<void> result = body();
    return result ? HICACHE_OK : hc::fail(result.error());
  } catch (const std::bad_alloc&) {
    return hc::fail(Code::no_space, "out of memory");
  } catch (const std::exception& caught) {
    return hc::fail(Code::io_error, caught.what());
  }
}

// The same for calls on a client.
template <typename Body>
hicache_code on_client(hicache_client* handle, Body&& body) {
  if (handle == nullptr) {
    return hc::fail(Code::bad_argument, "client = NULL: must be given");
  }
  if (handle->client->in_child()) {
    return hc::fail(Code::refused, "a forked child must not use the client of its parent");
  }
  return guarded([&] { return body(*handle->client); });
}

// Submissions: an op id out of a Result<std::uint64_t>.
template <typename Body>
hicache_code submit_on(hicache_client* handle, std::uint64_t* op_id, Body&& body) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("op_id", op_id));
    *op_id = 0;
    auto submitted = body(client);
    HC_TRY(submitted);
    *op_id = *submitted;
    return {};
  });
}

struct Batch {
  hicache_completion* out;
  std::size_t max;
  std::size_t* count;
};

template <typename Body>
hicache_code take_on(hicache_client* handle, Batch batch, Body&& body) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("count", batch.count));
    *batch.count = 0;
    HC_TRY_VOID(hc::check_given("out", batch.out));
    HC_TRY_VOID(hc::check_bounds("max", batch.max, {1, 1U << 20}));
    auto taken = body(client, std::span<hicache_completion>(batch.out, batch.max));
    HC_TRY(taken);
    *batch.count = *taken;
    return {};
  });
}

hicache_code exists(hicache_client* handle, Client::Pages pages, hc::OwnedParts owned,
                    hicache_prefix* out) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = hicache_prefix{};
    return client.exists_prefix(pages, owned, *out);
  });
}

hicache_code submit_pages(hicache_client* handle, hc::Verb verb, const hicache_op* op,
                          Client::Pages pages, std::uint64_t* op_id) {
  return submit_on(handle, op_id, [&](Client& client) { return client.submit(verb, op, pages); });
}

void copy_stats(const hc::StatsReply& from, hicache_stats& to) {
  to.pages = from.pages;
  to.resident_parts = from.resident_parts;
  to.written_parts = from.written_parts;
  to.durable_parts = from.durable_parts;
  to.frames_total = from.frames_total;
  to.frames_free = from.frames_free;
  to.frames_leased = from.frames_leased;
  to.slots_total = from.slots_total;
  to.slots_free = from.slots_free;
  to.oldest_undurable_ms = from.oldest_undurable_ms;
  to.hits_l2 = from.hits_l2;
  to.hits_l3 = from.hits_l3;
  to.misses = from.misses;
  to.stored = from.stored;
  to.evicted_l2 = from.evicted_l2;
  to.evicted_l3 = from.evicted_l3;
  to.verify_failures = from.verify_failures;
  to.commits = from.commits;
}

}  // namespace

extern "C" {

hicache_code hicache_open(const hicache_options* options, const hicache_space* space,
                          hicache_client** out) {
  return guarded([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = nullptr;
    auto plan = hc::check_open(options, space);
    HC_TRY(plan);
    auto handle = std::make_unique<hicache_client>();
    auto client = Client::open(std::move(*plan));
    HC_TRY(client);
    handle->client = std::move(*client);
    *out = handle.release();
    return {};
  });
}

hicache_code hicache_close(hicache_client* handle, uint32_t timeout_ms) {
  if (handle == nullptr) {
    return HICACHE_OK;
  }
  const uint32_t bounded_ms = std::min(timeout_ms, hc::kDeadlineMsMax);
  const hicache_code code =
      on_client(handle, [&](Client& client) { return client.close(bounded_ms); });
  if (!handle->client->in_child()) {
    delete handle;
  }
  return code;
}

hicache_code hicache_state(hicache_client* handle) {
  return on_client(handle, [](Client& client) { return client.state(); });
}

hicache_code hicache_instances(hicache_client* handle, uint64_t* out) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = client.instances();
    return {};
  });
}

hicache_code hicache_register_region(hicache_client* handle, const hicache_region* region,
                                     uint32_t timeout_ms) {
  return on_client(handle,
                   [&](Client& client) { return client.register_region(region, timeout_ms); });
}

hicache_code hicache_register_cuda_region(hicache_client* client,
                                          const hicache_cuda_region* region,
                                          std::uint32_t timeout_ms) {
  return on_client(
      client, [&](Client& of) { return of.register_cuda_region(region, timeout_ms); });
}

hicache_code hicache_unregister_region(hicache_client* handle, uint32_t region,
                                       uint32_t timeout_ms) {
  return on_client(handle,
                   [&](Client& client) { return client.unregister_region(region, timeout_ms); });
}

hicache_code hicache_exists_prefix(hicache_client* handle, const hicache_page* pages,
                                   size_t page_count, hicache_prefix* out) {
  return exists(handle, {pages, page_count}, hc::OwnedParts::mine, out);
}

hicache_code hicache_exists_prefix_all(hicache_client* handle, const hicache_page* pages,
                                       size_t page_count, hicache_prefix* out) {
  return exists(handle, {pages, page_count}, hc::OwnedParts::owners, out);
}

hicache_code hicache_store(hicache_client* handle, const hicache_op* op, const hicache_page* pages,
                           size_t page_count, uint64_t* op_id) {
  return submit_pages(handle, hc::Verb::store, op, {pages, page_count}, op_id);
}

hicache_code hicache_reload(hicache_client* handle, const hicache_op* op, const hicache_page* pages,
                            size_t page_count, uint64_t* op_id) {
  return submit_pages(handle, hc::Verb::reload, op, {pages, page_count}, op_id);
}

hicache_code hicache_load(hicache_client* handle, const hicache_op* op, const hicache_page* pages,
                          size_t page_count, uint64_t* op_id) {
  return submit_pages(handle, hc::Verb::load, op, {pages, page_count}, op_id);
}

hicache_code hicache_pin(hicache_client* handle, const hicache_op* op, const hicache_page* pages,
                         size_t page_count, uint64_t* op_id) {
  return submit_pages(handle, hc::Verb::pin, op, {pages, page_count}, op_id);
}

hicache_code hicache_free_object(hicache_client* handle, const hicache_op* op,
                                 const hicache_page* pages, size_t page_count, uint64_t* op_id) {
  return submit_pages(handle, hc::Verb::free_object, op, {pages, page_count}, op_id);
}

hicache_code hicache_release(hicache_client* handle, const hicache_op* op, uint64_t lease,
                             uint64_t* op_id) {
  return submit_on(handle, op_id, [&](Client& client) { return client.release(op, lease); });
}

hicache_code hicache_flush(hicache_client* handle, const hicache_op* op, uint64_t* op_id) {
  return submit_on(handle, op_id, [&](Client& client) { return client.flush(op); });
}

hicache_code hicache_cancel(hicache_client* handle, const hicache_op* op, uint64_t target_op_id,
                            uint64_t* op_id) {
  return submit_on(handle, op_id, [&](Client& client) { return client.cancel(op, target_op_id); });
}

hicache_code hicache_poll(hicache_client* handle, hicache_completion* out, size_t max,
                          size_t* count) {
  return take_on(handle, {out, max, count},
                 [](Client& client, auto batch) { return client.poll(batch); });
}

hicache_code hicache_wait(hicache_client* handle, hicache_completion* out, size_t max,
                          uint32_t timeout_ms, size_t* count) {
  return take_on(handle, {out, max, count}, [&](Client& client, auto batch) -> Result<std::size_t> {
    HC_TRY_VOID(hc::check_bounds("timeout_ms", timeout_ms, {0, hc::kDeadlineMsMax}));
    return client.wait(batch, timeout_ms);
  });
}

hicache_code hicache_event_fd(hicache_client* handle, int* fd) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("fd", fd));
    *fd = client.event_fd();
    return {};
  });
}

hicache_code hicache_lease_view(hicache_client* handle, uint64_t lease, uint32_t page,
                                uint32_t kind, hicache_view* out) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    *out = hicache_view{};
    auto view = client.lease_view(lease, page, kind);
    HC_TRY(view);
    *out = *view;
    return {};
  });
}

int hicache_view_intact(hicache_client* handle, const hicache_view* view) {
  bool intact = false;
  const hicache_code code = on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("view", view));
    intact = client.view_intact(*view);
    return {};
  });
  return code == HICACHE_OK && intact ? 1 : 0;
}

hicache_code hicache_space_switch(hicache_client* handle, const char* weight_version,
                                  uint32_t timeout_ms) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    auto version = hc::check_weight_version(weight_version);
    HC_TRY(version);
    return client.space_switch(std::move(*version), timeout_ms);
  });
}

hicache_code hicache_get_stats(hicache_client* handle, hicache_stats* out, uint32_t timeout_ms) {
  return on_client(handle, [&](Client& client) -> Result<void> {
    HC_TRY_VOID(hc::check_given("out", out));
    HC_TRY_VOID(hc::check_equal("out.struct_bytes", out->struct_bytes, sizeof *out));
    auto stats = client.stats(timeout_ms);
    HC_TRY(stats);
    copy_stats(*stats, *out);
    return {};
  });
}

hicache_code hicache_hash_pages(const uint8_t* prior, const uint64_t* tokens, size_t token_count,
                                uint32_t page_tokens, int bigram, uint8_t* out, size_t max_pages,
                                size_t* count) {
  return guarded([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("count", count));
    *count = 0;
    HC_TRY_VOID(hc::check_bounds("page_tokens", page_tokens, {1, hc::kPageTokensMax}));
    HC_TRY_VOID(hc::check_bounds("bigram", static_cast<unsigned>(bigram), {0, 1}));
    hc::PageHashOptions options;
    options.page_tokens = page_tokens;
    options.bigram = bigram == 1;
    const std::uint64_t pages = hc::page_count(token_count, options);
    if (pages == 0) {
      return {};
    }
    HC_TRY_VOID(hc::check_given("tokens", tokens));
    HC_TRY_VOID(hc::check_bounds("max_pages", max_pages, {pages, SIZE_MAX}));
    HC_TRY_VOID(hc::check_given("out", out));
    std::optional<hc::PageHash> from;
    if (prior != nullptr) {
      std::copy_n(prior, hc::kSha256Bytes, from.emplace().bytes.begin());
    }
    std::vector<hc::PageHash> hashes;
    HC_TRY_VOID(
        hc::hash_pages(from, std::span<const std::uint64_t>(tokens, token_count), options, hashes));
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      std::copy(hashes[i].bytes.begin(), hashes[i].bytes.end(), out + i * hc::kSha256Bytes);
    }
    *count = hashes.size();
    return {};
  });
}

hicache_code hicache_namespace_seed(const char* extra_key, const char* cache_salt, uint8_t seed[32],
                                    int* has_seed) {
  return guarded([&]() -> Result<void> {
    HC_TRY_VOID(hc::check_given("seed", seed));
    HC_TRY_VOID(hc::check_given("has_seed", has_seed));
    hc::RequestNamespace parts;
    if (extra_key != nullptr) {
      parts.extra_key = extra_key;
    }
    if (cache_salt != nullptr) {
      parts.cache_salt = cache_salt;
    }
    const auto made = hc::namespace_seed(parts);
    *has_seed = made.has_value() ? 1 : 0;
    const hc::PageHash value = made.value_or(hc::PageHash{});
    std::copy(value.bytes.begin(), value.bytes.end(), seed);
    return {};
  });
}

const char* hicache_code_name(hicache_code code) {
  return hc::code_is_known(code) ? hc::code_name(static_cast<Code>(code)).data() : "unknown";
}

const char* hicache_version(void) {
  return hc::kProductVersion;
}

const char* hicache_last_error(void) {
  return hc::last_error();
}

}  // extern "C"
