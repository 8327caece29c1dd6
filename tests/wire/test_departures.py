"""Events tell who went and why, of members on both protocols, as the admin port shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.support.classic_member import ClassicMember
from tests.support.kio_entities import Plain
from tests.support.raw_member import RawMember, settle, topic_ids
from tests.support.wire_client import WireClient

HOST = "/127.0.0.1"
SESSION_MS = 10_000


@pytest.fixture
def c() -> Iterator[GroupCoordinator]:
    with GroupCoordinator.start({"orders": 4}, clock="frozen") as started:
        yield started


def departures(c: GroupCoordinator, group: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(event, cause, details) of members that went or were replaced."""
    kinds = ("member-left", "member-fenced", "member-replaced")
    events: list[Plain] = c.events(group)
    return [(e["event"], e["cause"], e["details"]) for e in events if e["event"] in kinds]


def leave(client: WireClient, group: str, member_id: str, **fields: Any) -> None:
    entry = {"member_id": member_id, "group_instance_id": None, "reason": None, **fields}
    reply = client.call("LeaveGroup", 5, group_id=group, members=[entry])
    assert reply["members"][0]["error_code"] == 0, reply


def classic(c: GroupCoordinator, group: str, instance: str | None = None) -> ClassicMember:
    """A member alone in its group, stable."""
    address = (c.host, c.port)
    member = ClassicMember(address, group, "consumer", group_instance_id=instance)
    if instance is None:
        member.send_join()
    else:
        member.send_join_once()
    reply = member.joined()
    assert reply["error_code"] == 0
    member.member_id = reply["member_id"]
    member.send_sync({member.member_id: b""})
    assert member.client.receive()["error_code"] == 0
    return member


def test_a_classic_member_that_leaves_says_why(c: GroupCoordinator) -> None:
    member = classic(c, "old")
    leave(member.client, "old", member.member_id, reason="the consumer is being closed")
    who = {"client_id": "consumer-client", "client_host": HOST}
    cause = "the member asked to leave: the consumer is being closed"
    assert departures(c, "old") == [("member-left", cause, who)]
    member.client.close()


def test_a_member_that_an_administrator_removes_is_told_by_whom(c: GroupCoordinator) -> None:
    member = classic(c, "old", instance="i-1")
    with WireClient(c.host, c.port, "kafka-admin") as admin:
        leave(admin, "old", "", group_instance_id="i-1", reason="member was removed by an admin")
    who = {"client_id": "consumer-client", "client_host": HOST, "instance_id": "i-1"}
    cause = f"removed by client kafka-admin at {HOST}: member was removed by an admin"
    assert departures(c, "old") == [("member-left", cause, who)]
    member.client.close()


def test_a_classic_member_that_is_silent_is_fenced_and_named(c: GroupCoordinator) -> None:
    member = classic(c, "old")
    c.clock.advance(SESSION_MS, keep_connected=False)
    who = {"client_id": "consumer-client", "client_host": HOST}
    cause = "no heartbeat within the session timeout"
    assert departures(c, "old") == [("member-fenced", cause, who)]
    member.client.close()


def test_a_replaced_static_member_names_the_one_before_it(c: GroupCoordinator) -> None:
    first = classic(c, "old", instance="i-1")
    address = (c.host, c.port)
    second = ClassicMember(address, "old", "consumer", group_instance_id="i-1")
    second.send_join_once()
    assert second.joined()["error_code"] == 0
    ((event, cause, details),) = departures(c, "old")
    assert event == "member-replaced"
    assert cause == f"takes the place of {first.member_id} as instance i-1"
    assert details == {
        "client_id": "consumer-client",
        "client_host": HOST,
        "instance_id": "i-1",
    }
    for member in (first, second):
        member.client.close()


def test_members_of_a_consumer_group_are_told_apart(c: GroupCoordinator) -> None:
    ids = topic_ids(c)
    first, second, third = (RawMember(c, "new", name, ids) for name in ("c1", "c2", "c3"))
    for member in (first, second, third):
        member.join(["orders"])
    settle(first, second, third)
    first.beat(member_epoch=-1)
    with WireClient(c.host, c.port, "kafka-admin") as admin:
        leave(admin, "new", "c2", reason="too old")
    third_who = {"client_id": "c3", "client_host": HOST}
    c.clock.advance(60_000, keep_connected=False)
    found = departures(c, "new")
    assert [(event, cause) for event, cause, _ in found] == [
        ("member-left", "the member asked to leave"),
        ("member-left", f"removed by client kafka-admin at {HOST}: too old"),
        ("member-fenced", "no heartbeat within the session timeout"),
    ]
    assert [details["client_id"] for _, _, details in found] == ["c1", "c2", "c3"]
    assert found[-1][2].items() >= third_who.items()
    for member in (first, second, third):
        member.close()
