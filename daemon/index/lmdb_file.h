// SPDX-License-Identifier: Apache-2.0
// lmdb_file: judge an LMDB file before it is mapped.
//
// LMDB maps what its header says; a shorter file would kill the process by SIGBUS. So the length
// is compared with the header first: with the last page in use, and with the size of the map, which
// the file had before the header could name it.
#pragma once

#include <string>

#include "proto/result.h"

namespace hc {

// not_found: absent. corrupt: no LMDB file of this machine, or shorter than its header says.
Result<void> check_lmdb_file(const std::string& path);

}  // namespace hc
