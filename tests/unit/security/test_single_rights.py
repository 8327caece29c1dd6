"""SE-62 to SE-70: clients with some right, but not the one that they need."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.types import Access, Operation, Resource
from tests.support.kio_entities import Plain, read_response
from tests.unit.security.world import TOPIC_ID, Denied, World

NO_ID = bytes(16)
UNKNOWN_ID = b"unknown id......"
READ_GROUP = (Operation.READ, Resource.GROUP, "grp")
DENIED, UNKNOWN, HIDDEN = 29, 3, 100


def on_foo(operation: Operation) -> tuple[Operation, Resource, str]:
    return operation, Resource.TOPIC, "foo"


def on_cluster(operation: Operation) -> tuple[Operation, Resource, str]:
    return operation, Resource.CLUSTER, "kafka-cluster"


async def ask(world: World, access: Access, api: str, version: int, **fields: Any) -> Plain:
    _, body = await world.ask(api, version, fields, access)
    return read_response(api, version, body)


def codes(topics: list[Plain], partitions: str = "partitions") -> list[int]:
    return [one["error_code"] for topic in topics for one in topic[partitions]]


async def test_se_62_an_id_is_no_secret_but_the_name_is(world: World) -> None:
    access = Denied()
    asked = [{"name": None, "topic_id": one} for one in (TOPIC_ID, UNKNOWN_ID)]
    reply = await ask(world, access, "Metadata", 12, topics=asked,
                      allow_auto_topic_creation=True)  # fmt: skip
    assert [(one["name"], one["error_code"]) for one in reply["topics"]] == [
        (None, DENIED),
        (None, HIDDEN),
    ]
    reply = await ask(world, access, "DeleteTopics", 6, topics=asked)
    assert [(one["name"], one["error_code"]) for one in reply["responses"]] == [
        (None, DENIED),
        (None, HIDDEN),
    ]


async def test_se_62_the_right_comes_before_the_partition(world: World) -> None:
    ids = [{"topic_id": one, "partition_data": [{"index": 99, "records": None}]}
           for one in (TOPIC_ID, UNKNOWN_ID)]  # fmt: skip
    for access, code in ((Denied(), DENIED), (Denied(on_foo(Operation.WRITE)), UNKNOWN)):
        reply = await ask(world, access, "Produce", 13, acks=1, topic_data=ids)
        assert codes(reply["responses"], "partition_responses") == [code, HIDDEN]
    ids = [{"topic_id": one, "partitions": [{"partition": 99}]} for one in (TOPIC_ID, UNKNOWN_ID)]
    for access, code in ((Denied(), DENIED), (Denied(on_foo(Operation.READ)), UNKNOWN)):
        reply = await ask(world, access, "Fetch", 13, max_wait=60_000, min_bytes=1,
                          session_epoch=-1, topics=ids)  # fmt: skip
        assert codes(reply["responses"]) == [code, HIDDEN]


async def test_se_63_what_may_be_committed_is(world: World) -> None:
    access = Denied(READ_GROUP, on_foo(Operation.READ))
    partition = [{"partition_index": 0, "committed_offset": 7}]
    topics = [{"name": name, "partitions": partition} for name in ("foo", "bar")]
    reply = await ask(world, access, "OffsetCommit", 8, group_id="grp",
                      generation_id_or_member_epoch=-1, topics=topics)  # fmt: skip
    found = {topic["name"]: codes([topic]) for topic in reply["topics"]}
    assert found == {"foo": [0], "bar": [DENIED]}
    asked = [{"name": "foo", "partition_indexes": [0]}]
    fetched = await ask(world, Access(), "OffsetFetch", 7, group_id="grp", topics=asked)
    assert fetched["topics"][0]["partitions"][0]["committed_offset"] == 7


async def test_se_64_one_hidden_topic_refuses_the_join(world: World) -> None:
    access = Denied((Operation.READ, Resource.GROUP, "new"), on_foo(Operation.DESCRIBE))
    beat = {"group_id": "new", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 1000,
            "topic_partitions": []}  # fmt: skip
    reply = await ask(world, access, "ConsumerGroupHeartbeat", 1,
                      subscribed_topic_names=["bar", "foo", "baz"], **beat)  # fmt: skip
    assert reply["error_code"] == DENIED
    assert [name for _, kind, name in access.audited if kind is Resource.TOPIC] == [
        "bar", "foo", "baz"]  # fmt: skip
    listed = await ask(world, Access(), "ListGroups", 5)
    assert [group["group_id"] for group in listed["groups"]] == ["grp"]


async def test_se_66_whoever_may_write_somewhere_may_be_idempotent(world: World) -> None:
    class Writer(Denied):
        def allows_any(self, operation: Operation, resource: Resource) -> bool:
            return (operation, resource) == (Operation.WRITE, Resource.TOPIC)

    idempotent = Denied(on_cluster(Operation.IDEMPOTENT_WRITE))
    init = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    for access, code in ((Writer(), 0), (idempotent, 0), (Denied(), 31)):
        reply = await ask(world, access, "InitProducerId", 4, **init)
        assert reply["error_code"] == code
        asked = [(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, "kafka-cluster")]
        assert access.audited == (asked if code else [])


async def test_se_67_one_denied_topic_keeps_all_out_of_the_transaction(world: World) -> None:
    access = Denied(on_foo(Operation.WRITE), (Operation.WRITE, Resource.TRANSACTIONAL_ID, "txn"))
    topics = [{"name": name, "partitions": [0]} for name in ("foo", "bar", "__consumer_offsets")]
    reply = await ask(world, access, "AddPartitionsToTxn", 3, v3_and_below_transactional_id="txn",
                      v3_and_below_topics=topics)  # fmt: skip
    found = {topic["name"]: [one["partition_error_code"] for one in topic["results_by_partition"]]
             for topic in reply["results_by_topic_v3_and_below"]}  # fmt: skip
    assert found == {"foo": [55], "bar": [DENIED], "__consumer_offsets": [DENIED]}
    table = world.parts.transactions.table_of("txn")
    assert not table.entries["txn"].metadata.partitions


@pytest.mark.parametrize("granted", [on_cluster(Operation.CREATE),
                                     (Operation.CREATE, Resource.TOPIC, "new")])  # fmt: skip
async def test_se_69_creating_by_asking_needs_a_right(world: World, granted: Any) -> None:
    describes = (Operation.DESCRIBE, Resource.TOPIC, "new")
    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    reply = await ask(world, Denied(describes), "Metadata", 9, **asked)
    assert reply["topics"][0]["error_code"] == DENIED
    assert world.parts.data_plane.catalogue.topic("new") is None
    await ask(world, Denied(describes, granted), "Metadata", 9, **asked)
    assert world.parts.data_plane.catalogue.topic("new") is not None


async def test_se_70_delete_by_id_tells_the_name_to_whoever_may_know_it(world: World) -> None:
    asked = {"topics": [{"name": None, "topic_id": TOPIC_ID}]}
    for granted, name in (((), None), ((on_foo(Operation.DESCRIBE),), "foo")):
        access = Denied(*granted)
        (deleted,) = (await ask(world, access, "DeleteTopics", 6, **asked))["responses"]
        assert (deleted["name"], deleted["topic_id"], deleted["error_code"]) == (
            name, TOPIC_ID, DENIED)  # fmt: skip
        assert access.audited == [on_foo(Operation.DELETE)]
    access = Denied(on_cluster(Operation.DELETE))
    (deleted,) = (await ask(world, access, "DeleteTopics", 6, **asked))["responses"]
    assert (deleted["name"], deleted["error_code"]) == ("foo", 0)
    assert access.audited == []


async def test_a_name_and_an_id_of_one_topic_tell_nothing_to_whoever_may_not_see_it(
    world: World,
) -> None:
    asked = [{"name": "foo", "topic_id": NO_ID}, {"name": None, "topic_id": TOPIC_ID}]
    reply = await ask(world, Denied(), "DeleteTopics", 6, topics=asked)
    assert [(one["name"], one["topic_id"], one["error_code"]) for one in reply["responses"]] == [
        ("foo", NO_ID, DENIED),
        (None, TOPIC_ID, DENIED),
    ]


async def test_se_60_bits_are_what_the_client_may_do_and_nobody_is_told_of_the_question(
    world: World,
) -> None:
    access = Denied(on_foo(Operation.READ), on_foo(Operation.DESCRIBE))
    reply = await ask(world, access, "Metadata", 10, topics=[{"name": "foo"}],
                      include_topic_authorized_operations=True,
                      include_cluster_authorized_operations=True)  # fmt: skip
    assert reply["topics"][0]["topic_authorized_operations"] == 1 << 3 | 1 << 8
    assert reply["cluster_authorized_operations"] == 0
    assert access.audited == [on_foo(Operation.DESCRIBE)]
    reply = await ask(world, Access(), "Metadata", 10, topics=[{"name": "foo"}],
                      include_topic_authorized_operations=True,
                      include_cluster_authorized_operations=True)  # fmt: skip
    assert reply["topics"][0]["topic_authorized_operations"] == 3576
    assert reply["cluster_authorized_operations"] == 8096


async def test_a_topic_in_many_entries_is_asked_for_once(world: World) -> None:
    """It does not matter how long the request is, and in how many pieces it is worked on."""
    access = Denied(READ_GROUP)
    partitions = [{"partition_index": n, "committed_offset": 1} for n in range(700)]
    topics = [{"name": "foo", "partitions": partitions}] * 3
    reply = await ask(world, access, "OffsetCommit", 8, group_id="grp",
                      generation_id_or_member_epoch=-1, topics=topics)  # fmt: skip
    assert set(codes(reply["topics"])) == {DENIED}
    assert access.audited == [READ_GROUP, on_foo(Operation.READ)]
