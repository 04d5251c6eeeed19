/* SPDX-License-Identifier: Apache-2.0
 * reload_loop: two ranks that decide together: store prefixes, lose them, reload on a miss.
 * Usage: reload_loop [SOCKET]. Build: cc reload_loop.c $(pkg-config --cflags --libs hicache)
 * The calls stand where a scheduler has them; docs/integration.md says more about each.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <hicache_group.h>

enum { kRanks = 2, kPages = 8, kPrompts = 6, kPageTokens = 16, kBytes = 65536, kMs = 10000 };
enum { kQuotaPages = 2 * kPages }; /* room for two prompts of six: the others leave L2 */

static void check(hicache_code code, const char* what) {
  if (code == HICACHE_OK) return;
  fprintf(stderr, "reload_loop: %s: %s\n", what, hicache_last_error());
  exit(1);
}
typedef struct {
  uint64_t tokens[kPages * kPageTokens];
  uint8_t keys[kPages][32];
  hicache_page pages[kPages];
} prompt_t;

static void make_prompt(prompt_t* prompt, uint64_t number) {
  size_t hashed;
  for (size_t i = 0; i < kPages * kPageTokens; ++i) prompt->tokens[i] = number * 100000 + i;
  check(hicache_hash_pages(NULL, prompt->tokens, kPages * kPageTokens, kPageTokens, 0,
                           prompt->keys[0], kPages, &hashed), "hash");
  for (uint32_t i = 0; i < kPages; ++i)
    prompt->pages[i] = (hicache_page){.key = prompt->keys[i], .key_bytes = 32, .row = i};
}

static hicache_client* attach(const char* socket_path, uint16_t rank) {
  const hicache_kind kind = {.name = "kv", .payload_bytes = kBytes, .placement = HICACHE_SHARDED};
  const hicache_space space = {.model = "reload_loop", .hash_scheme = "sglang-sha256-v1",
      .page_tokens = kPageTokens, .tensor_size = kRanks, .pipeline_size = 1, .context_size = 1,
      .kinds = &kind, .kind_count = 1};
  const hicache_options options = {.struct_bytes = sizeof options,
      .abi_version = HICACHE_ABI_VERSION, .socket_path = socket_path, .group = "reload_loop",
      .rank = rank, .world = kRanks, .tensor_rank = rank, .attach_timeout_ms = kMs,
      .quota_bytes = kQuotaPages * (uint64_t)(kBytes + 4096)};
  hicache_client* client = NULL;
  check(hicache_open(&options, &space, &client), "attach");
  return client;
}

static uint8_t* make_region(hicache_client* client) {
  const int fd = memfd_create("reload_loop", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kPages * kBytes) != 0) exit(1);
  uint8_t* memory = mmap(NULL, kPages * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const hicache_run run = {.stride_bytes = kBytes, .length_bytes = kBytes};
  const hicache_layout layout = {.run_count = 1, .runs = &run};
  const hicache_region region = {.fd = fd, .size_bytes = kPages * kBytes, .rows = kPages,
                                 .layout_count = 1, .layouts = &layout};
  check(hicache_register_region(client, &region, kMs), "register the region");
  return memory;
}

/* One scheduling pass: completions in, one tick, decisions out. */
static hicache_decisions pass(hicache_client* client, hicache_group* group, uint64_t own_op,
                              int* own_done) {
  hicache_completion done[64];
  size_t count = 0;
  hicache_code code = hicache_wait(client, done, 64, 1, &count);
  if (code != HICACHE_TIMED_OUT) check(code, "wait");
  for (size_t i = 0; i < count; ++i)
    if (!hicache_group_take(group, &done[i]) && done[i].op_id == own_op && done[i].terminal) {
      check(done[i].code, "load");
      *own_done = 1;
    }
  hicache_decisions decisions; /* an engine would call hicache_group_join when this fails */
  check(hicache_group_tick(group, &decisions), "tick");
  return decisions;
}

