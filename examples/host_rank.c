/* SPDX-License-Identifier: Apache-2.0
 * host_rank: the smallest engine rank: attach, register memory, look, store, flush, load, compare.
 *
 * Usage: host_rank [SOCKET]. Build: cc host_rank.c $(pkg-config --cflags --libs hicache)
 * Run it twice: the second run finds the pages of the first.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hicache.h>

enum { kPages = 32, kPageTokens = 64, kPayloadBytes = 262144, kRows = 2 * kPages };
enum { kTimeoutMs = 10000 };

static void check(hicache_code code, const char* what) {
  if (code != HICACHE_OK) {
    fprintf(stderr, "host_rank: %s: %s: %s\n", what, hicache_code_name(code), hicache_last_error());
    exit(1);
  }
}

/* Waits for the terminal completion of one operation. An engine would serve others meanwhile, and
 * would go on without the pages at HICACHE_ACK_LATE; but it would leave the rows alone. */
static hicache_completion finish(hicache_client* client, uint64_t op_id, const char* what) {
  for (;;) {
    hicache_completion done;
    size_t count = 0;
    check(hicache_wait(client, &done, 1, 2 * kTimeoutMs, &count), what);
    if (done.op_id == op_id && done.terminal) {
      check(done.code, what);
      return done;
    }
  }
}

static hicache_client* attach(const char* socket_path) {
  const hicache_kind kind = {.name = "kv",
                             .payload_bytes = kPayloadBytes,
                             .placement = HICACHE_SHARDED,
                             .policy = HICACHE_ALL_PAGES};
  const hicache_space space = {.model = "example",
                               .weight_version = "1",
                               .hash_scheme = "sglang-sha256-v1",
                               .page_tokens = kPageTokens,
                               .tensor_size = 1,
                               .pipeline_size = 1,
                               .context_size = 1,
                               .kinds = &kind,
                               .kind_count = 1};
  const hicache_options options = {.struct_bytes = sizeof options,
                                   .abi_version = HICACHE_ABI_VERSION,
                                   .socket_path = socket_path,
                                   .group = "host_rank",
                                   .rank = 0,
                                   .world = 1,
                                   .attach_timeout_ms = kTimeoutMs};
  hicache_client* client = NULL;
  check(hicache_open(&options, &space, &client), "attach");
  return client;
}

/* One memory file holds all pages, row after row. The daemon copies from and to it. */
static uint8_t* make_region(hicache_client* client) {
  const size_t bytes = (size_t)kRows * kPayloadBytes;
  const int fd = memfd_create("host_rank", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
    perror("host_rank: memory file");
    exit(1);
  }
  uint8_t* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    perror("host_rank: mmap");
    exit(1);
  }
  const hicache_run run = {.stride_bytes = kPayloadBytes, .length_bytes = kPayloadBytes};
  const hicache_layout layout = {.kind = 0, .run_count = 1, .runs = &run};
  const hicache_region region = {.region = 0,
                                 .fd = fd,
                                 .size_bytes = bytes,
                                 .rows = kRows,
                                 .layout_count = 1,
                                 .layouts = &layout};
  check(hicache_register_region(client, &region, kTimeoutMs), "register the region");
  close(fd); /* The library has its own duplicate. */
  return memory;
}

int main(int argc, char** argv) {
  hicache_client* client = attach(argc > 1 ? argv[1] : NULL);
  uint8_t* memory = make_region(client);

  /* The keys of the pages: a hash chain over the tokens. */
  uint64_t tokens[kPages * kPageTokens];
  uint8_t keys[kPages][32];
  size_t hashed = 0;
  for (size_t i = 0; i < kPages * kPageTokens; ++i)
    tokens[i] = 1000 + i;
  check(hicache_hash_pages(NULL, tokens, kPages * kPageTokens, kPageTokens, 0, keys[0], kPages,
                           &hashed),
        "hash");
  hicache_page pages[kPages] = {{0}};
  for (uint32_t i = 0; i < kPages; ++i) {
    pages[i].key = keys[i];
    pages[i].key_bytes = sizeof keys[i];
    pages[i].row = i;
  }

  hicache_prefix prefix;
  check(hicache_exists_prefix(client, pages, kPages, &prefix), "exists_prefix");
  printf("found %" PRIu32 " of %d pages (%" PRIu32 " in memory, %" PRIu32 " durable)\n",
         prefix.usable_pages, kPages, prefix.resident_pages, prefix.durable_pages);

  /* "Prefill": fill rows 0..31, then store them. The rows are ours again at the first ack. */
  for (size_t i = 0; i < (size_t)kPages * kPayloadBytes; ++i) {
    memory[i] = (uint8_t)(i * 2654435761u >> 13);
  }
  const hicache_op op = {.deadline_ms = kTimeoutMs, .region = 0};
  uint64_t op_id = 0;
  check(hicache_store(client, &op, pages, kPages, &op_id), "store");
  const hicache_completion stored = finish(client, op_id, "store");
  check(hicache_flush(client, &op, &op_id), "flush");
  finish(client, op_id, "flush");
  printf("stored %" PRIu32 " new pages, durable\n", stored.pages_stored);

  /* Load them into rows 32..63 and compare every byte. */
  for (uint32_t i = 0; i < kPages; ++i)
    pages[i].row = kPages + i;
  check(hicache_load(client, &op, pages, kPages, &op_id), "load");
  const hicache_completion loaded = finish(client, op_id, "load");
  const size_t half = (size_t)kPages * kPayloadBytes;
  const int same = memcmp(memory, memory + half, half) == 0;
  printf("loaded %" PRIu32 " pages from memory, %" PRIu32 " from disk: %s\n", loaded.pages_from_l2,
         loaded.pages_from_l3, same ? "equal" : "DIFFERENT");
  check(hicache_close(client, kTimeoutMs), "close");
  return same ? 0 : 1;
}
