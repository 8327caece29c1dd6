"""Admin work from each client's own API: topics, groups, offsets, configs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.clients.admins import ADMINS, Admin, AdminError, JavaAdmin
from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S
from tests.support.admin import produce
from tests.support.kafka_broker import KafkaBroker
from tests.support.peer import Peer
from tests.support.process import wait_until

ALL = pytest.mark.parametrize("admin", list(ADMINS), indirect=True)
FULL = pytest.mark.parametrize("admin", ["confluent", "java", "kafka_python"], indirect=True)
JAVA = pytest.mark.parametrize("admin", ["java"], indirect=True)
CONSUMER = BY_NAME["confluent-consumer-uniform"]
CLASSIC = BY_NAME["confluent-classic-range"]


@pytest.fixture
def admin(request: pytest.FixtureRequest, peer: Peer, tmp_path: Path) -> Iterator[Admin]:
    made = ADMINS[request.param](peer.bootstrap, tmp_path)
    yield made
    made.close()


@ALL
def test_topics_are_created_listed_described_grown_and_deleted(admin: Admin, unique: str) -> None:
    name = f"admin-{unique}"
    admin.create_topic(name, 3)
    wait_until(lambda: name in admin.list_topics(), SETTLE_S, "the topic is listed")
    assert admin.partition_count(name) == 3
    admin.grow_topic(name, 5)
    wait_until(lambda: admin.partition_count(name) == 5, SETTLE_S, "5 partitions")
    admin.delete_topic(name)
    wait_until(lambda: name not in admin.list_topics(), SETTLE_S, "the topic is gone")


@FULL
def test_mistakes_about_topics_are_named(admin: Admin, unique: str) -> None:
    name = f"mistake-{unique}"
    admin.create_topic(name, 2)
    with pytest.raises(AdminError, match=r"^TOPIC_ALREADY_EXISTS$"):
        admin.create_topic(name, 2)
    with pytest.raises(
        AdminError, match=r"^(INVALID_TOPIC_EXCEPTION|TOPIC_EXCEPTION|INVALID_TOPIC)$"
    ):
        admin.create_topic("not/legal", 1)
    with pytest.raises(AdminError, match=r"^INVALID_PARTITIONS$"):
        admin.grow_topic(name, 2)
    with pytest.raises(AdminError, match=r"^UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topic(f"absent-{unique}")


@ALL
def test_topic_configs_are_described(admin: Admin, topics: TopicMaker) -> None:
    (name,) = topics({"config": 1})
    assert int(admin.topic_config(name)["max.message.bytes"]) == 1048588


@FULL
def test_topic_configs_are_altered(admin: Admin, topics: TopicMaker) -> None:
    (name,) = topics({"config": 1})
    admin.set_topic_config(name, "max.message.bytes", "2000000")
    wait_until(
        lambda: admin.topic_config(name)["max.message.bytes"] == "2000000",
        SETTLE_S,
        "the new value",
    )


@ALL
def test_offsets_of_a_group_without_members_are_altered_and_read(
    admin: Admin, topics: TopicMaker, unique: str, peer: Peer
) -> None:
    counts = topics({"offsets": 2})
    (name,) = counts
    produce(peer.bootstrap, counts, 40)
    group = f"simple-{unique}"
    offsets = {(name, 0): 7, (name, 1): 11}
    admin.alter_offsets(group, offsets)
    assert admin.list_offsets(group) == offsets
    assert group in admin.list_groups()
    admin.alter_offsets(group, {(name, 0): 3})
    assert admin.list_offsets(group) == {(name, 0): 3, (name, 1): 11}


@FULL
def test_a_group_without_members_is_deleted_with_its_offsets(
    admin: Admin, topics: TopicMaker, unique: str
) -> None:
    (name,) = topics({"offsets": 1})
    group = f"deleted-{unique}"
    admin.alter_offsets(group, {(name, 0): 0})
    admin.delete_group(group)
    assert group not in admin.list_groups()
    with pytest.raises(AdminError, match=r"^GROUP_ID_NOT_FOUND$"):
        admin.delete_group(group)


@pytest.mark.parametrize("flavour", [CLASSIC, CONSUMER], ids=lambda flavour: flavour.protocol)
@FULL
def test_a_live_group_is_described_and_protected(
    admin: Admin, topics: TopicMaker, make_group: GroupMaker, flavour: object
) -> None:
    counts = topics({"live": 4})
    (name,) = counts
    group = make_group(CLASSIC if flavour is CLASSIC else CONSUMER)
    group.spawn(counts, members=2)
    group.wait_covered(counts, [0, 1])
    assert group.group_id in admin.list_groups()
    if flavour is CONSUMER and type(admin).__name__ == "KafkaPythonAdmin":
        with pytest.raises(AdminError, match="GroupIdNotFound"):  # It asks for classic groups.
            admin.describe_group(group.group_id)
    else:
        wait_until(
            lambda: admin.describe_group(group.group_id)[0].upper() == "STABLE", SETTLE_S, "stable"
        )
        assert admin.describe_group(group.group_id)[1] == 2
    with pytest.raises(AdminError, match=r"^(NON_EMPTY_GROUP|GROUP_NOT_EMPTY)$"):
        admin.delete_group(group.group_id)
    with pytest.raises(AdminError, match=r"^UNKNOWN_MEMBER_ID$"):
        admin.alter_offsets(group.group_id, {(name, 0): 1})


@JAVA
def test_java_sees_types_members_and_assignments(
    admin: Admin, topics: TopicMaker, make_group: GroupMaker
) -> None:
    java = cast(JavaAdmin, admin)
    counts = topics({"seen": 4})
    classic, consumer = make_group(CLASSIC), make_group(CONSUMER)
    for group in (classic, consumer):
        group.spawn(counts, members=2)
    for group in (classic, consumer):
        group.wait_covered(counts, [0, 1])
    listed = java.call("list_groups")
    assert listed[classic.group_id]["type"] == "Classic"
    assert listed[consumer.group_id]["type"] == "Consumer"
    found = java.call("describe_group", group=consumer.group_id)
    assert found["assignor"] == "uniform"
    owned = sorted(tuple(at) for member in found["members"] for at in member["owned"])
    assert owned == sorted((name, part) for name in counts for part in range(4))
    assert found["group_epoch"] >= 2
    shown = java.call("describe_group", group=classic.group_id)
    assert {member["client"] for member in shown["members"]} == {"confluent-0", "confluent-1"}


@JAVA
def test_java_deletes_single_offsets_and_records(
    admin: Admin, topics: TopicMaker, unique: str, peer: Peer
) -> None:
    java = cast(JavaAdmin, admin)
    counts = topics({"trim": 2})
    (name,) = counts
    produce(peer.bootstrap, counts, 20)
    group = f"trim-{unique}"
    java.alter_offsets(group, {(name, 0): 1, (name, 1): 2})
    java.call("delete_offsets", group=group, partitions=[[name, 0]])
    assert java.list_offsets(group) == {(name, 1): 2}
    java.call("delete_records", offsets=[[name, 0, 4]])
    both = [[name, 0], [name, 1]]
    assert sorted(java.call("end_offsets", partitions=both, spec="earliest")) == [
        [name, 0, 4],
        [name, 1, 0],
    ]
    assert sorted(java.call("end_offsets", partitions=both)) == [[name, 0, 10], [name, 1, 10]]


@JAVA
def test_java_creates_topics_with_ids_and_sees_the_cluster(
    admin: Admin, unique: str, peer: Peer
) -> None:
    java = cast(JavaAdmin, admin)
    name = f"ids-{unique}"
    first = java.call("create_topics", topics={name: 2}, configs={"max.message.bytes": "5000"})[
        name
    ]
    assert first["partitions"] == 2
    assert java.call("describe_topic", topic=name)["id"] == first["id"]
    java.delete_topic(name)
    wait_until(lambda: name not in java.list_topics(), SETTLE_S, "the topic is gone")
    again = java.call("create_topics", topics={name: 2})[name]
    assert again["id"] != first["id"]
    nodes = [peer.bootstrap] if isinstance(peer, KafkaBroker) else peer.nodes
    assert sorted(java.call("describe_cluster")["nodes"]) == sorted(nodes)
    with pytest.raises(AdminError, match=r"^INVALID_CONFIG$"):
        java.call("create_topics", topics={f"{name}-x": 1}, configs={"no.such.config": "1"})
