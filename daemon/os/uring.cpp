// SPDX-License-Identifier: Apache-2.0
// uring: set up, probe, submit and reap through liburing.
#include "daemon/os/uring.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace hc {

namespace {

unsigned setup_flags(UringMode mode) {
  switch (mode) {
    case UringMode::deferred: return IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    case UringMode::cooperative: return IORING_SETUP_COOP_TASKRUN;
    case UringMode::plain: return 0;
  }
  HC_UNREACHABLE();
}

Result<void> probe_operations(io_uring& ring) {
  const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe*)> probe(
      io_uring_get_probe_ring(&ring), io_uring_free_probe);
  if (!probe) {
    return make_error(Code::unsupported, "io_uring: the kernel can't be probed");
  }
  for (const int op : {IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_READ_FIXED,
        IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_FALLOCATE}) {
    if (io_uring_opcode_supported(probe.get(), op) == 0) {
      return make_error(Code::unsupported,
                        "io_uring: the kernel lacks operation " + std::to_string(op));
    }
  }
  return {};
}

}  // namespace

const char* uring_mode_name(UringMode mode) {
  switch (mode) {
    case UringMode::deferred: return "defer_taskrun";
    case UringMode::cooperative: return "coop_taskrun";
    case UringMode::plain: return "plain";
  }
  HC_UNREACHABLE();
}

Result<Uring> Uring::create(std::uint32_t entries, UringMode mode) {
  io_uring_params params{};
  params.flags = setup_flags(mode) | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  params.cq_entries = entries * 2;
  io_uring ring{};
  if (const int rc = io_uring_queue_init_params(entries, &ring, &params); rc != 0) {
    return make_error(Code::unsupported,
                      std::string("io_uring_setup (") + uring_mode_name(mode) + ")", -rc);
  }
  auto event = EventFd::create();
  if (!event) {
    io_uring_queue_exit(&ring);
    return event.error();
  }
  Uring made(ring, mode, std::move(*event));
  if (params.sq_entries < entries || params.cq_entries < entries * 2) {
    return make_error(Code::unsupported, "io_uring: the kernel allows only " +
                                             std::to_string(params.sq_entries) + " entries");
  }
  HC_TRY_VOID(probe_operations(made.ring_));
  if (const int rc = io_uring_register_eventfd(&made.ring_, made.event_.fd()); rc != 0) {
    return make_error(Code::unsupported, "io_uring_register_eventfd", -rc);
  }
  return made;
}

Result<Uring> Uring::create_best(std::uint32_t entries) {
  for (const UringMode mode : {UringMode::deferred, UringMode::cooperative}) {
    auto made = create(entries, mode);
    // EINVAL: this kernel does not know the flags. Anything else would not get better.
    if (made || made.error().sys_errno != EINVAL) {
      return made;
    }
  }
  return create(entries, UringMode::plain);
}

Uring::Uring(io_uring ring, UringMode mode, EventFd event)
    : ring_(ring), mode_(mode), event_(std::move(event)) {}

Uring::Uring(Uring&& other) noexcept
    : ring_(other.ring_), mode_(other.mode_), event_(std::move(other.event_)) {
  other.owned_ = false;
}

Uring::~Uring() {
  if (owned_) {
    io_uring_queue_exit(&ring_);
  }
}

io_uring_sqe* Uring::next_entry(std::uint64_t tag) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    // Full of operations that the kernel has not taken yet; the owner's bound is the ring's size.
    submit();
    entry = io_uring_get_sqe(&ring_);
  }
  HC_CHECK(entry != nullptr);
  entry->user_data = tag;
  return entry;
}

Result<void> Uring::create_tables(std::uint32_t files, std::uint32_t buffers) {
  if (const int rc = io_uring_register_files_sparse(&ring_, files); rc != 0) {
    return make_error(Code::unsupported, "io_uring: no table of files", -rc);
  }
  if (const int rc = io_uring_register_buffers_sparse(&ring_, buffers); rc != 0) {
    return make_error(Code::unsupported, "io_uring: no table of buffers", -rc);
  }
  return {};
}

