/* SPDX-License-Identifier: Apache-2.0
 *
 * hicache_group.h: reload on a miss for the ranks of one engine. docs/integration.md shows where
 * each call goes in a scheduler loop; examples/reload_loop.c is a whole program.
 *
 * A group is this rank's part in what all ranks of the engine decide together: which requests wait
 * for pages that are read back from the daemon, and when they go on. One reduce per tick over all
 * ranks (a minimum of 144 words) is all that the ranks say to each other.
 *
 * Rules beside those of hicache.h:
 *  - Every rank makes the same calls in the same order with the same arguments, but for those that
 *    are marked `local`. That is what an engine's scheduler does anyway: it runs the same on every
 *    rank. A rank that does otherwise is found out in the next tick: then all ranks drop what is
 *    open and go on.
 *  - One thread, the scheduler's, makes all calls of a group.
 *  - The group submits operations of the client. Their completions come out of hicache_poll and
 *    hicache_wait like any other: offer each one to hicache_group_take first. Of the 64 operations
 *    that a client may have in flight leave the group at least 8.
 */
#ifndef HICACHE_GROUP_H
#define HICACHE_GROUP_H

#include "hicache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hicache_group hicache_group;

enum {
  HICACHE_AGREE_AUTO = 0, /* the hook if there is one; else SHM where all ranks are on this node;
                           * else NCCL */
  HICACHE_AGREE_SHM = 1,  /* ranks of one node: memory that the daemon gives them */
  HICACHE_AGREE_NCCL = 2, /* libnccl and libcuda, loaded at run time */
  HICACHE_AGREE_HOOK = 3  /* the engine reduces */
};

/* Replaces words[0..count) by their minimum over all ranks. Keeps to the engine's own deadline;
 * anything but HICACHE_OK must come out on all ranks. */
typedef hicache_code (*hicache_reduce)(void* context, int64_t* words, size_t count);
/* Whether reading back `usable_pages` pages of a request is cheaper than computing them;
 * `resident_pages` of them are in L2 already. 0: it is not. Local: the least count of all ranks
 * decides. */
typedef int (*hicache_worth)(void* context, uint64_t request, uint32_t usable_pages,
                             uint32_t resident_pages);

/* The end of a node of a prefix tree. Good until the node goes; one that went is told apart. */
typedef struct hicache_anchor {
  uint32_t node;
  uint32_t use;
} hicache_anchor;

/* An engine's own prefix tree, for engines that have one. All calls come from inside calls of the
 * group, at moments that are the same on all ranks, with arguments that are the same but for
 * leases. Hashes are 32 bytes each, one behind the other. A lease is the rank's handle on a run of
 * L2 pages, for hicache_lease_view; it ends as a whole, by hicache_group_end_lease. Every change of
 * the tree's L2 nodes goes into the fingerprint, in order: that is how ranks whose trees differ
 * are found out. */
typedef struct hicache_tree {
  void* context;
  /* 1: the anchor is there and no child of it begins with `first`. Writes the chain's hash at the
   * anchor, and 1 to *has_hash; 0 at a root without a seed. */
  int (*look)(void* context, hicache_anchor anchor, const uint8_t* first, uint8_t* live_hash,
              int* has_hash);
  /* Evicts L2 nodes, oldest first, until missing[owner] pages of each owner are free; nothing when
   * even all that may go would not do. */
  void (*make_room)(void* context, const uint32_t* missing, size_t owners);
  /* New L2 nodes behind a clean anchor. 1: taken; 0: nothing was changed. Until the call of
   * hicache_group_tick that this comes from has returned, make_room must leave them and what is
   * above them: whom they were read for is told by that call, and locks them. */
  int (*insert)(void* context, hicache_anchor anchor, const uint8_t* hashes,
                const uint16_t* owners, size_t pages, uint64_t lease);
  /* Pages [first, pages) of the path are stored on all ranks: those nodes are in L2 too. 1: the
   * lease was taken; page i of the lease is page first + i of the path. */
  int (*adopt_stored)(void* context, const uint8_t* hashes, const uint16_t* owners, size_t pages,
                      size_t first, uint64_t lease);
  /* Everything leaves L2; the group ends the leases. Nodes that are in L1 stay there. */
  void (*drop_l2)(void* context);
  uint64_t (*fingerprint)(void* context);
  void (*restart_fingerprint)(void* context, uint64_t epoch);
  /* Of what is in L1, in the order in which it would be evicted. */
  int64_t (*l1_digest)(void* context);
  /* Everything leaves L1 too: the ranks met, and their L1 differed. */
  void (*clear)(void* context);
} hicache_tree;

