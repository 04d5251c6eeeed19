// SPDX-License-Identifier: Apache-2.0
// catch_pch: the source that the shared precompiled header of the test programs hangs on.
#include "support/catch.h"
