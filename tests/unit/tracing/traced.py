"""Shards whose events are folded into spans, in the virtual time of the shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as Note
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import IdGenerator

from groupd.coordinator.core.types import Event, EventKind, Outcome
from groupd.coordinator.history.rebalance import GroupRebalance
from groupd.coordinator.tracing import traces
from groupd.coordinator.tracing.otlp import SpanMaker
from tests.unit.classic_group.harness import Bench
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

MS = 1_000_000


class Counted(IdGenerator):
    """Identifiers in order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def generate_trace_id(self) -> int:
        return next(self._numbers)

    def generate_span_id(self) -> int:
        return next(self._numbers)


class Span(Struct, frozen=True):
    """A span of the library, with what tests look at. `parent_id` 0: a root."""

    trace_id: int
    span_id: int
    parent_id: int
    name: str
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    error: str
    notes: Sequence[Note]
    links: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, span: ReadableSpan) -> Span:
        context, parent = span.context, span.parent
        assert context is not None
        assert span.start_time is not None
        assert span.end_time is not None
        return cls(
            context.trace_id,
            context.span_id,
            0 if parent is None else parent.span_id,
            span.name,
            span.start_time,
            span.end_time,
            dict(span.attributes or {}),
            span.status.description or "",
            span.events,
            [(link.context.trace_id, link.context.span_id) for link in span.links],
        )


class Traces:
    """The traces that are finished, checked as they come: roots last, children within their
    root."""

    def __init__(self, per_second: int = 1000) -> None:
        self.made = traces.Traces(per_second)
        self.maker = SpanMaker(Counted(), Resource({}))
        self.spans: list[Span] = []

    def take(self, events: Iterable[Event], at_ns: int) -> None:
        self._add(self.made.take(list(events), at_ns))

    def stop(self, at_ns: int) -> None:
        self._add(self.made.stop(at_ns))

    def _add(self, ended: list[GroupRebalance]) -> None:
        for one in ended:
            *children, root = map(Span.of, self.maker.spans(one, self.made.left_out()))
            assert not root.parent_id
            assert root.begin_ns <= root.end_ns
            for child in children:
                assert (child.trace_id, child.parent_id) == (root.trace_id, root.span_id)
                assert root.begin_ns <= child.begin_ns <= child.end_ns <= root.end_ns, child
            self.spans += [*children, root]

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
