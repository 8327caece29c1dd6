"""What goes over the channel beside logs, as JSON: it is rare, and can be read in a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig, with_settings
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.protocol.errors import ErrorCode

Place = tuple[str, int]
GroupConfigs = Mapping[str, Mapping[str, str]]


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# Start --------------------------------------------------------------------------------------


class Start(Struct, frozen=True):
    """The first call of all. `shards`: those that this worker serves."""

    node_id: int
    host: str
    port: int
    shards: tuple[int, ...]
    config: CoordinatorConfig
    image: MetadataImage
    group_configs: GroupConfigs
    log_format: str
    log_level: str
    cluster_id: str

    def encode(self) -> bytes:
        return _dump(
            {
                "node": [self.node_id, self.host, self.port],
                "shards": self.shards,
                "config": _settings(self.config),
                "topics": [_topic(topic) for topic in self.image.by_name.values()],
                "versions": [self.image.version, self.image.created_version],
                "group_configs": {name: dict(own) for name, own in self.group_configs.items()},
                "log": [self.log_format, self.log_level],
                "cluster": self.cluster_id,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> Start:
        found = json.loads(body)
        topics = [_to_topic(one) for one in found["topics"]]
        node_id, host, port = found["node"]
        log_format, log_level = found["log"]
        return cls(
            node_id,
            host,
            port,
            tuple(found["shards"]),
            with_settings(CoordinatorConfig(), found["config"]),
            MetadataImage(topics, *found["versions"]),
            found["group_configs"],
            log_format,
            log_level,
            found["cluster"],
        )


def _settings(config: CoordinatorConfig) -> dict[str, str]:
    """What is not the default, as it would stand in a config file."""
    found = {}
    for key, entry in FIELDS_BY_KEY.items():
        value = getattr(config, entry.name)
        if value != entry.default:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            found[key] = text.lower() if isinstance(value, bool) else text
    return found


# Topics and groups --------------------------------------------------------------------------


def _topic(topic: TopicImage) -> list[Any]:
    return [topic.topic_id.hex(), topic.name, topic.partitions, topic.internal, topic.racks]


def _to_topic(found: list[Any]) -> TopicImage:
    topic_id, name, partitions, internal, racks = found
    return TopicImage(
        bytes.fromhex(topic_id), name, partitions, internal, tuple(tuple(one) for one in racks)
    )


def encode_metadata(delta: MetadataDelta) -> bytes:
    """What differs; not the topics that have stayed as they were."""
    image = delta.image
    names = sorted(delta.created | delta.changed)
    return _dump(
        {
            "versions": [image.version, image.created_version],
            "topics": [_topic(image.by_name[name]) for name in names],
            "created": sorted(delta.created),
            "changed": sorted(delta.changed),
            "deleted": [(name, topic_id.hex()) for name, topic_id in delta.deleted],
        }
    )


def decode_metadata(body: bytes, before: MetadataImage) -> MetadataDelta:
    """`before`: the image that the last delta, or the start, has led to."""
    found = json.loads(body)
    deleted = tuple((name, bytes.fromhex(topic_id)) for name, topic_id in found["deleted"])
    gone = {name for name, _ in deleted}
    topics = {name: topic for name, topic in before.by_name.items() if name not in gone}
    topics |= {topic.name: topic for topic in map(_to_topic, found["topics"])}
    image = MetadataImage((topics[name] for name in sorted(topics)), *found["versions"])
    return MetadataDelta(image, frozenset(found["created"]), frozenset(found["changed"]), deleted)


def encode_group_configs(group_id: str, configs: Mapping[str, str]) -> bytes:
    return _dump([group_id, dict(configs)])


def decode_group_configs(body: bytes) -> tuple[str, dict[str, str]]:
    group_id, configs = json.loads(body)
    return group_id, configs


def encode_broker_configs(values: Mapping[str, str]) -> bytes:
    return _dump(dict(values))


def decode_broker_configs(body: bytes) -> dict[str, str]:
    values: dict[str, str] = json.loads(body)
    return values


# Transactions -------------------------------------------------------------------------------


def encode_write(write: TransactionalWrite, add: bool) -> bytes:
    """The arguments of `TransactionVerifier.verify`."""
    producer = [write.transactional_id, write.producer_id, write.producer_epoch]
    return _dump([producer, write.partitions, add])


def decode_write(body: bytes) -> tuple[TransactionalWrite, bool]:
    (transactional_id, producer_id, epoch), partitions, add = json.loads(body)
    places = tuple((name, number) for name, number in partitions)
    return TransactionalWrite(transactional_id, producer_id, epoch, places), add


def encode_marker(marker: Marker, partitions: Sequence[Place]) -> bytes:
    fields = (
        marker.producer_id,
        marker.producer_epoch,
        marker.committed,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    return _dump([fields, partitions])


def decode_marker(body: bytes) -> tuple[Marker, list[Place]]:
    fields, partitions = json.loads(body)
    return Marker(*fields), [(name, number) for name, number in partitions]


def encode_codes(codes: Mapping[Place, ErrorCode]) -> bytes:
    return _dump([(*place, int(code)) for place, code in codes.items()])


def decode_codes(body: bytes) -> dict[Place, ErrorCode]:
    return {(name, number): ErrorCode(code) for name, number, code in json.loads(body)}


# Watching -----------------------------------------------------------------------------------


class Health(Struct, frozen=True):
    """The answer to a ping. `failed`: names of the logs of shards that cannot be loaded."""

    loading: int = 0
    failed: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return _dump([self.loading, self.failed])

    @classmethod
    def decode(cls, body: bytes) -> Health:
        loading, failed = json.loads(body)
        return cls(loading, tuple(failed))


class AdminAnswer(Struct, frozen=True):
    """As `HttpReply`."""

    status: int
    content_type: str
    body: bytes

    def encode(self) -> bytes:
        return _dump([self.status, self.content_type]) + b"\n" + self.body

    @classmethod
    def decode(cls, raw: bytes) -> AdminAnswer:
        head, _, body = raw.partition(b"\n")
        status, content_type = json.loads(head)
        return cls(status, content_type, body)


def encode_path(path: Sequence[str], query: Mapping[str, str]) -> bytes:
    return _dump([list(path), dict(query)])


def decode_path(body: bytes) -> tuple[tuple[str, ...], dict[str, str]]:
    path, query = json.loads(body)
    return tuple(path), query


# Forwarded requests -------------------------------------------------------------------------


def encode_forward(host: str, frame: bytes) -> bytes:
    raw = host.encode()
    return bytes((len(raw),)) + raw + frame


def decode_forward(body: bytes) -> tuple[str, bytes]:
    """(client's host, request without its length field)"""
    end = 1 + body[0]
    return body[1:end].decode(), body[end:]
