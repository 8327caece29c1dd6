"""Random requests of one connection, whose replies depend on nothing but the requests before.

Left out is what two brokers may answer differently for other reasons: the end of a transaction,
whose markers come later, and members that get their ids from the broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.kio_entities import Plain
from tests.support.wire_client import Request
from tests.support.wire_requests import batch

NOW_MS = 1_700_000_000_000
DIFFERENT = frozenset({"host", "port", "topic_id", "cluster_id", "last_timestamp"})
"""Fields of replies that no two brokers have in common."""


@dataclass(frozen=True)
class Facts:
    """What one broker has answered: the classic member's id, the transactional producer, the ids of
    topics by name."""

    member: str
    producer: tuple[int, int]
    topic_ids: Mapping[str, bytes]


Make = Callable[[Facts], Request]


class RandomRequests:
    """`name`: of the topic, the groups and the transactional id. The topic has two partitions."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(seed)
        self.topic, self.classic, self.consumer = name, f"{name}-classic", f"{name}-consumer"
        self.transactional_id = name
        self._sequences = [0, 0]
        self._last: list[Make] = []
        self._joined: frozenset[str] = frozenset()
        """Members that may be in the group by now."""

    def take(self, count: int) -> list[Make]:
        kinds: list[Callable[[], list[Make]]] = [
            *[self._produce, self._read, self._commit, self._beat] * 3,
            *[self._again] * 6,
            self._transactional,
            self._delete_records,
            self._topics,
            self._configs,
            self._fetch_offsets,
            self._offset_delete,
            self._classic,
            self._look,
            self._init_producer,
        ]
        made: list[Make] = []
        while len(made) < count:
            self._last = self._random.choice(kinds)()
            made += self._last
        return made

    def _again(self) -> list[Make]:
        """The last request some more times."""
        return self._last[-1:] * self._random.randint(1, 4)

    def _partition(self) -> int:
        return self._random.choice([0, 0, 0, 1, 7])

    def _name(self) -> str:
        return self._random.choice([self.topic] * 9 + [f"{self.topic}-b", "missing"])

    # Records ------------------------------------------------------------------------------

    def _produce(self) -> list[Make]:
        acks, index = self._random.choice([-1, -1, 1, 0]), self._partition()
        name = self._name()
        if acks == 0:  # what fails then closes the connection
            name, index = self.topic, index % 2
        records = batch(self._random.randint(1, 3))
        data = {"index": index, "records": records}
        topics = [{"name": name, "partition_data": [data]}]
        asked = ("Produce", 9, {"acks": acks, "timeout": 1000, "topic_data": topics})
        return [_fixed(asked)]

    def _transactional(self) -> list[Make]:
        """A transactional Produce. Its partition is added to the transaction on the way, and other
        requests could overtake that."""
        partition = self._random.randint(0, 1)
        sequence = self._sequences[partition]
        self._sequences[partition] += 1

        def make(facts: Facts) -> Request:
            records = encode_batch(
                0, -1, NOW_MS, [(b"k", b"v")], *facts.producer, sequence, transactional=True
            )
            data = {"index": partition, "records": records}
            topics = [{"name": self.topic, "partition_data": [data]}]
            named = {"transactional_id": self.transactional_id, "topic_data": topics}
            return ("Produce", 12, {"acks": -1, "timeout": 1000, **named})

        return [make, *self._produce()]

    def _read(self) -> list[Make]:
        name, partition = self._name(), self._partition()
        if self._random.random() < 0.5:
            timestamp = self._random.choice([-1, -2, NOW_MS])
            place = {"partition_index": partition, "timestamp": timestamp}
            listed = [{"name": name, "partitions": [place]}]
            level = self._random.choice([0, 1])
            asked = {"replica_id": -1, "topics": listed, "isolation_level": level}
            return [_fixed(("ListOffsets", 7, asked))]
        offset = self._random.choice([0, 0, 1, 5, 20])
        one = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 4096}
        limits = {"max_wait": self._random.choice([0, 0, 20]), "min_bytes": 1, "max_bytes": 4096}
        topics = [{"topic": name, "partitions": [one]}]
        return [
            _fixed(
                ("Fetch", 12, {"replica_id": -1, "topics": topics, "session_epoch": -1, **limits})
            )
        ]

    def _delete_records(self) -> list[Make]:
        place = {"partition_index": self._partition(), "offset": self._random.randint(-1, 5)}
        topics = [{"name": self._name(), "partitions": [place]}]
        return [_fixed(("DeleteRecords", 2, {"topics": topics, "timeout": 1000}))]

    def _init_producer(self) -> list[Make]:
        return [_fixed(("InitProducerId", 4, {"transaction_timeout": 60_000}))]

    # Topics -------------------------------------------------------------------------------

    def _topics(self) -> list[Make]:
        name, wait = f"{self.topic}-b", {"timeout": 1000}
        new = {"name": name, "num_partitions": 1, "replication_factor": 1}
        grown = {"name": self._name(), "count": self._random.randint(1, 4)}
        return [
            _fixed(
                self._random.choice(
                    [
                        ("CreateTopics", 7, {"topics": [new], **wait}),
                        ("DeleteTopics", 5, {"topic_names": [name], **wait}),
                        ("CreatePartitions", 3, {"topics": [grown], **wait}),
                    ]
                )
            )
        ]

    def _configs(self) -> list[Make]:
        kind, key = self._random.choice(
            [(2, "max.message.bytes"), (32, "consumer.session.timeout.ms")]
        )
        resource = {"resource_type": kind, "resource_name": self.topic}
        change = {
            "name": key,
            "config_operation": 0,
            "value": str(self._random.randint(46_000, 50_000)),
        }
        altered = [{**resource, "configs": [change]}]
        described = [{**resource, "configuration_keys": [key]}]
        more = {"include_synonyms": True, "include_documentation": False}
        return [
            _fixed(("IncrementalAlterConfigs", 1, {"resources": altered, "validate_only": False})),
            _fixed(("DescribeConfigs", 4, {"resources": described, **more})),
        ]

    def _look(self) -> list[Make]:
        """A request that shows other things than records."""
        groups = [self.classic, self.consumer, self.topic]
        topics = [{"name": self._name()}, {"name": f"{self.topic}-c"}]
        create = self._random.random() < 0.1
        places = [{"name": self.topic, "partition_indexes": [0, 1]}]
        return [
            _fixed(
                self._random.choice(
                    [
                        ("Metadata", 9, {"topics": topics, "allow_auto_topic_creation": create}),
                        ("DescribeGroups", 5, {"groups": groups}),
                        ("ConsumerGroupDescribe", 1, {"group_ids": groups}),
                        ("ListGroups", 4, {"states_filter": []}),
                        ("DeleteGroups", 2, {"groups_names": groups[2:]}),
                        ("DescribeProducers", 0, {"topics": places}),
                        ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": groups}),
                    ]
                )
            )
        ]

    # Groups -------------------------------------------------------------------------------

    def _commit(self) -> list[Make]:
        """One commit, or several of one size in a row, for which the broker has shortcuts."""
        group, epoch, member = self._random.choice(
            [
                (self.topic, -1, lambda facts: ""),
                (self.classic, self._random.choice([1, 1, 1, 2]), lambda facts: facts.member),
                (self.consumer, self._random.choice([1, 1, 2, 3]), lambda facts: "m1"),
            ]
        )
        name, partition = self._name(), self._partition()

        def commit(offset: int) -> Make:
            place = {"partition_index": partition, "committed_offset": offset}
            topics = [{"name": name, "partitions": [place]}]
            fields = {
                "group_id": group,
                "generation_id_or_member_epoch": epoch,
                "topics": topics,
            }
            return lambda facts: ("OffsetCommit", 8, {**fields, "member_id": member(facts)})

        return [
            commit(self._random.randint(0, 1 << 40)) for _ in range(self._random.choice([1, 5]))
        ]

    def _fetch_offsets(self) -> list[Make]:
        topics = [{"name": self.topic, "partition_indexes": [0, 1]}]
        groups = [
            {"group_id": group, "topics": topics}
            for group in (self.topic, self.classic, self.consumer)
        ]
        asked = groups[: self._random.randint(1, 3)]
        return [_fixed(("OffsetFetch", 8, {"groups": asked, "require_stable": True}))]

    def _offset_delete(self) -> list[Make]:
        topics = [{"name": self.topic, "partitions": [{"partition_index": 0}]}]
        group = self._random.choice([self.topic, self.classic, self.consumer])
        return [_fixed(("OffsetDelete", 0, {"group_id": group, "topics": topics}))]

    def _beat(self) -> list[Make]:
        """A KIP-848 member that joins, acknowledges, repeats itself or leaves."""
        member = self._random.choice(["m1", "m1", "m1", "m2"])
        said = {"group_id": self.consumer, "member_id": member}
        epoch = self._random.choice([1, 1, 1, 1, 2, 2, 3, 0, -1])
        if member not in self._joined and self._random.random() < 0.8:
            epoch = 0
        self._joined = self._joined | {member} if epoch >= 0 else self._joined - {member}
        own = self._random.random() < 0.3

        def make(facts: Facts) -> Request:
            fields: dict[str, Any] = {**said, "member_epoch": epoch}
            if epoch == 0:
                fields.update(
                    subscribed_topic_names=[self.topic], rebalance_timeout=9000, topic_partitions=()
                )
            elif own:
                owned = {"topic_id": facts.topic_ids[self.topic], "partitions": [0, 1]}
                fields["topic_partitions"] = [owned]
            return ("ConsumerGroupHeartbeat", 1, fields)

        return [make] * self._random.choice([1, 1, 3])

    def _classic(self) -> list[Make]:
        generation = self._random.choice([1, 1, 1, 2])
        kind = self._random.choice(["beat", "beat", "beat", "leave", "join"])

        def make(facts: Facts) -> Request:
            who = {"group_id": self.classic, "member_id": facts.member}
            if kind == "beat":
                return ("Heartbeat", 3, {**who, "generation_id": generation})
            if kind == "leave":
                members = [{"member_id": facts.member}]
                return ("LeaveGroup", 3, {"group_id": self.classic, "members": members})
            return join_classic(self.classic, facts.member)

        return [make] * self._random.choice([1, 3])


