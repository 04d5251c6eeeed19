/* SPDX-License-Identifier: Apache-2.0
 *
 * hicache.h: the C contract of the hicached client library, and the only header a C program needs.
 *
 * A client is one engine rank. It attaches to the daemon of its node, registers the memory its
 * pages live in, and submits operations; answers come as completions, in any order.
 *
 * Rules that hold for every call:
 *  - Every function returns a hicache_code. 0 is HICACHE_OK. `hicache_last_error` has one clear
 *    line for the calling thread: the field, its value, and what is allowed.
 *  - Every call is bounded: nothing waits longer than the deadline or timeout given to it. A
 *    timeout is 1..600000 ms (0 is allowed where "wait" or "close" takes it).
 *  - A client may be used from several threads. One call at a time is served.
 *  - After fork() the child must not use the client: calls answer HICACHE_REFUSED.
 *  - A page key is 16..36 bytes. A key of 32 bytes is the page hash; any other length is stored
 *    under its SHA-256.
 *  - Exactly one completion of an operation is terminal. Memory named by an operation (a store's
 *    source until its `resident` ack, a load's target) belongs to the operation until then. Past
 *    its deadline an operation first answers HICACHE_ACK_LATE (not terminal) if a copy may still
 *    touch the memory: treat it as a miss and go on, but leave the memory alone until the
 *    terminal completion with HICACHE_TIMED_OUT. The library reports LATE itself, for any verb,
 *    when the daemon does not answer at all.
 *  - A miss, an I/O failure or damage on disk is HICACHE_NOT_FOUND: recompute.
 *  - When the daemon goes away every operation in flight ends with HICACHE_DISCONNECTED (one that
 *    names memory only once nothing of the daemon runs any more: until then it is LATE), calls
 *    answer it at once, and the library attaches again in the background. Regions are registered
 *    again by the library. Leases are gone then, unless the same daemon lives on and keeps them.
 *  - The library installs no signal handler, raises no SIGPIPE, and writes to no stream.
 */
#ifndef HICACHE_H
#define HICACHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HICACHE_API __attribute__((visibility("default")))
#else
#define HICACHE_API
#endif

/* Raised when a struct or a function of this header changes its meaning. */
#define HICACHE_ABI_VERSION 2

typedef int32_t hicache_code;
enum {
  HICACHE_OK = 0,
  HICACHE_NOT_FOUND = 1,     /* a miss: recompute */
  HICACHE_BUSY = 2,          /* a limit is reached now; nothing was changed; try again later */
  HICACHE_NO_SPACE = 3,      /* the tier can't hold it */
  HICACHE_BAD_ARGUMENT = 4,  /* nothing was changed; see hicache_last_error */
  HICACHE_NOT_READY = 5,     /* the daemon holds its cold start */
  HICACHE_DISCONNECTED = 6,  /* no daemon now; the library attaches again in the background */
  HICACHE_TIMED_OUT = 7,     /* the deadline passed; the memory is yours */
  HICACHE_CANCELLED = 8,
  HICACHE_RETRY = 9,         /* the page was forgotten meanwhile; the same call may succeed */
  HICACHE_IO_ERROR = 10,
  HICACHE_CORRUPT = 11,      /* never answered to a client; kept so that codes line up */
  HICACHE_REFUSED = 12,      /* wrong version, wrong rights, forked child */
  HICACHE_SUPERSEDED = 13,   /* a newer client of the same group and rank took over */
  HICACHE_UNSUPPORTED = 14,
  HICACHE_MEMORY_FAULT = 15, /* the region's memory could not be touched */
  HICACHE_PROTOCOL = 16,
  HICACHE_NOT_DURABLE = 17   /* the pages are in memory, with their lease; the daemon's spill policy
                              * keeps them off the disk for now; a flush writes them */
};

typedef struct hicache_client hicache_client;

enum { HICACHE_REPLICATED = 0, HICACHE_SHARDED = 1, HICACHE_OWNED = 2 };
enum { HICACHE_ALL_PAGES = 0, HICACHE_TRAILING = 1 };

/* One payload kind of a page. */
typedef struct hicache_kind {
  const char* name;         /* 1..256 bytes, unique in the space */
  uint32_t payload_bytes;   /* 1..64 MiB; bytes of one page of this kind on one shard */
  uint8_t placement;        /* HICACHE_REPLICATED: equal on all ranks; SHARDED; OWNED */
  uint8_t policy;           /* HICACHE_ALL_PAGES, or TRAILING: only the last pages need it */
  uint16_t reserved;        /* 0 */
  uint32_t trailing_pages;  /* 1..512 with HICACHE_TRAILING, else 0 */
} hicache_kind;

