"""`/groups`, `/groups/{id}` and `/groups/{id}/events` as an operator uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.support.kio_entities import Plain
from tests.support.raw_member import (
    RawMember,
    admin_json,
    settle,
    topic_ids,
    wait_for_events,
)
from tests.support.wire_client import WireClient

SESSION_MS, REBALANCE_MS = 3000, 1000
MakeMember = Callable[[str, str], RawMember]


@pytest.fixture
def daemon(groupd_factory: Callable[..., GroupCoordinator]) -> GroupCoordinator:
    return groupd_factory(
        topics={"orders": 4},
        config={"group.consumer.session.timeout.ms": SESSION_MS},
        clock="frozen",
        admin=("127.0.0.1", 0),
    )


@pytest.fixture
def make_member(daemon: GroupCoordinator) -> Iterator[MakeMember]:
    ids = topic_ids(daemon)
    made: list[RawMember] = []

    def make(group: str, member: str) -> RawMember:
        made.append(RawMember(daemon, group, member, ids))
        return made[-1]

    yield make
    for member in made:
        member.close()


def by_id(shown: Plain) -> dict[str, Plain]:
    return {member["member_id"]: member for member in shown["members"]}


def deadlines(shown: Plain, kind: str) -> dict[str, int]:
    return {one["member_id"]: one["in_ms"] for one in shown["deadlines"] if one["kind"] == kind}


def causes(daemon: GroupCoordinator, group: str, kind: str) -> list[tuple[str, str]]:
    events = admin_json(daemon, f"/groups/{group}/events")
    return [(one["member_id"], one["cause"]) for one in events if one["event"] == kind]


def full_house(make_member: MakeMember, group: str, **fields: Any) -> list[RawMember]:
    """Three members: c1 owns 0 and 1, c2 owns 2 and 3; c3 has joined, c2 was told to revoke 3."""
    first, second, third = (make_member(group, name) for name in ("c1", "c2", "c3"))
    for member in (first, second):
        member.join(["orders"], **fields)
    settle(first, second)
    assert (first.owned, second.owned) == ({"orders": [0, 1]}, {"orders": [2, 3]})
    third.join(["orders"], **fields)
    second.beat()
    return [first, second, third]


def test_a_blocked_member_shows_who_blocks_it(
    daemon: GroupCoordinator, make_member: MakeMember
) -> None:
    first, second, third = full_house(make_member, "billing")
    shown = admin_json(daemon, "/groups/billing")
    assert (shown["type"], shown["state"]) == ("consumer", "Reconciling")
    assert (shown["group_epoch"], shown["assignment_epoch"]) == (4, 4)
    assert shown["blocked"] == [
        {
            "member_id": "c3",
            "topic": "orders",
            "partition": 3,
            "held_by": "c2",
            "revoking": True,
            "why": "waits for orders-3: c2 was told to revoke it and has not confirmed",
            "in_ms": 60_000,
        },
        {
            "member_id": "c1",
            "why": "hears of the target of epoch 4 with its next heartbeat",
            "in_ms": SESSION_MS,
        },
    ]
    members = by_id(shown)
    assert [one["state"] for one in members.values()] == [
        "STABLE",
        "UNREVOKED_PARTITIONS",
        "UNRELEASED_PARTITIONS",
    ]
    assert members["c2"]["owned"] == {"orders": [2]}
    assert members["c2"]["pending_revocation"] == {"orders": [3]}
    assert members["c3"]["target"] == {"orders": [3]}
    assert 0 < deadlines(shown, "consumer-rebalance")["c2"] <= 60_000
    sessions = deadlines(shown, "consumer-session")
    assert set(sessions) == {"c1", "c2", "c3"}
    assert all(0 < in_ms <= SESSION_MS for in_ms in sessions.values())

    second.acknowledge()
    assert third.beat()["assignment"] is not None
    first.beat()
    shown = admin_json(daemon, "/groups/billing")
    assert (shown["state"], shown["blocked"]) == ("Stable", [])
    (row,) = admin_json(daemon, "/groups")
    rebalance = row.pop("last_rebalance")
    assert rebalance["cause"] == "member c3 (client c3) joined"
    assert row == {
        "group_id": "billing",
        "type": "consumer",
        "state": "Stable",
        "members": 3,
        "lag": None,  # nothing was committed
        "lag_seconds": None,
        "judgement": None,
    }


def test_events_tell_who_bumped_the_epoch_and_what_was_revoked(
    daemon: GroupCoordinator, make_member: MakeMember
) -> None:
    first, _, third = full_house(make_member, "history")
    bumps = causes(daemon, "history", "group-epoch-bumped")
    assert bumps == [(one, f"member {one} joined") for one in ("c1", "c2", "c3")]
    revoked = wait_for_events(daemon, "history", "partitions-revoking")[-1]
    assert (revoked["member_id"], revoked["details"]["partitions"]) == ("c2", {"orders": [3]})

    first.beat(subscribed_topic_names=["orders", "no-such-topic"])
    assert causes(daemon, "history", "group-epoch-bumped")[-1] == (
        "c1",
        "member c1 changed its topic names",
    )
    third.beat(member_epoch=-1)
    (left,) = wait_for_events(daemon, "history", "member-left")
    assert (left["member_id"], left["cause"]) == ("c3", "the member asked to leave")
    sequence = [one["sequence"] for one in admin_json(daemon, "/groups/history/events")]
    assert sequence == sorted(sequence)


def test_events_tell_who_was_fenced_and_why(
    daemon: GroupCoordinator, make_member: MakeMember
) -> None:
    _, second, third = full_house(make_member, "fenced", rebalance_timeout=REBALANCE_MS)
    daemon.clock.advance(REBALANCE_MS)
    (slow,) = wait_for_events(daemon, "fenced", "member-fenced")
    assert slow["member_id"] == "c2"
    assert slow["cause"] == f"partitions not revoked within {REBALANCE_MS} ms"
    who = {"client_id": "c2", "client_host": "/127.0.0.1"}
    assert slow["details"] == {**who, "freed": {"orders": [2, 3]}}
    third.beat()
    assert third.owned["orders"][-1] == 3
    assert second.beat()["error_code"] == 25  # UNKNOWN_MEMBER_ID

    # Nobody speaks any more: the sessions end.
    daemon.clock.advance(SESSION_MS, keep_connected=False)
    silent = wait_for_events(daemon, "fenced", "member-fenced", count=3)[1:]
    assert {one["member_id"] for one in silent} == {"c1", "c3"}
    assert {one["cause"] for one in silent} == {"no heartbeat within the session timeout"}
    assert admin_json(daemon, "/groups/fenced")["state"] == "Empty"


def test_a_target_that_waits_for_its_interval_is_shown(
    daemon: GroupCoordinator, make_member: MakeMember
) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        config = {
            "name": "consumer.assignment.interval.ms",
            "config_operation": 0,
            "value": "15000",
        }
        resource = {"resource_type": 32, "resource_name": "patient", "configs": [config]}
        reply = client.call("IncrementalAlterConfigs", 1, resources=[resource])
        assert reply["responses"][0]["error_code"] == 0
    first, second = (make_member("patient", name) for name in ("c1", "c2"))
    first.join(["orders"])
    second.join(["orders"])
    shown = admin_json(daemon, "/groups/patient")
    assert shown["state"] == "Assigning"
    assert shown["config_overrides"] == {"consumer.assignment.interval.ms": "15000"}
    assert 10_000 < deadlines(shown, "consumer-next-target")[""] <= 15_000
    assert "consumer-next-target" not in str(admin_json(daemon, "/groups/billing"))


def test_a_classic_group_shows_whom_it_waits_for(daemon: GroupCoordinator) -> None:
    subscription = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
    joined = {
        "group_id": "old",
        "session_timeout": 10_000,
        "rebalance_timeout": 20_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}],
    }
    with WireClient(daemon.host, daemon.port) as client:
        member = client.call("JoinGroup", 7, **joined, member_id="")["member_id"]
        shown = admin_json(daemon, "/groups/old")
        assert (shown["type"], shown["pending_members"]) == ("classic", [member])
        assert client.call("JoinGroup", 7, **joined, member_id=member)["error_code"] == 0
    shown = admin_json(daemon, "/groups/old")
    assert (shown["state"], shown["generation"]) == ("CompletingRebalance", 1)
    assert shown["waiting_for"] == [member]
    assert by_id(shown)[member]["subscribed_topic_names"] == ["orders"]
    assert 0 < deadlines(shown, "classic-sync")[""] <= 20_000
    assert causes(daemon, "old", "rebalance-started") == [("", f"member {member} joined")]


def test_what_is_not_there(daemon: GroupCoordinator) -> None:
    assert admin_json(daemon, "/groups/no-such-group") is None
    assert admin_json(daemon, "/groups/no-such-group/events") == []


def test_an_id_with_a_slash_is_percent_encoded(
    daemon: GroupCoordinator, make_member: MakeMember
) -> None:
    make_member("team/a b", "c1").join(["orders"])
    assert admin_json(daemon, "/groups/team%2Fa%20b")["group_id"] == "team/a b"
    assert admin_json(daemon, "/groups/team%2Fa%20b/events")[0]["event"] == "group-created"
