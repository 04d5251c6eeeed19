// SPDX-License-Identifier: Apache-2.0
// lmdb_file: judge an LMDB file before it is mapped.
//
// LMDB maps what its header says; a shorter file would kill the process by SIGBUS. So the length
// is compared with the header first: with the last page in use, and with the size of the map,
// which the file had before the header could name it. LMDB 0.9 has no checksums and ends the
// process where it meets a page that can't be; of its own pages only the roots are judged here.
#pragma once

#include <string>

#include "proto/result.h"

namespace hc {

// not_found: absent. corrupt: no LMDB file of this machine, or shorter than its header says, or
// the root of one of its trees is no page of a tree.
Result<void> check_lmdb_file(const std::string& path);

}  // namespace hc