/* Everything that must be equal for two engines to share pages. Texts may be NULL (empty) except
 * model. The tenant is added by the daemon. */
typedef struct hicache_space {
  const char* model;
  const char* revision;
  const char* weight_version;
  const char* dtype;
  const char* packing;
  const char* layout;
  const char* hash_scheme;   /* for example "sglang-sha256-v1"; see hicache_hash_pages */
  uint32_t page_tokens;      /* 1..65536 */
  uint8_t bigram;            /* 1: pages are hashed over bigrams (EAGLE) */
  uint8_t reserved;          /* 0 */
  uint16_t tensor_size;      /* world sizes; their product is the number of shards, at most 64 */
  uint16_t pipeline_size;
  uint16_t context_size;
  const hicache_kind* kinds;
  uint32_t kind_count;       /* 1..8 */
} hicache_space;

typedef struct hicache_options {
  uint32_t struct_bytes;     /* sizeof(hicache_options) */
  uint32_t abi_version;      /* HICACHE_ABI_VERSION */
  const char* socket_path;   /* NULL: $HICACHE_SOCKET, else /run/hicached/hicached.sock */
  const char* group;         /* name of the engine instance, 1..63 bytes; equal on all its ranks */
  uint16_t rank;             /* of the group, 0..world-1 */
  uint16_t world;            /* ranks of the group, at least 1 */
  uint16_t tensor_rank;      /* coordinates of this rank's shard */
  uint16_t pipeline_rank;
  uint16_t context_rank;
  uint16_t shards_on_node;   /* shards that live on this node; 0: all */
  uint32_t attach_timeout_ms;/* bound of hicache_open; 1..600000 */
  uint64_t incarnation;      /* 0: chosen by the library (start time); equal or newer supersedes */
  uint64_t quota_bytes;      /* L2 that the daemon guarantees the group, for each owner: at least
                              * one page (a blob of every kind: its payload and 4096 bytes, in
                              * blocks of 4096), equal on all ranks; 0: none */
  uint32_t flags;            /* HICACHE_OPEN_* */
  uint32_t reserved;         /* 0 */
} hicache_options;

/* hicache_open succeeds although no daemon answers; the library attaches in the background. */
#define HICACHE_OPEN_BACKGROUND 1u
/* L2 may be mapped writable, as HICACHE_TRANSFER_RANK needs it: the daemon trusts this process. */
#define HICACHE_OPEN_RANK_COPIES 2u

/* Attaches. While no daemon answers, or it is busy, it tries again until attach_timeout_ms; a
 * refusal ends it at once. On failure *out is NULL and hicache_last_error says why. Not a hot
 * call: it starts a thread and maps the pool. */
HICACHE_API hicache_code hicache_open(const hicache_options* options, const hicache_space* space,
                                      hicache_client** out);
/* Ends the session: operations in flight are cancelled and waited for (at most timeout_ms), leases
 * end, memory is unmapped, views with it. `client` is invalid afterwards, whatever is returned; no
 * other call may be running. TIMED_OUT: the daemon may still touch memory of operations that were
 * in flight. Copies of this rank's own (transfer RANK) that its GPU has been given are waited for
 * however long they take: after this call no memory of the process is touched by them. NULL is
 * fine. */
HICACHE_API hicache_code hicache_close(hicache_client* client, uint32_t timeout_ms);

/* HICACHE_OK: serving. NOT_READY: attached, cold start held. DISCONNECTED: attaching again.
 * SUPERSEDED or REFUSED: final; close the client. */
HICACHE_API hicache_code hicache_state(hicache_client* client);
/* Number of daemon instances this client has attached to, from 1; 0 before the first. A daemon
 * that is attached to again without a restart counts once. */
HICACHE_API hicache_code hicache_instances(hicache_client* client, uint64_t* out);

/* Payload bytes [run.offset, +length) of page `row` lie at offset_bytes + row * stride_bytes of the
 * region; the payload is its runs in order. */
typedef struct hicache_run {
  uint64_t offset_bytes;
  uint64_t stride_bytes;
  uint64_t length_bytes;
} hicache_run;

typedef struct hicache_layout {
  uint32_t kind;             /* index of the kind in the space */
  uint32_t run_count;        /* 1..512; lengths add up to the kind's payload_bytes */
  const hicache_run* runs;
} hicache_layout;

/* A memory file (memfd) that the daemon may read and write: the source of stores and the target
 * of loads. fd is duplicated. Kinds without a layout can't be stored from or loaded to it. */
