"""What Produce says of records that are wrong, over TCP.

The same holds for a real broker (GROUPD_PEER=kafka), but where `STRICTER` says otherwise.
"""

from __future__ import annotations

import gzip
import time
import uuid
from typing import Any

import cramjam
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_batch, pack_batch
from groupd.protocol.records.varints import zigzag
from tests.support.admin import end_offsets
from tests.support.peer import Peer, peer_kind
from tests.support.wire_client import WireClient

NONE, CORRUPT_MESSAGE, INVALID_TIMESTAMP, INVALID_RECORD = 0, 2, 32, 87
HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1000)


def topic(peer: Peer, **configs: str) -> str:
    """A new topic with one partition."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(20)
    end_offsets(peer.bootstrap, {name: 1})  # a real broker may still be about to lead it
    return name


def record(delta: int, *, ms: int = 0, key: bytes | None = b"k", headers: bytes = b"\0") -> bytes:
    keyed = b"\1" if key is None else zigzag(len(key)) + key
    body = b"\0" + zigzag(ms) + zigzag(delta) + keyed + zigzag(1) + b"v" + headers
    return zigzag(len(body)) + body


def batch(*records: bytes, count: int | None = None, codec: int = 0, **fields: int) -> bytes:
    """A batch of the records' bytes with a right checksum; `fields` of its header."""
    number = len(records) if count is None else count
    header = parse_header(encode_batch(0, -1, NOW_MS, [(None, b"")]))._replace(
        attributes=codec, last_offset_delta=number - 1, record_count=number
    )
    body = b"".join(records)
    if codec == 1:
        body = gzip.compress(body)
    elif codec == 4:
        body = bytes(cramjam.zstd.compress(body))
    return pack_batch(header._replace(**fields), body)


def produce(client: WireClient, name: str, records: bytes) -> Any:
    """The one partition's answer."""
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
    reply = client.call(
        "Produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data
    )
    (answer,) = reply["responses"][0]["partition_responses"]
    return answer


THREE = (record(0), record(1), record(2))
GOOD = batch(*THREE)
CASES = {
    "29 random bytes": (batch(bytes(range(97, 126)), count=3), INVALID_RECORD),
    "2^31-1 announced": (batch(*THREE, count=2**31 - 1), INVALID_RECORD),
    "ten announced, three there": (batch(*THREE, count=10), INVALID_RECORD),
    "two announced, three there": (batch(*THREE, count=2), INVALID_RECORD),
    "none announced": (batch(count=0), INVALID_RECORD),
    "count and last delta differ": (batch(*THREE, last_offset_delta=5), INVALID_RECORD),
    "bytes behind the records": (batch(*THREE, b"x", count=3), INVALID_RECORD),
    "bytes behind the records, gzip": (batch(*THREE, b"x", count=3, codec=1), INVALID_RECORD),
    "ten announced, three there, zstd": (batch(*THREE, count=10, codec=4), INVALID_RECORD),
    "-1 headers": (batch(record(0, headers=b"\1")), INVALID_RECORD),
    "a header without name": (batch(record(0, headers=b"\2\1\2x")), INVALID_RECORD),
    "a base offset": (b"\0\0\0\0\0\0\0\5" + GOOD[8:], INVALID_RECORD),
    "magic 1": (GOOD[:16] + b"\1" + GOOD[17:], INVALID_RECORD),
    "two batches": (GOOD + GOOD, INVALID_RECORD),
    "a cut batch": (GOOD[:-1], INVALID_RECORD),
    "a cut header": (GOOD[:40], INVALID_RECORD),
    "nothing": (b"", INVALID_RECORD),
    "a wrong checksum": (GOOD[:-1] + b"\1", CORRUPT_MESSAGE),
    "a header's name that is no UTF-8": (batch(record(0, headers=b"\2\2\xff\2x")), NONE),
    "marked as LogAppendTime": (batch(*THREE, attributes=8), NONE),
    "a wrong largest timestamp": (batch(*THREE, max_timestamp_ms=NOW_MS + 5 * HOUR_MS), NONE),
}
STRICTER = {
    "offset deltas with a gap": batch(record(0), record(5), record(2)),
    "a wrong record length, gzip": batch(b"\x0a" + record(0)[1:], record(1), codec=1),
}
"""Kafka takes these, and no consumer can read what was meant."""


@pytest.mark.parametrize("case", CASES)
def test_the_records_of_a_batch(peer: Peer, client: WireClient, case: str) -> None:
    name = topic(peer)
    records, code = CASES[case]
    answer = produce(client, name, records)
    assert (answer["error_code"], answer["record_errors"]) == (code, [])
    taken = 0 if code else parse_header(records).record_count
    assert produce(client, name, GOOD)["base_offset"] == taken
    assert end_offsets(peer.bootstrap, {name: 1}) == {(name, 0): taken + 3}


@pytest.mark.parametrize("case", STRICTER)
def test_what_no_consumer_can_read_is_refused(peer: Peer, client: WireClient, case: str) -> None:
    code = NONE if peer_kind() == "kafka" else INVALID_RECORD
    assert produce(client, topic(peer), STRICTER[case])["error_code"] == code


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_every_bad_record_has_its_error(peer: Peer, client: WireClient, codec: int) -> None:
    name = topic(peer, cleanup_policy="compact")
    answer = produce(
        client, name, batch(record(0, key=None), record(1), record(2, key=None), codec=codec)
    )
    said = f"Compacted topic cannot accept message without key in topic partition {name}-0"
    assert answer["error_code"] == INVALID_RECORD
    assert answer["record_errors"] == [
        {"batch_index": index, "batch_index_error_message": said} for index in (0, 2)
    ]
    assert answer["error_message"] == (
        "One or more records have been rejected due to 2 record errors in total, and only showing "
        f"the first three errors at most: [RecordError(batchIndex=0, message='{said}'), "
        f"RecordError(batchIndex=2, message='{said}')]"
    )
    assert (answer["base_offset"], answer["log_start_offset"]) == (-1, 0)


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_timestamps_are_those_of_records(peer: Peer, client: WireClient, codec: int) -> None:
    late = (record(0), record(1, ms=2 * HOUR_MS), record(2, ms=3 * HOUR_MS))
    answer = produce(client, topic(peer), batch(*late, codec=codec))
    assert answer["error_code"] == INVALID_TIMESTAMP
    assert answer["error_message"] == (
        "One or more records have been rejected due to invalid timestamp"
    )
    errors = answer["record_errors"]
    assert [error["batch_index"] for error in errors] == [1, 2]
    assert [error["batch_index_error_message"].split(" The ")[0] for error in errors] == [
        f"Timestamp {NOW_MS + hours * HOUR_MS} of message with offset {offset} is out of range."
        for offset, hours in ((1, 2), (2, 3))
    ]


def test_a_mark_of_log_append_time_is_refused_in_such_a_topic(
    peer: Peer, client: WireClient
) -> None:
    name = topic(peer, message_timestamp_type="LogAppendTime")
    answer = produce(client, name, batch(*THREE, attributes=8))
    assert answer["error_code"] == INVALID_TIMESTAMP
    assert answer["record_errors"][0] == {
        "batch_index": 0,
        "batch_index_error_message": "Invalid timestamp type in message DefaultRecord(offset=0, "
        f"timestamp={NOW_MS}, key=1 bytes, value=1 bytes). Producer should not set timestamp type "
        "to LogAppendTime.",
    }