/* Zero means the default everywhere. */
typedef struct hicache_group_options {
  uint32_t struct_bytes;       /* sizeof(hicache_group_options) */
  uint32_t agreement;          /* HICACHE_AGREE_* */
  hicache_reduce reduce;       /* HOOK */
  void* reduce_context;
  hicache_worth worth;         /* NULL: always */
  void* worth_context;
  const hicache_tree* tree;    /* the engine's own; NULL: the library's */
  const uint8_t* seed;         /* 32 bytes, of the namespace (hicache_namespace_seed); NULL: none */
  const uint8_t* nccl_id;      /* 128 bytes for the first meeting, equal on all ranks; NULL: through
                                * the daemon, which needs all ranks on this node */
  int32_t cuda_device;         /* NCCL: ordinal of this rank's device */
  uint32_t reduce_timeout_ms;  /* 1..600000; default 1000: after it a rank that says nothing is
                                * taken for dead */
  uint32_t spin_us;            /* 0..1000000; default 20: spinning before a wait sleeps */
  uint32_t ttl_ms;             /* 1..600000; default 10000: of one reload, on this rank's clock */
  uint32_t ops_max;            /* 1..64; default 32: reloads in flight */
  uint32_t op_pages_max;       /* 1..512; default 512: of one reload */
  uint32_t inflight_pages_max; /* 1..1048576; default 4096: of all reloads in flight */
  uint32_t pages_min;          /* 1..op_pages_max; default 1: shorter reloads are not tried */
  uint32_t waiting_max;        /* 1..65536; default 1024: requests that wait for an answer */
  uint32_t stores_max;         /* 1..65536; default 4096: stores that are not settled */
  uint32_t nodes_max;          /* 2..16777216; default 65536: of the prefix tree */
  uint32_t reserved;           /* 0 */
} hicache_group_options;

/* `client` was opened with a quota (hicache_options.quota_bytes), and outlives the group. Nothing
 * is asked of the other ranks. */
HICACHE_API hicache_code hicache_group_open(hicache_client* client,
                                            const hicache_group_options* options,
                                            hicache_group** out);
/* Leases end, reloads in flight are cancelled. Completions that still come are the engine's to
 * take; one that carries a lease after all is the engine's to release. NULL is fine. */
HICACHE_API hicache_code hicache_group_close(hicache_group* group);

/* Meets the other ranks: once after hicache_group_open, and after every hicache_group_tick that did
 * not answer HICACHE_OK. Waits until all ranks have come, at most timeout_ms. *kept is 1 when the
 * tree still has what the engine's L1 holds, 0 when it is empty now: then the engine empties its L1
 * and forgets its anchors too. After TIMED_OUT, or DISCONNECTED (this rank has no daemon now, which
 * SHM and an NCCL id through the daemon need), call it again. */
HICACHE_API hicache_code hicache_group_join(hicache_group* group, uint32_t timeout_ms, int* kept);
/* The 128 bytes of the next meeting, equal on all ranks: an id of NCCL serves one. */
HICACHE_API hicache_code hicache_group_set_nccl_id(hicache_group* group, const uint8_t* nccl_id);

/* --- the library's prefix tree: which pages are in L1, which only in L2 -------------------- */

/* With a tree of the engine's own these answer UNSUPPORTED, but for hicache_group_clear. Pages are
 * named by key and owner; the other fields of hicache_page are not looked at. */

typedef struct hicache_match {
  hicache_anchor anchor;  /* where the match ends */
  uint32_t l1_pages;      /* leading pages that are in L1 */
  uint32_t l2_pages;      /* the next ones, only in L2: load them by their keys, or by views */
} hicache_match;

HICACHE_API hicache_code hicache_group_match(hicache_group* group, const hicache_page* pages,
                                             size_t page_count, hicache_match* out);