static void run_rank(const char* socket_path, uint16_t rank) {
  hicache_client* client = attach(socket_path, rank);
  uint8_t* memory = make_region(client);
  const hicache_group_options options = {.struct_bytes = sizeof options};
  hicache_group* group = NULL;
  check(hicache_group_open(client, &options, &group), "open the group");
  int kept = 0, ignored = 0;
  check(hicache_group_join(group, kMs, &kept), "meet the other ranks");
  const hicache_op op = {.deadline_ms = kMs};
  prompt_t prompt;
  uint32_t evicted = 0;
  for (uint64_t number = 1; number <= kPrompts; ++number) { /* compute, store, and lose from L1 */
    make_prompt(&prompt, number);
    memset(memory, (int)(number * 16 + rank), kPages * kBytes);
    check(hicache_group_fill_l1(group, prompt.pages, kPages), "fill L1");
    uint64_t store = 0;
    check(hicache_group_store(group, &op, prompt.pages, kPages, 0, &store), "store");
    for (int settled = 0; !settled;) { /* an engine serves others meanwhile */
      const hicache_decisions decisions = pass(client, group, 0, &ignored);
      for (size_t i = 0; i < decisions.store_count; ++i)
        settled |= decisions.stores[i].store == store;
    }
    check(hicache_group_evict_l1(group, kPages, &evicted), "evict L1");
  }
  uint64_t wrong = 0, reloaded = 0, computed = 0;
  for (uint64_t number = 1; number <= kPrompts; ++number) { /* the prompts come again */
    make_prompt(&prompt, number);
    hicache_match match;
    check(hicache_group_match(group, prompt.pages, kPages, &match), "match");
    const uint32_t here = match.l1_pages + match.l2_pages;
    const hicache_miss miss = {.request = number, .anchor = match.anchor, .pages = prompt.pages,
        .page_count = kPages, .first_page = here, .tokens = prompt.tokens + here * kPageTokens,
        .token_count = here < kPages ? kPageTokens : 0};
    uint32_t decline = HICACHE_DECLINE_EMPTY;
    if (here < kPages) check(hicache_group_offer(group, &miss, &decline), "offer");
    int waiting = decline == HICACHE_DECLINE_NONE;
    while (waiting) { /* the request stays in the queue, others go on */
      const hicache_decisions decisions = pass(client, group, 0, &ignored);
      for (size_t i = 0; i < decisions.admit_count; ++i)
        if (decisions.admits[i].request == number) waiting = 0, ++reloaded;
      for (size_t i = 0; i < decisions.recompute_count; ++i)
        if (decisions.recomputes[i].request == number) waiting = 0, ++computed;
    }
    check(hicache_group_match(group, prompt.pages, kPages, &match), "match again");
    uint64_t load = 0;
    int loaded = match.l2_pages != kPages;
    if (loaded) continue;
    check(hicache_group_lock(group, match.anchor), "lock");
    check(hicache_load(client, &op, prompt.pages, kPages, &load), "load");
    while (!loaded) pass(client, group, load, &loaded);
    check(hicache_group_unlock(group, match.anchor), "unlock");
    const uint8_t byte = (uint8_t)(number * 16 + rank);
    for (size_t i = 0; i < kPages * kBytes; ++i) wrong += memory[i] != byte;
  }
  printf("rank %d: %" PRIu64 " prompts reloaded, %" PRIu64 " computed, %" PRIu64 " wrong bytes\n",
         rank, reloaded, computed, wrong);
  check(hicache_group_close(group), "close the group");
  check(hicache_close(client, kMs), "close");
  exit(wrong == 0 && reloaded > 0 ? 0 : 1);
}

int main(int argc, char** argv) {
  int bad = 0, status;
  for (uint16_t rank = 0; rank < kRanks; ++rank)
    if (fork() == 0) run_rank(argc > 1 ? argv[1] : NULL, rank);
  while (wait(&status) > 0) bad |= status != 0;
  return bad;
}