void Uring::drop_tables() {
  io_uring_unregister_files(&ring_);
  io_uring_unregister_buffers(&ring_);
}

Result<void> Uring::set_file(std::uint32_t number, int fd) {
  const int rc = io_uring_register_files_update(&ring_, number, &fd, 1);
  return rc == 1 ? Result<void>() : make_error(Code::unsupported, "io_uring: file table", -rc);
}

Result<void> Uring::set_buffer(std::uint32_t number, const iovec& bytes) {
  const __u64 tag = 0;
  const int rc = io_uring_register_buffers_update_tag(&ring_, number, &bytes, &tag, 1);
  if (rc == 1) {
    return {};
  }
  return rc == -ENOMEM
             ? make_error(Code::no_space, "io_uring: RLIMIT_MEMLOCK is too small to register the "
                                          "memory of requests")
             : make_error(Code::unsupported, "io_uring: buffer table", -rc);
}

void Uring::aim(io_uring_sqe* entry, std::uint64_t tag, const Target& target) {
  entry->user_data = tag;
  if (target.file) {
    entry->fd = static_cast<int>(*target.file);
    entry->flags |= IOSQE_FIXED_FILE;
  }
}

void Uring::queue_read(std::uint64_t tag, const Target& target, std::span<const iovec> vectors,
                       std::uint64_t offset) {
  io_uring_sqe* entry = next_entry(tag);
  if (target.buffer) {
    HC_CHECK(vectors.size() == 1);
    io_uring_prep_read_fixed(entry, target.fd, vectors[0].iov_base,
                             static_cast<unsigned>(vectors[0].iov_len), offset,
                             static_cast<int>(*target.buffer));
  } else {
    io_uring_prep_readv(entry, target.fd, vectors.data(), static_cast<unsigned>(vectors.size()),
                        offset);
  }
  aim(entry, tag, target);
}

void Uring::queue_write(std::uint64_t tag, const Target& target, std::span<const iovec> vectors,
                        std::uint64_t offset) {
  io_uring_sqe* entry = next_entry(tag);
  if (target.buffer) {
    HC_CHECK(vectors.size() == 1);
    io_uring_prep_write_fixed(entry, target.fd, vectors[0].iov_base,
                              static_cast<unsigned>(vectors[0].iov_len), offset,
                              static_cast<int>(*target.buffer));
  } else {
    io_uring_prep_writev(entry, target.fd, vectors.data(), static_cast<unsigned>(vectors.size()),
                         offset);
  }
  aim(entry, tag, target);
}

void Uring::queue_sync(std::uint64_t tag, int fd) {
  io_uring_sqe* entry = next_entry(tag);
  io_uring_prep_fsync(entry, fd, IORING_FSYNC_DATASYNC);
  entry->user_data = tag;
}

void Uring::queue_space(std::uint64_t tag, int fd, const Space& space) {
  io_uring_sqe* entry = next_entry(tag);
  // The types of these two changed between versions of liburing, their places did not.
  io_uring_prep_fallocate(entry, fd, space.punch ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0,
                          0, 0);
  entry->off = space.offset_bytes;
  entry->addr = space.length_bytes;
  entry->user_data = tag;
}

// EAGAIN, EBUSY and EINTR leave operations queued; the next call takes them. The event makes
// sure that there is a next call, even when nothing else is in flight.
void Uring::after_submit(int rc) {
  HC_CHECK(rc >= 0 || rc == -EAGAIN || rc == -EBUSY || rc == -EINTR || rc == -EBADR);
  if (io_uring_sq_ready(&ring_) > 0) {
    event_.raise();
  }
}

void Uring::submit() { after_submit(io_uring_submit_and_get_events(&ring_)); }

void Uring::submit_and_wait() { after_submit(io_uring_submit_and_wait(&ring_, 1)); }

std::uint32_t Uring::reap(std::span<Done> out) {
  std::uint32_t count = 0;
  unsigned head = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    if (count == out.size()) {
      break;
    }
    out[count++] = {entry->user_data, entry->res};
  }
  io_uring_cq_advance(&ring_, count);
  return count;
}

}  // namespace hc
