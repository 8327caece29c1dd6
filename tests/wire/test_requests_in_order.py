"""A request sees what those before it on its connection have done, though none was waited for.

With `GROUPD_PEER=kafka` the same tests run against Apache Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.records.build import NewRecord, build_batch
from tests.support.kio_entities import Plain
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.wire_client import Request, WireClient

ROUNDS = 20
COORDINATOR_NOT_READY = {14, 15, 16}
UNKNOWN_TOPIC, UNKNOWN_MEMBER = 3, 25
_numbers = itertools.count()


@pytest.fixture
def name(place: str) -> str:
    """For a topic and a group of one test."""
    return f"{place}-{next(_numbers)}"


@pytest.fixture
def client(peers: list[Peer], name: str) -> Iterator[WireClient]:
    """At the node that leads the topics, where there is a topic of that name."""
    peer = peers[0]
    with WireClient(peer.host, peer.port) as made:
        created = made.call(*create_topic(name)[:2], **create_topic(name)[2])
        assert created["topics"][0]["error_code"] == 0
        yield made


@pytest.fixture
def coordinator(client: WireClient, name: str) -> Iterator[WireClient]:
    """At the coordinator of the group of that name."""
    found: list[Plain] = []

    def serves() -> bool:
        found[:] = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[name])[
            "coordinators"
        ]
        return found[0]["error_code"] == 0

    wait_until(serves, 60, "the coordinator")
    with WireClient(found[0]["host"], found[0]["port"]) as made:
        wait_until(
            lambda: fetched(made.call(*fetch_offset(name)[:2], **fetch_offset(name)[2]))[1] == 0,
            60,
            "the coordinator to serve",
        )
        yield made


def create_topic(topic: str, partitions: int = 1) -> Request:
    asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    return ("CreateTopics", 7, {"topics": [asked], "timeout": 10_000})


def batch(count: int) -> bytes:
    return build_batch([NewRecord(1_700_000_000_000, None, b"value")] * count)


RECORDS = batch(3)


def produce(topic: str, records: bytes = RECORDS, acks: int = -1) -> Request:
    data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
    return ("Produce", 9, {"acks": acks, "timeout": 10_000, "topic_data": [data]})


def list_offsets(topic: str, timestamp: int) -> Request:
    asked = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    return ("ListOffsets", 7, {"replica_id": -1, "topics": [asked]})


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
    """Offset and error of an OffsetFetch 7 of one partition."""
    if reply["error_code"]:
        return -1, reply["error_code"]
    (partition,) = reply["topics"][0]["partitions"]
    return partition["committed_offset"], partition["error_code"]


def listed(reply: Plain) -> int:
    (partition,) = reply["topics"][0]["partitions"]
    assert partition["error_code"] == 0
    return int(partition["offset"])


def produced(reply: Plain) -> int:
    """The base offset."""
    (partition,) = reply["responses"][0]["partition_responses"]
    assert partition["error_code"] == 0
    return int(partition["base_offset"])


# The log of a topic --------------------------------------------------------------------------


@pytest.mark.parametrize("produces", [1, 5])
def test_produced_records_are_listed_and_fetched(
    client: WireClient, name: str, produces: int
) -> None:
    end = 0
    for _ in range(ROUNDS):
        asked = [produce(name)] * produces + [list_offsets(name, -1), fetch(name, end)]
        *made, latest, read = client.pipeline(asked)
        assert [produced(one) for one in made] == [end + 3 * n for n in range(produces)]
        end += 3 * produces
        assert listed(latest) == end
        (partition,) = read["responses"][0]["partitions"]
        assert (partition["error_code"], partition["high_watermark"]) == (0, end)
        assert len(partition["records"]) == produces * len(RECORDS)


def test_records_produced_without_acknowledgement_are_listed(client: WireClient, name: str) -> None:
    for number in range(1, ROUNDS + 1):
        *_, latest = client.pipeline([produce(name, acks=0), list_offsets(name, -1)])
        assert listed(latest) == 3 * number


def test_deleted_records_are_not_listed(client: WireClient, name: str) -> None:
    client.pipeline([produce(name, batch(ROUNDS))])
    for offset in range(1, ROUNDS + 1):
        deleted, earliest = client.pipeline([delete_records(name, offset), list_offsets(name, -2)])
        assert deleted["topics"][0]["partitions"][0]["error_code"] == 0
        assert listed(earliest) == offset


def test_a_read_is_not_changed_by_the_write_behind_it(client: WireClient, name: str) -> None:
    for number in range(ROUNDS):
        before, made, after = client.pipeline(
            [list_offsets(name, -1), produce(name), list_offsets(name, -1)]
        )
        assert (listed(before), produced(made), listed(after)) == (
            3 * number,
            3 * number,
            3 * number + 3,
        )


# Topics and configs --------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["client", "coordinator"])
def test_topics_that_are_made_grown_and_deleted(
    request: pytest.FixtureRequest, name: str, node: str
) -> None:
    """With workers, the coordinator passes these on to another process."""
    asked: WireClient = request.getfixturevalue(node)
    for number in range(ROUNDS):
        topic = f"{name}-{number}"
        grow = {"name": topic, "count": 3}
        replies = asked.pipeline(
            [
                create_topic(topic),
                metadata(topic),
                ("CreatePartitions", 3, {"topics": [grow], "timeout": 10_000}),
                metadata(topic),
                ("DeleteTopics", 5, {"topic_names": [topic], "timeout": 10_000}),
                metadata(topic),
            ]
        )
        shown = [
            (reply["topics"][0]["error_code"], len(reply["topics"][0]["partitions"]))
            for reply in replies[1::2]
        ]
        assert shown == [(0, 1), (0, 3), (UNKNOWN_TOPIC, 0)]


def test_a_topic_can_be_written_and_committed_right_behind_its_creation(
    client: WireClient, coordinator: WireClient, name: str
) -> None:
    for number in range(ROUNDS):
        topic = f"{name}-{number}"
        _, made = client.pipeline([create_topic(topic), produce(topic)])
        assert produced(made) == 0
        topic = f"{name}-{number}-b"
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        fields = {"group_id": name, "generation_id_or_member_epoch": -1, "topics": topics}
        _, committed = coordinator.pipeline([create_topic(topic), ("OffsetCommit", 8, fields)])
        assert committed["topics"][0]["partitions"][0]["error_code"] == 0


@pytest.mark.parametrize("kind", [2, 32])
def test_changed_configs_are_described(coordinator: WireClient, name: str, kind: int) -> None:
    key = {2: "retention.ms", 32: "consumer.session.timeout.ms"}[kind]
    resource = {"resource_type": kind, "resource_name": name}
    for value in range(50_000, 50_000 + ROUNDS):
        change = {"name": key, "config_operation": 0, "value": str(value)}
        changed, described = coordinator.pipeline(
            [
                ("IncrementalAlterConfigs", 1, {"resources": [{**resource, "configs": [change]}],
                                                "validate_only": False}),
                ("DescribeConfigs", 4, {"resources": [{**resource, "configuration_keys": [key]}],
                                        "include_synonyms": False,
                                        "include_documentation": False}),
            ]
        )  # fmt: skip
        assert changed["responses"][0]["error_code"] == 0
        assert described["results"][0]["configs"][0]["value"] == str(value)


# Groups --------------------------------------------------------------------------------------


def test_committed_offsets_are_fetched_and_deleted_ones_are_not(
    coordinator: WireClient, name: str
) -> None:
    for offset in range(1, ROUNDS + 1):
        topics = [{"name": name, "partitions": [{"partition_index": 0}]}]
        delete: Request = ("OffsetDelete", 0, {"group_id": name, "topics": topics})
        ask = fetch_offset(name)
        delete_group: Request = ("DeleteGroups", 2, {"groups_names": [name]})
        commits = [commit(name, offset), ask]
        replies = coordinator.pipeline(
            [*commits, commit(name, offset + 1), ask, delete, ask, *commits, delete_group, ask]
        )
        seen = [fetched(replies[at]) for at in (1, 3, 5, 7, 9)]
        assert seen == [(offset, 0), (offset + 1, 0), (-1, 0), (offset, 0), (-1, 0)]


@pytest.fixture
def beat(coordinator: WireClient, name: str) -> Callable[..., Request]:
    def beat(epoch: int, **fields: Any) -> Request:
        said = {"group_id": name, "member_id": "m", "member_epoch": epoch, **fields}
        return ("ConsumerGroupHeartbeat", 1, said)

    return beat


def test_whoever_has_left_is_told_so_even_if_its_reply_was_stored(
    coordinator: WireClient, beat: Callable[..., Request], name: str
) -> None:
    for _ in range(ROUNDS):
        join = beat(0, subscribed_topic_names=[name], rebalance_timeout=9000, topic_partitions=())
        (joined,) = coordinator.pipeline([join])
        assert joined["error_code"] == 0, joined
        epoch = joined["member_epoch"]
        coordinator.pipeline([beat(epoch, topic_partitions=joined["assignment"][
            "topic_partitions"])])  # fmt: skip
        for _ in range(3):  # repeats itself, so that its reply may come from a table
            assert {one["error_code"] for one in coordinator.pipeline([beat(epoch)] * 2)} == {0}
        first, left, late = coordinator.pipeline([beat(epoch), beat(-1), beat(epoch)])
        assert [one["error_code"] for one in (first, left, late)] == [0, 0, UNKNOWN_MEMBER]


def test_a_classic_member_that_has_left_may_neither_beat_nor_commit(
    coordinator: WireClient, name: str
) -> None:
    for _ in range(ROUNDS):
        protocols = [{"name": "range", "metadata": b""}]
        joined = coordinator.call("JoinGroup", 3, group_id=name, session_timeout=30_000,
                                  rebalance_timeout=30_000, member_id="", protocols=protocols,
                                  protocol_type="consumer")  # fmt: skip
        assert joined["error_code"] == 0
        member, generation = joined["member_id"], joined["generation_id"]
        who = {"group_id": name, "generation_id": generation, "member_id": member}
        given = [{"member_id": member, "assignment": b""}]
        heartbeat: Request = ("Heartbeat", 3, who)
        topics = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 7}]}]
        committing: Request = (
            "OffsetCommit",
            7,
            {
                "group_id": name,
                "member_id": member,
                "generation_id_or_member_epoch": generation,
                "topics": topics,
            },
        )
        replies = coordinator.pipeline(
            [
                ("SyncGroup", 3, {**who, "assignments": given}),
                *[heartbeat] * 3,
                committing,
                heartbeat,
                ("LeaveGroup", 3, {"group_id": name, "members": [{"member_id": member}]}),
                heartbeat,
                committing,
            ]
        )
        codes = [one.get("error_code", 0) for one in replies[:-1]]
        assert codes == [0] * 7 + [UNKNOWN_MEMBER]
        committed = [
            replies[at]["topics"][0]["partitions"][0]["error_code"] for at in (4, len(replies) - 1)
        ]
        assert committed == [0, UNKNOWN_MEMBER]
