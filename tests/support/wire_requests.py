"""Requests about one topic or one group of the same name, and what their replies say."""

from __future__ import annotations

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.kio_entities import Plain
from tests.support.wire_client import Request


def create_topic(topic: str, partitions: int = 1) -> Request:
    asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    return ("CreateTopics", 7, {"topics": [asked], "timeout": 10_000})


def batch(count: int) -> bytes:
    return encode_batch(0, -1, 1_700_000_000_000, [(None, b"value")] * count)


RECORDS = batch(3)


def produce(topic: str, records: bytes = RECORDS, acks: int = -1, partition: int = 0) -> Request:
    data = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
    return ("Produce", 9, {"acks": acks, "timeout": 10_000, "topic_data": [data]})


def list_offsets(
    topic: str, timestamp: int, partition: int = 0, isolation_level: int = 0
) -> Request:
    asked = [
        {"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}
    ]
    fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": asked}
    return ("ListOffsets", 7, fields)


def fetch(topic: str, offset: int) -> Request:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    asked = {"topic": topic, "partitions": [partition]}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    return ("Fetch", 12, {"replica_id": -1, "topics": [asked], **limits})


def delete_records(topic: str, offset: int) -> Request:
    asked = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}
    return ("DeleteRecords", 2, {"topics": [asked], "timeout": 10_000})


def metadata(topic: str) -> Request:
    return ("Metadata", 9, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})


def commit(name: str, offset: int) -> Request:
    partition = {"partition_index": 0, "committed_offset": offset}
    topics = [{"name": name, "partitions": [partition]}]
    return ("OffsetCommit", 8, {"group_id": name, "generation_id_or_member_epoch": -1,
                                "topics": topics})  # fmt: skip


def fetch_offset(name: str) -> Request:
    topics = [{"name": name, "partition_indexes": [0]}]
    return ("OffsetFetch", 7, {"group_id": name, "topics": topics, "require_stable": True})


def fetched(reply: Plain) -> tuple[int, int]:
    """The offset and the error in an OffsetFetch 7 of one partition."""
    if reply["error_code"]:
        return -1, reply["error_code"]
    (partition,) = reply["topics"][0]["partitions"]
    return partition["committed_offset"], partition["error_code"]


def listed(reply: Plain) -> int:
    (partition,) = reply["topics"][0]["partitions"]
    assert partition["error_code"] == 0
    return int(partition["offset"])


def produced(reply: Plain) -> int:
    """The base offset in a reply to a Produce."""
    (partition,) = reply["responses"][0]["partition_responses"]
    assert partition["error_code"] == 0
    return int(partition["base_offset"])
