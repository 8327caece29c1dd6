"""Groups whose members are no consumers: workers of Kafka Connect and schema registries use the
classic protocol with bytes of their own, which the coordinator hands on as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.clients.conftest import TopicMaker
from tests.support.classic_member import ClassicMember, assign, rebalance
from tests.support.kio_entities import Plain
from tests.support.peer import Peer
from tests.support.wire_client import WireClient, coordinator_of

NONE, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID = 0, 22, 23, 25
REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 27, 68, 69


@dataclass(frozen=True)
class Kind:
    """A protocol type with the protocols of its members, the preferred one first."""

    protocol_type: str
    protocols: tuple[str, ...]


CONNECT = Kind("connect", ("sessioned", "compatible", "default"))
REGISTRY = Kind("sr", ("v0",))
MakeMember = Callable[..., ClassicMember]
every_kind = pytest.mark.parametrize("kind", [CONNECT, REGISTRY], ids=lambda k: k.protocol_type)


def opaque(text: str) -> bytes:
    """Neither text nor anything that a coordinator could read."""
    return b"\x00\xff\x80" + text.encode() + bytes(range(256))


@pytest.fixture
def group(unique: str) -> str:
    return f"opaque-{unique}"


@pytest.fixture
def client(peer: Peer, group: str) -> Iterator[WireClient]:
    with WireClient(*coordinator_of(peer.bootstrap, group)) as made:
        yield made


@pytest.fixture
def make_member(client: WireClient, group: str) -> Iterator[MakeMember]:
    with ExitStack() as stack:

        def make(kind: Kind, name: str, protocols: tuple[str, ...] = ()) -> ClassicMember:
            offers = [(one, opaque(f"{name} {one}")) for one in protocols or kind.protocols]
            member = ClassicMember((client.host, client.port), group, kind.protocol_type, offers)
            stack.callback(member.close)
            return member

        yield make


def described(client: WireClient, group: str) -> Plain:
    (shown,) = client.call("DescribeGroups", 5, groups=[group])["groups"]
    return dict(shown)


def listed(client: WireClient, group: str, **filters: list[str]) -> list[Plain]:
    asked = {"states_filter": [], "types_filter": [], **filters}
    found = client.call("ListGroups", 5, **asked)["groups"]
    return [one for one in found if one["group_id"] == group]


def commit(client: WireClient, group: str, topic: str, offset: int, **member: object) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "opaque"}
    reply = client.call(
        "OffsetCommit",
        8,
        group_id=group,
        topics=[{"name": topic, "partitions": [partition]}],
        **{"generation_id_or_member_epoch": -1, "member_id": "", **member},
    )
    return int(reply["topics"][0]["partitions"][0]["error_code"])


def fetched(client: WireClient, group: str, topic: str) -> int:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    (reply,) = client.call("OffsetFetch", 8, groups=[asked], require_stable=True)["groups"]
    return int(reply["topics"][0]["partitions"][0]["committed_offset"])


@every_kind
def test_a_leader_deals_bytes_that_nobody_else_reads(
    client: WireClient, group: str, make_member: MakeMember, kind: Kind
) -> None:
    first, second = make_member(kind, "first"), make_member(kind, "second")
    rebalance(first)
    assign(first, {first: opaque("everything")})
    second.send_join()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        assert second.client.unanswered == 1
    first.send_join()
    replies = {member: member.joined() for member in (first, second)}
    assert {reply["error_code"] for reply in replies.values()} == {NONE}
    assert {reply["protocol_type"] for reply in replies.values()} == {kind.protocol_type}
    assert {reply["protocol_name"] for reply in replies.values()} == {kind.protocols[0]}
    assert first.leads, "a leader that joins again stays the leader"
    shown = {one["member_id"]: one["metadata"] for one in replies[first]["members"]}
    assert shown == {
        member.member_id: opaque(f"{name} {kind.protocols[0]}")
        for member, name in ((first, "first"), (second, "second"))
    }
    assert replies[second]["members"] == []
    big = os.urandom(300_000)
    assign(first, {first: opaque("mine"), second: big})
    assert (first.heartbeat(), second.heartbeat()) == (NONE, NONE)
    # Whoever asks again in the same generation is told the same.
    second.send_sync()
    assert second.synced()["assignment"] == big


@every_kind
def test_a_worker_that_leaves_starts_a_rebalance_and_its_late_words_are_refused(
    client: WireClient, group: str, make_member: MakeMember, kind: Kind
) -> None:
    members = [make_member(kind, str(number)) for number in range(3)]
    leader = rebalance(*members)
    assign(leader, {member: opaque(member.member_id) for member in members})
    leader.leave()
    stay = [member for member in members if member is not leader]
    assert [member.heartbeat() for member in stay] == [REBALANCE_IN_PROGRESS] * 2
    assert leader.heartbeat() == UNKNOWN_MEMBER_ID
    before = stay[0].generation
    successor = rebalance(*stay)
    assert successor.generation == before + 1
    assign(successor, dict.fromkeys(stay, b""))
    successor.generation -= 1
    assert successor.heartbeat() == ILLEGAL_GENERATION


def test_workers_of_connect_agree_on_the_protocol_that_all_of_them_know(
    make_member: MakeMember,
) -> None:
    """A rolling upgrade of Connect from eager to incremental rebalancing."""
    old = make_member(CONNECT, "old", ("default",))
    rebalance(old)
    new = make_member(CONNECT, "new")
    rebalance(old, new)
    assert (old.protocol, new.protocol) == ("default", "default")
    old.leave()
    rebalance(new)
    assert new.protocol == "sessioned"


@every_kind
def test_others_are_kept_out(make_member: MakeMember, kind: Kind) -> None:
    worker = make_member(kind, "worker")
    rebalance(worker)
    for stranger in (
        make_member(Kind("consumer", kind.protocols), "another type"),
        make_member(kind, "no common protocol", ("something",)),
    ):
        stranger.send_join_once()
        assert stranger.joined()["error_code"] == INCONSISTENT_GROUP_PROTOCOL


@every_kind
def test_a_group_is_listed_and_described(
    client: WireClient, group: str, make_member: MakeMember, kind: Kind
) -> None:
    members = [make_member(kind, name) for name in ("a", "b")]
    leader = rebalance(*members)
    assign(leader, {member: opaque(member.member_id) for member in members})
    (found,) = listed(client, group)
    assert found["protocol_type"] == kind.protocol_type
    assert (found["group_state"], found["group_type"]) == ("Stable", "classic")
    assert listed(client, group, types_filter=["classic"], states_filter=["Stable"]) == [found]
    assert listed(client, group, types_filter=["consumer"]) == []
    assert listed(client, group, states_filter=["Empty"]) == []

    shown = described(client, group)
    assert (shown["group_state"], shown["protocol_type"]) == ("Stable", kind.protocol_type)
    assert shown["protocol_data"] == kind.protocols[0]
    assert {
        one["member_id"]: (one["member_metadata"], one["member_assignment"])
        for one in shown["members"]
    } == {
        member.member_id: (member.protocols[0][1], opaque(member.member_id)) for member in members
    }
    assert {one["client_id"] for one in shown["members"]} == {f"{kind.protocol_type}-client"}

    for member in members:
        member.leave()
    shown = described(client, group)
    assert (shown["group_state"], shown["members"]) == ("Empty", [])
    assert shown["protocol_type"] == kind.protocol_type


def test_offsets_of_a_connect_group(
    client: WireClient, topics: TopicMaker, group: str, make_member: MakeMember
) -> None:
    """Sink tasks commit under groups of their own; but a group of workers may hold offsets too."""
    (topic,) = topics({"sink": 1})
    worker = make_member(CONNECT, "worker")
    rebalance(worker)
    assign(worker, {worker: b"task"})
    said = {"member_id": worker.member_id, "generation_id_or_member_epoch": worker.generation}
    assert commit(client, group, topic, 7, **said) == NONE
    assert fetched(client, group, topic) == 7
    stale = {**said, "generation_id_or_member_epoch": worker.generation + 1}
    assert commit(client, group, topic, 8, **stale) == ILLEGAL_GENERATION
    assert commit(client, group, topic, 8, **{**said, "member_id": "nobody"}) == UNKNOWN_MEMBER_ID
    # Who is no member may commit only while nobody is in the group.
    assert commit(client, group, topic, 9) == UNKNOWN_MEMBER_ID
    (kept,) = client.call("DeleteGroups", 2, groups_names=[group])["results"]
    assert kept["error_code"] == NON_EMPTY_GROUP
    worker.leave()
    assert commit(client, group, topic, 9) == NONE
    assert fetched(client, group, topic) == 9
    (gone,) = client.call("DeleteGroups", 2, groups_names=[group])["results"]
    assert gone["error_code"] == NONE
    assert fetched(client, group, topic) == -1


@every_kind
def test_no_member_of_the_consumer_protocol_takes_such_a_group_over(
    client: WireClient, topics: TopicMaker, group: str, make_member: MakeMember, kind: Kind
) -> None:
    (topic,) = topics({"any": 1})
    worker = make_member(kind, "worker")
    rebalance(worker)
    assign(worker, {worker: b"kept"})
    reply = client.call(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group,
        member_id="consumer",
        member_epoch=0,
        rebalance_timeout=10_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    assert reply["error_code"] == GROUP_ID_NOT_FOUND
    assert worker.heartbeat() == NONE
    (found,) = listed(client, group)
    assert (found["protocol_type"], found["group_type"]) == (kind.protocol_type, "classic")
