// SPDX-License-Identifier: Apache-2.0
// local_dir: a directory that durable files may live in, and what its file system is.
#pragma once

#include <string>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

// Opens `path`; makes its last folder (mode 0700) if absent. Refuses network file systems: their
// locks and flushes do not hold what is promised here. `label` starts the line of an error.
Result<UniqueFd> open_local_dir(const std::string& path, const std::string& label);

// Makes names that were created, renamed or removed durable.
Result<void> sync_dir(int dir, const std::string& label);

// The file system under a descriptor in words: "ext4", "tmpfs", or the magic number in hex.
std::string file_system_name(int fd);

// What a failed call on files means: not_found, no_space, refused (rights) or io_error.
Code code_of_errno(int error);

}  // namespace hc
