"""Golden bytes, written out by hand from Kafka's message definitions: what kio cannot judge,
and the traps that real clients fell into."""

from __future__ import annotations

import tracemalloc

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import cluster as c
from groupd.protocol.messages import data as d
from groupd.protocol.messages import delegation_tokens as k
from groupd.protocol.messages import offsets as o
from groupd.protocol.messages import topics as t
from groupd.protocol.wire.api.fetch import FETCH
from groupd.protocol.wire.api.metadata import METADATA
from groupd.protocol.wire.api.offset_commit import TXN_OFFSET_COMMIT
from groupd.protocol.wire.api.produce import PRODUCE
from groupd.protocol.wire.api.security import (
    CREATE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from groupd.protocol.wire.api.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    LIST_OFFSETS,
)
from groupd.protocol.wire.api.transactions import INIT_PRODUCER_ID
from groupd.protocol.wire.registry import MalformedRequest

TOPIC_ID = bytes.fromhex("000102030405060708090a0b0c0d0e0f")


def test_produce_v3_as_aiokafka_sends_it() -> None:
    body = bytes.fromhex("ffff 0001 000005dc 00000001 0001 74 00000001 00000007 00000003 010203")
    assert PRODUCE.decode(body, 0, 3) == d.ProduceRequest(
        (d.ProduceTopic("t", NO_TOPIC_ID, (d.ProducePartition(7, b"\x01\x02\x03"),)),), 1, 1500
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_before_v3_has_no_transactional_id(version: int) -> None:
    body = bytes.fromhex("ffff 000005dc 00000001 0001 74 00000001 00000007 00000003 010203")
    assert PRODUCE.decode(body, 0, version) == d.ProduceRequest(
        (d.ProduceTopic("t", NO_TOPIC_ID, (d.ProducePartition(7, b"\x01\x02\x03"),)),), -1, 1500
    )


@pytest.mark.parametrize(
    ("version", "append_time", "throttle"),
    [(0, "", ""), (1, "", "00000000"), (2, "ffffffffffffffff", "00000000")],
)
def test_produce_replies_before_v3(version: int, append_time: str, throttle: str) -> None:
    item = d.ProducedPartition(7, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    reply = d.ProduceReply((d.ProducedTopic("t", NO_TOPIC_ID, (item,)),))
    assert PRODUCE.encode(reply, version) == bytes.fromhex(
        f"00000001 0001 74 00000001 00000007 002b ffffffffffffffff {append_time} {throttle}"
    )


def test_produce_v13_null_records_and_nested_tags() -> None:
    body = bytes.fromhex(f"00 ffff 00000000 02 {TOPIC_ID.hex()} 02 00000007 00 010501ff 00 00")
    assert PRODUCE.decode(body, 0, 13) == d.ProduceRequest(
        (d.ProduceTopic("", TOPIC_ID, (d.ProducePartition(7, None),)),), -1, 0
    )


def test_produce_records_are_the_bytes_of_the_frame() -> None:
    """Nothing looks into the batches: even what is no batch comes out untouched."""
    records = bytes(range(256)) * 4096
    head = bytes.fromhex("ffff ffff 00000000 00000001 0001 74 00000001 00000000 00100000")
    decoded = PRODUCE.decode(head + records, 0, 3)
    assert decoded.topics[0].partitions[0].records == records


def test_produce_reply_append_time_beyond_any_datetime() -> None:
    item = d.ProducedPartition(0, base_offset=1, log_append_time_ms=2**63 - 1)
    reply = d.ProduceReply((d.ProducedTopic("t", TOPIC_ID, (item,)),))
    assert PRODUCE.encode(reply, 3) == bytes.fromhex(
        "00000001 0001 74 00000001 00000000 0000 0000000000000001 7fffffffffffffff 00000000"
    )


def test_fetch_v4_empty_records_are_not_null() -> None:
    """librdkafka and the Java client want an empty record set, length 0, not -1."""
    reply = d.FetchReply(topics=(d.FetchedDataTopic("t", TOPIC_ID, (d.FetchedPartition(1),)),))
    assert FETCH.encode(reply, 4) == bytes.fromhex(
        "00000000 00000001 0001 74 00000001"
        "00000001 0000 ffffffffffffffff ffffffffffffffff ffffffff 00000000"
    )


def test_fetch_v18_reply_with_all_tagged_fields() -> None:
    partition = d.FetchedPartition(
        1,
        ErrorCode.FENCED_LEADER_EPOCH,
        high_watermark=2,
        last_stable_offset=3,
        log_start_offset=4,
        aborted=(),
        records=b"\xaa",
        diverging_epoch=(5, 6),
        current_leader=(7, 8),
    )
    reply = d.FetchReply(
        ErrorCode.NONE,
        9,
        (d.FetchedDataTopic("t", TOPIC_ID, (partition,)),),
        (c.Node(1, "h", 2),),
    )
    assert FETCH.encode(reply, 18) == bytes.fromhex(
        f"00000000 0000 00000009 02 {TOPIC_ID.hex()} 02"
        "00000001 004a 0000000000000002 0000000000000003 0000000000000004 01 ffffffff 02 aa"
        "02 00 0d 00000005 0000000000000006 00 01 09 00000007 00000008 00"
        "00"
        "01 00 0d 02 00000001 02 68 00000002 00 00"
    )


@pytest.mark.parametrize(
    ("tags", "replica_id"),
    [("00", -1), ("01 01 0d 00000003 0000000000000004 00", 3), ("02 00 02 01 63 01 00", None)],
    ids=["consumer", "replica", "short replica state"],
)
def test_fetch_v15_replica_state(tags: str, replica_id: int | None) -> None:
    body = bytes.fromhex("000001f4 00000001 7fffffff 00 00000000 ffffffff 01 01 01" + tags)
    if replica_id is None:
        with pytest.raises(MalformedRequest):
            FETCH.decode(body, 0, 15)
    else:
        assert FETCH.decode(body, 0, 15) == d.FetchRequest((), replica_id=replica_id)


def test_fetch_encoder_copies_large_records_once() -> None:
    records = bytes(3_000_000)
    topic = d.FetchedDataTopic("t", TOPIC_ID, (d.FetchedPartition(0, records=records),))
    tracemalloc.start()
    try:
        size = len(FETCH.encode(d.FetchReply(topics=(topic,)), 17))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(records) < size < len(records) + 100
    # A bytearray reserves an eighth more than it needs; a second copy would double it.
    assert peak < 1.3 * len(records)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -4, -1, 2**63 - 1])
