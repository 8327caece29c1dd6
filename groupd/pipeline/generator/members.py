"""Makes the members of a group follow its script: what the coordinator writes, and which member
reads which partition."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Protocol

from groupd.pipeline.generator.classic_members import ClassicMembers
from groupd.pipeline.generator.consumer_members import ConsumerMembers
from groupd.pipeline.generator.script import Act, GeneratedWorld, GroupPlan, Kind, Op, ScriptStep

_OF_MEMBERS = frozenset({Act.JOIN, Act.LEAVE, Act.FENCE, Act.MUTE, Act.AWAY})


class Members(Protocol):
    """The members of one group."""

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        """What the coordinator writes at once for an act of a member, or for the deletion of the
        group."""
        ...

    def settle(self, from_ms: int, until_ms: int) -> Iterator[ScriptStep]:
        """What follows from the acts between `from_ms` and `until_ms`."""
        ...

    def close(self) -> None:
        """Releases objects that would otherwise be garbage in cycles."""
        ...


class _Nobody:
    """A group without members: whoever commits has all partitions. See `Members`."""

    def __init__(self, plan: GroupPlan) -> None:
        self._owners = (0,) * len(plan.places)

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        """The deletion writes nothing here: such a group has offsets in the log, but no record of
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
                # Offsets first: in the log, the group's own records are its end.
                steps.append(ScriptStep(op.at_ms, (), nobody_owns, op._replace(act=Act.FORGET)))
                steps += members.apply(op)
                continue
            steps.append(ScriptStep(op.at_ms, (), steps[-1].owners if steps else nobody_owns, op))
        # Also after an act on offsets, which may fall into an unfinished rebalance.
        steps += members.settle(op.at_ms, following)
    members.close()
    return steps
