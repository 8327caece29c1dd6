"""Members of share groups that say exactly what a test lets them say, over TCP; and the broker that
they talk to, once for each place where groupd keeps its logs."""

from __future__ import annotations

import itertools
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from groupd.protocol.records.batch import iter_batches
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.kio_entities import Plain
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, list_offsets, produce

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
RECORD_LIMIT = 1
PARTITIONS = 3
LOCK_MS = 30_000
WAIT_MS = 300
"""How long a request waits that is to get nothing."""
AT_ONCE_MS = 1000 if peer_kind() == "kafka" else 60_000
"""How long a request may wait that is to be answered at once, so longer than its client does. Kafka
does not always wake one for which another member's records are released, or that comes while the
fetch before it still has the partition. It gets them when its wait is over (docs/compat.md,
Share-partitions)."""
STATE_EPOCH = 2
SESSIONS_MAX = 10
SETTINGS = {
    "group.share.max.size": "5",
    "group.share.max.share.sessions": str(SESSIONS_MAX),
    "log.cleaner.backoff.ms": "200",
}
_START_S = 60.0
_GROUP = 32
_numbers = itertools.count()

Place = int | tuple[bytes, int]
"""A partition of the topic, or the id of another topic and its partition."""
Acks = Mapping[Place, Sequence[Plain]]


