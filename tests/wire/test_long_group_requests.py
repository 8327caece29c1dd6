"""Long requests about groups on a real socket: an answer or a clear refusal, and an honest member
on another connection is served all the while. What is counted are answers, never time."""

from __future__ import annotations

import select
import struct
from collections.abc import Callable, Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.raw import HEARTBEAT, RawConnection, frame, request, string

OFFSET_COMMIT, OFFSET_FETCH, FIND, LEAVE, DESCRIBE, LIST, CONSUMER_DESCRIBE = (
    8,
    9,
    10,
    13,
    15,
    16,
    69,
)
ITEMS = 50_000
"""Some 0.5 MB."""
TOO_MANY = 1_000_000
"""So many ids without a letter are 2 MB in DescribeGroups, beyond the most items of a request."""
TIMEOUT_S = 60.0

IDS = [f"{number:06}" for number in range(ITEMS)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(Daemon(tmp_path_factory.mktemp("daemon"), topics={"t": 1})) as made:
        yield made


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def compact_array(items: list[bytes]) -> bytes:
    length, found = len(items) + 1, b""
    while length >= 0x80:
        found += bytes([length & 0x7F | 0x80])
        length >>= 7
    return found + bytes([length]) + b"".join(items)


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def consumer_describe() -> bytes:
    return b"\0" + compact_array([compact(one) for one in IDS]) + b"\0\0"


def find_coordinator() -> bytes:
    return b"\0\0" + compact_array([compact(one) for one in IDS]) + b"\0"


def list_groups() -> bytes:
    return b"\0" + compact_array([compact(one) for one in IDS]) + b"\0"


def offset_fetch() -> bytes:
    return b"\0" + compact_array([compact(one) + b"\0\0" for one in IDS]) + b"\0\0"


def offset_commit() -> bytes:
    entry = struct.pack(">iqh", 0, 1, -1)
    head = string("committed") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    return head + array([string("t") + array([entry] * ITEMS)])


def leave() -> bytes:
    return string("nobody") + array([string(one) + struct.pack(">h", -1) for one in IDS])


Body = Callable[[], bytes]
ANSWERED: dict[str, tuple[int, int, Body]] = {
    "DescribeGroups of distinct ids": (DESCRIBE, 0, lambda: array([string(one) for one in IDS])),
    "DescribeGroups of empty ids": (DESCRIBE, 0, lambda: array([string("")] * ITEMS)),
    "ConsumerGroupDescribe": (CONSUMER_DESCRIBE, 0, consumer_describe),
    "FindCoordinator": (FIND, 4, find_coordinator),
    "ListGroups": (LIST, 4, list_groups),
    "OffsetFetch": (OFFSET_FETCH, 8, offset_fetch),
    "OffsetCommit": (OFFSET_COMMIT, 2, offset_commit),
    "LeaveGroup": (LEAVE, 3, leave),
}
REPLY_BYTES = {"DescribeGroups of empty ids": 20, "ListGroups": 8}
"""The least bytes of these replies; the others have at least ten for each item."""


def heartbeat(honest: RawConnection, correlation: int) -> None:
    """One round trip of another client."""
    body = string("g") + struct.pack(">i", 1) + string("m")
    honest.send(frame(request(HEARTBEAT, 0, correlation, body)))
    assert honest.reply()[0] == correlation


@pytest.mark.parametrize("name", ANSWERED)
def test_a_long_request_is_answered_and_others_are_served_meanwhile(
    daemon: Daemon, name: str
) -> None:
    key, version, body = ANSWERED[name]
    port = daemon.port
    with RawConnection(port, timeout_s=TIMEOUT_S) as long, RawConnection(port) as honest:
        long.send(frame(request(key, version, 1, body())))
        served = 0
        while not select.select([long.socket], [], [], 0)[0]:
            served += 1
            heartbeat(honest, served)
        correlation, data = long.reply()
        assert correlation == 1
        assert len(data) >= REPLY_BYTES.get(name, 10 * ITEMS if key != OFFSET_COMMIT else 6 * ITEMS)
        assert served >= (2 if name not in REPLY_BYTES else 0)
        heartbeat(honest, 0)


def test_more_items_than_a_request_may_have_close_their_connection_alone(daemon: Daemon) -> None:
    with RawConnection(daemon.port) as long, RawConnection(daemon.port) as honest:
        long.send(frame(request(DESCRIBE, 0, 1, array([string("")] * TOO_MANY))))
        heartbeat(honest, 1)
        with pytest.raises(ConnectionError):
            long.reply()
        heartbeat(honest, 2)
