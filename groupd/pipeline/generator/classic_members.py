"""Members of a classic group, which stop reading while they agree on a new generation.

A generation is one record. The coordinator writes it when the leader has sent the assignments.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from groupd.coordinator.core.classic_group.subscription import Assignment, encode_assignment
from groupd.pipeline.generator.consumer_members import encoded
from groupd.pipeline.generator.names import classic_member_id, client_host
from groupd.pipeline.generator.script import (
    Act,
    EncodedRecord,
    GeneratedWorld,
    GroupPlan,
    Op,
    ScriptStep,
)
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)
from groupd.protocol.writer import Writer

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
PROTOCOL = "range"
_SUBSCRIPTION_VERSION = 1


class _Client(Struct, frozen=True):
    number: int
    member_id: str
    client_id: str
    instance_id: str | None


class ClassicMembers:
    """See `members.Members`."""

    def __init__(self, plan: GroupPlan, world: GeneratedWorld, rng: Random) -> None:
        self._plan = plan
        self._rng = rng
        self._names = {number: world.topics[number].name for number, _ in plan.places}
        self._subscription = _subscription(sorted(self._names.values()))
        self._clients: dict[int, _Client] = {}
        self._silent: set[int] = set()
        self._generation = 0
        self._done_ms: int | None = None
        """When the present rebalance will end."""
        self._assigned: tuple[int, ...] = (-1,) * len(plan.places)

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        if op.act is Act.MUTE:
            self._silent.add(op.member)
            yield ScriptStep(op.at_ms, (), self._owners())
            return
        if op.act is Act.DELETE:
            yield ScriptStep(op.at_ms, ((_key(self._plan.name), None),), self._owners())
            return
        if op.act is Act.JOIN:
            self._silent.discard(op.member)
            self._join(op.member)
        elif op.act is Act.AWAY:
            # A static member that stops sends nothing; its session runs on.
            self._silent.add(op.member)
            yield ScriptStep(op.at_ms, (), self._owners())
            return
        else:
            del self._clients[op.member]
        # Members learn of it at their next heartbeat and join again; the slowest one decides the
        # time.
        self._done_ms = op.at_ms + 300 + self._rng.randrange(200, 900) * (1 + len(self._clients))
        self._assigned = (-1,) * len(self._plan.places)
        yield ScriptStep(op.at_ms, (), self._assigned)

    def settle(self, from_ms: int, until_ms: int) -> Iterator[ScriptStep]:
        if self._done_ms is None or self._done_ms >= until_ms:
            return
        at_ms, self._done_ms = self._done_ms, None
        self._generation += 1
        self._assigned = _range(self._plan, self._names, sorted(self._clients))
        yield ScriptStep(at_ms, (self._record(at_ms),), self._owners())

    def close(self) -> None:
        """Nothing to release."""

    def _join(self, number: int) -> None:
        client_id = f"{self._plan.name}-{number}"
        known = self._clients.get(number)
        instance_id = f"{self._plan.name}-i{number}" if self._plan.static else None
        member_id = classic_member_id(instance_id or client_id, self._rng)
        self._clients[number] = _Client(
            number, member_id, client_id if known is None else known.client_id, instance_id
        )

    def _owners(self) -> tuple[int, ...]:
        return tuple(-1 if owner in self._silent else owner for owner in self._assigned)

    def _record(self, at_ms: int) -> EncodedRecord:
        members = sorted(self._clients.values(), key=lambda client: client.member_id)
        value = GroupMetadataValue(
            "consumer",
            self._generation,
            PROTOCOL if members else None,
            min(self._clients.items())[1].member_id if members else None,
            at_ms,
            tuple(self._member(client) for client in members),
        )
        return encoded(Record(GroupMetadataKey(self._plan.name), value))

    def _member(self, client: _Client) -> GroupMetadataMember:
        mine: dict[str, list[int]] = {}
        for place, owner in zip(self._plan.places, self._assigned, strict=True):
            if owner == client.number:
                mine.setdefault(self._names[place.topic], []).append(place.partition)
        assignment = Assignment(
            _SUBSCRIPTION_VERSION,
            tuple((name, tuple(sorted(partitions))) for name, partitions in sorted(mine.items())),
        )
        return GroupMetadataMember(
            client.member_id,
            client.instance_id,
            client.client_id,
            client_host(client.number),
            REBALANCE_TIMEOUT_MS,
            SESSION_TIMEOUT_MS,
            self._subscription,
            encode_assignment(assignment),
        )


def _key(group: str) -> bytes:
    return encoded(Record(GroupMetadataKey(group)))[0]


def _subscription(topics: list[str]) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_SUBSCRIPTION_VERSION)
    writer.array(topics, Writer.string)
    writer.nullable_bytes(None)
    writer.array_length(0)  # owned partitions: none
    return bytes(writer.buffer)


def _range(plan: GroupPlan, names: dict[int, str], members: list[int]) -> tuple[int, ...]:
    """The member that the range assignor gives each place, in the order of the places: each member
    gets a stretch of each topic."""
    if not members:
        return (-1,) * len(plan.places)
    counts = {topic: sum(place.topic == topic for place in plan.places) for topic in names}
    seen = dict.fromkeys(names, 0)
    owners = []
    for place in plan.places:
        each, more = divmod(counts[place.topic], len(members))
        at, seen[place.topic] = seen[place.topic], seen[place.topic] + 1
        long = more * (each + 1)
        owners.append(members[at // (each + 1) if at < long else more + (at - long) // each])
    return tuple(owners)
