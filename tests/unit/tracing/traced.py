"""Shards whose events are folded into spans, in the virtual time of the shard."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from groupd.coordinator.core.types import Event, EventKind, Outcome
from groupd.coordinator.history.rebalance import FoldLimits
from groupd.coordinator.tracing import traces
from groupd.coordinator.tracing.spans import Span
from tests.unit.classic_group.harness import Bench
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

MS = 1_000_000


class Counted:
    """Identifiers in order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def generate_trace_id(self) -> int:
        return next(self._numbers)

    def generate_span_id(self) -> int:
        return next(self._numbers)


class Traces:
    """What traces are finished, checked as it comes: roots last, children within their root."""

    def __init__(self, per_second: int = 1000, limits: FoldLimits | None = None) -> None:
        self.made = traces.Traces(Counted(), per_second, limits)
        self.spans: list[Span] = []

    def take(self, events: Iterable[Event], at_ns: int) -> None:
        self._add(self.made.take(list(events), at_ns))

    def stop(self, at_ns: int) -> None:
        self._add(self.made.stop(at_ns))

    def _add(self, spans: list[Span]) -> None:
        waiting: list[Span] = []
        for span in spans:
            assert span.begin_ns <= span.end_ns, span
            if span.parent_id:
                waiting.append(span)
                continue
            for child in waiting:
                assert (child.trace_id, child.parent_id) == (span.trace_id, span.span_id)
                assert span.begin_ns <= child.begin_ns <= child.end_ns <= span.end_ns, child
            waiting.clear()
        assert waiting == []
        self.spans += spans

    @property
    def roots(self) -> list[Span]:
        return [span for span in self.spans if not span.parent_id]

    def outcomes(self) -> list[object]:
        return [root.attributes["groupd.outcome"] for root in self.roots]

    def below(self, root: Span) -> list[Span]:
        return [span for span in self.spans if span.parent_id == root.span_id]

    def shape(self, root: Span) -> list[tuple[object, ...]]:
        """The children: name, member, milliseconds from the beginning of the root."""
        return [
            (
                span.name,
                span.attributes.get("groupd.member.id", ""),
                (span.begin_ns - root.begin_ns) // MS,
                (span.end_ns - root.begin_ns) // MS,
            )
            for span in self.below(root)
        ]


class TracedShard(Shard):
    """A shard with consumer groups."""

    def __init__(self, partitions: int = 4, **settings: Any) -> None:
        super().__init__(topic("foo", FOO, partitions), **settings)
        self.traces = Traces()

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.traces.take(outcome.events, self.now.wall_ms * MS)


class TracedBench(Bench):
    """A shard with classic groups."""

    def __init__(self, **settings: Any) -> None:
        self.traces = Traces()
        super().__init__(**settings)

    def settle(self, outcome: Outcome) -> None:
        self.traces.take(outcome.events, self.now.wall_ms * MS)
        super().settle(outcome)


def event(
    kind: EventKind, member: str = "", epoch: int = -1, cause: str = "", **details: Any
) -> Event:
    group = details.pop("group", GROUP)
    return Event(details.pop("group_type", "consumer"), kind, group, member, epoch, cause, details)


def begun(epoch: int, members: int, group: str = GROUP) -> list[Event]:
    """A new epoch of a consumer group and its target, in one input."""
    return [
        event(EventKind.GROUP_EPOCH_BUMPED, "m1", epoch, "member m1 joined", group=group),
        event(
            EventKind.TARGET_INSTALLED,
            epoch=epoch,
            assignor="uniform",
            moved_members=members,
            members=members,
            group=group,
        ),
    ]


def reached(member: str, epoch: int, group: str = GROUP, **partitions: list[int]) -> list[Event]:
    """The member has its whole target."""
    moved = event(EventKind.MEMBER_EPOCH_ADVANCED, member, epoch, complete=True, group=group)
    if not partitions:
        return [moved]
    named = {"partitions": partitions, "complete": True}
    return [moved, event(EventKind.PARTITIONS_ASSIGNED, member, epoch, group=group, **named)]