typedef struct hicache_region {
  uint32_t region;           /* chosen by the caller, 0..15, not in use */
  int32_t fd;
  uint64_t offset_bytes;     /* a multiple of 4096 */
  uint64_t size_bytes;
  uint32_t rows;             /* pages that fit: row numbers are 0..rows-1 */
  uint32_t layout_count;
  const hicache_layout* layouts;
} hicache_region;

enum { HICACHE_TRANSFER_AUTO = 0, HICACHE_TRANSFER_IPC = 1, HICACHE_TRANSFER_RANK = 2 };

/* Memory of a GPU. IPC: the daemon opens and copies it; inside one allocation, or in at most 64
 * chunks of cuMemCreate that were made to be exported as descriptors. RANK: threads of this
 * library copy, for any memory that the GPU's context can copy; HICACHE_OPEN_RANK_COPIES.
 * AUTO: IPC where the memory and the daemon allow it, else RANK. All regions of a client are of
 * one GPU. Unregister before the memory is freed; after a sleep register anew.
 * UNSUPPORTED: no GPU, memory that can't be exported, or the daemon's configuration. */
typedef struct hicache_cuda_region {
  uint32_t region;           /* as of hicache_region; host and GPU regions share the numbers */
  uint32_t rows;
  uint64_t address;          /* CUdeviceptr */
  uint64_t size_bytes;
  uint32_t transfer;         /* HICACHE_TRANSFER_* */
  uint32_t layout_count;
  const hicache_layout* layouts;
} hicache_cuda_region;

HICACHE_API hicache_code hicache_register_cuda_region(hicache_client* client,
                                                      const hicache_cuda_region* region,
                                                      uint32_t timeout_ms);
/* After TIMED_OUT the region is taken back as soon as the daemon answers; until then its number is
 * BUSY. */
HICACHE_API hicache_code hicache_register_region(hicache_client* client,
                                                 const hicache_region* region,
                                                 uint32_t timeout_ms);
/* Returns when the daemon can't touch the memory any more; BUSY while operations name it. After
 * TIMED_OUT it goes on; the same call again waits for its end. */
HICACHE_API hicache_code hicache_unregister_region(hicache_client* client, uint32_t region,
                                                   uint32_t timeout_ms);

/* One page of an operation. */
typedef struct hicache_page {
  const uint8_t* key;        /* 16..36 bytes */
  uint32_t key_bytes;
  uint32_t row;              /* page row in the region (store, load) */
  uint16_t owner;            /* shard that owns the page, for OWNED kinds */
  uint16_t metadata_bytes;   /* 0..4024: kept with the page (parent hash, token ids) */
  const uint8_t* metadata;
} hicache_page;

/* How many leading pages are there, for this rank's shard. Pages of an OWNED kind that another
 * shard owns count as present (the ranks' minimum closes it). Reads shared memory: no system call.
 * Advisory: a reload verifies. At most 16777216 pages; *out is zero unless HICACHE_OK. */
typedef struct hicache_prefix {
  uint32_t usable_pages;     /* every ALL_PAGES kind covers [0,n), every TRAILING kind the last k */
  uint32_t resident_pages;   /* leading pages of those with every part in L2 */
  uint32_t durable_pages;    /* leading pages of those with every part durable */
  uint32_t kind_pages[8];    /* leading pages per kind */
} hicache_prefix;

HICACHE_API hicache_code hicache_exists_prefix(hicache_client* client, const hicache_page* pages,
                                               size_t page_count, hicache_prefix* out);
/* The same, but an OWNED kind is tested on the page's owner: for callers without agreement. */
HICACHE_API hicache_code hicache_exists_prefix_all(hicache_client* client,
                                                   const hicache_page* pages, size_t page_count,
                                                   hicache_prefix* out);

enum {
  HICACHE_VERB_STORE = 1, HICACHE_VERB_RELOAD = 2, HICACHE_VERB_LOAD = 3, HICACHE_VERB_PIN = 4,
  HICACHE_VERB_RELEASE = 5, HICACHE_VERB_FREE = 6, HICACHE_VERB_FLUSH = 7, HICACHE_VERB_CANCEL = 8
};
enum {
  HICACHE_ACK_NONE = 0, HICACHE_ACK_RESIDENT = 1, HICACHE_ACK_WRITTEN = 2, HICACHE_ACK_DURABLE = 3,
  HICACHE_ACK_LATE = 4, HICACHE_ACK_DONE = 5
};