def join_classic(group: str, member: str) -> Request:
    protocols = [{"name": "range", "metadata": b""}]
    timeouts = {"session_timeout": 30_000, "rebalance_timeout": 30_000}
    who = {"group_id": group, "member_id": member, "protocol_type": "consumer"}
    return ("JoinGroup", 3, {**who, **timeouts, "protocols": protocols})


def _fixed(asked: Request) -> Make:
    return lambda facts: asked


def comparable(reply: Any, name: str, facts: Facts) -> Any:
    """`reply` to one of the requests about `name`, without what only one broker can say, and
    without groups of other names, of which time may have changed some."""
    if isinstance(reply, dict):
        return {
            key: comparable(value, name, facts)
            for key, value in reply.items()
            if key not in DIFFERENT
        }
    if isinstance(reply, list | tuple):
        return [comparable(one, name, facts) for one in reply if _is_about(one, name)]
    return "(member)" if reply == facts.member else reply


def _is_about(one: Any, name: str) -> bool:
    group = one.get("group_id", name) if isinstance(one, dict) else name
    return bool(group == name or group.startswith(f"{name}-"))


def short(request: Request, reply: Plain) -> str:
    """The request and its reply, cut to the length of a failure's message."""
    api, version, fields = request
    return f"{api} {version} {fields} -> {reply}"[:600]
