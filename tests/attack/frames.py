"""Requests of the attackers as bytes. Large ones are made by repeating the bytes of one item, so
that a frame of megabytes costs its sender nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tests.support.raw import frame, string

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 8, 9, 10, 11, 12
LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS = 13, 14, 15, 16, 18
CREATE_TOPICS, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT, DESCRIBE_CONFIGS = 19, 22, 28, 32
INCREMENTAL_ALTER_CONFIGS, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 44, 68, 69
GET_TELEMETRY, PUSH_TELEMETRY = 71, 72

NULL = b"\x00"
"""A compact string or array that is null."""
NONE = b"\x01"
"""A compact string or array without content."""
TAGS = b"\x00"
"""No tagged fields."""
CLIENT = "attacker"


def varint(value: int) -> bytes:
    """An unsigned varint."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def compact(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return varint(len(data) + 1) + data


def array(items: Sequence[bytes]) -> bytes:
    """A compact array."""
    return varint(len(items) + 1) + b"".join(items)


def repeated(item: bytes, size: int) -> bytes:
    """A compact array of the same item, of about `size` bytes."""
    count = size // len(item)
    return varint(count + 1) + item * count


def distinct(size: int, mark: str = "") -> bytes:
    """A compact array of different strings, of about `size` bytes."""
    items: list[bytes] = []
    while size > 0:
        items.append(compact(f"{mark}{len(items):x}"))
        size -= len(items[-1])
    return array(items)


def request(
    key: int, version: int, body: bytes, *, flexible: bool = True, client: str = CLIENT
) -> bytes:
    """A whole frame with correlation id 1."""
    head = struct.pack(">hhi", key, version, 1) + string(client) + (TAGS if flexible else b"")
    return frame(head + body)


def metadata_all() -> bytes:
    """21 bytes: Metadata v1 of all topics."""
    return frame(struct.pack(">hhi", METADATA, 1, 1) + string("mad") + struct.pack(">i", -1))


def metadata(topics: Iterable[str], *, create: bool = False) -> bytes:
    named = [string(topic) for topic in topics]
    body = struct.pack(">i", len(named)) + b"".join(named) + bytes([create])
    return request(METADATA, 4, body, flexible=False)


def describe_groups(groups: bytes) -> bytes:
    """`groups`: a compact array of strings, here and below."""
    return request(DESCRIBE_GROUPS, 5, groups + b"\x00" + TAGS)


def consumer_describe(groups: bytes) -> bytes:
    return request(CONSUMER_DESCRIBE, 0, groups + b"\x00" + TAGS)


def find_coordinator(keys: bytes) -> bytes:
    return request(FIND_COORDINATOR, 4, b"\x00" + keys + TAGS)


def offset_fetch(groups: bytes) -> bytes:
    """`groups`: a compact array of `group_item`."""
    return request(OFFSET_FETCH, 8, groups + b"\x00" + TAGS)


def group_item(group: str) -> bytes:
    """All offsets of a group."""
    return compact(group) + NULL + TAGS


def list_groups(states: bytes = NONE, types: bytes = NONE) -> bytes:
    return request(LIST_GROUPS, 5, states + types + TAGS)


def describe_configs(resources: bytes) -> bytes:
    """`resources`: a compact array of `config_item`."""
    return request(DESCRIBE_CONFIGS, 4, resources + b"\x00\x00" + TAGS)


def config_item(topic: str) -> bytes:
    """All configs of a topic."""
    return b"\x02" + compact(topic) + NULL + TAGS


