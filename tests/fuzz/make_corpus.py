#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden_* files of corpus/: inputs that each format target accepts, and near misses.

They come from the golden bytes (tests/golden/make_golden.py), so that a fuzzer starts behind the
checksums. Files of other names in corpus/ were found by a fuzzer and stay as they are.
"""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "golden"))
import make_golden as golden  # noqa: E402


def used(data):
    return data.rstrip(b"\0")


def set_u(data, offset, code, value):
    size = struct.calcsize(code)
    return data[:offset] + struct.pack("<" + code, value) + data[offset + size:]


def blob_header():
    block = golden.blob_header_block()
    meta = golden.BLOB_HEADER.size
    yield "metadata", b"\3" + used(block)
    yield "other_seed", b"\0" + used(block)
    yield "plain", b"\3" + block[:meta]
    yield "version", b"\3" + set_u(block, 8, "H", 2)[:meta]
    yield "magic", b"\3" + set_u(block, 4, "I", 0)[:meta]
    yield "metadata_too_long", b"\3" + used(set_u(block, meta + 4, "I", 4025))
    yield "metadata_full", b"\3" + set_u(block, meta + 4, "I", 4024).rstrip(b"\0")


def slab_header():
    header = golden.slab_header_blocks()[:golden.SLAB_HEADER.size]
    yield "both", b"\0" + header * 2
    yield "second_only", b"\0" + bytes(len(header)) + header
    for field, code, value in (("version", "H", 2), ("slots_per_step", "I", 0),
                               ("slot_count", "I", 0xFFFFFFFF), ("first_slot_offset", "Q", 1),
                               ("reserved", "I", 1)):
        changed = set_u(header, golden.SLAB_HEADER.offset(field), code, value)
        yield field, b"\3" + changed * 2


def store_notes():
    mark = used(golden.commit_mark())
    yield "mark", b"\0" + mark
    yield "mark_version", b"\x80" + set_u(mark, golden.BLOCK + 8, "H", 2)
    note = used(golden.space_note())
    yield "space", b"\1" + note
    yield "space_too_long", b"\1" + set_u(note, 12, "I", 8193)
    yield "space_longer", b"\x81" + set_u(note, 12, "I", len(note) - 15)
    block = used(golden.forgotten_block())
    yield "forgotten", b"\2" + block
    yield "forgotten_full", b"\x82" + set_u(block, 10, "H", 101)
    yield "forgotten_more", b"\x82" + set_u(block, 10, "H", 50)


def superblock():
    copies = golden.superblock_file()
    size = 56 + 2 * 40
    first = copies[:size]
    second = copies[golden.SUPERBLOCK_COPY:golden.SUPERBLOCK_COPY + size]
    yield "both", b"\0" + first + second
    yield "first_only", b"\0" + first + bytes(size)
    for field, code, value in (("version", "H", 2), ("space_count", "I", 1025),
                               ("sequence", "Q", 2 ** 64 - 1), ("reserved2", "I", 1)):
        yield field, b"\3" + first + set_u(second, golden.SUPERBLOCK.offset(field), code, value)


def index_row():
    start = bytes([0, 36]) + golden.index_key()
    fixed = bytes([1, 36]) + golden.index_key()
    value = golden.index_value()
    yield "row", start + value
    yield "no_parts", fixed + set_u(value, 6, "H", 0)[:golden.INDEX_ROW_HEADER.size]
    yield "short", fixed + value[:-1]
    yield "reserved", fixed + set_u(value, 16, "Q", 1)
    yield "too_many", fixed + set_u(value, 6, "H", 65) + bytes(62 * 16)
    yield "short_key", bytes([1, 35]) + golden.index_key()[:35] + value


def space_descriptor():
    descriptor = golden.space_descriptor()
    yield "space", descriptor
    yield "family", golden.space_descriptor(weight_version="")
    yield "short", descriptor[:-1]
    yield "tail", descriptor + b"\0"
    yield "version", b"\2" + descriptor[1:]
    yield "long_text", set_u(descriptor, 1, "H", 0xFFFF)
    kind = b"\1\0k" + struct.pack("<IBBI", 1, 0, 0, 0)
    yield "smallest", (b"\1" + b"\0\0" + b"\1\0m" + b"\0\0" * 6
                       + struct.pack("<IBHHHH", 1, 0, 1, 1, 1, 1) + kind)


def main():
    for make in (blob_header, slab_header, superblock, store_notes, index_row, space_descriptor):
        folder = HERE / "corpus" / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in make():
            (folder / ("golden_" + name)).write_bytes(data)
    canary = HERE / "corpus" / "canary"
    canary.mkdir(parents=True, exist_ok=True)
    (canary / "quiet").write_bytes(b"sinG")
    (canary / "sing").write_bytes(b"sing")


if __name__ == "__main__":
    main()
