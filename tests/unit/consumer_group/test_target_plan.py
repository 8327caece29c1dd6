"""How an operation comes to a target that is due, and that all ways compute the same one."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.consumer_group import (
    deferred_target,
    shared_target,
    target_assignment,
)
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from tests.unit.consumer_group.counted_shard import CountedShard
from tests.unit.consumer_group.harness import FOO, EvenSpread, Scripted, parts, topic

LINGER_MS = 5
ALL_WAITS_MS = shared_target.FIRST_LINGER_MAX_MS


class CustomShard(CountedShard):
    """The group's assignor is a plug-in."""

    def __init__(self, assignor: Any, **settings: Any) -> None:
        settings.setdefault("consumer_target_linger_ms", LINGER_MS)
        super().__init__(topic("foo", FOO, 6), assignor=assignor, **settings)

    def answers(self) -> list[Any]:
        """The replies to everything that waits."""
        found: list[Any] = []
        while self.tasks or (keys := self.state.deadlines.pop_due(self.now.monotonic_ms)):
            if self.tasks:
                self.turn()
                continue
            for key in keys:
                outcome = self.shard.expire(key, self.now)
                self.apply(outcome)
                found += [reply for _, reply in outcome.replies]
        return found


def test_a_custom_assignor_that_fails_refuses_only_the_member_that_votes_for_it() -> None:
    mine = Scripted("mine", fails=ValueError("boom"))
    shard = CustomShard(mine)
    shard.state.assignors = {**shard.state.assignors, "uniform": EvenSpread()}
    shard.apply(shard.handle(0, "m1"))
    shard.advance(ALL_WAITS_MS)
    assert [parts(reply.assignment) for reply in shard.answers()] == [{FOO: [0, 1, 2, 3, 4, 5]}]
    outcome = shard.handle(0, "m2", server_assignor="mine")
    ((_, reply),) = outcome.replies
    assert reply.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert outcome.records == []
    assert [event.kind for event in outcome.events] == [EventKind.ASSIGNOR_FAILED]
    # The member did not get in, so its vote does not count for the others.
    shard.apply(shard.handle(0, "m3"))
    shard.advance(ALL_WAITS_MS)
    (reply,) = shard.answers()
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 3)


def test_a_custom_assignor_of_a_large_group_refuses_nobody() -> None:
    mine = Scripted("mine", fails=ValueError("boom"))
    shard = CustomShard(mine, consumer_large_group_size=0)
    shard.apply(shard.handle(0, "m1", server_assignor="mine"))
    shard.advance(ALL_WAITS_MS)
    (reply,) = shard.answers()
    assert (reply.error, parts(reply.assignment)) == (ErrorCode.NONE, {})
    assert mine.calls == 1


def test_a_group_that_is_small_again_does_not_suffer_from_a_failure_when_it_was_large() -> None:
    shard = CustomShard(Scripted("mine", fails=ValueError("boom")))
    shard.state.assignors = {**shard.state.assignors, "uniform": EvenSpread()}
    small = shard.state.config
    shard.state.config = replace(small, consumer_large_group_size=0)
    shard.apply(shard.handle(0, "m1", server_assignor="mine"))
    shard.advance(ALL_WAITS_MS)
    assert [parts(reply.assignment) for reply in shard.answers()] == [{}]
    shard.state.config = small
    shard.apply(shard.handle(1, "m1", server_assignor="uniform", names=["foo"]))
    shard.advance(LINGER_MS * shared_target.FIRST_FACTOR)
    assert [parts(reply.assignment) for reply in shard.answers()] == [{FOO: [0, 1, 2, 3, 4, 5]}]


class Careless:
    """Writes into what it is given."""

    name = "mine"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Any:
        given: Any = spec.members["m1"].assigned
        given[FOO] = (5,)
        return {}


def test_a_custom_assignor_cannot_change_the_stored_target() -> None:
    shard = CustomShard(Careless(), consumer_target_linger_ms=0)
    shard.put_member("m1", server_assignor="mine")
    shard.settle(m1={FOO: (0, 1)})
    outcome = shard.handle(10, "m1", names=["foo", "bar"])
    assert outcome.records == []
    (event,) = outcome.events
    assert event.cause.startswith("TypeError: ")
    assert shard.group.targets == {"m1": {FOO: (0, 1)}}


WAYS: dict[str, dict[str, Any]] = {
    "at once": {"consumer_target_linger_ms": 0},
    "shared": {},
    "in slices": {"consumer_target_linger_ms": 0, "consumer_large_group_size": 0},
    "shared, in slices": {"consumer_large_group_size": 0},
}


def targets_after(settings: dict[str, Any]) -> dict[str, Assignment]:
    shard = CustomShard(UniformAssignor(), **settings)
    for epoch, member in ((0, "m2"), (0, "m1"), (0, "m3"), (-1, "m2"), (0, "m4"), (0, "m3")):
        shard.apply(shard.handle(epoch, member))
        shard.advance(ALL_WAITS_MS)
        shard.answers()
    assert shard.group.assignment_epoch == shard.group.group_epoch
    return {member: dict(target) for member, target in shard.group.targets.items()}


@pytest.mark.parametrize("way", WAYS)
def test_the_target_is_the_same_whichever_way_it_comes(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLICE_MEMBERS", "SLICE_PARTITIONS"):
        monkeypatch.setattr(target_assignment, name, 1)
    monkeypatch.setattr(large_targets, "PART_MEMBERS", 1)
    monkeypatch.setattr(deferred_target, "UNCHANGED_MEMBERS", 1)
    assert targets_after(WAYS[way]) == targets_after(WAYS["at once"])


@pytest.mark.parametrize("module", [large_targets, shared_target, target_assignment])
def test_every_limit_is_explained(module: ModuleType) -> None:
    body = ast.parse(Path(module.__file__ or "").read_text()).body
    limits = [
        number
        for number, node in enumerate(body)
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]).isupper()
        and not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]
    assert len(limits) >= 3
    for number in limits:
        assert isinstance(body[number + 1], ast.Expr), f"{ast.unparse(body[number])}: no docstring"
