"""Makes the members of a group follow its script: what the coordinator writes, and which member
reads which partition.

Members of a classic group stop reading while they agree on a new generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Protocol

from msgspec import Struct

from groupd.pipeline.generator.consumer_members import (
    REBALANCE_TIMEOUT_MS,
    ConsumerMembers,
    encoded,
)
from groupd.pipeline.generator.profiles import SESSION_MS
from groupd.pipeline.generator.script import (
    Act,
    EncodedRecord,
    GeneratedWorld,
    GroupPlan,
    Kind,
    Op,
    ScriptStep,
    classic_member_id,
    client_host,
)
from groupd.protocol.consumer_protocol import EmbeddedAssignment, encode_assignment
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)
from groupd.protocol.writer import Writer

# A generation is one record, which the coordinator writes when the leader has sent the assignments.

PROTOCOL = "range"
_SUBSCRIPTION_VERSION = 1


class _ClassicClient(Struct, frozen=True):
    number: int
    member_id: str
    client_id: str
    instance_id: str | None


class ClassicMembers:
    """The members of a classic group. See `Members`."""

    def __init__(self, plan: GroupPlan, world: GeneratedWorld, rng: Random) -> None:
        self._plan = plan
        self._rng = rng
        self._names = {number: world.topics[number].name for number, _ in plan.places}
        self._subscription = _subscription(sorted(self._names.values()))
        self._clients: dict[int, _ClassicClient] = {}
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
        # Members learn of the rebalance at their next heartbeat and join again. The slowest member
        # decides how long that takes.
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
        self._clients[number] = _ClassicClient(
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

    def _member(self, client: _ClassicClient) -> GroupMetadataMember:
        mine: dict[str, list[int]] = {}
        for place, owner in zip(self._plan.places, self._assigned, strict=True):
            if owner == client.number:
                mine.setdefault(self._names[place.topic], []).append(place.partition)
        assignment = EmbeddedAssignment(
            _SUBSCRIPTION_VERSION,
            tuple((name, tuple(sorted(partitions))) for name, partitions in sorted(mine.items())),
        )
        return GroupMetadataMember(
            client.member_id,
            client.instance_id,
            client.client_id,
            client_host(client.number),
            REBALANCE_TIMEOUT_MS,
            SESSION_MS,
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
    """For each partition in the order of the plan, the member to which the range assignor gives it.
    Each member gets neighbouring partitions of each topic."""
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


_OF_MEMBERS = frozenset({Act.JOIN, Act.LEAVE, Act.FENCE, Act.MUTE, Act.AWAY})


class Members(Protocol):
    """The members of one group."""

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        """Gives what the coordinator writes at once for a member's act or the group's deletion."""
        ...

    def settle(self, from_ms: int, until_ms: int) -> Iterator[ScriptStep]:
        """Gives what follows from the acts between `from_ms` and `until_ms`."""
        ...

    def close(self) -> None:
        """Releases objects that would otherwise be garbage in cycles."""
        ...


class _Nobody:
    """A group without members: the client that commits has all partitions. See `Members`."""

    def __init__(self, plan: GroupPlan) -> None:
        self._owners = (0,) * len(plan.places)

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        """Writes nothing for the deletion: such a group has offsets in the log, but no record of
        its own."""
        yield ScriptStep(op.at_ms, (), (-1,) * len(self._owners))

    def settle(self, from_ms: int, until_ms: int) -> Iterator[ScriptStep]:
        return iter(())

    def close(self) -> None:
        """Nothing to release."""

    def begin(self, at_ms: int) -> ScriptStep:
        return ScriptStep(at_ms, (), self._owners)


def steps_of(plan: GroupPlan, world: GeneratedWorld, rng: Random) -> list[ScriptStep]:
    """The life of a group without its commits, sorted by time."""
    steps: list[ScriptStep] = []
    members: Members
    if plan.kind is Kind.CONSUMER:
        members = ConsumerMembers(plan, world, rng)
    elif plan.kind is Kind.CLASSIC:
        members = ClassicMembers(plan, world, rng)
    else:
        members = nobody = _Nobody(plan)
        steps.append(nobody.begin(world.start_ms))
    nobody_owns = (-1,) * len(plan.places)
    for number, op in enumerate(plan.ops):
        following = plan.ops[number + 1].at_ms if number + 1 < len(plan.ops) else world.end_ms
        if op.act in _OF_MEMBERS:
            steps += members.apply(op)
        else:
            if op.act is Act.DELETE:
                # The offsets are deleted first: the group's own tombstones come last in the log.
                steps.append(ScriptStep(op.at_ms, (), nobody_owns, op._replace(act=Act.FORGET)))
                steps += members.apply(op)
                continue
            steps.append(ScriptStep(op.at_ms, (), steps[-1].owners if steps else nobody_owns, op))
        # Also after an act on offsets, which may fall into an unfinished rebalance.
        steps += members.settle(op.at_ms, following)
    members.close()
    return steps
