#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tidy_test: plants each violation into a small clean tree and expects tidy to name it."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import functions  # noqa: E402
import tidy  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


def cxx(stem, body=""):
    """A source with a proper head."""
    return f"{LICENCE}// {stem}: a small part.\n{body}"


CLEAN = {
    "tests/tidy/rooms.txt": "proto :\nshm : proto\ndaemon/log : proto\n"
    "daemon/store : proto\ndaemon/pool : proto\n"
    "daemon/engine : proto daemon/store\ntests/unit : *\ntests/support : *\n",
    "tests/tidy/untested.txt": "",
    "proto/README.md": "Shared bytes.\n",
    "proto/ids.h": cxx("ids", "#pragma once\n"),
    "proto/ids.cpp": cxx("ids", '#include "proto/ids.h"\n\n#include <vector>\n'),
    "shm/README.md": "Shared memory.\n",
    "shm/ring.h": cxx("ring", '#include "proto/ids.h"\n'),
    "daemon/log/README.md": "Log.\n",
    "daemon/log/log.cpp": cxx("log", "#include <spdlog/spdlog.h>\n"),
    "daemon/store/README.md": "Slots.\n",
    "daemon/store/slot_pool.h": cxx("slot_pool"),
    "daemon/pool/README.md": "Frames.\n",
    "daemon/pool/frame_map.h": cxx("frame_map"),
    "tests/unit/README.md": "Unit tests.\n",
    "tests/unit/proto/ids_test.cpp": cxx("ids_test", '#include "proto/ids.h"\n'),
    "tests/unit/daemon/log_test.cpp": cxx("log_test", "// Covers daemon/log/log.cpp.\n"),
}


def rules_found(changes):
    """The rules reported for the clean tree with files added, replaced or (None) removed."""
    with tempfile.TemporaryDirectory(prefix="hc-tidy-") as root:
        for path, text in {**CLEAN, **changes}.items():
            if text is None:
                continue
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return sorted({finding.rule for finding in tidy.check_tree(root)})