def test_list_offsets_timestamps_at_the_extremes(timestamp_ms: int) -> None:
    body = bytes.fromhex("ffffffff 00000001 0001 74 00000001 00000000")
    decoded = LIST_OFFSETS.decode(body + timestamp_ms.to_bytes(8, "big", signed=True), 0, 1)
    assert decoded.topics[0].partitions == (d.ListOffsetsPartition(0, timestamp_ms),)


@pytest.mark.parametrize(
    ("version", "body", "topics"),
    [
        (0, "00000000", None),
        (0, "00000001 0001 74", (("t", NO_TOPIC_ID),)),
        (1, "ffffffff", None),
        (1, "00000000", ()),
        (9, "00 01 00 00 00", None),
        (9, "01 01 00 00 00", ()),
        (12, f"02 {TOPIC_ID.hex()} 00 00 01 00 00", ((None, TOPIC_ID),)),
        (13, f"02 {TOPIC_ID.hex()} 02 74 00 01 00 00", (("t", TOPIC_ID),)),
    ],
)
def test_metadata_all_none_or_some(
    version: int, body: str, topics: tuple[tuple[str | None, bytes], ...] | None
) -> None:
    assert METADATA.decode(bytes.fromhex(body), 0, version) == c.MetadataRequest(topics)


@pytest.mark.parametrize("body", ["ffffffff", "fffffffe"])
def test_metadata_v0_has_no_null(body: str) -> None:
    with pytest.raises(MalformedRequest):
        METADATA.decode(bytes.fromhex(body), 0, 0)


def test_metadata_v9_names_are_not_nullable() -> None:
    with pytest.raises(MalformedRequest):
        METADATA.decode(bytes.fromhex("02 00 00 01 00 00 00"), 0, 9)


def test_metadata_reply_v10_has_no_null_name() -> None:
    reply = c.MetadataReply((), None, -1, (c.TopicInfo(None, TOPIC_ID),))
    assert METADATA.encode(reply, 10) == bytes.fromhex(
        f"00000000 01 00 ffffffff 02 0000 01 {TOPIC_ID.hex()} 00 01 80000000 00 80000000 00"
    )


