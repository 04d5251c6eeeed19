// SPDX-License-Identifier: Apache-2.0
// nccl_library_test: every way not to have a usable NCCL is one line.
#include "client/agree/nccl_library.h"

#include <dlfcn.h>

#include <cstring>

#include "support/catch.h"
#include "support/doubles.h"

namespace hc {
namespace {

using test::holds_in_child;

// In a process of its own, because what was loaded once would be found again.
bool refuses_nccl(const std::string& library, const char* plan, const std::string& line) {
  return holds_in_child([&] {
    test::plan_double("HC_FAKE_NCCL", plan);
    const auto loaded = NcclLibrary::load(library);
    HC_EXPECT(!loaded);
    if (loaded.error().message() != line) {
      std::fprintf(stderr, "\"%s\"\n", loaded.error().message().c_str());
    }
    HC_EXPECT(loaded.error().code == Code::unsupported);
    HC_EXPECT(loaded.error().message() == line);
    return 0;
  });
}

TEST_CASE("a machine without libnccl has no NCCL, and one line says so") {
  CHECK(refuses_nccl("/nowhere/libnccl.so.2", "",
                     "no NCCL: /nowhere/libnccl.so.2: cannot open shared object file: "
                     "No such file or directory"));
}

TEST_CASE("a library that is no NCCL is named with the entry it lacks") {
  CHECK(refuses_nccl("libm.so.6", "", "no NCCL: libm.so.6 has no ncclGetVersion"));
}

TEST_CASE("a version that we do not know how to call is refused") {
  const std::string library = test::double_library("libnccl.so.2");
  CHECK(refuses_nccl(library, "version=21803",
                     "no NCCL: " + library + " is version 2.18.3, must be 2.19 to 2.x"));
  CHECK(refuses_nccl(library, "version=30000",
                     "no NCCL: " + library + " is version 3.0.0, must be 2.19 to 2.x"));
  CHECK(refuses_nccl(library, "ncclGetVersion=3",
                     "no NCCL: " + library + ": ncclGetVersion answers 3"));
}

TEST_CASE("a version within the bounds is loaded") {
  for (const int version : {21900, 22809, 29999}) {
    CHECK(holds_in_child([version] {
      test::plan_double("HC_FAKE_NCCL", "version=" + std::to_string(version));
      const auto loaded = NcclLibrary::load(test::double_library("libnccl.so.2"));
      HC_EXPECT(loaded);
      HC_EXPECT(loaded->version() == version);
      HC_EXPECT(!loaded->was_loaded_already());
      return 0;
    }));
  }
}

TEST_CASE("the copy that the engine has loaded is used, whatever path is given") {
  CHECK(holds_in_child([] {
    HC_EXPECT(::dlopen(test::double_library("libnccl.so.2").c_str(), RTLD_NOW) != nullptr);
    const auto loaded = NcclLibrary::load("/nowhere/libnccl.so.2");
    HC_EXPECT(loaded);
    HC_EXPECT(loaded->was_loaded_already());
    return 0;
  }));
}

TEST_CASE("the engine's copy, if it is too old, is refused and not replaced") {
  CHECK(holds_in_child([] {
    test::plan_double("HC_FAKE_NCCL", "version=21403");
    HC_EXPECT(::dlopen(test::double_library("libnccl.so.2").c_str(), RTLD_NOW) != nullptr);
    const auto loaded = NcclLibrary::load();
    HC_EXPECT(!loaded && loaded.error().message() ==
                             "no NCCL: the libnccl of this process is version 2.14.3, "
                             "must be 2.19 to 2.x");
    return 0;
  }));
}

TEST_CASE("an id is made without a GPU, and no two are equal; a failure is a line") {
  CHECK(holds_in_child([] {
    test::plan_double("HC_FAKE_NCCL", "ncclGetUniqueId@3=2");
    const auto loaded = NcclLibrary::load(test::double_library("libnccl.so.2"));
    HC_EXPECT(loaded);
    const auto one = loaded->make_unique_id();
    const auto other = loaded->make_unique_id();
    HC_EXPECT(one && other);
    HC_EXPECT(std::memcmp(one->bytes, other->bytes, sizeof(one->bytes)) != 0);
    const auto third = loaded->make_unique_id();
    HC_EXPECT(!third && third.error().code == Code::io_error);
    HC_EXPECT(third.error().message() == "ncclGetUniqueId: unhandled system error (2)");
    return 0;
  }));
}

}  // namespace
}  // namespace hc
