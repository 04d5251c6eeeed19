// SPDX-License-Identifier: Apache-2.0
// fake_private: what the stand-in driver gives to the stand-in NCCL and to tests, and what the
// latter gives to tests. The real libraries have none of it.
//
// Owner thread: any.
#pragma once

#include <cstddef>

extern "C" {

// Queues work in a stream, behind what is in it. 0, or 400 if there is no such stream.
int hc_fake_cuda_enqueue(void* stream, void (*work)(void*), void* argument);
// The bytes behind an address of the device, or null.
void* hc_fake_cuda_host(void* address, std::size_t bytes);
// The device whose context is current in this thread, or -1.
int hc_fake_cuda_current(void);

// Calls of an entry point by its name, or what is alive: README.md lists the names.
long hc_fake_cuda_count(const char* what);
long hc_fake_nccl_count(const char* what);

}  // extern "C"