@pytest.mark.parametrize("version", [5, 6, 7])
def test_create_topics_reply_configs_are_never_null(version: int) -> None:
    """Java's Admin fails with a NullPointerException on null."""
    topic_id = TOPIC_ID.hex() if version == 7 else ""
    reply = t.CreateTopicsReply((t.CreatedTopic("t", TOPIC_ID),))
    assert CREATE_TOPICS.encode(reply, version) == bytes.fromhex(
        f"00000000 02 02 74 {topic_id} 0000 00 ffffffff ffff 01 00 00"
    )


def test_create_topics_reply_config_error_is_tag_0() -> None:
    reply = t.CreateTopicsReply(
        (t.CreatedTopic("t", config_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),)
    )
    assert CREATE_TOPICS.encode(reply, 5) == bytes.fromhex(
        "00000000 02 02 74 0000 00 ffffffff ffff 01 01 00 02 001d 00"
    )


@pytest.mark.parametrize("version", [1, 6])
def test_delete_topics_array_is_not_nullable(version: int) -> None:
    with pytest.raises(MalformedRequest):
        DELETE_TOPICS.decode(b"\xff\xff\xff\xff" if version == 1 else b"\x00" * 9, 0, version)


def test_booleans_are_any_byte_but_zero() -> None:
    decoded = CREATE_PARTITIONS.decode(bytes.fromhex("00000000 00000000 07"), 0, 0)
    assert decoded.validate_only is True


def test_init_producer_id_timeout_extremes() -> None:
    for timeout_ms in (-(2**31), 2**31 - 1):
        body = b"\xff\xff" + timeout_ms.to_bytes(4, "big", signed=True)
        assert INIT_PRODUCER_ID.decode(body, 0, 0) == d.InitProducerIdRequest(None, timeout_ms)


def test_describe_topic_partitions_null_cursor_is_any_negative_byte() -> None:
    for marker, cursor in (("ff", None), ("80", None), ("01 02 74 00000003 00", ("t", 3))):
        body = bytes.fromhex(f"01 000007d0 {marker} 00")
        decoded = DESCRIBE_TOPIC_PARTITIONS.decode(body, 0, 0)
        assert decoded == c.DescribeTopicPartitionsRequest((), 2000, cursor)


def test_txn_offset_commit_v6_names_topics_by_id() -> None:
    body = bytes.fromhex(
        "03 7478 02 67 0000000000000007 0003 00000005 02 6d 00"
        f"02 {TOPIC_ID.hex()} 02 00000001 0000000000000009 ffffffff 00 00 00 00"
    )
    partition = o.CommitPartition(1, 9, -1, None)
    assert TXN_OFFSET_COMMIT.decode(body, 0, 6) == o.TxnOffsetCommitRequest(
        "tx", "g", 7, 3, (o.commit_topic("", (partition,), TOPIC_ID),), 5, "m", None
    )
    errors = (o.PartitionError(1, ErrorCode.STALE_MEMBER_EPOCH),)
    reply = o.TxnOffsetCommitReply((o.TopicErrors("t", errors, TOPIC_ID),))
    assert TXN_OFFSET_COMMIT.encode(reply, 6) == bytes.fromhex(
        f"00000000 02 {TOPIC_ID.hex()} 02 00000001 0071 00 00 00"
    )


NEVER = "ffffffffffffffff"


def test_delegation_tokens_that_were_not_made() -> None:
    """kio refuses times before 1970."""
    reply = k.CreateDelegationTokenReply(
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ("User", "al"), ("U", "bob")
    )
    encode = CREATE_DELEGATION_TOKEN.encode
    times = NEVER * 3
    assert encode(reply, 1) == bytes.fromhex(
        f"003d 0004 55736572 0002 616c {times} 0000 00000000 00000000"
    )
    assert encode(reply, 2) == bytes.fromhex(f"003d 05 55736572 03 616c {times} 01 01 00000000 00")
    assert encode(reply, 3) == bytes.fromhex(
        f"003d 05 55736572 03 616c 02 55 04 626f62 {times} 01 01 00000000 00"
    )
    expiry = k.DelegationTokenExpiryReply(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    for api in (RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN):
        assert api.encode(expiry, 1) == bytes.fromhex(f"0040 {NEVER} 00000000")
        assert api.encode(expiry, 2) == bytes.fromhex(f"0040 {NEVER} 00000000 00")
