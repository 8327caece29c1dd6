"""Valid requests of every API and version, as frames without their length.

kio writes them, with values that groupd knows: names of topics and groups that exist, ids that a
broker gives out. Those ids stand as marks of the same length, which `Known.put_in` replaces.
"""

from __future__ import annotations

import dataclasses
import gzip
import random
import re
import struct
import typing
from collections.abc import Callable, Mapping
from typing import Any

import cramjam
from crc32c import crc32c

from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import Api
from tests.support.kio_entities import build, entity_hints, message_class, options, to_bytes
from tests.support.raw import string
from tests.support.wire_client import WireClient

CLIENT = "fuzz"
TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")
PARTITIONS = 3
NOW_MS = 1_700_000_000_000

MEMBER = f"{CLIENT}-" + "7" * 36
"""Stands for the newest id that a classic member was given."""
TOPIC_IDS = tuple(f"topic id mark {number:02}".encode() for number in range(len(TOPICS)))
PRODUCER_ID = 0x7E5DC1A2F0B39687
_PRODUCER = struct.pack(">q", PRODUCER_ID)
_GIVEN_MEMBER = re.compile(rb"fuzz-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

PRODUCE, JOIN_GROUP, INIT_PRODUCER_ID = 0, 11, 22
_TRANSACTIONAL_SINCE = 3
"""The version of Produce that begins with a transactional id; kio has no older one."""
_MORE = bytes(8)
"""Bytes for fields that a version has and its neighbour, which kio knows, has not."""

_TOPIC_NAMES = (*TOPICS, *TOPICS, "fuzz-new", "fuzz-auto", "missing", "", "bad/name", "*")
_GROUPS = ("fuzz-classic", "fuzz-consumer", "fuzz-simple", "fuzz-classic", "fuzz-consumer", "")
_MEMBERS = (MEMBER, MEMBER, "m1", "m2", "m3", "", "nobody")
_TRANSACTIONAL = ("fuzz-txn-1", "fuzz-txn-2", "fuzz-txn-1", "")
_CONFIGS = ("retention.ms", "max.message.bytes", "cleanup.policy", "consumer.session.timeout.ms")
_SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x06fuzz-a\xff\xff\xff\xff"
"""What a consumer says of itself when it joins a classic group."""
_INTEGERS = (0, 1, -1, 2, 1, 0, 3, 100, -2)
_SIZES = (1, 1 << 10, 1 << 20, 0)

_STRINGS: Mapping[str, tuple[str, ...]] = {
    "topic": _TOPIC_NAMES,
    "topic_name": _TOPIC_NAMES,
    "topic_names": _TOPIC_NAMES,
    "subscribed_topic_names": _TOPIC_NAMES,
    "resource_name": (*TOPICS, "fuzz-consumer", "0", ""),
    "group_id": _GROUPS,
    "group_ids": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "coordinator_keys": (*_GROUPS, *_TRANSACTIONAL),
    "key": (*_GROUPS, *_TRANSACTIONAL),
    "member_id": _MEMBERS,
    "group_instance_id": ("i1", "i2", ""),
    "instance_id": ("i1", "i2"),
    "transactional_id": _TRANSACTIONAL,
    "transactional_ids": _TRANSACTIONAL,
    "v3_and_below_transactional_id": _TRANSACTIONAL,
    "transactional_id_pattern": ("fuzz.*", "(", "a{1000}{1000}", ""),
    "subscribed_topic_regex": ("fuzz-.*", "", "(", "(a|b)*c"),
    "protocol_type": ("consumer", "consumer", "connect", ""),
    "protocol_name": ("range", "roundrobin", ""),
    "server_assignor": ("uniform", "range", "nonsense"),
    "configuration_keys": _CONFIGS,
    "value": ("1", "60000", "compact", "delete", "-1", "x", ""),
    "states_filter": ("Stable", "Empty", "nonsense"),
    "state_filters": ("Ongoing", "Empty", "nonsense"),
    "types_filter": ("consumer", "classic", "share"),
    "principal": ("User:alice", "User:*", "nobody"),
    "principal_filter": ("User:alice", "User:ANONYMOUS"),
    "host": ("*", "127.0.0.1", "10.0.0.0/8", ""),
    "host_filter": ("*", "127.0.0.1"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "plain", ""),
    "entity_type": ("user", "client-id", "ip", "nonsense"),
    "entity_name": ("alice", "fuzz", "10.0.0.7", "x"),
    "client_software_name": ("fuzz", "a b", ""),
    "client_software_version": ("1.0", "..", ""),
    "feature": ("group.version", "transaction.version", "nonsense"),
}
_OTHER_STRINGS = ("x", "", "range", "fuzz-a", "\u00e9\u4e2d\U0001f600", "y" * 300)
_NUMBERS: Mapping[str, tuple[int, ...]] = {
    "acks": (-1, -1, 1, 0, 2),
    "replica_id": (-1,),
    "resource_type": (2, 2, 32, 16, 8, 99),
    "key_type": (0, 1, 2),
    "resource_type_filter": (1, 2, 3, 4, 5, 7),
    "resource_pattern_type": (3, 4),
    "pattern_type_filter": (1, 2, 3, 4),
    "operation": (2, 3, 4, 8, 10),
    "permission_type": (2, 3),
    "match_type": (0, 1, 2),
    "mechanism": (1, 2, 1, 2, 0),
    "iterations": (4096, 8192, 1),
    "num_partitions": (1, 2, -1, 0),
    "replication_factor": (1, -1, 0),
    "count": (1, 2, 4, 5),
    "max_bytes": _SIZES,
    "partition_max_bytes": _SIZES,
    "min_bytes": (0, 1, 1 << 20),
    "producer_id": (PRODUCER_ID, PRODUCER_ID, -1, 0, 1),
    "v3_and_below_producer_id": (PRODUCER_ID,),
    "producer_epoch": (0, 0, 1, -1),
    "committed_offset": (0, 1, 1 << 40, -1),
    "timestamp": (-1, -2, -3, NOW_MS, 0),
    "generation_id": (1, 1, 2, -1),
    "generation_id_or_member_epoch": (-1, -1, 1, 2),
    "member_epoch": (0, 0, 1, 2, 3, -1, -2),
    "session_epoch": (-1, -1, 0, 1),
    "session_timeout": (30_000, 6000, 1),
    "rebalance_timeout": (2000, 300, -1),
    "transaction_timeout": (60_000, 1000),
    "max_wait": (0, 0, 20),
    "timeout": (1000, 0),
    "config_operation": (0, 1, 2, 3, 9),
}


def version_of_kio(api: Api, version: int) -> int | None:
    """The nearest version that kio knows."""
    for one in sorted(range(api.min_version, api.max_version + 1), key=lambda v: abs(v - version)):
        try:
            message_class(api.name, one, "request")
        except ImportError:
            continue
        return one
    return None


class Seeds:
    """Makes requests; the same chances give the same ones."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._batches = _batches(chance)

    def frame(self, api: Api, version: int) -> bytes:
        """One request. A version that kio does not know is written as its neighbour."""
        known = version_of_kio(api, version)
        assert known is not None, api.name
        entity = message_class(api.name, known, "request")
        body = to_bytes(build(entity, self._fields(entity)))
        if api.key == PRODUCE and version < _TRANSACTIONAL_SINCE:
            (length,) = struct.unpack_from(">h", body)
            body = body[2 + max(length, 0) :]
        elif known != version:
            body += _MORE
        head = struct.pack(">hhi", api.key, version, self._chance.getrandbits(31))
        return head + string(CLIENT) + (b"\x00" if api.flexible(version) else b"") + body

    def every_version(self, each: int) -> list[bytes]:
        """`each` requests of every version of every API."""
        return [
            self.frame(api, version)
            for api in API_BY_KEY.values()
            for version in range(api.min_version, api.max_version + 1)
            for _ in range(each)
        ]

    def _fields(self, entity: Any) -> dict[str, Any]:
        hints = entity_hints(entity)
        return {
            field.name: self._value(
                field.name, hints[field.name], field.metadata.get("kafka_type", ""), entity
            )
            for field in dataclasses.fields(entity)
        }

    def _value(self, name: str, hint: Any, kafka_type: str, entity: Any) -> Any:
        found = options(hint)
        if type(None) in found and kafka_type != "uuid" and self._chance.random() < 0.2:
            return None
        inner = next(option for option in found if option is not type(None))
        if typing.get_origin(inner) is tuple:
            item = typing.get_args(inner)[0]
            count = self._chance.choice((1, 1, 1, 2, 3, 0))
            return [self._value(name, item, kafka_type, entity) for _ in range(count)]
        if dataclasses.is_dataclass(inner):
            return self._fields(inner)
        return self._plain(name, kafka_type, entity.__name__)

    def _plain(self, name: str, kafka_type: str, owner: str) -> Any:
        choice = self._chance.choice
        if kafka_type == "string":
            return choice(self._names(name, owner))
        if kafka_type == "bool":
            return choice((True, False))
        if kafka_type == "uuid":
            return choice((*TOPIC_IDS, *TOPIC_IDS, bytes(16), self._chance.randbytes(16)))
        if kafka_type == "records":
            return choice(self._batches)
        if kafka_type == "bytes":
            return choice(
                (b"", b"\x00\x01\x00\x00\x00\x01\x00\x06fuzz-a\xff\xff\xff\xff", b"x" * 40)
            )
        return choice(_NUMBERS.get(name, _INTEGERS))

    @staticmethod
    def _names(name: str, owner: str) -> tuple[str, ...]:
        if name == "name":
            if "Config" in owner or "Configuration" in owner:
                return _CONFIGS
            return ("range", "roundrobin") if "Protocol" in owner else _TOPIC_NAMES
        return _STRINGS.get(name, _OTHER_STRINGS)


def _batches(chance: random.Random) -> tuple[bytes | None, ...]:
    """Whole batches, and ones whose checksum fits although their bytes do not make sense."""
    records = [(b"key", b"value"), (None, b"x"), (b"k", None)]
    made = [encode_batch(0, -1, NOW_MS, records)]
    for producer in (0, 1, 2):
        made.append(encode_batch(0, -1, NOW_MS, [(None, b"v")], producer, 0, 0))
        made.append(encode_batch(0, -1, NOW_MS, [(b"k", b"v")], producer, 0, 0, transactional=True))
    compressed = [_compressed(made[0], codec, pack(made[0][_RECORDS:])) for codec, pack in _CODECS]
    broken = []
    for whole in [*made, *compressed] * 6:
        batch = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            batch[chance.randrange(_ATTRIBUTES, len(batch))] = chance.randrange(256)
        broken.append(_with_checksum(batch))
    return (*made, *compressed, *broken, made[0] + made[0], made[0][:-3], b"", None)


_ATTRIBUTES, _RECORDS = 21, 61
"""The places in a batch where they begin; the checksum before them covers all behind it."""
_CODECS: tuple[tuple[int, Callable[[bytes], bytes]], ...] = (
    (1, lambda data: gzip.compress(data, mtime=0)),
    (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    (3, lambda data: bytes(cramjam.lz4.compress(data))),
    (4, lambda data: bytes(cramjam.zstd.compress(data))),
)


def _compressed(batch: bytes, codec: int, records: bytes) -> bytes:
    made = bytearray(batch[:_RECORDS] + records)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, _ATTRIBUTES, codec)
    return _with_checksum(made)


def _with_checksum(batch: bytearray) -> bytes:
    struct.pack_into(">I", batch, _ATTRIBUTES - 4, crc32c(bytes(batch[_ATTRIBUTES:])))
    return bytes(batch)


def topic_ids(host: str, port: int) -> dict[str, bytes]:
    """The ids of `TOPICS`, by name."""
    with WireClient(host, port) as client:
        asked = [{"name": name} for name in TOPICS]
        reply = client.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
    return {topic["name"]: topic["topic_id"] for topic in reply["topics"]}


class Known:
    """Puts what the broker has told in the place of the marks."""

    def __init__(self, topic_ids: Mapping[str, bytes] | None = None) -> None:
        ids = topic_ids or {}
        self._topics = [
            (mark, ids[name]) for mark, name in zip(TOPIC_IDS, TOPICS, strict=True) if name in ids
        ]
        self._member = MEMBER.encode()
        self._producer = _PRODUCER

    def put_in(self, data: bytes) -> bytes:
        for mark, topic_id in self._topics:
            data = data.replace(mark, topic_id)
        data = data.replace(MEMBER.encode(), self._member)
        return data.replace(_PRODUCER, self._producer)

    def learn(self, key: int, data: bytearray, at: int, length: int) -> None:
        """Learns from the reply in these bytes, which begins with its correlation id."""
        if key == JOIN_GROUP:
            if found := _GIVEN_MEMBER.search(data, at, at + length):
                self._member = found.group()
        elif key == INIT_PRODUCER_ID and length >= 20:
            # Behind correlation id, throttle time and error; v2 and later have tagged fields.
            at += 10 if length == 20 else 11
            if struct.unpack_from(">q", data, at)[0] >= 0:
                self._producer = bytes(data[at : at + 8])
