// SPDX-License-Identifier: Apache-2.0
// uring: one io_uring with its eventfd. Queues, submits, reaps; knows nothing of requests.
//
// Owner: one thread, the one that created it: the kernel refuses others where it can.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "daemon/os/event_fd.h"
#include "proto/result.h"

namespace hc {

// How completions reach the owner, best first. `deferred` does the work only when the owner asks,
// `cooperative` when the owner enters the kernel anyway, `plain` by interrupting it.
enum class UringMode : std::uint8_t { deferred, cooperative, plain };
const char* uring_mode_name(UringMode mode);

class Uring {
 public:
  struct Done {
    std::uint64_t tag;
    std::int32_t result;
  };

  // `entries` is the bound of operations in flight; the completion queue is twice as large, so
  // that it cannot overflow. Refused with a reason when the kernel lacks an operation.
  static Result<Uring> create(std::uint32_t entries, UringMode mode);
  // The best mode that this kernel has.
  static Result<Uring> create_best(std::uint32_t entries);

  Uring(Uring&& other) noexcept;
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  Uring& operator=(Uring&&) = delete;
  ~Uring();

  UringMode mode() const { return mode_; }
  int event_fd() const { return event_.fd(); }

  // Empty tables of files and buffers; entries are set one by one. Errors: unsupported (kernel).
  Result<void> create_tables(std::uint32_t files, std::uint32_t buffers);
  // Lets go of what the tables hold now; the end of the ring would do it some time later.
  void drop_tables();
  Result<void> set_file(std::uint32_t number, int fd);  // -1: none
  // No bytes: none. Errors: no_space (limit of locked memory).
  Result<void> set_buffer(std::uint32_t number, const iovec& bytes);

  // Where a transfer goes: a descriptor, or its number in the table; with a buffer number the one
  // vector lies in that buffer.
  struct Target {
    int fd = -1;
    std::optional<std::uint32_t> file;
    std::optional<std::uint32_t> buffer;
  };
  // The vectors must stay where they are until the tag was reaped.
  void queue_read(std::uint64_t tag, const Target& target, std::span<const iovec> vectors,
                  std::uint64_t offset);
  void queue_write(std::uint64_t tag, const Target& target, std::span<const iovec> vectors,
                   std::uint64_t offset);
  void queue_sync(std::uint64_t tag, int fd);
  struct Space {
    bool punch = false;  // else: allocate
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
  };
  void queue_space(std::uint64_t tag, int fd, const Space& space);

  // Hands queued operations to the kernel and lets it post what is done. Does not wait.
  void submit();
  // The same, and waits until one completion can be reaped.
  void submit_and_wait();
  // Moves completions to `out`; returns how many.
  std::uint32_t reap(std::span<Done> out);
  // Lowers the event; comes before the reaping.
  void clear_event() { event_.clear(); }

 private:
  Uring(io_uring ring, UringMode mode, EventFd event);

  io_uring_sqe* next_entry(std::uint64_t tag);
  static void aim(io_uring_sqe* entry, std::uint64_t tag, const Target& target);
  void after_submit(int rc);

  io_uring ring_;
  UringMode mode_;
  EventFd event_;
  bool owned_ = true;
};

}  // namespace hc
