"""A process that stands still for longer than any deadline costs nobody anything: what the members
have sent meanwhile is read before a deadline passes. Who stays silent afterwards is fenced."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from tests.support.classic_member import HEARTBEAT, ClassicMember, assign, rebalance
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, admin_json, settle, topic_ids
from tests.support.wire_client import WireClient

NONE, UNKNOWN_MEMBER = 0, 25
TIME_MS = 2000
"""How long every session, rebalance and sync may last; idle connections may last twice that."""
PAUSE_S = 4.0
SETTINGS = {
    **FAST_SETTINGS,
    "group.consumer.session.timeout.ms": str(TIME_MS),
    "connections.max.idle.ms": str(2 * TIME_MS),
}


class Place(Struct, frozen=True):
    """The coordinator of a group."""

    host: str
    port: int
    admin_url: str


class Group(ABC):
    """A group that waits for something. `begin` returns once it waits; `meanwhile` sends what it
    waits for while the process stands still; `after` looks at the replies."""

    def __init__(self, daemon: Daemon, stack: ExitStack) -> None:
        self.name = type(self).__name__
        self._daemon = daemon
        self._stack = stack
        with WireClient(daemon.host, daemon.port) as client:
            reply = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[self.name])[
                "coordinators"
            ][0]
        assert reply["error_code"] == NONE
        self._place = Place(reply["host"], reply["port"], daemon.admin_url)

    def modern(self, *names: str) -> list[RawMember]:
        ids = topic_ids(self._daemon)
        members = [RawMember(self._place, self.name, name, ids) for name in names]
        for member in members:
            self._stack.callback(member.close)
            assert member.join(["orders"], rebalance_timeout=TIME_MS)["error_code"] == NONE
            settle(*members[: members.index(member) + 1])
        return members

    def classic(self, count: int) -> list[ClassicMember]:
        times = {"session_timeout": TIME_MS, "rebalance_timeout": TIME_MS}
        address = (self._place.host, self._place.port)
        members = [ClassicMember(address, self.name, **times) for _ in range(count)]
        for member in members:
            self._stack.callback(member.close)
        return members

    def state(self) -> str:
        return str(admin_json(self._daemon, f"/groups/{self.name}")["state"])

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def meanwhile(self) -> None: ...

    @abstractmethod
    def after(self) -> None: ...


def send_beat(member: RawMember, **fields: object) -> None:
    said = {"group_id": member.group, "member_id": member.member, "member_epoch": member.epoch}
    member.client.send("ConsumerGroupHeartbeat", 1, {**said, **fields})


def send_heartbeat(member: ClassicMember) -> None:
    said = {"group_id": member.group, "member_id": member.member_id}
    member.client.send("Heartbeat", HEARTBEAT, {**said, "generation_id": member.generation})


class Consumers(Group):
    """Sessions of a consumer group."""

    def begin(self) -> None:
        self.members = self.modern("c1", "c2")

    def meanwhile(self) -> None:
        for member in self.members:
            send_beat(member)

    def after(self) -> None:
        for member in self.members:
            reply = member.client.receive()
            assert (reply["error_code"], reply["member_epoch"]) == (NONE, member.epoch)


class Revoking(Group):
    """A member that has to give partitions up within its rebalance timeout."""

    def begin(self) -> None:
        (self.first,) = self.modern("c1")
        self.ids = topic_ids(self._daemon)
        self.second = RawMember(self._place, self.name, "c2", self.ids)
        self._stack.callback(self.second.close)
        self.second.join(["orders"])
        assert self.first.beat()["assignment"] is not None

    def meanwhile(self) -> None:
        (topic,) = self.first.owned
        held = {"topic_id": self.ids[topic], "partitions": self.first.owned[topic]}
        send_beat(self.first, topic_partitions=[held])
        send_beat(self.second)

    def after(self) -> None:
        for member in (self.first, self.second):
            assert member.client.receive()["error_code"] == NONE
        settle(self.first, self.second)


class Classics(Group):
    """Sessions of a classic group."""

    def begin(self) -> None:
        self.members = self.classic(2)
        assign(rebalance(*self.members), dict.fromkeys(self.members, b"assigned"))

    def meanwhile(self) -> None:
        for member in self.members:
            send_heartbeat(member)

    def after(self) -> None:
        assert [one.client.receive()["error_code"] for one in self.members] == [NONE, NONE]
        assert self.state() == "Stable"


class Joining(Group):
    """A JoinGroup that waits for the other member's."""

    def begin(self) -> None:
        self.stays, self.joins = self.classic(2)
        assign(rebalance(self.stays), {self.stays: b"all"})
        self.joins.send_join()
        wait_until(lambda: self.state() == "PreparingRebalance", 5, "a join phase")

    def meanwhile(self) -> None:
        self.stays.send_join()

    def after(self) -> None:
        assert [one.joined()["error_code"] for one in (self.stays, self.joins)] == [NONE, NONE]
        assert self.stays.generation == self.joins.generation == 2


class Syncing(Group):
    """A SyncGroup that waits for the leader's."""

    def begin(self) -> None:
        members = self.classic(2)
        self.leader = rebalance(*members)
        (self.follower,) = (one for one in members if one is not self.leader)
        self.follower.send_sync()
        wait_until(lambda: self.state() == "CompletingRebalance", 5, "a sync phase")

    def meanwhile(self) -> None:
        ids = (self.leader.member_id, self.follower.member_id)
        self.leader.send_sync(dict.fromkeys(ids, b"assigned"))

    def after(self) -> None:
        for one in (self.leader, self.follower):
            reply = one.synced()
            assert (reply["error_code"], reply["assignment"]) == (NONE, b"assigned")


class Silent(Group):
    """Members that are gone."""

    def begin(self) -> None:
        self.modern("c1")

    def meanwhile(self) -> None:
        pass

    def after(self) -> None:
        assert len(admin_json(self._daemon, f"/groups/{self.name}")["members"]) == 1

    def fenced(self) -> bool:
        return admin_json(self._daemon, f"/groups/{self.name}")["members"] == []


@contextmanager
def standing_still(daemon: Daemon) -> Iterator[None]:
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def test_a_pause_costs_nobody_anything(tmp_path: Path) -> None:
    made = Daemon(tmp_path, topics={"orders": 2}, settings=SETTINGS)
    with running(made) as daemon, ExitStack() as stack:
        silent = Silent(daemon, stack)
        kinds = (Consumers, Classics, Revoking, Joining, Syncing)
        groups = [*(kind(daemon, stack) for kind in kinds), silent]
        for group in groups:
            group.begin()
        with standing_still(daemon):
            time.sleep(PAUSE_S)
            for group in groups:
                group.meanwhile()
        for group in groups:
            group.after()
        for group in groups[:-1]:
            events = admin_json(daemon, f"/groups/{group.name}/events")
            assert not [one for one in events if one["event"] == "member-fenced"], group.name
        wait_until(silent.fenced, 10, "the end of the silent member's session", daemon.logs)
        assert total(daemon.admin_url, "groupd_unheard_seconds_total") > PAUSE_S / 2
