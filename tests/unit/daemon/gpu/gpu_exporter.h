// SPDX-License-Identifier: Apache-2.0
// gpu_exporter: a process with memory of a device that it exports, as an engine's rank has it.
//
// Owner thread: one, in a forked process (support/doubles.h). A handle can't be opened by the
// process that it is of, so this one is another; it does what it is told, one order after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/gpu/device_memory.h"
#include "shm/socket_message.h"
#include "unit/shm/cuda/chunk_area.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

class GpuExporter {
 public:
  static constexpr std::size_t kHostBytes = std::size_t{24} << 20;
  static constexpr std::size_t kEvents = 2;

  explicit GpuExporter(const std::string& plan = "")
      : host_(shared_memory(kHostBytes + 4096)), child_([&] { return serve(plan); }) {
    line_.be_parent();
    fd_line_[1].reset();
  }
  GpuExporter(const GpuExporter&) = delete;
  GpuExporter& operator=(const GpuExporter&) = delete;
  ~GpuExporter() {
    if (child_.pid() > 0) {
      static_cast<void>(ask({What::stop, 0, 0}));
      HC_CHECK(child_.wait() == 0);
    }
  }

  // What push reads and pull writes; both processes see it.
  std::uint8_t* host() const { return host_; }

  std::uint64_t alloc(std::uint64_t bytes) { return ask({What::alloc, bytes, 0}).number; }
  void release(std::uint64_t address) { ask({What::release, address, 0}); }
  // Chunks of cuMemCreate, of device `ordinal`, which may leave the process as descriptors.
  std::uint64_t alloc_chunks(std::vector<std::size_t> sizes, int ordinal = 0) {
    sizes_ = std::move(sizes);
    std::uint64_t* const told = reinterpret_cast<std::uint64_t*>(host_);
    std::copy(sizes_.begin(), sizes_.end(), told);
    area_ = ask({What::alloc_chunks, sizes_.size(), static_cast<std::uint64_t>(ordinal)}).number;
    return area_;
  }
  // host[0, bytes) to the device, and back; done on return.
  void push(std::uint64_t address, std::uint64_t bytes) { ask({What::push, address, bytes}); }
  void pull(std::uint64_t address, std::uint64_t bytes) { ask({What::pull, address, bytes}); }
  // Records the event behind something that ends with let_go.
  void hold(std::size_t event) { ask({What::hold, event, 0}); }
  void let_go(std::size_t event) { __atomic_store_n(gate(event), 1, __ATOMIC_RELEASE); }

  // A region from `address` on, as a session of number 1 would name it.
  DeviceExport region(std::uint64_t address, std::uint64_t bytes) {
    const Answer answer = ask({What::name, address, 0});
    DeviceExport named;
    named.owner = 1;
    std::memcpy(named.device.data(), &answer.device, sizeof answer.device);
    std::memcpy(named.handle.data(), &answer.handle, sizeof answer.handle);
    named.buffer = answer.buffer;
    named.registration = ++registrations_;
    named.allocation_bytes = answer.allocation_bytes;
    named.offset_bytes = address - answer.base;
    named.size_bytes = bytes;
    for (const CuIpcEventHandle& event : answer.events) {
      std::memcpy(named.events.emplace_back().data(), &event, sizeof event);
    }
    return named;
  }

  // The same of the chunks that were made last.
  DeviceExport chunk_region(std::uint64_t offset, std::uint64_t bytes) {
    const Answer answer = ask({What::name_chunks, area_, sizes_.size()});
    DeviceExport named;
    named.owner = 1;
    named.kind = ExportKind::vmm;
    std::memcpy(named.device.data(), &answer.device, sizeof answer.device);
    named.registration = ++registrations_;
    named.offset_bytes = offset;
    named.size_bytes = bytes;
    for (const std::size_t size : sizes_) {
      named.chunks.push_back({named.allocation_bytes, size});
      named.allocation_bytes += size;
    }
    std::uint8_t byte = 0;
    auto brought = receive_message(fd_line_[0].get(), {&byte, 1}, SocketWait::until_done);
    HC_CHECK(brought && brought->fds.size() == sizes_.size());
    named.fds = std::move(brought->fds);
    for (const CuIpcEventHandle& event : answer.events) {
      std::memcpy(named.events.emplace_back().data(), &event, sizeof event);
    }
    return named;
  }

  void kill_now() { child_.kill_now(); }

 private:
  enum class What { alloc, release, alloc_chunks, name_chunks, push, pull, hold, name, stop };

