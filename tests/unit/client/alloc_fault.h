// SPDX-License-Identifier: Apache-2.0
// alloc_fault: lets one allocation of the client's background thread fail.
//
// Owner thread: the test's. The test program's own operator new does it, for every test in it.
#pragma once

namespace hc::test {

// The `number`-th allocation from now on, from 1, throws std::bad_alloc; once.
void fail_background_allocation(int number);
// Whether it has come to that.
bool background_allocation_failed();

}  // namespace hc::test