/* The path is in L1 now: computed or loaded. NO_SPACE: the tree has no record for it. */
HICACHE_API hicache_code hicache_group_fill_l1(hicache_group* group, const hicache_page* pages,
                                               size_t page_count);
/* Drops L1 of the oldest unlocked nodes until `pages` pages are free; *evicted: how many are. */
HICACHE_API hicache_code hicache_group_evict_l1(hicache_group* group, uint32_t pages,
                                                uint32_t* evicted);
/* Nodes from here to the root are in use: they stay. As often unlocked as locked. */
HICACHE_API hicache_code hicache_group_lock(hicache_group* group, hicache_anchor anchor);
HICACHE_API hicache_code hicache_group_unlock(hicache_group* group, hicache_anchor anchor);

/* Where pages lie that are only in L2, in order: for hicache_lease_view. */
typedef struct hicache_place {
  uint64_t lease;
  uint32_t page;      /* within the lease */
  uint32_t reserved;
} hicache_place;

/* Up to `max` places on the way to `anchor`; *count: how many there are. */
HICACHE_API hicache_code hicache_group_places(hicache_group* group, hicache_anchor anchor,
                                              hicache_place* out, size_t max, size_t* count);
/* The engine's own tree has let go of a lease; what it was charged with is free at once. NOT_FOUND:
 * it has not got it. */
HICACHE_API hicache_code hicache_group_end_lease(hicache_group* group, uint64_t lease);
/* Everything leaves L2 and L1: what flush_cache of an engine does. Open reloads end: their requests
 * are computed, as the next tick says. */
HICACHE_API hicache_code hicache_group_clear(hicache_group* group);

/* --- reload --------------------------------------------------------------------------------- */

enum {                          /* why a request is not held */
  HICACHE_DECLINE_NONE = 0,     /* it is: wait for its decision */
  HICACHE_DECLINE_EMPTY = 1,    /* no page behind the anchor */
  HICACHE_DECLINE_DUPLICATE = 2,/* this request waits already */
  HICACHE_DECLINE_TOO_SHORT = 3,/* shorter than pages_min */
  HICACHE_DECLINE_ANCHOR = 4,   /* the anchor has gone, or the first page hangs there already */
  HICACHE_DECLINE_QUOTA = 5,    /* even all of the quota would not hold pages_min of it */
  HICACHE_DECLINE_FULL = 6,     /* waiting_max */
  HICACHE_DECLINE_APART = 7     /* the ranks have not met: hicache_group_join */
};

/* A request misses pages[first_page..page_count) of its prefix; the pages before that end at
 * `anchor`. `tokens` are the token ids of page first_page (one more with bigrams): from them the
 * first key is derived anew when the pages are inserted. NULL, 0 where keys are opaque. */
typedef struct hicache_miss {
  uint64_t request;          /* the engine's own number */
  hicache_anchor anchor;
  const hicache_page* pages; /* of the whole prefix, from the root */
  size_t page_count;
  size_t first_page;
  const uint64_t* tokens;
  size_t token_count;
} hicache_miss;

/* *decline is 0 when the request is held: leave it in the queue until a tick admits it or says
 * recompute. */
HICACHE_API hicache_code hicache_group_offer(hicache_group* group, const hicache_miss* miss,
                                             uint32_t* decline);
/* The request does not wait any more: aborted, timed out or preempted. No later tick names it. */
HICACHE_API hicache_code hicache_group_withdraw(hicache_group* group, uint64_t request);

/* Stores pages[first_page..page_count) and keeps them in L2. `op` as for hicache_store; ack and
 * KEEP_LEASE are set by the group. *store: its number; a tick says when it is durable on all ranks
 * or on none. 0: there was no room for its lease, it is a hicache_store with the engine's `op`. The
 * memory is the operation's until it is settled. A store that this rank's client can't submit is
 * settled as not durable, on all ranks. After a tick that has `diverged` or did not answer
 * HICACHE_OK, and after hicache_group_clear, stores are settled that still run here: their memory
 * is the operations' until hicache_group_stats.stores_in_flight is 0. */
HICACHE_API hicache_code hicache_group_store(hicache_group* group, const hicache_op* op,
                                             const hicache_page* pages, size_t page_count,
                                             size_t first_page, uint64_t* store);