def fetch(
    topics: bytes,
    *,
    max_bytes: int = 57_671_680,
    wait_ms: int = 0,
    min_bytes: int = 0,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    """`topics`: a compact array of `fetch_item`; `session`: its id and epoch, (0, -1) for none."""
    head = struct.pack(">iiiibii", -1, wait_ms, min_bytes, max_bytes, 0, *session)
    return request(FETCH, 12, head + topics + NONE + NONE + TAGS)


def fetch_item(topic: str, partitions: Iterable[int], max_bytes: int = 57_671_680) -> bytes:
    asked = [
        struct.pack(">iiqiqi", partition, -1, 0, -1, -1, max_bytes) + TAGS
        for partition in partitions
    ]
    return compact(topic) + array(asked) + TAGS


def leave_group(group: str, members: bytes) -> bytes:
    """`members`: a compact array of `leaving`."""
    return request(LEAVE_GROUP, 4, compact(group) + members + TAGS)


LEAVING = NONE + NULL + TAGS
"""A member without an id."""


def offset_commit(group: str, topics: bytes) -> bytes:
    """`topics`: a compact array of `commit_item`."""
    head = compact(group) + struct.pack(">i", -1) + NONE + NULL
    return request(OFFSET_COMMIT, 8, head + topics + TAGS)


def commit_item(topic: str, partitions: Iterable[int], metadata: str = "") -> bytes:
    offsets = [
        struct.pack(">iqi", partition, 1, -1) + compact(metadata) + TAGS for partition in partitions
    ]
    return compact(topic) + array(offsets) + TAGS


def create_topics(topics: Iterable[tuple[str, int]]) -> bytes:
    named = [
        compact(name) + struct.pack(">ih", partitions, 1) + NONE + NONE + TAGS
        for name, partitions in topics
    ]
    return request(CREATE_TOPICS, 5, array(named) + struct.pack(">ib", 10_000, 0) + TAGS)


def create_compacted(topic: str) -> bytes:
    config = compact("cleanup.policy") + compact("compact") + TAGS
    asked = compact(topic) + struct.pack(">ih", 1, 1) + NONE + array([config]) + TAGS
    return request(CREATE_TOPICS, 5, array([asked]) + struct.pack(">ib", 10_000, 0) + TAGS)


def produce(topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> bytes:
    data = struct.pack(">i", partition) + compact(batch) + TAGS
    topics = array([compact(topic) + array([data]) + TAGS])
    return request(PRODUCE, 9, NULL + struct.pack(">hi", acks, 10_000) + topics + TAGS)


def join_group(
    group: str, member: str = "", *, metadata: bytes = b"", client: str = CLIENT, version: int = 5
) -> bytes:
    """JoinGroup 4 and 5 without a member id: an id is given, and stays pending."""
    instance = struct.pack(">h", -1) if version >= 5 else b""
    body = string(group) + struct.pack(">ii", 30_000, 60_000) + string(member) + instance
    protocol = string("range") + struct.pack(">i", len(metadata)) + metadata
    body += string("consumer") + struct.pack(">i", 1) + protocol
    return request(JOIN_GROUP, version, body, flexible=False, client=client)


def sync_group(
    group: str, generation: int, member: str, given: Sequence[tuple[str, bytes]]
) -> bytes:
    body = string(group) + struct.pack(">i", generation) + string(member)
    body += struct.pack(">hi", -1, len(given))
    for name, data in given:
        body += string(name) + struct.pack(">i", len(data)) + data
    return request(SYNC_GROUP, 3, body, flexible=False)


def heartbeat(group: str, generation: int, member: str) -> bytes:
    body = string(group) + struct.pack(">i", generation) + string(member) + struct.pack(">h", -1)
    return request(HEARTBEAT, 3, body, flexible=False)


def consumer_join(
    group: str, member: str, names: Iterable[str] = (), regex: str | None = None
) -> bytes:
    """The first heartbeat of a KIP-848 member."""
    body = compact(group) + compact(member) + struct.pack(">i", 0) + NULL + NULL
    body += struct.pack(">i", 60_000) + array([compact(name) for name in names])
    body += (NULL if regex is None else compact(regex)) + NULL + NONE + TAGS
    return request(CONSUMER_HEARTBEAT, 1, body)


def init_producer(transactional_id: str | None = None) -> bytes:
    """InitProducerId 4."""
    named = NULL if transactional_id is None else compact(transactional_id)
    return request(INIT_PRODUCER_ID, 4, named + struct.pack(">iqh", 60_000, -1, -1) + TAGS)


def txn_offset_commit(transactional_id: str, group: str, topics: bytes) -> bytes:
    """TxnOffsetCommit 3, of a producer that nobody knows; `topics` as in `offset_commit`."""
    head = compact(transactional_id) + compact(group) + struct.pack(">qhi", 1, 0, -1) + NONE + NULL
    return request(TXN_OFFSET_COMMIT, 3, head + topics + TAGS)


def get_telemetry(instance: bytes) -> bytes:
    """`instance`: 16 bytes."""
    return request(GET_TELEMETRY, 0, instance + TAGS)


def push_telemetry(instance: bytes, metrics: bytes) -> bytes:
    body = instance + struct.pack(">ibb", 1, 0, 0) + compact(metrics) + TAGS
    return request(PUSH_TELEMETRY, 0, body)


def alter_topic_configs(topic: str, configs: Iterable[tuple[str, str]]) -> bytes:
    """IncrementalAlterConfigs 1."""
    set_to = [compact(name) + b"\x00" + compact(value) + TAGS for name, value in configs]
    resource = b"\x02" + compact(topic) + array(set_to) + TAGS
    return request(INCREMENTAL_ALTER_CONFIGS, 1, array([resource]) + b"\x00" + TAGS)
