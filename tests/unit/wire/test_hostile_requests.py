"""Bytes from anyone who reaches the port: refused at once, without memory, never a crash."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import tracemalloc
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.server.decoding import ITEMS_DECODED_INLINE
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import LongRequest, MalformedRequest
from tests.support.examples import examples
from tests.unit.wire.kio_oracle import request_entities, to_bytes
from tests.unit.wire.test_group_requests import CASES

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def legacy(text: str) -> bytes:
    return pack(">h", len(text.encode())) + text.encode()


def compact(text: str) -> bytes:
    assert len(text.encode()) < 127
    return bytes((len(text.encode()) + 1,)) + text.encode()


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Bodies up to an array length; what follows decides.
JOIN_V1 = legacy("g") + pack(">ii", 1, 1) + legacy("m") + legacy("consumer")
JOIN_V6 = compact("g") + pack(">ii", 1, 1) + compact("m") + b"\x00" + compact("consumer")
HEARTBEAT_848 = compact("g") + compact("m") + pack(">i", 1) + b"\x00\x00" + pack(">i", -1)
COMMIT_V2 = legacy("g") + pack(">i", 1) + legacy("m") + pack(">q", -1)
FETCH_V8_TOPIC = varint(2) + compact("g") + varint(2) + compact("t")


def refused(key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        API_BY_KEY[key].decode(body, 0, version)


@pytest.mark.parametrize("length", [INT32_MAX, 2**30, 2**20, 11])
@pytest.mark.parametrize(
    ("key", "version", "start", "flexible"),
    [
        pytest.param(11, 1, JOIN_V1, False, id="join-protocols"),
        pytest.param(11, 6, JOIN_V6, True, id="join-protocols-compact"),
        pytest.param(8, 2, COMMIT_V2, False, id="commit-topics"),
        pytest.param(8, 2, COMMIT_V2 + pack(">i", 1) + legacy("t"), False, id="commit-partitions"),
        pytest.param(68, 1, HEARTBEAT_848, True, id="848-names"),
        pytest.param(68, 1, HEARTBEAT_848 + b"\x00\x00\x00", True, id="848-topics"),
        pytest.param(
            68, 1, HEARTBEAT_848 + b"\x00\x00\x00\x02" + bytes(16), True, id="848-partitions"
        ),
        pytest.param(9, 8, b"", True, id="fetch-groups"),
        pytest.param(9, 8, FETCH_V8_TOPIC, True, id="fetch-partitions"),
        pytest.param(47, 0, legacy("g") + pack(">i", 1) + legacy("t"), False, id="delete"),
        pytest.param(10, 4, b"\x00", True, id="find-coordinator-keys"),
        pytest.param(15, 0, b"", False, id="describe-groups"),
    ],
)
def test_announced_array_is_refused_without_memory(
    key: int, version: int, start: bytes, flexible: bool, length: int
) -> None:
    announced = varint(length + 1) if flexible else pack(">i", length)
    request = start + announced + bytes(10)
    refused(key, version, request)  # the first time its schema is compiled, which takes memory
    tracemalloc.start()
    try:
        started = time.process_time()
        refused(key, version, request)
        assert time.process_time() - started < 0.5
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [-2, INT32_MIN])
def test_negative_array_length_other_than_null(length: int) -> None:
    refused(11, 1, JOIN_V1 + pack(">i", length))
    refused(9, 2, legacy("g") + pack(">i", length))


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        pytest.param(11, 1, JOIN_V1 + pack(">i", -1), id="array"),
        pytest.param(11, 6, JOIN_V6 + b"\x00\x00", id="compact-array"),
        pytest.param(9, 1, legacy("g") + pack(">i", -1), id="fetch-v1-topics"),
        pytest.param(9, 8, FETCH_V8_TOPIC + b"\x00" + bytes(9), id="compact-int32-array"),
        pytest.param(12, 0, b"\xff\xff" + bytes(20), id="string"),
        pytest.param(12, 4, b"\x00" + bytes(20), id="compact-string"),
        pytest.param(11, 1, JOIN_V1 + pack(">i", 1) + legacy("p") + pack(">i", -1), id="bytes"),
        pytest.param(11, 6, JOIN_V6 + b"\x02" + compact("p") + b"\x00\x00", id="compact-bytes"),
    ],
)
def test_null_where_none_is_allowed(key: int, version: int, body: bytes) -> None:
    refused(key, version, body)


@pytest.mark.parametrize("length", [-2, -(2**15), 2**15 - 1, 30])
def test_bad_string_length(length: int) -> None:
    refused(12, 0, pack(">h", length) + bytes(20))


@pytest.mark.parametrize("length", [2**15, 2**31 - 1, 2**32 - 1, 2**35 - 1])
def test_compact_string_longer_than_kafka_allows(length: int) -> None:
    refused(12, 4, varint(length + 1 if length < 2**35 - 1 else length) + bytes(2**15 + 50))


def test_longest_string_is_accepted() -> None:
    body = varint(2**15) + b"x" * (2**15 - 1) + pack(">i", 1) + compact("m") + b"\x00\x00"
    assert len(API_BY_KEY[12].decode(body, 0, 4).group_id) == 2**15 - 1


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"])
def test_text_that_is_no_utf_8(raw: bytes) -> None:
    refused(12, 0, pack(">h", len(raw)) + raw + bytes(20))
    refused(12, 4, bytes((len(raw) + 1,)) + raw + bytes(20))


def test_unknown_tagged_fields_are_skipped_everywhere() -> None:
    """KIP-482: a newer client may add tagged fields to a version we know."""
    tagged = b"\x02" + b"\x00\x03abc" + b"\x85\x01\x00"
    topic = bytes(range(16)) + b"\x02" + pack(">i", 9) + tagged
    body = HEARTBEAT_848 + b"\x00\x00\x00" + b"\x02" + topic + tagged
    request: Any = API_BY_KEY[68].decode(body, 0, 1)
    assert request.topic_partitions[0].partitions == (9,)
    commit = compact("g") + pack(">i", 1) + compact("m") + b"\x00" + b"\x02" + compact("t")
    commit += b"\x03" + pack(">iqi", 1, 2, 3) + b"\x01" + tagged + pack(">iqi", 4, 5, 6)
    commit += compact("meta") + tagged + tagged + tagged
    request = API_BY_KEY[8].decode(commit, 0, 8)
    assert [
        (p.partition, p.offset, p.leader_epoch, p.metadata) for p in request.topics[0].partitions
    ] == [
        (1, 2, 3, ""),
        (4, 5, 6, "meta"),
    ]


@pytest.mark.parametrize(
    "tagged",
    [
        pytest.param(b"", id="missing"),
        pytest.param(b"\x01", id="no-tag"),
        pytest.param(b"\x01\x00", id="no-size"),
        pytest.param(b"\x01\x00\x05abcd", id="short"),
        pytest.param(b"\x01\x00" + varint(2**32 - 1), id="huge-size"),
        pytest.param(varint(2**32 - 1), id="huge-count"),
        pytest.param(varint(2**32 - 1) + bytes(1000), id="huge-count-of-empty-fields"),
        pytest.param(b"\x80\x80\x80\x80\x80\x01", id="long-varint"),
    ],
)
def test_bad_tagged_fields(tagged: bytes) -> None:
    refused(68, 1, HEARTBEAT_848 + bytes(4) + tagged)


def test_se_87_many_tagged_fields_are_a_long_request() -> None:
    """A million of them take a second: they are decoded in a thread, or refused."""
    many = 10_000
    tagged = varint(many) + b"".join(varint(tag) + b"\x00" for tag in range(many))
    api = API_BY_KEY[68]
    body = HEARTBEAT_848 + bytes(4) + tagged
    with pytest.raises(LongRequest):
        api.counted(body, 0, 1, ITEMS_DECODED_INLINE)
    assert api.counted(body, 0, 1, many)[1] == many
    # Those of the header are read before the API is known.
    head = pack(">hhi", 68, 1, 7) + legacy("client")
    with pytest.raises(MalformedRequest, match="header: more than 1000"):
        parse_request_header(head + tagged + body, API_BY_KEY)
    assert parse_request_header(head + b"\x01\x00\x01x" + body, API_BY_KEY).body_offset == 20


@pytest.mark.parametrize("value", [INT32_MIN, -1, 0, 1234567891, INT32_MAX])
def test_extreme_timeouts(value: int) -> None:
    request: Any = API_BY_KEY[11].decode(
        legacy("g") + pack(">ii", value, value) + legacy("m") + legacy("c") + bytes(4), 0, 1
    )
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (value, value)
    body = compact("g") + compact("m") + pack(">i", 1) + b"\x00\x00" + pack(">i", value)
    request = API_BY_KEY[68].decode(body + bytes(5), 0, 1)
    assert request.rebalance_timeout_ms == value


@pytest.mark.parametrize("value", [INT64_MIN, -1, 0, INT64_MAX])
def test_extreme_retention_and_offset(value: int) -> None:
    """kio rejects the extremes as a duration; they are legal."""
    body = legacy("g") + pack(">i", 1) + legacy("m") + pack(">q", value)
    body += pack(">i", 1) + legacy("t") + pack(">i", 1) + pack(">iq", 0, value) + b"\xff\xff"
    request: Any = API_BY_KEY[8].decode(body, 0, 4)
    assert request.retention_time_ms == value
    assert request.topics[0].partitions[0].offset == value
    assert request.topics[0].partitions[0].metadata is None


@pytest.mark.parametrize("value", [1, 2, 0xFF])
def test_any_byte_but_0_is_true(value: int) -> None:
    request: Any = API_BY_KEY[69].decode(b"\x01" + bytes((value,)) + b"\x00", 0, 1)
    assert request.include_authorized_operations is True


def test_settled_heartbeat_equals_the_long_way() -> None:
    """The shortcut for "nothing changed" may not change the answer; a trailing byte avoids it."""
    for version, body in ((0, HEARTBEAT_848 + bytes(4)), (1, HEARTBEAT_848 + bytes(5))):
        api = API_BY_KEY[68]
        assert api.decode(body, 0, version) == api.decode(body + b"x", 0, version)


@pytest.mark.parametrize(("api", "version"), CASES)
@examples(4, derandomize=True, database=None)
@given(data=st.data())
def test_every_shortened_request_is_refused(api: Any, version: int, data: st.DataObject) -> None:
    body = to_bytes(data.draw(request_entities(api.name, version)))
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            api.decode(body[:length], 0, version)


def test_garbage_is_decoded_or_refused_but_nothing_else() -> None:
    source = random.Random(7)
    refusals = 0
    for _ in range(4000):
        api = source.choice(list(API_BY_KEY.values()))
        version = source.randint(api.min_version, api.max_version)
        body = source.randbytes(source.randint(0, 60))
        try:
            api.decode(body, 0, version)
        except MalformedRequest:
            refusals += 1
    assert refusals > 2000


def test_varint_limits() -> None:
    assert Reader(varint(2**35 - 1), 0, 0, True).uvarint() == 2**35 - 1
    assert Reader(b"\x80\x80\x80\x80\x00", 0, 0, True).uvarint() == 0
    with pytest.raises(BadBytes):
        Reader(b"\x80\x80\x80\x80\x80\x00", 0, 0, True).uvarint()


def test_the_served_apis_do_not_load_kio() -> None:
    """kio 0.6 aborts the process on hostile lengths: it may only be the oracle of tests."""
    code = "import sys, groupd.protocol.wire.header; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