#define HICACHE_STORE_KEEP_LEASE 1u /* lease the pages when resident; see completion.lease */
#define HICACHE_STORE_EVERY_ACK 2u  /* report resident and written before the terminal ack */
#define HICACHE_LOAD_MAX_PREFIX 8u  /* load the longest present prefix instead of all or nothing */
#define HICACHE_AFTER_STREAM 16u     /* store, load: not before the work now in op.stream is done */
#define HICACHE_HINT_MAY_CONTINUE 1u
#define HICACHE_HINT_ONE_SHOT 2u

typedef struct hicache_op {
  uint32_t deadline_ms;      /* 1..600000, from submission */
  uint32_t flags;            /* HICACHE_STORE_*, HICACHE_LOAD_*, HICACHE_AFTER_STREAM */
  uint8_t ack;               /* store: the terminal ack, RESIDENT (default, 0), WRITTEN, DURABLE */
  uint8_t hint;              /* store: HICACHE_HINT_*. Under write_through_selective MAY_CONTINUE
                              * sends the pages to disk at once, ONE_SHOT is no use of them */
  uint8_t priority;          /* 0 is ordinary; this version does not use it */
  uint8_t kind_mask;         /* bit k: kind k takes part; 0: every kind */
  uint32_t region;           /* store, load */
  uint64_t user_data;        /* returned in the completions */
  void* stream;              /* HICACHE_AFTER_STREAM: a CUstream, not under capture; GPU regions */
} hicache_op;

/* Operations. *op_id names the operation in completions and hicache_cancel; it is never 0, and
 * never the same again in the life of a client. At most 512 pages, 4 GiB of payload and 192 KiB of
 * metadata each. BUSY when 64 operations of this client are in flight.
 * Of a TRAILING kind, reload, load and pin bring the last trailing_pages pages of the operation
 * only: that is what a prefix of these pages needs.
 * With a quota, reload, pin and a store with HICACHE_STORE_KEEP_LEASE are never BUSY or NO_SPACE
 * while the leases of this client, and what it asks for, are within quota_bytes: they wait for
 * room, up to their deadline. What is beyond is NO_SPACE at once. */

/* Writes what is missing of these pages and touches the rest (tail older than head). */
HICACHE_API hicache_code hicache_store(hicache_client* client, const hicache_op* op,
                                       const hicache_page* pages, size_t page_count,
                                       uint64_t* op_id);
/* Brings every page into L2 under one lease, or none. */
HICACHE_API hicache_code hicache_reload(hicache_client* client, const hicache_op* op,
                                        const hicache_page* pages, size_t page_count,
                                        uint64_t* op_id);
/* Copies every page's payloads into the region, from L2 or disk. Verified before it is answered. */
HICACHE_API hicache_code hicache_load(hicache_client* client, const hicache_op* op,
                                      const hicache_page* pages, size_t page_count,
                                      uint64_t* op_id);
/* Leases pages that are resident now; NOT_FOUND if one is not. */
HICACHE_API hicache_code hicache_pin(hicache_client* client, const hicache_op* op,
                                     const hicache_page* pages, size_t page_count,
                                     uint64_t* op_id);
/* Ends a lease and its views at once. NOT_FOUND, without an operation, if the lease had ended with
 * its session or space: then this only lets go of its memory. DISCONNECTED, without an operation:
 * no session stands; the handle is gone, and a daemon that keeps the lease will be told. */
HICACHE_API hicache_code hicache_release(hicache_client* client, const hicache_op* op,
                                         uint64_t lease, uint64_t* op_id);
/* Forgets pages on this node: every kind and shard. Unreachable at once; completed when they can't
 * come back after any crash. */
HICACHE_API hicache_code hicache_free_object(hicache_client* client, const hicache_op* op,
                                             const hicache_page* pages, size_t page_count,
                                             uint64_t* op_id);
/* Barrier: completes when every earlier store is durable or has failed. */
HICACHE_API hicache_code hicache_flush(hicache_client* client, const hicache_op* op,
                                       uint64_t* op_id);
/* Ends an operation early; it still gets its own terminal completion (CANCELLED, or what it was
 * about to answer). NOT_FOUND, without an operation, if it is not in flight. */
HICACHE_API hicache_code hicache_cancel(hicache_client* client, const hicache_op* op,
                                        uint64_t target_op_id, uint64_t* op_id);

/* A completion with HICACHE_ACK_LATE carries HICACHE_TIMED_OUT and is not terminal, whether the
 * daemon or the library reports it. */