  struct FdLine {
    UniqueFd ends[2];
    FdLine() {
      int raw[2];
      HC_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, raw) == 0);
      ends[0] = UniqueFd(raw[0]);
      ends[1] = UniqueFd(raw[1]);
    }
    UniqueFd& operator[](std::size_t end) { return ends[end]; }
  };

  struct Order {
    What what;
    std::uint64_t at;
    std::uint64_t bytes;
  };
  struct Answer {
    std::uint64_t number;
    std::uint64_t base;
    std::uint64_t allocation_bytes;
    std::uint64_t buffer;
    CuUuid device;
    CuIpcMemHandle handle;
    CuIpcEventHandle events[kEvents];
  };

  Answer ask(const Order& order) {
    line_.send(order);
    Answer answer{};
    HC_CHECK(line_.receive(answer));
    return answer;
  }
  std::uint64_t* gate(std::size_t event) const {
    return reinterpret_cast<std::uint64_t*>(host_ + kHostBytes) + event;
  }

  int serve(const std::string& plan) {
    line_.be_child();
    const auto bench = FakeBench::make(plan);
    const auto& driver = bench->driver;
    HC_EXPECT(driver->host_register(host_, kHostBytes + 4096, kCuHostPortable) == 0);
    CuEvent events[kEvents] = {};
    for (CuEvent& event : events) {
      event = bench->new_event(kCuEventInterprocess | kCuEventNoTiming);
    }
    Order order{};
    while (line_.receive(order) && order.what != What::stop) {
      Answer answer{};
      HC_EXPECT(obey(*bench, order, events, answer) == 0);
      line_.send(answer);
    }
    for (std::size_t event = 0; event < kEvents; ++event) {
      let_go(event);
    }
    line_.send(Answer{});
    return 0;
  }

  int obey(FakeBench& bench, const Order& order, CuEvent* events, Answer& answer) {
    const auto& driver = bench.driver;
    switch (order.what) {
      case What::alloc: answer.number = bench.new_memory(order.at); return 0;
      case What::release: return driver->mem_free(order.at);
      case What::push: return settled(bench, driver->copy_to_device(order.at, host_, order.bytes,
                                                                     bench.stream));
      case What::pull: return settled(bench, driver->copy_to_host(host_, order.at, order.bytes,
                                                                   bench.stream));
      case What::hold: return hold_back(bench, order.at, events[order.at]);
      case What::name: return describe(bench, order.at, events, answer);
      case What::alloc_chunks: answer.number = make_chunks(bench, order); return 0;
      case What::name_chunks: return describe_chunks(bench, order, events, answer);
      case What::stop: break;
    }
    return 1;
  }

  static int settled(const FakeBench& bench, CuResult queued) {
    return queued == kCuSuccess ? bench.settled() : queued;
  }
  // Each in a stream of its own, which the memory's is not.
  int hold_back(const FakeBench& bench, std::size_t number, CuEvent event) {
    __atomic_store_n(gate(number), 0, __ATOMIC_RELEASE);
    const CuStream stream = bench.new_stream();
    const auto address = reinterpret_cast<CuAddress>(gate(number));
    const CuResult held = bench.driver->stream_wait_value64(stream, address, 1, kCuWaitAtLeast);
    return held == kCuSuccess ? bench.driver->event_record(event, stream) : held;
  }
  static int describe(const FakeBench& bench, CuAddress at, const CuEvent* events,
                      Answer& answer) {
    const auto& driver = bench.driver;
    CuAddress base = 0;
    std::size_t bytes = 0;
    HC_EXPECT(driver->mem_range(&base, &bytes, at) == 0);
    answer.base = base;
    answer.allocation_bytes = bytes;
    HC_EXPECT(driver->pointer_attribute(&answer.buffer, kCuPointerBufferId, base) == 0);
    HC_EXPECT(driver->ipc_get_mem(&answer.handle, base) == 0);
    HC_EXPECT(driver->device_uuid(&answer.device, 0) == 0);
    for (std::size_t event = 0; event < kEvents; ++event) {
      HC_EXPECT(driver->ipc_get_event(&answer.events[event], events[event]) == 0);
    }
    return 0;
  }

  CuAddress make_chunks(const FakeBench& bench, const Order& order) const {
    const auto* const told = reinterpret_cast<const std::uint64_t*>(host_);
    return map_area(bench.driver, {told, told + order.at}, kCuHandlePosixFd,
                    static_cast<int>(order.bytes));
  }
  // The descriptors go another way: the answer has no place for them.
  int describe_chunks(const FakeBench& bench, const Order& order, const CuEvent* events,
                      Answer& answer) {
    const auto& driver = bench.driver;
    const std::vector<UniqueFd> fds = export_area(driver, order.at, order.bytes);
    std::vector<int> raw;
    for (const UniqueFd& fd : fds) {
      raw.push_back(fd.get());
    }
    const std::uint8_t byte = 0;
    HC_EXPECT(send_message(fd_line_[1].get(), {&byte, 1}, raw, SocketWait::until_done));
    HC_EXPECT(driver->device_uuid(&answer.device, 0) == 0);
    for (std::size_t event = 0; event < kEvents; ++event) {
      HC_EXPECT(driver->ipc_get_event(&answer.events[event], events[event]) == 0);
    }
    return 0;
  }

  std::uint8_t* host_;
  std::vector<std::size_t> sizes_;
  std::uint64_t area_ = 0;
  FdLine fd_line_;
  FakeLine line_;
  Child child_;
  std::uint32_t registrations_ = 0;
};

}  // namespace hc::test
