"""Well-behaved consumers for the state machine: what they own, what they do next, what an answer
means to them. Both follow what Java clients do; a fatal error ends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groupd.coordinator.core.types import RequestToken
from groupd.protocol.consumer_protocol import parse_subscription
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupMember
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import FOO, GROUP, Failed, assignment, read, subscription

PARTITIONS = range(6)
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Client:
    """`waiting`: the unanswered request. `stopped`: it will not send anything any more."""

    def __init__(self, bench: Bench, instance: str | None) -> None:
        self.bench = bench
        self.instance = instance
        self.member_id = ""
        self.owned: set[int] = set()
        self.waiting: RequestToken | None = None
        self.stopped = False

    def step(self) -> None:
        """Takes the answer that has come, if any, and does the next thing."""
        if self.waiting is not None:
            if self.waiting not in self.bench.replies:
                return
            token, self.waiting = self.waiting, None
            self.take(self.bench.replies[token])
        if not self.stopped:
            self.send()

    def take(self, reply: Any) -> None:
        raise NotImplementedError

    def send(self) -> None:
        raise NotImplementedError

    @property
    def settled(self) -> bool:
        raise NotImplementedError

    @property
    def holds(self) -> set[int]:
        """What it owns and was not told to give up by an answer that is on its way."""
        return self.owned

    def is_member(self) -> bool:
        return self.member_id in getattr(self.bench.state.groups.get(GROUP), "members", ())

    def lose(self) -> None:
        self.owned = set()


class ConsumerClient(Client):
    """KIP-848: owns what it is told, says so with every heartbeat."""

    def __init__(self, bench: Bench, member_id: str, instance: str | None = None) -> None:
        super().__init__(bench, instance)
        self.member_id = member_id
        self.epoch = 0

    @property
    def settled(self) -> bool:
        return self.stopped or self.epoch > 0

    def send(self) -> None:
        self.waiting = self.bench.beat_token(
            self.member_id,
            self.epoch,
            owned={FOO: sorted(self.owned)} if self.owned else {},
            instance=self.instance,
        )

    def leave(self, epoch: int) -> None:
        self.bench.beat_token(self.member_id, epoch, instance=self.instance)
        self.lose()
        self.stopped = True

    def take(self, reply: Any) -> None:
        code = reply.error
        if code is ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = {p for one in reply.assignment for p in one.partitions}
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH) or (
            code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > 0
        ):
            self.epoch = 0
            self.lose()
        elif code not in RETRIABLE and code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            self.stopped = True
            self.lose()


class ClassicClient(Client):
    """`eager`: gives up everything before it joins; otherwise it keeps what it owns until a Sync
    takes it away, and then joins again at once (KIP-429)."""

    def __init__(self, bench: Bench, eager: bool, instance: str | None = None) -> None:
        super().__init__(bench, instance)
        self.eager = eager
        self.generation = -1
        self.doing = "join"
        self.plan: dict[str, bytes] = {}

    @property
    def settled(self) -> bool:
        return self.stopped or self.doing == "beat"

    @property
    def holds(self) -> set[int]:
        reply = None if self.waiting is None else self.bench.replies.get(self.waiting)
        if self.doing != "sync" or isinstance(reply, Failed | None) or reply.error:
            return self.owned
        return self.owned & _given(reply)

    def send(self) -> None:
        getattr(self, f"_send_{self.doing}")()

    def take(self, reply: Any) -> None:
        if isinstance(reply, Failed):
            return
        if reply.error in RETRIABLE:
            return
        if reply.error is ErrorCode.NONE:
            getattr(self, f"_take_{self.doing}")(reply)
        elif reply.error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            if reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.lose()
            self._rejoin()
        else:
            self.stopped = True
            self.lose()

    def leave(self) -> None:
        """Leaves for good. A static member is removed as an administrator would do it."""
        if self.member_id:
            self.bench.leave_token((self.member_id, self.instance))
        self.lose()
        self.stopped = True

    def _rejoin(self) -> None:
        self.doing = "join"

    def _send_join(self) -> None:
        if self.eager:
            self.lose()
        elif self.owned and not self.is_member():
            # A background heartbeat would have told it that it was fenced.
            self.lose()
            self.member_id = ""
        data = subscription("foo", owned={"foo": sorted(self.owned)} if self.owned else {})
        self.waiting = self.bench.join_token(
            self.member_id, protocols=(("range", data),), instance=self.instance
        )

    def _take_join(self, reply: Any) -> None:
        self.member_id, self.generation = reply.member_id, reply.generation_id
        self.plan = {}
        if reply.leader == reply.member_id and not reply.skip_assignment:
            self.plan = plan(reply.members)
        self.doing = "sync"

    def _send_sync(self) -> None:
        self.waiting = self.bench.sync_token(
            self.member_id, self.generation, instance=self.instance, assignments=self.plan
        )

    def _take_sync(self, reply: Any) -> None:
        given = _given(reply)
        revoked, self.owned = self.owned - given, given
        self.doing = "join" if revoked and not self.eager else "beat"

    def _send_beat(self) -> None:
        self.waiting = self.bench.classic_beat_token(self.member_id, self.generation, self.instance)

    def _take_beat(self, reply: Any) -> None:
        pass


def _given(reply: Any) -> set[int]:
    return set(read(reply.assignment).get("foo", ())) if reply.assignment else set()


def plan(members: Iterable[JoinGroupMember]) -> dict[str, bytes]:
    """A cooperative leader: even shares that follow ownership; what another member still owns is
    withheld."""
    owners: dict[int, str] = {}
    for one in members:
        for _, partitions in parse_subscription(one.metadata).owned_partitions:
            owners.update(dict.fromkeys(partitions, one.member_id))
    ids = sorted(one.member_id for one in members)
    room = {one: len(PARTITIONS) // len(ids) for one in ids}
    for one in ids[: len(PARTITIONS) % len(ids)]:
        room[one] += 1
    wanted: dict[str, list[int]] = {one: [] for one in ids}
    rest = []
    for partition in PARTITIONS:
        owner = owners.get(partition)
        if owner is not None and len(wanted[owner]) < room[owner]:
            wanted[owner].append(partition)
        else:
            rest.append(partition)
    for partition in rest:
        wanted[min(ids, key=lambda one: (len(wanted[one]) - room[one], one))].append(partition)
    return _without_strangers(wanted, owners)


def _without_strangers(
    wanted: Mapping[str, list[int]], owners: Mapping[int, str]
) -> dict[str, bytes]:
    return {
        one: assignment({"foo": [p for p in given if owners.get(p, one) == one]})
        for one, given in wanted.items()
    }