@pytest.fixture(scope="module")
def peer(
    place: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    store = None
    if place == "memory":
        store = "memory://"
    elif place == "postgres":
        server = request.getfixturevalue("postgres")
        store = server.url(server.new_database())
    directory = tmp_path_factory.mktemp("peer")
    with running(make_peer(directory, settings=SETTINGS, store=store)) as made:
        yield made


@pytest.fixture
def foo(peer: Peer) -> Iterator[ShareTopic]:
    made = ShareTopic(peer)
    yield made
    made.close()


class ShareTopic:
    """A new topic with three partitions, and a share group of its own, which reads them from the
    beginning. Its share-partitions are initialized, as if there were members."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.name = self.group = f"share-{next(_numbers)}"
        self.members: list[SharingMember] = []
        self.client = WireClient(peer.host, peer.port)
        self.configure(share_auto_offset_reset="earliest")
        self.topic_id = self.create(self.name)
        self.initialize()

    def close(self) -> None:
        for member in self.members:
            member.client.close()
        self.client.close()

    def member(self, name: str = "m1") -> SharingMember:
        """A member, or the same on one more connection."""
        self.members.append(SharingMember(self, name))
        return self.members[-1]

    def configure(self, **values: str) -> None:
        """Sets configs of the group."""
        named = {key.replace("_", "."): value for key, value in values.items()}
        changes = [
            {"name": key, "config_operation": 0, "value": value} for key, value in named.items()
        ]
        resource = {"resource_type": _GROUP, "resource_name": self.group}
        asked = [{**resource, "configs": changes}]
        reply = self.client.call("IncrementalAlterConfigs", 1, resources=asked)
        assert reply["responses"][0]["error_code"] == 0, reply
        asked = [{**resource, "configuration_keys": [*named]}]

        def seen() -> bool:
            (found,) = self.client.call("DescribeConfigs", 4, resources=asked)["results"]
            return {one["name"]: one["value"] for one in found["configs"]} == named

        wait_until(seen, 10, "the configs")

    def create(self, name: str) -> bytes:
        """The id of a new topic, whose partitions have leaders."""
        api, version, fields = create_topic(name, PARTITIONS)
        (created,) = self.client.call(api, version, **fields)["topics"]
        assert created["error_code"] == 0, created
        for partition in range(PARTITIONS):
            self._wait_for(list_offsets(name, -1, partition))
        return bytes(created["topic_id"])

    def _wait_for(self, request: tuple[str, int, Any]) -> None:
        api, version, fields = request
        wait_until(lambda: not error_codes(self.client.call(api, version, **fields)), _START_S, api)

    def initialize(self, start_offset: int = -1, state_epoch: int = STATE_EPOCH) -> None:
        """As the coordinator of the group does it for a first member."""
        entries = [
            {"partition": number, "state_epoch": state_epoch, "start_offset": start_offset}
            for number in range(PARTITIONS)
        ]
        # In Kafka the first look makes the topic of the share coordinator.
        self.client.call("FindCoordinator", 6, key_type=2, coordinator_keys=[self.key])
        self._wait_for(("InitializeShareGroupState", 0, self._about(entries)))

    @property
    def key(self) -> str:
        """Partition 0 as the share coordinator knows it."""
        return f"{self.group}:{urlsafe_b64encode(self.topic_id).decode()[:22]}:0"

    def _about(self, entries: list[Plain]) -> Plain:
        topic = {"topic_id": self.topic_id, "partitions": entries}
        return {"group_id": self.group, "topics": [topic]}

    def delete_state(self) -> None:
        entries = [{"partition": number} for number in range(PARTITIONS)]
        reply = self.client.call("DeleteShareGroupState", 0, **self._about(entries))
        assert not error_codes(reply), reply

    def produce(self, count: int, partition: int = 0, *, age_ms: int = 0) -> None:
        """One batch of `count` records."""
        now_ms = int(time.time() * 1000)
        self.append(encode_batch(0, -1, now_ms - age_ms, [(None, b"value")] * count), partition)

    def append(self, records: bytes, partition: int = 0) -> None:
        api, version, fields = produce(self.name, records, partition=partition)
        reply = self.client.call(api, version, **fields)
        assert not error_codes(reply), reply

    def offsets(self, partition: int = 0) -> tuple[int, int]:
        """(start offset, lag), as administrators see it."""
        topics = [{"topic_name": self.name, "partitions": [partition]}]
        groups = [{"group_id": self.group, "topics": topics}]
        reply = self.client.call("DescribeShareGroupOffsets", 1, groups=groups)
        assert not error_codes(reply), reply
        (found,) = reply["groups"][0]["topics"][0]["partitions"]
        return found["start_offset"], found["lag"]


class SharingMember:
    """A member on a connection of its own. The test says the epochs of its session."""

    def __init__(self, topic: ShareTopic, member: str) -> None:
        self.topic, self.member = topic, member
        self.client = WireClient(topic.peer.host, topic.peer.port, member)

    def send_fetch(
        self,
        epoch: int,
        reads: Iterable[Place] = (),
        *,
        acks: Acks | None = None,
        forget: Iterable[Place] = (),
        version: int = 2,
        **limits: Any,
    ) -> None:
        fields = {
            "max_wait": AT_ONCE_MS,
            "min_bytes": 1,
            "max_bytes": 50 << 20,
            "max_records": 500,
            "batch_size": 500,
            **limits,
        }
        dropped = [
            {"topic_id": topic_id, "partitions": [number]}
            for topic_id, number in map(self._named, forget)
        ]
        asked = self._asked(epoch, dict.fromkeys(reads, ()) | dict(acks or {}))
        fields |= {**asked, "forgotten_topics_data": dropped}
        self.client.send("ShareFetch", version, fields)

    def fetch(self, epoch: int, reads: Iterable[Place] = (), **fields: Any) -> Plain:
        """The reply to ShareFetch, which is expected at once."""
        self.send_fetch(epoch, reads, **fields)
        return self.client.receive()

    def late(self, epoch: int, reads: Iterable[Place] = (), **fields: Any) -> Plain:
        """The reply to ShareFetch, which is expected after its wait."""
        return self.fetch(epoch, reads, max_wait=WAIT_MS, **fields)

    def acknowledge(
        self, epoch: int, acks: Acks | None = None, *, version: int = 2, **fields: Any
    ) -> Plain:
        """The reply to ShareAcknowledge."""
        asked = self._asked(epoch, acks or {})
        return self.client.call("ShareAcknowledge", version, **{**asked, **fields})

    def code(self, epoch: int, *batches: Plain, **fields: Any) -> int:
        """What ShareAcknowledge says of partition 0."""
        return int(partitions_of(self.acknowledge(epoch, {0: batches}, **fields))[0]["error_code"])

    def join(self) -> None:
        """Become a member of the group, with all partitions of the topic."""
        keys = [self.topic.group]
        epoch = 0

        def assigned() -> bool:
            nonlocal epoch
            self.client.call("FindCoordinator", 4, key_type=0, coordinator_keys=keys)
            reply = self._beat(epoch, subscribed_topic_names=[self.topic.name])
            epoch = reply["member_epoch"]
            given = (reply["assignment"] or {}).get("topic_partitions", [])
            return [sorted(one["partitions"]) for one in given] == [[*range(PARTITIONS)]]

        wait_until(assigned, _START_S, "the assignment")

    def leave(self) -> None:
        """Leave the group, but keep the session."""
        assert self._beat(-1)["error_code"] == 0

    def _beat(self, epoch: int, **fields: Any) -> Plain:
        named = {"group_id": self.topic.group, "member_id": self.member, "member_epoch": epoch}
        return self.client.call("ShareGroupHeartbeat", 1, **named, **fields)

    def release(self, epoch: int, *held: tuple[int, int, int]) -> None:
        """Give back what was acquired of partition 0."""
        assert self.code(epoch, *[acked(first, last, RELEASE) for first, last, _ in held]) == 0

    def _named(self, place: Place) -> tuple[bytes, int]:
        return (self.topic.topic_id, place) if isinstance(place, int) else place

    def _asked(self, epoch: int, acks: Acks) -> Plain:
        """One entry for each partition, so that a topic comes several times, as librdkafka does
        it."""
        topics = []
        for place, batches in acks.items():
            topic_id, number = self._named(place)
            entry = {"partition_index": number, "acknowledgement_batches": list(batches)}
            topics.append({"topic_id": topic_id, "partitions": [entry]})
        named = {"group_id": self.topic.group, "member_id": self.member}
        return {**named, "share_session_epoch": epoch, "topics": topics}


def acked(first: int, last: int, *types: int) -> Plain:
    types = types or (ACCEPT,)
    return {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def error_codes(value: Any) -> set[int]:
    """Every error code in a reply but 0."""
    if isinstance(value, list):
        return set().union(*map(error_codes, value))
    if not isinstance(value, dict):
        return set()
    own = {code for name, code in value.items() if name.endswith("error_code")} - {0}
    return own.union(*map(error_codes, value.values()))


def entries_of(reply: Plain) -> dict[tuple[bytes, int], Plain]:
    """(topic id, partition) -> its entry."""
    assert reply["error_code"] == 0, reply
    return {
        (topic["topic_id"], one["partition_index"]): one
        for topic in reply["responses"]
        for one in topic["partitions"]
    }


def partitions_of(reply: Plain) -> dict[int, Plain]:
    """Partition -> its entry in a reply about one topic."""
    return {number: entry for (_, number), entry in entries_of(reply).items()}


def acquired(reply: Plain, partition: int = 0) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of what a reply gives of a partition."""
    entry = partitions_of(reply).get(partition)
    if entry is None:
        return []
    assert entry["error_code"] == 0, entry
    names = ("first_offset", "last_offset", "delivery_count")
    return [tuple(one[name] for name in names) for one in entry["acquired_records"]]


def offsets_in(reply: Plain, partition: int = 0) -> list[tuple[int, int]]:
    """(base offset, last offset) of the record batches in a reply."""
    records = partitions_of(reply)[partition]["records"]
    return [(one.header.base_offset, one.header.last_offset) for one in iter_batches(records)]
