#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files: one file of bytes per format, by a second implementation.

This script shares nothing with the C++ code. It knows only the layouts as documented in
proto/README.md and the headers, so that equal bytes prove the document and the code at once.
Run it by hand after a format was changed on purpose: make_golden.py [FOLDER].

A golden file is text: `size N`, then `OFFSET: HEX` for each 16 bytes that are not all zero.
"""
import hashlib
import pathlib
import struct
import sys


def make_crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data, seed=0):
    state = seed ^ 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ CRC_TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


class Layout:
    """Little-endian fields without padding, in order: (name, struct code)."""

    def __init__(self, *fields):
        self.fields = fields
        self.size = sum(struct.calcsize("<" + code) for _, code in fields)

    def offset(self, name):
        at = 0
        for field, code in self.fields:
            if field == name:
                return at
            at += struct.calcsize("<" + code)
        raise KeyError(name)

    def pack(self, **values):
        out = b""
        for name, code in self.fields:
            empty = b"" if code.endswith("s") else 0
            out += struct.pack("<" + code, values.pop(name, empty))
        if values:
            raise KeyError(", ".join(values))
        return out

    def seal(self, seed=0, **values):
        """Packs with the first field, a checksum of everything after it, filled in."""
        unsealed = self.pack(**values)
        return struct.pack("<I", crc32c(unsealed[4:], seed)) + unsealed[4:]


# --- limits and versions --------------------------------------------------------------------------
BLOCK = 4096
DISK_VERSION = 1
PROTOCOL = 1
SHARD_REPLICATED = 0xFFFF
SUPERBLOCK_COPY = 65536
SPACES_MAX = 1024
RING_ENTRIES = 256
COMPLETION_ENTRIES = 1024
OP_SLOTS = 64
PAGES_PER_OP = 512
KINDS_MAX = 8
PARTS_MAX = 64
METADATA_AREA = 192 << 10
REGIONS_PER_SESSION = 16
RUNS_PER_LAYOUT_MAX = 512
OP_BYTES_MAX = 4 << 30
COMPLETIONS_PER_OP = 5
MESSAGE_FDS_MAX = 64
CHUNKS_PER_REGION_MAX = 64

# --- layouts on disk ------------------------------------------------------------------------------
BLOB_HEADER = Layout(
    ("header_crc", "I"), ("magic", "4s"), ("version", "H"), ("kind", "H"),
    ("payload_bytes", "I"), ("page_hash", "32s"), ("payload_crc", "I"), ("space_tag", "I"),
    ("slot", "I"), ("generation", "I"))
BLOB_METADATA = Layout(("metadata_crc", "I"), ("metadata_bytes", "I"))
BLOB_SEED = Layout(("store_uuid", "16s"), ("store_epoch", "Q"), ("space_epoch", "Q"))
SLAB_HEADER = Layout(
    ("header_crc", "I"), ("magic", "4s"), ("version", "H"), ("kind", "H"), ("shard", "H"),
    ("volume", "H"), ("store_uuid", "16s"), ("family", "32s"), ("slot_bytes", "Q"),
    ("first_slot_offset", "Q"), ("slot_count", "I"), ("slots_per_step", "I"),
    ("payload_bytes", "I"), ("reserved", "I"))
SUPERBLOCK = Layout(
    ("superblock_crc", "I"), ("magic", "4s"), ("version", "H"), ("volumes", "H"),
    ("space_count", "I"), ("sequence", "Q"), ("epoch", "Q"), ("store_uuid", "16s"),
    ("generation_high", "I"), ("reserved2", "I"), ("spaces", "%ds" % (40 * SPACES_MAX)))
SPACE_EPOCH = Layout(("space", "32s"), ("epoch", "Q"))
INDEX_ROW_HEADER = Layout(
    ("row_crc", "I"), ("version", "H"), ("part_count", "H"), ("last_access", "Q"),
    ("reserved", "Q"))
INDEX_ROW_PART = Layout(
    ("kind", "H"), ("shard", "H"), ("owner", "H"), ("volume", "H"), ("slot", "I"),
    ("generation", "I"))
SPACE_ROW_HEADER = Layout(("row_crc", "I"), ("version", "H"), ("shards_on_node", "H"))
IDENTITY_ROW = Layout(
    ("row_crc", "I"), ("version", "H"), ("reserved", "H"), ("store_epoch", "Q"),
    ("store_uuid", "16s"))
STATE_ROW = Layout(
    ("row_crc", "I"), ("version", "H"), ("rebuilding", "H"), ("commit_sequence", "Q"))
COMMIT_MARK = Layout(
    ("mark_crc", "I"), ("magic", "I"), ("version", "H"), ("reserved", "H"), ("reserved2", "I"),
    ("store_uuid", "16s"), ("store_epoch", "Q"), ("commit_sequence", "Q"))
SPACE_NOTE = Layout(
    ("note_crc", "I"), ("magic", "I"), ("version", "H"), ("shards_on_node", "H"),
    ("descriptor_bytes", "I"))
FORGOTTEN_BLOCK = Layout(
    ("block_crc", "I"), ("magic", "I"), ("version", "H"), ("page_count", "H"), ("floor", "I"),
    ("store_uuid", "16s"), ("store_epoch", "Q"), ("sequence", "Q"), ("has_floor", "I"),
    ("reserved", "I"))
FORGOTTEN_PAGE = Layout(("page", "32s"), ("space", "I"), ("generation", "I"))

# --- layouts in shared memory and on the socket ---------------------------------------------------
REQUEST = Layout(
    ("verb", "B"), ("flags", "B"), ("ack", "B"), ("hint", "B"), ("priority", "B"),
    ("kind_mask", "B"), ("op_slot", "H"), ("op_sequence", "I"), ("deadline_ms", "I"),
    ("page_count", "I"), ("region", "I"), ("lease", "Q"), ("target_slot", "H"),
    ("reserved", "H"), ("target_sequence", "I"), ("owner_base", "I"), ("owner_stride", "I"),
    ("client_data", "Q"), ("reserved2", "Q"))
PAGE = Layout(
    ("hash", "32s"), ("row", "I"), ("owner", "H"), ("metadata_bytes", "H"),
    ("metadata_offset", "I"), ("reserved", "I"))
COMPLETION = Layout(
    ("verb", "B"), ("ack", "B"), ("op_slot", "H"), ("op_sequence", "I"), ("code", "i"),
    ("terminal", "I"), ("client_data", "Q"), ("lease", "Q"), ("page_count", "I"),
    ("pages_from_l2", "I"), ("pages_from_l3", "I"), ("pages_stored", "I"), ("bytes", "Q"),
    ("store_sequence", "Q"))
FRAME_REF = Layout(("frame", "I"), ("kind", "H"), ("reserved", "H"), ("generation", "Q"))
# The hot words of both files have a cache line each.
CLIENT_HEADER = Layout(
    ("magic", "4s"), ("protocol", "I"), ("fingerprint", "Q"), ("pad0", "48s"),
    ("request_tail", "I"), ("pad1", "60s"), ("completion_head", "I"), ("pad2", "60s"),
    ("client_waiting", "I"), ("pad3", "60s"))
SERVER_HEADER = Layout(
    ("magic", "4s"), ("protocol", "I"), ("fingerprint", "Q"), ("pad0", "48s"),
    ("request_head", "I"), ("pad1", "60s"), ("completion_tail", "I"), ("pad2", "60s"),
    ("wake_word", "I"), ("pad3", "60s"), ("daemon_sleeping", "I"), ("pad4", "60s"),
    ("state", "I"), ("end_code", "i"), ("quiet", "I"), ("pad5", "52s"))
STATUS_HEADER = Layout(
    ("magic", "4s"), ("protocol", "I"), ("fingerprint", "Q"), ("capacity", "Q"),
    ("space", "32s"), ("key", "Q"), ("moves", "I"), ("pages", "I"), ("pad1", "56s"))
STATUS_ENTRY = Layout(
    ("sequence", "I"), ("remote", "I"), ("hash", "32s"), ("resident", "Q"), ("stored", "Q"),
    ("durable", "Q"))
BOARD_HEADER = Layout(
    ("magic", "4s"), ("protocol", "I"), ("world", "I"), ("words", "I"), ("pad1", "48s"),
    ("bell", "I"), ("pad2", "60s"), ("verdict", "Q"), ("doubt", "Q"),
    ("pad3", "48s"))
BOARD_MEMBER = Layout(
    ("round", "Q"), ("left", "I"), ("sleeping", "I"), ("lines_even", "I"), ("lines_odd", "I"),
    ("pad1", "40s"), ("dead", "I"), ("pad2", "60s"))
MESSAGE_HEADER = Layout(
    ("magic", "4s"), ("type", "H"), ("fd_count", "H"), ("bytes", "I"), ("status", "i"),
    ("request_id", "Q"))
ATTACH_REQUEST = Layout(
    ("protocol", "I"), ("flags", "I"), ("fingerprint", "Q"), ("incarnation", "Q"),
    ("group", "64s"), ("rank", "H"), ("world", "H"), ("shards_on_node", "H"), ("tensor", "H"),
    ("pipeline", "H"), ("context", "H"), ("descriptor_bytes", "I"), ("quota_bytes", "Q"),
    ("previous_daemon", "16s"), ("previous_session", "Q"), ("lease_count", "I"), ("reserved", "I"))
ATTACH_REPLY = Layout(
    ("protocol", "I"), ("session", "I"), ("fingerprint", "Q"), ("daemon_instance", "16s"),
    ("store_uuid", "16s"), ("space", "32s"), ("family", "32s"), ("shard", "H"),
    ("part_count", "H"), ("arena_count", "I"), ("status_table_bytes", "Q"),
    ("generation_count", "Q"), ("quota_bytes", "Q"), ("session_serial", "Q"),
    ("leases_kept", "I"), ("reserved", "I"))
ARENA_INFO = Layout(
    ("kind", "H"), ("reserved", "H"), ("first_frame", "I"), ("frame_count", "I"),
    ("frame_bytes", "I"), ("generation_index", "Q"))
REGION_REQUEST = Layout(
    ("region", "I"), ("region_kind", "H"), ("layout_count", "H"), ("offset_bytes", "Q"),
    ("size_bytes", "Q"), ("rows", "I"), ("registration", "I"), ("device", "16s"),
    ("ipc_handle", "64s"), ("allocation_bytes", "Q"), ("buffer", "Q"), ("event_count", "I"),
    ("export_kind", "H"), ("chunk_count", "H"), ("device_free_bytes", "Q"))
REGION_CHUNK = Layout(("offset_bytes", "Q"), ("size_bytes", "Q"))
LAYOUT_REQUEST = Layout(("kind", "H"), ("run_count", "H"), ("reserved", "I"))
LAYOUT_RUN = Layout(("offset_bytes", "Q"), ("stride_bytes", "Q"), ("length_bytes", "Q"))
SPACE_SWITCH_REQUEST = Layout(("weight_version_bytes", "I"), ("reserved", "I"))
SPACE_SWITCH_REPLY = Layout(("space", "32s"), ("status_table_bytes", "Q"))
STATS_REPLY = Layout(*((name, "Q") for name in (
    "pages", "resident_parts", "written_parts", "durable_parts", "frames_total", "frames_free",
    "frames_leased", "slots_total", "slots_free", "oldest_undurable_ms", "hits_l2", "hits_l3",
    "misses", "stored", "evicted_l2", "evicted_l3", "verify_failures", "commits")))
NOTICE = Layout(("kind", "I"), ("code", "i"))
BLACKBOARD_REQUEST = Layout(("key", "I"), ("value_bytes", "I"))
BOARD_REQUEST = Layout(("words", "I"), ("reserved", "I"))
BOARD_REPLY = Layout(("number", "Q"), ("world", "I"), ("words", "I"))


def layout_fingerprint():
    client_file = BLOCK + RING_ENTRIES * REQUEST.size + OP_SLOTS * (
        PAGES_PER_OP * PAGE.size + METADATA_AREA)
    server_file = BLOCK + COMPLETION_ENTRIES * COMPLETION.size + OP_SLOTS * (
        PAGES_PER_OP * KINDS_MAX * FRAME_REF.size)
    numbers = [
        PROTOCOL,
        REQUEST.size, REQUEST.offset("lease"), REQUEST.offset("client_data"),
        PAGE.size, PAGE.offset("owner"),
        COMPLETION.size, COMPLETION.offset("lease"),
        FRAME_REF.size, CLIENT_HEADER.size, SERVER_HEADER.size,
        STATUS_HEADER.size, STATUS_HEADER.offset("key"), STATUS_ENTRY.size,
        MESSAGE_HEADER.size, ATTACH_REQUEST.size, ATTACH_REPLY.size,
        ARENA_INFO.size, REGION_REQUEST.size, REGION_REQUEST.offset("export_kind"),
        REGION_CHUNK.size, CHUNKS_PER_REGION_MAX, LAYOUT_REQUEST.size, LAYOUT_RUN.size,
        SPACE_SWITCH_REQUEST.size, SPACE_SWITCH_REPLY.size, STATS_REPLY.size, NOTICE.size,
        BLACKBOARD_REQUEST.size, BOARD_REQUEST.size, BOARD_REPLY.size,
        REGIONS_PER_SESSION, RUNS_PER_LAYOUT_MAX, OP_BYTES_MAX, COMPLETIONS_PER_OP,
        MESSAGE_FDS_MAX,
        RING_ENTRIES, COMPLETION_ENTRIES, OP_SLOTS,
        PAGES_PER_OP, KINDS_MAX, PARTS_MAX, METADATA_AREA,
        client_file, server_file]
    value = 0xCBF29CE484222325
    for byte in b"".join(struct.pack("<Q", number) for number in numbers):
        value = (value ^ byte) * 0x100000001B3 % 2 ** 64
    return value


# --- the values that the C++ tests use too (tests/unit/proto/sample.h) ----------------------------
def sha256(data):
    return hashlib.sha256(data).digest()


UUID = bytes(range(0x10, 0x20))
STORE_EPOCH = 3
SPACE_EPOCH_NOW = 5
METADATA = b"parent and token ids of the page"
PAYLOAD_BYTES = 515328
PAGES = [sha256(b"page %d" % number) for number in range(3)]


def payload():
    return bytes(number * 7 % 251 for number in range(PAYLOAD_BYTES))


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def space_descriptor(weight_version="weights-7"):
    out = b"\x01"
    for value in ("team-a", "example/model-8b", "r1", weight_version, "fp8_e4m3", "mla",
                  "page_first", "sha256-chain"):
        out += text(value)
    out += struct.pack("<IBHHH", 64, 1, 4, 2, 1)
    kinds = [("kv", 2561024, 1, 0, 0), ("indexer", PAYLOAD_BYTES, 0, 0, 0),
             ("swa", 40960, 2, 1, 4)]
    out += struct.pack("<H", len(kinds))
    for name, payload_bytes, placement, policy, trailing_pages in kinds:
        out += text(name) + struct.pack("<IBBI", payload_bytes, placement, policy, trailing_pages)
    return out


SPACE = sha256(space_descriptor())
FAMILY = sha256(space_descriptor(weight_version=""))


def space_tag(shard):
    return struct.unpack("<I", sha256(SPACE + struct.pack("<H", shard))[:4])[0]


def space_identity():
    return SPACE + FAMILY + struct.pack("<II", space_tag(3), space_tag(SHARD_REPLICATED))


def blob_header_block():
    seed = BLOB_SEED.pack(
        store_uuid=UUID, store_epoch=STORE_EPOCH, space_epoch=SPACE_EPOCH_NOW)
    header = BLOB_HEADER.seal(
        crc32c(seed), magic=b"HICB", version=DISK_VERSION, kind=1, payload_bytes=PAYLOAD_BYTES,
        page_hash=PAGES[0], payload_crc=crc32c(payload()),
        space_tag=space_tag(SHARD_REPLICATED), slot=70000, generation=0x01020304)
    size = struct.pack("<I", len(METADATA))
    metadata = BLOB_METADATA.pack(
        metadata_crc=crc32c(size + METADATA), metadata_bytes=len(METADATA))
    return (header + metadata + METADATA).ljust(BLOCK, b"\0")


def slab_header_blocks():
    blocks_of_payload = -(-PAYLOAD_BYTES // BLOCK)
    header = SLAB_HEADER.seal(
        magic=b"HICS", version=DISK_VERSION, kind=1, shard=SHARD_REPLICATED, volume=2,
        store_uuid=UUID, family=FAMILY, slot_bytes=BLOCK * (1 + blocks_of_payload),
        first_slot_offset=16 * BLOCK, slot_count=100000, slots_per_step=256,
        payload_bytes=PAYLOAD_BYTES)
    return header.ljust(BLOCK, b"\0") * 2


def superblock_copy(sequence, epoch, spaces):
    entries = b"".join(SPACE_EPOCH.pack(space=space, epoch=at) for space, at in spaces)
    return SUPERBLOCK.seal(
        magic=b"HICP", version=DISK_VERSION, space_count=len(spaces), sequence=sequence,
        epoch=epoch, store_uuid=UUID, generation_high=0x01030000,
        spaces=entries).ljust(SUPERBLOCK_COPY, b"\0")


def superblock_file():
    newer = [(SPACE, SPACE_EPOCH_NOW), (sha256(b"another space"), 0)]
    older = newer[:1]
    return superblock_copy(6, STORE_EPOCH - 1, older) + superblock_copy(7, STORE_EPOCH, newer)


def index_key():
    return struct.pack(">I", 258) + PAGES[0]


def index_value():
    parts = [
        INDEX_ROW_PART.pack(kind=0, shard=3, volume=2, slot=41, generation=0x01020303),
        INDEX_ROW_PART.pack(
            kind=1, shard=SHARD_REPLICATED, volume=2, slot=70000, generation=0x01020304),
        INDEX_ROW_PART.pack(kind=2, shard=5, owner=5, slot=7, generation=0x01020305)]
    header = INDEX_ROW_HEADER.pack(
        version=DISK_VERSION, part_count=len(parts), last_access=0x1122334455667788)
    value = header + b"".join(parts)
    return struct.pack("<I", crc32c(index_key() + value[4:])) + value[4:]


def space_row():
    """The key, then the value: the checksum covers both."""
    key = struct.pack(">I", 258)
    value = SPACE_ROW_HEADER.pack(version=DISK_VERSION, shards_on_node=6) + space_descriptor()
    return key + struct.pack("<I", crc32c(key + value[4:])) + value[4:]


def identity_row():
    return IDENTITY_ROW.seal(version=DISK_VERSION, store_epoch=STORE_EPOCH, store_uuid=UUID)


def state_row():
    return STATE_ROW.seal(version=DISK_VERSION, rebuilding=1, commit_sequence=0x0102030405)


def commit_mark():
    """Two blocks of a slab: an odd sequence stands in the second one."""
    mark = COMMIT_MARK.seal(
        magic=0x4D434948, version=DISK_VERSION, store_uuid=UUID, store_epoch=STORE_EPOCH,
        commit_sequence=41)
    return bytes(BLOCK) + mark + bytes(BLOCK - len(mark))


def space_note():
    descriptor = space_descriptor()
    note = SPACE_NOTE.pack(
        magic=0x4E434948, version=DISK_VERSION, shards_on_node=6,
        descriptor_bytes=len(descriptor)) + descriptor
    note = struct.pack("<I", crc32c(note[4:])) + note[4:]
    return note + bytes(3 * BLOCK - len(note))


def forgotten_block():
    block = FORGOTTEN_BLOCK.pack(
        magic=0x46434948, version=DISK_VERSION, page_count=2, floor=0x01020300, store_uuid=UUID,
        store_epoch=STORE_EPOCH, sequence=12, has_floor=1)
    block += FORGOTTEN_PAGE.pack(page=PAGES[0], space=258, generation=0x01020304)
    block += FORGOTTEN_PAGE.pack(page=PAGES[1], space=0, generation=0x01020305)
    block += bytes(BLOCK - len(block))
    return struct.pack("<I", crc32c(block[4:])) + block[4:]


def request_entry():
    return REQUEST.pack(
        verb=1, flags=1 | 2, ack=3, hint=1, priority=9, kind_mask=5, op_slot=63,
        op_sequence=0x01020304, deadline_ms=600000, page_count=512, region=15,
        lease=0x0000000700000123, target_slot=17, target_sequence=0x0A0B0C0D, owner_base=3,
        owner_stride=16, client_data=0x1122334455667788)


def page_entry():
    return PAGE.pack(
        hash=PAGES[1], row=70001, owner=5, metadata_bytes=4024, metadata_offset=65536)


def completion_entry():
    return COMPLETION.pack(
        verb=1, ack=3, op_slot=63, op_sequence=0x01020304, code=9, terminal=1,
        client_data=0x1122334455667788, lease=0x0000000700000123, page_count=512,
        pages_from_l2=1, pages_from_l3=2, pages_stored=509, bytes=0x0000000123456789,
        store_sequence=77)


def frame_ref():
    return FRAME_REF.pack(frame=70002, kind=2, generation=0x8877665544332211)


def attach_request():
    descriptor = space_descriptor()
    body = ATTACH_REQUEST.pack(
        protocol=PROTOCOL, fingerprint=layout_fingerprint(), incarnation=0x0102030405060708,
        group=b"engine-0", rank=3, world=8, shards_on_node=8, tensor=3, pipeline=0, context=0,
        descriptor_bytes=len(descriptor), quota_bytes=64 << 30,
        previous_daemon=bytes(range(0x40, 0x50)), previous_session=0x1122334455667788,
        lease_count=70002)
    return message(1, body + descriptor, fd_count=3)


def message(number, body, fd_count=0, status=0, request_id=42):
    header = MESSAGE_HEADER.pack(
        magic=b"HICM", type=number, fd_count=fd_count, bytes=MESSAGE_HEADER.size + len(body),
        status=status, request_id=request_id)
    return header + body


def attach_reply():
    return message(2, ATTACH_REPLY.pack(
        protocol=PROTOCOL, session=0x00030007, fingerprint=layout_fingerprint(),
        daemon_instance=bytes(range(0x40, 0x50)), store_uuid=UUID, space=SPACE, family=FAMILY,
        shard=3, part_count=17, arena_count=2, status_table_bytes=0x0000000123456000,
        generation_count=70003, quota_bytes=64 << 30, session_serial=0x1122334455667789,
        leases_kept=1), fd_count=5)


def arenas():
    return message(3, b"".join([
        ARENA_INFO.pack(kind=0, first_frame=0, frame_count=415, frame_bytes=2568192),
        ARENA_INFO.pack(
            kind=2, first_frame=0x01020304, frame_count=23301, frame_bytes=45056,
            generation_index=0x1122334455667788)]), fd_count=2)


def register_region():
    """Two layouts: one run, then two."""
    return message(4, b"".join([
        REGION_REQUEST.pack(
            region=15, region_kind=1, layout_count=2, offset_bytes=0x0000000100001000,
            size_bytes=0x0000000200000000, rows=70001, registration=6,
            device=bytes(range(0x60, 0x70)), ipc_handle=bytes(range(0x80, 0xC0)),
            allocation_bytes=0x0000000300000000, buffer=0x1020304050607080),
        LAYOUT_REQUEST.pack(kind=0, run_count=1), LAYOUT_REQUEST.pack(kind=2, run_count=2),
        LAYOUT_RUN.pack(offset_bytes=0, stride_bytes=2561024, length_bytes=2561024),
        LAYOUT_RUN.pack(offset_bytes=0x0000000123456000, stride_bytes=20480, length_bytes=20480),
        LAYOUT_RUN.pack(offset_bytes=0x1122334455667788, stride_bytes=40960, length_bytes=20480),
    ]), fd_count=1)


def register_cuda_region():
    """One run; then an event for each operation slot, all of them equal here."""
    return message(4, b"".join([
        REGION_REQUEST.pack(
            region=3, region_kind=2, layout_count=1, offset_bytes=0x0000000012345600,
            size_bytes=0x0000000200000000, rows=4096, registration=7,
            device=bytes(range(0x60, 0x70)), ipc_handle=bytes(range(0x80, 0xC0)),
            allocation_bytes=0x0000000300000000, buffer=0x1020304050607080, event_count=64,
            export_kind=1, device_free_bytes=0x0000000A00000000),
        LAYOUT_REQUEST.pack(kind=0, run_count=1),
        LAYOUT_RUN.pack(offset_bytes=0, stride_bytes=2561024, length_bytes=2561024),
        bytes(range(0x40, 0x80)) * OP_SLOTS,
    ]))


def register_vmm_region():
    """One run and no events; then two chunks, each with a descriptor."""
    return message(4, b"".join([
        REGION_REQUEST.pack(
            region=4, region_kind=2, layout_count=1, offset_bytes=0x0000000000012340,
            size_bytes=0x0000000001400000, rows=8, registration=9,
            device=bytes(range(0x60, 0x70)), allocation_bytes=0x0000000001600000,
            export_kind=2, chunk_count=2),
        LAYOUT_REQUEST.pack(kind=0, run_count=1),
        LAYOUT_RUN.pack(offset_bytes=0, stride_bytes=2561024, length_bytes=2561024),
        REGION_CHUNK.pack(offset_bytes=0, size_bytes=0x0000000001400000),
        REGION_CHUNK.pack(offset_bytes=0x0000000001400000, size_bytes=0x0000000000200000),
    ]), fd_count=2)


def space_switch():
    name = b"weights-8"
    return message(8, SPACE_SWITCH_REQUEST.pack(weight_version_bytes=len(name)) + name)


def space_switch_reply():
    space = sha256(space_descriptor(weight_version="weights-8"))
    return message(9, SPACE_SWITCH_REPLY.pack(
        space=space, status_table_bytes=0x0000000123456000), fd_count=1)


def stats_reply():
    names = [name for name, _ in STATS_REPLY.fields]
    return message(11, STATS_REPLY.pack(
        **{name: 0x0101010100000000 + number for number, name in enumerate(names, 1)}))


def notice():
    return message(12, NOTICE.pack(kind=2, code=13) + b"superseded by a newer process",
                   request_id=0)


def blackboard_post():
    value = b"value"
    return message(13, BLACKBOARD_REQUEST.pack(key=0x01020304, value_bytes=len(value)) + value)


def board_join():
    return message(19, BOARD_REQUEST.pack(words=141))


def board_reply():
    return message(20, BOARD_REPLY.pack(number=0x0102030405060708, world=8, words=141), fd_count=1)


def error_reply():
    return message(6, b"space: belongs to another family", status=12)


def client_header():
    return CLIENT_HEADER.pack(
        magic=b"HICC", protocol=PROTOCOL, fingerprint=layout_fingerprint(),
        request_tail=0xFFFFFFFE, completion_head=0x01020304, client_waiting=2)


def server_header():
    return SERVER_HEADER.pack(
        magic=b"HICR", protocol=PROTOCOL, fingerprint=layout_fingerprint(),
        request_head=0xFFFFFFFD, completion_tail=0x01020305, wake_word=77, daemon_sleeping=1,
        state=3, end_code=13, quiet=1)


def status_table():
    """Key 0. Eight places; two pages whose home is place 6, and one of home 7 that wraps to 0."""
    capacity = 8
    header = STATUS_HEADER.pack(
        magic=b"HICT", protocol=PROTOCOL, fingerprint=layout_fingerprint(), capacity=capacity,
        space=SPACE, pages=3)
    table = bytearray(header.ljust(BLOCK, b"\0") + bytes(capacity * STATUS_ENTRY.size))
    masks = [(0x1FFFF, 0x1FFFF, 0x1FFFF), (0x00101, 0x00001, 0), (0, 1 << 63, 1 << 63)]
    for home, page, (resident, stored, durable) in zip((6, 6, 7), PAGES, masks):
        page_hash = struct.pack("<Q", home + 8 * capacity) + page[8:]
        place = home
        while table[BLOCK + place * STATUS_ENTRY.size + STATUS_ENTRY.offset("remote")] & 1:
            place = (place + 1) % capacity
        entry = STATUS_ENTRY.pack(
            sequence=2, remote=1, hash=page_hash, resident=resident, stored=stored,
            durable=durable)
        at = BLOCK + place * STATUS_ENTRY.size
        table[at:at + len(entry)] = entry
    return bytes(table)


def agreement_board():
    """Two ranks, vectors of nine words (two lines each); rank 0 has told round 4, rank 1 is dead,
    and round 4 has failed."""
    words, line = 9, 64
    vector = (words * 8 + line - 1) // line * line
    told = struct.pack(f"<{words}q", *(-number for number in range(words))).ljust(vector, b"\0")
    return b"".join([
        BOARD_HEADER.pack(
            magic=b"HICB", protocol=PROTOCOL, world=2, words=words, bell=0x01020304,
            verdict=9, doubt=4),
        BOARD_MEMBER.pack(round=4, left=1, sleeping=1, lines_even=3, lines_odd=1), told, bytes(vector),
        BOARD_MEMBER.pack(round=3, dead=1), bytes(2 * vector)])


FORMATS = {
    "blob_header": blob_header_block,
    "slab_header": slab_header_blocks,
    "superblock": superblock_file,
    "index_key": index_key,
    "index_value": index_value,
    "space_row": space_row,
    "identity_row": identity_row,
    "state_row": state_row,
    "commit_mark": commit_mark,
    "space_note": space_note,
    "forgotten_block": forgotten_block,
    "space_descriptor": space_descriptor,
    "space_identity": space_identity,
    "request_entry": request_entry,
    "page_entry": page_entry,
    "completion_entry": completion_entry,
    "frame_ref": frame_ref,
    "client_header": client_header,
    "server_header": server_header,
    "status_table": status_table,
    "agreement_board": agreement_board,
    "attach_request": attach_request,
    "attach_reply": attach_reply,
    "arenas": arenas,
    "register_region": register_region,
    "register_cuda_region": register_cuda_region,
    "register_vmm_region": register_vmm_region,
    "space_switch": space_switch,
    "space_switch_reply": space_switch_reply,
    "stats_reply": stats_reply,
    "notice": notice,
    "blackboard_post": blackboard_post,
    "board_join": board_join,
    "board_reply": board_reply,
    "error_reply": error_reply,
}


def to_text(data):
    lines = ["size %d" % len(data)]
    for at in range(0, len(data), 16):
        piece = data[at:at + 16]
        if any(piece):
            lines.append("%06x: %s" % (at, piece.hex(" ")))
    return "\n".join(lines) + "\n"


def write_all(folder):
    for name, make in FORMATS.items():
        (folder / (name + ".hex")).write_text(to_text(make()))


if __name__ == "__main__":
    assert crc32c(b"123456789") == 0xE3069283
    write_all(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
