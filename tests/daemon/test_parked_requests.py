"""What becomes of a JoinGroup or SyncGroup that waits for others when its client goes away, when
the daemon stops in good order, and when it is killed. Failed appends: tests/unit/runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.classic_member import ClassicMember, assign, rebalance
from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS
from tests.support.process import wait_until
from tests.support.raw_member import admin_json
from tests.support.wire_client import NoReply

NONE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS = 0, 16, 27
GROUP = "parked"
SESSION_MS, REBALANCE_MS = 2000, 1000
MakeMember = Callable[..., ClassicMember]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    started = Daemon(tmp_path, settings=FAST_SETTINGS)
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def make_member(daemon: Daemon) -> Iterator[MakeMember]:
    with ExitStack() as stack:

        def make(**join_fields: object) -> ClassicMember:
            member = ClassicMember((daemon.host, daemon.port), GROUP, **join_fields)
            stack.callback(member.close)
            return member

        yield make


def state(daemon: Daemon) -> str:
    return str(admin_json(daemon, f"/groups/{GROUP}")["state"])


def stable(*members: ClassicMember) -> None:
    assign(rebalance(*members), {member: member.member_id.encode() for member in members})


def park_join(daemon: Daemon, stays: ClassicMember, joins: ClassicMember) -> None:
    """Lets `joins` wait for `stays`, which does not know of it yet."""
    joins.send_join()
    wait_until(lambda: state(daemon) == "PreparingRebalance", 5, "a join phase", daemon.logs)
    assert (stays.client.unanswered, joins.client.unanswered) == (0, 1)


def park_sync(daemon: Daemon, first: ClassicMember, second: ClassicMember) -> ClassicMember:
    """Lets the follower wait for the leader's assignment; returns the leader."""
    leader = rebalance(first, second)
    follower = second if leader is first else first
    follower.send_sync()
    with pytest.raises(NoReply):
        follower.client.receive(0.1)
    assert state(daemon) == "CompletingRebalance"
    return leader


# The client goes away


def test_a_client_that_goes_during_its_join_comes_back_into_the_same_rebalance(
    daemon: Daemon, make_member: MakeMember
) -> None:
    stays, goes = make_member(), make_member()
    stable(stays)
    park_join(daemon, stays, goes)
    goes.reconnect()
    goes.send_join()
    stays.send_join()
    assert [one.joined()["error_code"] for one in (stays, goes)] == [NONE, NONE]
    assert stays.generation == goes.generation == 2
    shown = admin_json(daemon, f"/groups/{GROUP}")
    assert len(shown["members"]) == 2, "not a second member for the second connection"


def test_a_client_that_goes_during_its_join_for_good_holds_nobody_up(
    daemon: Daemon, make_member: MakeMember
) -> None:
    """The join phase ends without its connection; the member is given up when its session has
    ended."""
    stays, goes = make_member(), make_member(session_timeout=SESSION_MS)
    stable(stays)
    park_join(daemon, stays, goes)
    goes.client.close()
    stays.send_join()
    assert stays.joined()["error_code"] == NONE
    assign(stays, {stays: b"all"})
    wait_until(lambda: stays.heartbeat() == REBALANCE_IN_PROGRESS, 10, "its end", daemon.logs)
    stays.send_join()
    assert [one["member_id"] for one in stays.joined()["members"]] == [stays.member_id]


def test_a_client_that_goes_during_its_sync_is_told_its_assignment_when_it_is_back(
    daemon: Daemon, make_member: MakeMember
) -> None:
    first, second = make_member(), make_member()
    leader = park_sync(daemon, first, second)
    follower = second if leader is first else first
    follower.reconnect()
    leader.send_sync({leader.member_id: b"l", follower.member_id: b"f"})
    assert leader.synced()["assignment"] == b"l"
    follower.send_sync()
    reply = follower.synced()
    assert (reply["error_code"], reply["assignment"]) == (NONE, b"f")
    assert (first.heartbeat(), second.heartbeat()) == (NONE, NONE)


def test_a_leader_that_goes_before_its_sync_is_replaced(
    daemon: Daemon, make_member: MakeMember
) -> None:
    """The waiting follower is told to join again once the leader's time is over."""
    fields = {"session_timeout": SESSION_MS, "rebalance_timeout": REBALANCE_MS}
    first, second = make_member(**fields), make_member(**fields)
    leader = park_sync(daemon, first, second)
    follower = second if leader is first else first
    leader.client.close()
    assert follower.synced()["error_code"] == REBALANCE_IN_PROGRESS
    stable(follower)
    assert follower.leads
    assert state(daemon) == "Stable"


# The daemon stops


def park(daemon: Daemon, first: ClassicMember, second: ClassicMember, what: str) -> ClassicMember:
    """Makes one request wait; `first` has been stable alone before. Returns the member whose
    JoinGroup or SyncGroup waits now."""
    stable(first)
    if what == "join":
        park_join(daemon, first, second)
        return second
    leader = park_sync(daemon, first, second)
    return second if leader is first else first


@pytest.mark.parametrize("parked", ["join", "sync"])
def test_an_orderly_stop_answers_whoever_waits_and_the_group_goes_on_after_it(
    daemon: Daemon, make_member: MakeMember, parked: str
) -> None:
    first, second = make_member(), make_member()
    waits = park(daemon, first, second, parked)
    daemon.stop()
    assert waits.client.receive()["error_code"] == NOT_COORDINATOR
    with pytest.raises(NoReply, match="closed"):
        waits.client.call("Heartbeat", 4, group_id=GROUP, generation_id=1, member_id="")
    go_on(daemon, first, second)


@pytest.mark.crash
@pytest.mark.parametrize("parked", ["join", "sync"])
def test_a_kill_closes_the_connection_and_the_group_goes_on_after_it(
    daemon: Daemon, make_member: MakeMember, parked: str
) -> None:
    first, second = make_member(), make_member()
    waits = park(daemon, first, second, parked)
    daemon.kill()
    with pytest.raises((NoReply, ConnectionResetError)):
        waits.client.receive()
    go_on(daemon, first, second)


def go_on(daemon: Daemon, first: ClassicMember, second: ClassicMember) -> None:
    """Checks that after a restart the group is what was durable last: generation 1, of `first`
    alone. It works, and both get through a rebalance; a member that was never durable asks for a
    new id."""
    daemon.restart()
    first.reconnect()
    second.reconnect()
    assert state(daemon) == "Stable"
    first.generation = 1
    assert first.heartbeat() == NONE
    second.member_id = ""
    stable(first, second)
    assert first.generation == second.generation > 1
    assert (first.heartbeat(), second.heartbeat()) == (NONE, NONE)