/* Local. 1: the completion was of the group's own. 0: it is the engine's. `user_data` of a reload's
 * completion is the request that it was begun for. */
HICACHE_API int hicache_group_take(hicache_group* group, const hicache_completion* completion);

enum {                             /* why a request is computed after all */
  HICACHE_RECOMPUTE_TOO_SHORT = 0, /* fewer than pages_min pages on some rank, or not worth it */
  HICACHE_RECOMPUTE_UNSTEADY = 1,  /* lengths of TRAILING kinds did not settle in 4 rounds */
  HICACHE_RECOMPUTE_NO_ROOM = 2,   /* the quota could not be evicted to fit */
  HICACHE_RECOMPUTE_ANCHOR = 3,    /* the anchor has moved or was filled meanwhile */
  HICACHE_RECOMPUTE_FAILED = 4,    /* a read failed on some rank */
  HICACHE_RECOMPUTE_EXPIRED = 5,   /* ttl_ms passed on some rank */
  HICACHE_RECOMPUTE_DIVERGED = 6   /* the ranks disagreed, or one of them has gone */
};

typedef struct hicache_admit {
  uint64_t request;  /* match it again: its pages are in the tree */
  uint32_t pages;
  uint32_t reserved;
} hicache_admit;
typedef struct hicache_recompute {
  uint64_t request;
  uint32_t reason;   /* HICACHE_RECOMPUTE_* */
  uint32_t reserved;
} hicache_recompute;
typedef struct hicache_settled {
  uint64_t store;
  uint32_t durable;  /* 1: on all ranks; 0: to be taken for stored nowhere */
  uint32_t reserved;
} hicache_settled;

/* Arrays are the group's, until its next tick, clear, join or close. */
typedef struct hicache_decisions {
  const hicache_admit* admits;
  size_t admit_count;
  const hicache_recompute* recomputes;
  size_t recompute_count;
  const hicache_settled* stores;
  size_t store_count;
  uint8_t reduced;     /* 1: a reduce has run in this tick */
  uint8_t diverged;    /* 1: the ranks disagreed; all that was open has been dropped */
  uint8_t l2_dropped;  /* 1: no page is in L2 any more: a daemon came anew, or they disagreed */
  uint8_t reserved[5];
} hicache_decisions;

/* Once per scheduling pass. With nothing open no reduce runs. HICACHE_OK, or why the ranks are
 * apart (DISCONNECTED: one has died or left; TIMED_OUT; IO_ERROR): then `out` still says what
 * becomes of what was open, and hicache_group_join is due. */
HICACHE_API hicache_code hicache_group_tick(hicache_group* group, hicache_decisions* out);

typedef struct hicache_group_stats {
  uint32_t struct_bytes;     /* set by the caller: sizeof(hicache_group_stats) */
  uint32_t agreement;        /* the HICACHE_AGREE_* that is in use */
  uint64_t ticks, reduces, joins;
  uint64_t offers, held, piggybacked, admitted, pages_admitted;
  uint64_t divergences, l2_drops, late_landings, unwanted;
  uint64_t declined[8];      /* by HICACHE_DECLINE_* */
  uint64_t recomputed[8];    /* by HICACHE_RECOMPUTE_* */
  uint64_t quota_pages;      /* of each owner */
  uint64_t quota_used;       /* of the owner that has most */
  uint64_t nodes, l1_pages, l2_grants;
  uint64_t bytes_reloaded;   /* payload bytes that reloads of this rank moved from disk to L2 */
  uint64_t stores_in_flight; /* local: operations of stores that have not ended on this rank */
} hicache_group_stats;

HICACHE_API hicache_code hicache_group_get_stats(hicache_group* group, hicache_group_stats* out);

/* --- small values between the ranks of a node, through the daemon --------------------------- */

/* Of more than 32 values of a group the one of the lowest key goes. 1..4096 bytes. Local. */
HICACHE_API hicache_code hicache_post(hicache_client* client, uint32_t key, const uint8_t* value,
                                      size_t value_bytes, uint32_t timeout_ms);
/* Waits until some rank has posted under the key. *value_bytes: room on entry, size on return. */
HICACHE_API hicache_code hicache_fetch(hicache_client* client, uint32_t key, uint8_t* value,
                                       size_t* value_bytes, uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HICACHE_GROUP_H */
