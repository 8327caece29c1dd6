"""TxnOffsetCommit 6, which names topics by id (KIP-1319), as bytes: kio does not know it yet. Holds
for a real broker too (GROUPD_PEER=kafka)."""

from __future__ import annotations

import struct
import uuid

from tests.support.process import wait_until
from tests.support.raw import RawConnection, frame, request
from tests.support.wire_client import WireClient
from tests.support.wire_requests import fetch_offset, fetched
from tests.wire.conftest import START_S

TXN_OFFSET_COMMIT = 28
NONE, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_ID = 0, 3, 69, 100
NOT_YET = {14, 15, 16, 51}
"""Codes after which a client tries again: the coordinator loads, or the last end is not over."""


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def topic(topic_id: bytes, *partitions: bytes) -> bytes:
    return topic_id + bytes([len(partitions) + 1]) + b"".join(partitions) + b"\x00"


def partition(number: int, offset: int) -> bytes:
    """Without a leader epoch and with empty metadata."""
    return struct.pack(">iqi", number, offset, -1) + compact("") + b"\x00"


def answered(number: int, code: int) -> bytes:
    return struct.pack(">ih", number, code) + b"\x00"


def commit(
    client: WireClient, name: str, producer: tuple[int, int], member: str, *topics: bytes
) -> bytes:
    """The reply, behind its correlation id."""
    body = b"\x00" + compact(name) + compact(name) + struct.pack(">qh", *producer)
    body += struct.pack(">i", 5 if member else -1) + compact(member) + b"\x00"
    body += bytes([len(topics) + 1]) + b"".join(topics) + b"\x00"
    with RawConnection(client.port) as connection:
        connection.send(frame(request(TXN_OFFSET_COMMIT, 6, 1, body)))
        correlation, reply = connection.reply()
    assert correlation == 1
    return reply


def reply_of(*topics: bytes) -> bytes:
    """A reply without throttling."""
    return b"\x00" + bytes(4) + bytes([len(topics) + 1]) + b"".join(topics) + b"\x00"


def begun(leader: WireClient, name: str) -> tuple[int, int]:
    """Id and epoch of a producer."""
    found: list[tuple[int, int]] = []

    def given() -> bool:
        # Kafka makes the transactions topic when somebody looks for its coordinator.
        leader.call("FindCoordinator", 4, key_type=1, coordinator_keys=[name])
        said = {"transactional_id": name, "transaction_timeout": 60_000}
        reply = leader.call("InitProducerId", 5, **said)
        assert reply["error_code"] in NOT_YET | {NONE}
        found[:] = [(reply["producer_id"], reply["producer_epoch"])]
        return bool(reply["error_code"] == NONE)

    wait_until(given, START_S, "a producer")
    return found[0]


def test_offsets_of_a_topic_that_is_named_by_its_id(
    leader: WireClient, coordinator: WireClient, name: str
) -> None:
    (shown,) = leader.call("Metadata", 12, topics=[{"topic_id": bytes(16), "name": name}])["topics"]
    known, unknown = shown["topic_id"], uuid.uuid4().bytes
    producer = begun(leader, name)
    asked = (
        topic(known, partition(0, 7), partition(9, 8)),
        topic(unknown, partition(0, 9)),
        topic(bytes(16), partition(0, 9)),
    )
    refused = reply_of(
        topic(known, answered(9, UNKNOWN_TOPIC_OR_PARTITION), answered(0, GROUP_ID_NOT_FOUND)),
        topic(unknown, answered(0, UNKNOWN_TOPIC_ID)),
        topic(bytes(16), answered(0, UNKNOWN_TOPIC_ID)),
    )
    assert commit(coordinator, name, producer, "m", *asked) == refused
    done = refused.replace(answered(0, GROUP_ID_NOT_FOUND), answered(0, NONE))
    assert commit(coordinator, name, producer, "", *asked) == done
    ended = leader.call("EndTxn", 5, transactional_id=name, producer_id=producer[0],
                        producer_epoch=producer[1], committed=True)  # fmt: skip
    assert ended["error_code"] == NONE
    wait_until(
        lambda: (
            fetched(coordinator.call(*fetch_offset(name)[:2], **fetch_offset(name)[2])) == (7, 0)
        ),
        START_S,
        "the offset to be stable",
    )