class TidyTest(unittest.TestCase):
    def expect(self, rule, **changes):
        self.assertEqual(rules_found(changes.get("tree", changes)), [rule] if rule else [])

    def plant(self, rule, path, text):
        with self.subTest(rule=rule, path=path, text=text[:80]):
            self.assertEqual(rules_found({path: text}), [rule] if rule else [])

    def plant_code(self, rule, path, body):
        """Plants a body under a proper head."""
        self.plant(rule, path, cxx(os.path.basename(path).split(".")[0], body))

    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual(rules_found({}), [])

    def test_an_include_against_the_arrows_is_found(self):
        self.plant_code("arrow", "proto/bad.h", '#include "shm/ring.h"\n')
        self.plant_code("arrow", "daemon/store/bad.h", '#include "daemon/pool/frame_map.h"\n')
        self.plant_code("arrow", "daemon/pool/bad.h", '  #  include "daemon/store/slot_pool.h"\n')
        self.plant_code("arrow", "proto/bad.h", '#include "../shm/ring.h"\n')

    def test_a_product_file_may_not_include_a_test_file(self):
        self.assertEqual(
            rules_found(
                {
                    "tests/support/README.md": "Shared.\n",
                    "tests/support/fake.h": cxx("fake"),
                    "proto/bad.h": cxx("bad", '#include "support/fake.h"\n'),
                }
            ),
            ["arrow"],
        )

    def test_an_include_that_names_no_file_is_found(self):
        self.plant_code("include", "proto/bad.h", '#include "proto/gone.h"\n')

    def test_a_loop_in_the_table_is_found(self):
        self.plant(
            "cycle",
            "tests/tidy/rooms.txt",
            CLEAN["tests/tidy/rooms.txt"].replace("proto :", "proto : shm"),
        )

    def test_a_table_that_names_an_unknown_room_is_found(self):
        self.plant(
            "rooms",
            "tests/tidy/rooms.txt",
            CLEAN["tests/tidy/rooms.txt"].replace("shm : proto", "shm : proto dust"),
        )

    def test_a_room_listed_twice_is_found(self):
        self.plant("rooms", "tests/tidy/rooms.txt", CLEAN["tests/tidy/rooms.txt"] + "proto :\n")

    def test_a_folder_missing_from_the_table_is_found(self):
        self.plant_code("rooms", "daemon/attic/old.h", "")

    def test_a_room_without_readme_is_found(self):
        self.assertEqual(rules_found({"proto/README.md": None}), ["readme"])

    def test_a_readme_longer_than_a_page_is_found(self):
        self.plant("readme", "proto/README.md", "line\n" * 81)
        self.plant(None, "proto/README.md", "line\n" * 80 + "| field | bytes |\n" * 9)

    def test_a_missing_licence_line_is_found(self):
        self.plant("licence", "proto/bad.h", "// a comment\n// bad: purpose.\n")
        self.plant("licence", "tests/unit/run.py", "#!/usr/bin/env python3\nprint(1)\n")
        self.plant("licence", "scripts/go", "#!/bin/sh\ntrue\n")

    def test_a_missing_purpose_line_is_found(self):
        self.plant("purpose", "proto/bad.h", LICENCE + "#pragma once\n")
        self.plant("purpose", "proto/bad.h", LICENCE + "// other: purpose.\n")

    def test_sizes_over_the_limit_are_found_and_sizes_at_the_limit_are_not(self):
        self.plant_code("file-size", "proto/bad.h", "\n" * 249)
        self.plant_code(None, "proto/good.h", "\n" * 248)
        self.plant_code("file-size", "tests/unit/bad_test.cpp", "\n" * 399)
        self.plant_code(None, "tests/unit/good_test.cpp", "\n" * 398)
        self.plant_code("line-size", "proto/bad.h", "//" + "x" * 99 + "\n")
        self.plant_code(None, "proto/good.h", "//" + "x" * 98 + "\n")

    def test_a_coordinator_has_a_smaller_limit(self):
        self.assertEqual(
            rules_found(
                {
                    "daemon/engine/README.md": "Verbs.\n",
                    "tests/unit/daemon/engine/engine_test.cpp": cxx("engine_test"),
                    "daemon/engine/engine.cpp": cxx("engine", "\n" * 149),
                }
            ),
            ["file-size"],
        )

    def test_a_long_function_is_found(self):
        body = "void f() {\n" + "  g();\n" * 59 + "}\n"
        self.plant_code("function-size", "proto/bad.h", body)
        self.plant_code(
            "function-size", "proto/bad.h", "namespace hc {\nstruct S {\n" + body + "};\n}\n"
        )
        self.plant_code(None, "proto/good.h", "void f() {\n" + "  g();\n" * 58 + "}\n")

    def test_unfinished_work_is_found(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            self.plant_code("unfinished", "proto/bad.h", f"// {word}: later\n")
        self.plant("unfinished", "docs/guide.md", "TODO write\n")

    def test_words_about_one_machine_are_found(self):
        self.plant("machine-path", "docs/guide.md", "see /work/main\n")
        self.plant("machine-path", "docs/guide.md", "see `/home/me/x`\n")
        self.plant("outside-number", "docs/guide.md", "as issue 12 says\n")
        self.plant(None, "docs/guide.md", "a path like docs/work/notes is fine\n")

    def test_a_sleep_in_a_test_needs_a_reason(self):
        call = "void f() { std::this_thread::sleep_for(kTick); }"
        self.plant_code("sleep", "tests/unit/bad_test.cpp", call + "\n")
        self.plant_code(
            None, "tests/unit/good_test.cpp", call + "  // waits: the clock itself is under test\n"
        )
        self.plant(
            "sleep", "tests/unit/bad.py", "# SPDX-License-Identifier: Apache-2.0\ntime.sleep(1)\n"
        )
        self.plant("sleep", "tests/unit/bad.sh", "# SPDX-License-Identifier: Apache-2.0\nsleep 1\n")
        self.plant_code(None, "proto/good.h", "void f() { nanosleep(a, b); }\n")

    def test_a_sleep_dressed_as_a_poll_is_found_outside_of_its_helper(self):
        for call in (
            "::poll(nullptr, 0, 5);",
            "poll( NULL , 0, kMs);",
            "::poll(0, 0, ms);",
            "::select(0, nullptr, nullptr, nullptr, &time);",
        ):
            code = f"void f() {{ {call} }}"
            self.plant_code("sleep", "tests/unit/bad_test.cpp", code + "\n")
            self.plant_code("sleep", "tests/unit/bad_test.cpp", code + "  // waits: a bit\n")
        self.plant_code(None, "tests/unit/good_test.cpp", "void f() { ::poll(&entry, 1, 0); }\n")
        self.plant_code(None, "proto/good.h", "void f() { ::poll(nullptr, 0, kMs); }\n")
        helper = "void f() { ::poll(nullptr, 0, kMs); }"
        for rule, end in (("sleep", "\n"), (None, "  // waits: it sends no event\n")):
            rooms = CLEAN["tests/tidy/rooms.txt"] + "tests/e2e : *\n"
            tree = {
                "tests/tidy/rooms.txt": rooms,
                "tests/e2e/README.md": "Processes.\n",
                "tests/e2e/process.cpp": cxx("process", helper + end),
            }
            self.assertEqual(rules_found(tree), [rule] if rule else [])

    def test_banned_code_is_found_and_the_same_words_in_comments_are_not(self):
        for code in (
            "auto v = std::views::all;",
            "std::source_location w;",
            "std::expected<int, int> e;",
            "using namespace std;",
        ):
            self.plant_code("banned", "proto/bad.h", code + "\n")
            self.plant_code(
                None, "proto/good.h", f'// {code}\n/* {code} */\nconst char* k = "{code}";\n'
            )

    def test_assert_is_banned_in_the_product_only(self):
        self.plant_code("assert", "proto/bad.h", "void f() { assert(true); }\n")
        self.plant_code(None, "proto/good.h", "static_assert(true);\n")
        self.plant_code(None, "tests/unit/good_test.cpp", "void f() { assert(true); }\n")

    def test_throw_is_banned_in_the_product(self):
        self.plant_code("throw", "proto/bad.h", "void f() { throw 1; }\n")

    def test_atomic_wait_is_banned_in_shm_only(self):
        for code in ("word_.wait(1);", "word_.notify_one();", "std::atomic_wait(&w, 1);"):
            self.plant_code("atomic-wait", "shm/bad.h", f"void f() {{ {code} }}\n")
            self.plant_code(None, "daemon/pool/good.h", f"void f() {{ {code} }}\n")
        self.plant_code(None, "shm/good.h", "void f() { doorbell_.wait(deadline); }\n")

    def test_an_outside_header_outside_its_room_is_found(self):
        self.plant_code("header", "proto/bad.h", "#include <spdlog/spdlog.h>\n")
        self.plant_code("header", "daemon/log/bad.h", "#include <spdlog/spdlog.h>\n")
        self.plant_code("header", "proto/bad.h", "#include <CLI/CLI.hpp>\n")
        self.plant_code("header", "proto/bad.h", "#include <cassert>\n")
        self.plant_code("header", "tests/unit/bad_test.cpp", "#include <catch2/catch.hpp>\n")

    def test_a_source_that_does_not_include_its_own_header_first_is_found(self):
        self.plant_code(
            "own-header", "proto/ids.cpp", '#include <vector>\n#include "proto/ids.h"\n'
        )

    def test_a_product_source_without_unit_test_or_reason_is_found(self):
        self.plant_code("untested", "proto/bad.cpp", "")
        reason = "proto/bad.cpp : the end-to-end tests cover it\n"
        self.assertEqual(
            rules_found({"proto/bad.cpp": cxx("bad"), "tests/tidy/untested.txt": reason}), []
        )

    def test_a_stale_or_empty_reason_is_found(self):
        self.plant("untested", "tests/tidy/untested.txt", "proto/gone.cpp : it is gone by now\n")
        self.plant("untested", "tests/tidy/untested.txt", "proto/ids.cpp : no test for it\n")
        self.assertEqual(
            rules_found(
                {"proto/bad.cpp": cxx("bad"), "tests/tidy/untested.txt": "proto/bad.cpp : none\n"}
            ),
            ["untested"],
        )


class FunctionLengthsTest(unittest.TestCase):
    def lengths(self, text):
        return [count for _, count in functions.function_lengths(functions.code_only(text))]

    def test_functions_in_namespaces_classes_and_templates_are_counted(self):
        self.assertEqual(
            self.lengths(
                "namespace a {\nclass B final : public C {\n public:\n"
                "  int f() const {\n  }\n};\n}\n"
            ),
            [2],
        )
        self.assertEqual(
            self.lengths("template <class T, typename U = X<T>>\nvoid f() {\n  if (a) {\n  }\n}\n"),
            [5],
        )
        self.assertEqual(self.lengths('extern "C" {\nint f(void) {\n}\n}\n'), [2])

    def test_braces_in_strings_comments_and_macros_do_not_count(self):
        self.assertEqual(
            self.lengths(
                "#define X(a) { \\\n  {\nvoid f() {\n  g(\"{\", '{', 1'000); // {\n  /* { */\n}\n"
            ),
            [4],
        )
        self.assertEqual(self.lengths('void f() {\n  g(R"x({)x");\n}\n'), [3])

    def test_data_is_no_function(self):
        self.assertEqual(
            self.lengths(
                "constexpr int kTable[] = {\n  1,\n};\nconst auto k = make({\n  1,\n});\n"
                "struct P { int a = 1; };\n"
            ),
            [],
        )


if __name__ == "__main__":
    unittest.main()
