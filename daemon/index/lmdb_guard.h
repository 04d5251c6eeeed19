// SPDX-License-Identifier: Apache-2.0
// lmdb_guard: one call of LMDB that ends with a code where LMDB would end the process.
//
// LMDB 0.9 believes its file: on a damaged page it calls its assertion and aborts, or follows a
// number out of the map (SIGSEGV, or SIGBUS where the file ends). Files are judged before they are
// opened; this is for damage that comes while one is open. The call is left without unwinding, so
// its environment is broken afterwards: nothing may be called on it, it can't even be closed.
#pragma once

#include <lmdb.h>

namespace hc {

// Not a code of LMDB: the call was left. The environment is broken.
inline constexpr int kLmdbBroken = -30500;

// Before the first call; does nothing where it is done already. Other faults of the process go to
// whoever handled them before.
void install_lmdb_guard();

// For mdb_env_set_assert: leaves the call that met the damage. Outside of one it ends the process.
void leave_damaged_call(MDB_env* env, const char* message);

int run_lmdb_call(int (*body)(void*), void* argument);

// `call` must own nothing and lock nothing: it may be left without unwinding.
template <typename Call>
int lmdb_call(Call call) {
  return run_lmdb_call([](void* body) { return (*static_cast<Call*>(body))(); }, &call);
}

}  // namespace hc