typedef struct hicache_completion {
  uint64_t op_id;
  uint64_t user_data;
  hicache_code code;
  uint8_t verb;              /* HICACHE_VERB_* */
  uint8_t ack;               /* HICACHE_ACK_* */
  uint8_t terminal;          /* 1: the last completion of this operation */
  uint8_t reserved;
  uint32_t page_count;       /* leading pages the answer speaks of */
  uint32_t pages_from_l2;
  uint32_t pages_from_l3;
  uint32_t pages_stored;     /* store: pages with a part that was copied, not deduplicated */
  uint64_t lease;            /* reload, pin, store with KEEP_LEASE; 0: none */
  uint64_t bytes;            /* payload bytes moved for this operation */
  uint64_t store_sequence;   /* store: this client's count of accepted stores, from 1 */
} hicache_completion;

/* Takes up to `max` completions without waiting; *count may be 0. With nothing to take and no
 * daemon it answers as hicache_state does. */
HICACHE_API hicache_code hicache_poll(hicache_client* client, hicache_completion* out, size_t max,
                                      size_t* count);
/* As poll, but waits up to timeout_ms (0..600000) for the first one. TIMED_OUT when none came. */
HICACHE_API hicache_code hicache_wait(hicache_client* client, hicache_completion* out, size_t max,
                                      uint32_t timeout_ms, size_t* count);
/* A descriptor that turns readable when completions may be there, for event loops; hicache_poll
 * clears it. Owned by the client; do not read or close it. */
HICACHE_API hicache_code hicache_event_fd(hicache_client* client, int* fd);

/* A leased payload in the mapped pool; read-only. Valid until the lease is released; readable until
 * then even if the daemon dies. Check with hicache_view_intact after the copy: 0 means the bytes
 * may have changed, use nothing of them. A lease that goes on in the next session keeps its views;
 * between the sessions none is called intact. */
typedef struct hicache_view {
  const uint8_t* data;       /* NULL where this shard has no part of the kind */
  uint64_t size_bytes;       /* payload_bytes of the kind */
  uint64_t generation;
  uint64_t token;            /* opaque; for hicache_view_intact */
} hicache_view;

/* Page `page` (index in the operation that granted the lease), kind `kind`. */
HICACHE_API hicache_code hicache_lease_view(hicache_client* client, uint64_t lease, uint32_t page,
                                            uint32_t kind, hicache_view* out);
HICACHE_API int hicache_view_intact(hicache_client* client, const hicache_view* view);

/* New model weights: cancels and waits for what is in flight, releases this client's leases and
 * binds to the space with the new weight version. Regions stay registered. After TIMED_OUT or
 * DISCONNECTED nobody knows which weights the daemon is bound to: exists, store, reload, load, pin
 * and free_object answer BUSY until the same call has succeeded. */
HICACHE_API hicache_code hicache_space_switch(hicache_client* client, const char* weight_version,
                                              uint32_t timeout_ms);

typedef struct hicache_stats {
  uint32_t struct_bytes;     /* set by the caller: sizeof(hicache_stats) */
  uint32_t reserved;
  uint64_t pages, resident_parts, written_parts, durable_parts;
  uint64_t frames_total, frames_free, frames_leased;
  uint64_t slots_total, slots_free; /* that have their space on the disk now */
  uint64_t oldest_undurable_ms;
  uint64_t hits_l2, hits_l3, misses, stored, evicted_l2, evicted_l3;
  uint64_t verify_failures, commits;
} hicache_stats;

HICACHE_API hicache_code hicache_get_stats(hicache_client* client, hicache_stats* out,
                                           uint32_t timeout_ms);

/* --- Content hashing: the SHA-256 page chain that SGLang writes ---------------------------- */

/* Hashes the full pages of `tokens` (bigram pages when `bigram`), chained on `prior` (32 bytes, or
 * NULL for the root). Writes 32 bytes per page to `out` (room for max_pages) and the number of
 * pages to *count. */
HICACHE_API hicache_code hicache_hash_pages(const uint8_t* prior, const uint64_t* tokens,
                                            size_t token_count, uint32_t page_tokens, int bigram,
                                            uint8_t* out, size_t max_pages, size_t* count);
/* The chain's seed for a namespace; either may be NULL (not the same as empty). With both NULL
 * *has_seed is 0: start at the root. */
HICACHE_API hicache_code hicache_namespace_seed(const char* extra_key, const char* cache_salt,
                                                uint8_t seed[32], int* has_seed);

HICACHE_API const char* hicache_code_name(hicache_code code);
HICACHE_API const char* hicache_version(void);
/* One line about the last failed call of this thread; never NULL. */
HICACHE_API const char* hicache_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HICACHE_H */
