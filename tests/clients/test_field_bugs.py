"""Bugs that users have reported against other coordinators, each by its name, over TCP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.daemon import Daemon
from tests.support.kio_entities import Plain
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import POLL_S, wait_until
from tests.support.raw_member import RawMember, admin_json, settle, topic_ids
from tests.support.wire_client import WireClient

NONE, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 0, 25, 79
LOADING, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH = 14, 82, 113
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
SWEEP_MS = 300
BEFORE_JOINS_MS = 3_000
"""How long the offsets live of a group that has to keep them by its members, who join within it."""
MakeMember = Callable[[str, str], RawMember]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"orders": 4, "other": 2},
            settings={
                **FAST_SETTINGS,
                "offsets.retention.check.interval.ms": str(SWEEP_MS),
                # Members of these tests send heartbeats only when a test has them do so.
                "group.consumer.session.timeout.ms": "30000",
            },
        )
    ) as made:
        yield made


@pytest.fixture
def client(daemon: Daemon) -> Iterator[WireClient]:
    with WireClient(daemon.host, daemon.port) as made:
        yield made


@pytest.fixture
def make_member(daemon: Daemon) -> Iterator[MakeMember]:
    ids = topic_ids(daemon)
    with ExitStack() as stack:

        def make(group: str, member: str) -> RawMember:
            made = RawMember(daemon, group, member, ids)
            stack.callback(made.close)
            return made

        yield make


def shown_member(daemon: Daemon, group: str, member: str) -> Plain:
    members = admin_json(daemon, f"/groups/{group}")["members"]
    (found,) = [one for one in members if one["member_id"] == member]
    return dict(found)


def commit(
    client: WireClient, version: int, group: str, member: str, epoch: int, **more: Any
) -> set[int]:
    """Commits offset 7 for `places` (topic -> partitions); the codes of all partitions."""
    places = more.pop("places")
    reply = client.call(
        "OffsetCommit",
        version,
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {"partition_index": one, "committed_offset": 7, "committed_leader_epoch": -1}
                    for one in numbers
                ],
            }
            for topic, numbers in places.items()
        ],
        **more,
    )
    return {one["error_code"] for topic in reply["topics"] for one in topic["partitions"]}


def fetched(client: WireClient, group: str, topic: str, numbers: list[int]) -> dict[int, int]:
    """Committed offsets by partition; there must be no error anywhere."""
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": numbers}]}
    (reply,) = client.call("OffsetFetch", 8, groups=[asked], require_stable=False)["groups"]
    assert reply["error_code"] == NONE
    (answer,) = reply["topics"]
    assert {one["error_code"] for one in answer["partitions"]} == {NONE}
    return {one["partition_index"]: one["committed_offset"] for one in answer["partitions"]}


def join_classic(client: WireClient, group: str, member: str, **more: Any) -> None:
    """Sends JoinGroup v7; the answer may take its time."""
    fields = {
        "group_id": group,
        "member_id": member,
        "session_timeout": 30_000,
        "rebalance_timeout": 1_500,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    client.send("JoinGroup", 7, {**fields, **more})


def classic_member(client: WireClient, group: str, **more: Any) -> Plain:
    """A member that has gone through both JoinGroups: the answer of the second."""
    join_classic(client, group, "", **more)
    reply = client.receive()
    if reply["error_code"] == MEMBER_ID_REQUIRED:
        join_classic(client, group, reply["member_id"], **more)
        reply = client.receive()
    assert reply["error_code"] == NONE
    return reply


def sync_as_leader(client: WireClient, group: str, joined: Plain) -> int:
    reply = client.call(
        "SyncGroup",
        5,
        group_id=group,
        generation_id=joined["generation_id"],
        member_id=joined["member_id"],
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            {"member_id": one["member_id"], "assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}
            for one in joined["members"]
        ],
    )
    return int(reply["error_code"])


# Subscriptions


def test_a_subscription_change_comes_as_a_delta(daemon: Daemon, make_member: MakeMember) -> None:
    """Null is "unchanged", for every field on its own; nothing else may be lost."""
    member = make_member("delta", "m1")
    member.join(["orders"], server_assignor="range", rack_id="r1", rebalance_timeout=12_345)
    settle(member)
    before = shown_member(daemon, "delta", "m1")
    assert member.beat(subscribed_topic_names=["orders", "other"])["error_code"] == NONE
    settle(member)
    after = shown_member(daemon, "delta", "m1")
    assert after["subscribed_topic_names"] == ["orders", "other"]
    assert after["owned"] == {"orders": [0, 1, 2, 3], "other": [0, 1]}
    for field in ("server_assignor", "rack_id", "rebalance_timeout_ms", "instance_id"):
        assert after[field] == before[field]

    member.beat(subscribed_topic_regex="oth.*")
    member.beat(subscribed_topic_names=[])
    wait_until(lambda: bool(member.beat()) and member.owned == {"other": [0, 1]}, 30, "regex only")
    assert shown_member(daemon, "delta", "m1")["subscribed_topic_regex"] == "oth.*"
    member.beat(server_assignor="uniform")
    after = shown_member(daemon, "delta", "m1")
    assert (after["subscribed_topic_regex"], after["rack_id"]) == ("oth.*", "r1")


def test_an_empty_regex_beside_names_is_no_regex(daemon: Daemon, make_member: MakeMember) -> None:
    """librdkafka sends one. As a pattern it would match every topic of the cluster."""
    member = make_member("empty-regex", "m1")
    member.join(["orders"], subscribed_topic_regex="")
    settle(member)
    assert member.owned == {"orders": [0, 1, 2, 3]}
    shown = admin_json(daemon, "/groups/empty-regex")
    assert shown["resolved_regexes"] == {}


def test_librdkafka_gets_the_topics_that_it_names_and_no_others(daemon: Daemon) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": "rdkafka-names",
            "group.protocol": "consumer",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["orders"])

        def assigned() -> bool:
            consumer.poll(0.05)
            return bool(consumer.assignment())

        wait_until(assigned, 20, "an assignment", daemon.logs)
        assert {at.topic for at in consumer.assignment()} == {"orders"}
    finally:
        consumer.close()


# Offsets


@pytest.mark.parametrize("version", [7, 8, 9])
def test_offset_fetch_of_an_unknown_group_is_minus_one_without_error(
    client: WireClient, version: int
) -> None:
    """With an error here, clients cannot start their first group."""
    topic = {"name": "orders", "partition_indexes": [0, 3]}
    if version < 8:
        reply = client.call("OffsetFetch", version, group_id="nobody", topics=[topic])
    else:
        asked = {"group_id": "nobody", "topics": [topic]}
        if version >= 9:
            asked |= {"member_id": None, "member_epoch": -1}
        (reply,) = client.call("OffsetFetch", version, groups=[asked])["groups"]
    assert reply["error_code"] == NONE
    (answer,) = reply["topics"]
    found = [(one["committed_offset"], one["error_code"]) for one in answer["partitions"]]
    assert found == [(-1, NONE), (-1, NONE)]


def test_real_consumer_reads_committed_offsets_of_an_unknown_group(daemon: Daemon) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": "nobody-yet"})
    try:
        (found,) = consumer.committed([TopicPartition("orders", 1)], timeout=10)
        assert (found.offset, found.error) == (-1001, None)
    finally:
        consumer.close()


def test_a_commit_that_a_rebalance_overtook_is_accepted(
    client: WireClient, make_member: MakeMember
) -> None:
    """KIP-1251: the commit of an older epoch is good for partitions the member had then."""
    first, second = make_member("overtaken", "m1"), make_member("overtaken", "m2")
    first.join(["orders"])
    settle(first)
    old = first.epoch
    second.join(["orders"])
    settle(first, second)
    assert first.epoch == old + 1
    (kept, *_), (moved, *_) = first.owned["orders"], second.owned["orders"]

    assert commit(client, 9, "overtaken", "m1", old, places={"orders": [kept]}) == {NONE}
    stale = commit(client, 9, "overtaken", "m1", old, places={"orders": [kept, moved]})
    assert stale == {STALE_MEMBER_EPOCH}
    ahead = commit(client, 9, "overtaken", "m1", first.epoch + 1, places={"orders": [kept]})
    assert ahead == {STALE_MEMBER_EPOCH}
    # m2 has its partitions since the new epoch only.
    early = commit(client, 9, "overtaken", "m2", old, places={"orders": [moved]})
    assert early == {STALE_MEMBER_EPOCH}
    assert fetched(client, "overtaken", "orders", [kept, moved]) == {kept: 7, moved: -1}


def test_a_commit_during_the_revocation_is_accepted(
    client: WireClient, make_member: MakeMember
) -> None:
    """What is being revoked is committed last: this is where users saw STALE_MEMBER_EPOCH."""
    first, second = make_member("revoking", "m1"), make_member("revoking", "m2")
    first.join(["orders"])
    settle(first)
    second.join(["orders"])
    first.beat()
    revoked = sorted({0, 1, 2, 3} - set(first.owned["orders"]))
    assert len(revoked) == 2
    assert commit(client, 9, "revoking", "m1", first.epoch, places={"orders": revoked}) == {NONE}


def test_offsets_do_not_expire_while_a_group_rebalances(
    client: WireClient, make_member: MakeMember
) -> None:
    """Commits that are past their time: without members they go, with members they stay."""
    places = {"orders": [0], "other": [0]}
    for group in ("expires", "kip848-keeps", "classic-keeps"):
        if group == "classic-keeps":
            joined = classic_member(client, group, rebalance_timeout=20_000)
            member, epoch = joined["member_id"], joined["generation_id"]
            assert sync_as_leader(client, group, joined) == NONE
        else:
            member, epoch = "", -1
        kept_ms = {"retention_time": 1500 if group == "classic-keeps" else BEFORE_JOINS_MS}
        assert commit(client, 4, group, member, epoch, places=places, **kept_ms) == {NONE}
        if group == "kip848-keeps":
            # A rebalance that does not end: m2 waits for what m1 does not give back.
            first, second = make_member(group, "m1"), make_member(group, "m2")
            first.join(["orders"])
            settle(first)
            second.join(["orders"])
            first.beat()
    # The classic group too: its member does not hear that another one joins.
    with WireClient(client.host, client.port) as another:
        join_classic(another, "classic-keeps", "", rebalance_timeout=20_000)
        wanted = another.receive()["member_id"]
        join_classic(another, "classic-keeps", wanted, rebalance_timeout=20_000)

        gone = {0: -1}
        wait_until(
            lambda: (
                fetched(client, "expires", "orders", [0]) == gone
                and fetched(client, "kip848-keeps", "other", [0]) == gone
            ),
            30,
            "the control offsets expire",
        )
        deadline = time.monotonic() + 1.5 + 3 * SWEEP_MS / 1000
        while time.monotonic() < deadline:
            assert fetched(client, "kip848-keeps", "orders", [0]) == {0: 7}
            assert fetched(client, "classic-keeps", "orders", [0]) == {0: 7}
            assert fetched(client, "classic-keeps", "other", [0]) == {0: 7}
            time.sleep(POLL_S)
        assert another.unanswered == 1


# Members


def test_an_abandoned_pending_member_does_not_stall_the_group_for_its_session(
    daemon: Daemon, client: WireClient
) -> None:
    """A client asks for an id (MEMBER_ID_REQUIRED), and dies. Nobody waits its 30 s for it."""
    group = "pending"
    first = classic_member(client, group)
    assert sync_as_leader(client, group, first) == NONE
    with WireClient(client.host, client.port) as dies:
        join_classic(dies, group, "")
        abandoned = dies.receive()
        assert abandoned["error_code"] == MEMBER_ID_REQUIRED
    assert admin_json(daemon, f"/groups/{group}")["pending_members"] == [abandoned["member_id"]]

    started = time.monotonic()
    with WireClient(client.host, client.port) as other:
        join_classic(other, group, "")
        wanted = other.receive()["member_id"]
        join_classic(other, group, wanted)
        join_classic(client, group, first["member_id"])
        again, second = client.receive(), other.receive()
    assert (again["error_code"], second["error_code"]) == (NONE, NONE)
    assert again["generation_id"] == second["generation_id"] == first["generation_id"] + 1
    assert time.monotonic() - started < 15  # the rebalance timeout, 1.5 s, and room; not 30 s


def test_a_member_that_knows_its_id_is_not_asked_for_one_again(
    daemon: Daemon, client: WireClient
) -> None:
    """KIP-394 done twice gives a client a new id each time, and a group of ghosts."""
    join_classic(client, "asked-once", "")
    wanted = client.receive()
    assert wanted["error_code"] == MEMBER_ID_REQUIRED
    join_classic(client, "asked-once", wanted["member_id"])
    joined = client.receive()
    assert (joined["error_code"], joined["member_id"]) == (NONE, wanted["member_id"])
    shown = admin_json(daemon, "/groups/asked-once")
    assert shown["pending_members"] == []
    assert [one["member_id"] for one in shown["members"]] == [wanted["member_id"]]


def test_live_members_survive_a_crash_of_the_coordinator(
    daemon: Daemon, make_member: MakeMember
) -> None:
    """GROUP_ID_NOT_FOUND for a live member is fatal to some clients: groups are durable."""
    first, second = make_member("survives", "m1"), make_member("survives", "m2")
    for member in (first, second):
        member.join(["orders"])
    settle(first, second)
    with WireClient(daemon.host, daemon.port) as client:
        classic = classic_member(client, "survives-too")
        assert sync_as_leader(client, "survives-too", classic) == NONE
    had = [(member.epoch, dict(member.owned)) for member in (first, second)]

    daemon.kill()
    daemon.restart()
    for member in (first, second):
        member.close()
        member.client = WireClient(daemon.host, daemon.port, member.member)
        reply = member.beat()
        while reply["error_code"] == LOADING:
            reply = member.beat()
        assert reply["error_code"] == NONE
    assert [(member.epoch, member.owned) for member in (first, second)] == had
    assert admin_json(daemon, "/groups/survives")["state"] == "Stable"
    with WireClient(daemon.host, daemon.port) as client:
        beat = client.call(
            "Heartbeat",
            4,
            group_id="survives-too",
            generation_id=classic["generation_id"],
            member_id=classic["member_id"],
        )
        assert beat["error_code"] == NONE


def test_both_protocols_fence_the_former_owner_of_an_instance_alike(
    client: WireClient, make_member: MakeMember
) -> None:
    """A static member whose instance was taken over: FENCED_INSTANCE_ID, whatever it does; an
    instance that nobody has: UNKNOWN_MEMBER_ID."""
    old, new = make_member("static-848", "m1"), make_member("static-848", "m2")
    old.join(["orders"], instance_id="i")
    left = old.beat(member_epoch=-2, instance_id="i")
    assert (left["error_code"], left["member_epoch"]) == (NONE, -2)
    assert new.join(["orders"], instance_id="i")["error_code"] == NONE

    consumer_codes = [
        old.beat(member_epoch=new.epoch, instance_id="i")["error_code"],
        old.beat(member_epoch=-1, instance_id="i")["error_code"],
        old.beat(member_epoch=new.epoch, instance_id="nobody")["error_code"],
    ]

    group = "static-classic"
    before = classic_member(client, group, group_instance_id="i")
    assert sync_as_leader(client, group, before) == NONE
    with WireClient(client.host, client.port) as other:
        after = classic_member(other, group, group_instance_id="i")
    assert after["member_id"] != before["member_id"]

    def heartbeat(instance: str) -> int:
        reply = client.call(
            "Heartbeat",
            4,
            group_id=group,
            generation_id=after["generation_id"],
            member_id=before["member_id"],
            group_instance_id=instance,
        )
        return int(reply["error_code"])

    leaving = {"member_id": before["member_id"], "group_instance_id": "i"}
    left = client.call("LeaveGroup", 4, group_id=group, members=[leaving])
    classic_codes = [heartbeat("i"), left["members"][0]["error_code"], heartbeat("nobody")]
    assert consumer_codes == classic_codes == [FENCED_INSTANCE_ID] * 2 + [UNKNOWN_MEMBER_ID]


# Topics


@pytest.mark.parametrize("version", [5, 6, 7])
@pytest.mark.parametrize("validate_only", [False, True])
def test_create_topics_answers_with_configs_that_are_not_null(
    client: WireClient, version: int, validate_only: bool
) -> None:
    """The Java Admin dereferences them, for topics that could not be created too."""
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1}
        for name in (f"created-{version}-{validate_only}", "orders", "not/legal")
    ]
    reply = client.call(
        "CreateTopics", version, topics=topics, timeout=10_000, validate_only=validate_only
    )
    codes = {one["name"]: one["error_code"] for one in reply["topics"]}
    assert [code == NONE for code in codes.values()].count(True) == 1
    assert all(one["configs"] is not None for one in reply["topics"])
    assert any(one["configs"] for one in reply["topics"])
