"""One rebalance that is not over yet, and the spans that it has so far.

The root span lasts from the first event of the rebalance to its end. Below it there are the phases
(`target`; `join` and `target` of a classic group) and what single members did: `revoke` from being
told to give partitions up until that is confirmed, `assign` until a member has its whole target.
Children go out together with the root, so that the longest can be kept of a group with thousands of
members. A rebalance that is not sampled keeps count, but makes no spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappush, heappushpop

from msgspec import Struct, field

from groupd.coordinator.core.types import CLASSIC, Event
from groupd.coordinator.tracing.limits import SpanPlaces, TraceLimits
from groupd.coordinator.tracing.spans import Ids, Link, Note, Span, Value

REVOKE = "revoke"
ASSIGN = "assign"


class OpenSpan(Struct):
    name: str
    begin_ns: int
    attributes: dict[str, Value] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    count: int = 0
    """All partitions, also those that are not in `partitions`."""


class OpenRebalance:
    """`group_type`: that of the event with which it begins. `target_epoch`: -1 as long as there is
    no target. `members`: how many must reach it. `sampled`: whether its trace goes out."""

    def __init__(
        self,
        event: Event,
        begin_ns: int,
        ids: Ids,
        limits: TraceLimits,
        places: SpanPlaces,
        *,
        sampled: bool,
    ) -> None:
        self.group_id = event.group_id
        self.group_type = event.group_type
        self.sampled = sampled
        self.epoch = event.epoch
        self.target_epoch = -1
        self.members = 0
        self.converted = False
        """Whether the group has got the other type."""
        self.link = Link(ids.generate_trace_id(), ids.generate_span_id())
        self.cause = event.cause
        self._begin_ns = self._latest_ns = begin_ns
        self._target_ns = begin_ns
        self._ids = ids
        self._limits = limits
        self._places = places
        self._done: set[str] = set()
        self._completing: list[str] = []
        self._phase: OpenSpan | None = None
        self._open: dict[str, OpenSpan] = {}
        self._kept: list[tuple[bool, int, int, Span]] = []
        """The children: whether it failed, how long it took, its id, the span. A heap."""
        self._notes: list[Note] = []
        self._left_out = 0
        self._counts = {"assigned": 0, "revoked": 0, "fenced": 0}

    @property
    def latest_ns(self) -> int:
        """When something was heard of it last."""
        return self._latest_ns

    @property
    def is_complete(self) -> bool:
        """Whether every member of a consumer group has its target of the newest epoch."""
        return self.target_epoch == self.epoch and len(self._done) >= self.members

    def awaits_target(self, event: Event) -> bool:
        """Whether it has no target yet and is one of the group's type at the time of `event`."""
        return self.group_type == event.group_type and self.target_epoch < 0

    def at(self, now_ns: int) -> int:
        """The time of what happens now. A clock that was set back must not turn spans round."""
        self._latest_ns = max(self._latest_ns, now_ns)
        return self._latest_ns

    # The rebalance as a whole -------------------------------------------------------------

    def note(self, event: Event, at_ns: int) -> None:
        if not self.sampled or len(self._notes) >= self._limits.notes:
            return
        facts: dict[str, Value] = {"groupd.cause": event.cause}
        if event.member_id:
            facts["groupd.member.id"] = event.member_id
        if event.epoch >= 0:
            facts["groupd.epoch"] = event.epoch
        self._notes.append(Note(event.kind.value, at_ns, facts))

    def begin_phase(self, name: str, at_ns: int) -> None:
        self._phase = OpenSpan(name, at_ns)

    def end_phase(self, at_ns: int, **attributes: Value) -> None:
        phase, self._phase = self._phase, None
        if phase is not None:
            phase.attributes |= {f"groupd.{name}": value for name, value in attributes.items()}
            self._finish(phase, at_ns)

    def drop_phase(self) -> None:
        """There is nothing more to wait for: nobody is left."""
        self._phase = None

    def targeted(self, event: Event, at_ns: int) -> None:
        """The target of a consumer group is there: its members move towards it."""
        self.target_epoch = event.epoch
        self.epoch = max(self.epoch, event.epoch)
        self.members = event.details.get("members", 0)
        self._target_ns = at_ns
        self.end_phase(
            at_ns,
            assignor=event.details.get("assignor", ""),
            moved_members=event.details.get("moved_members", 0),
        )

    # Members of consumer groups -----------------------------------------------------------

    def revoking(self, event: Event, at_ns: int) -> None:
        """The member is told to give partitions up."""
        member_id, partitions = event.member_id, event.details.get("partitions", {})
        span = self._begin(member_id, REVOKE, at_ns)
        if span is not None:
            span.attributes["groupd.rebalance_timeout_ms"] = event.details["rebalance_timeout_ms"]
        self._counts["revoked"] += self._add_partitions(span, partitions)

    def advanced(self, event: Event, at_ns: int) -> None:
        """The member has an epoch: what it was to give up is given up."""
        member_id = event.member_id
        begin_ns = self._target_ns
        span = self._open.get(member_id)
        if span is not None and span.name == REVOKE:
            self._end(member_id, at_ns)
            begin_ns = at_ns
        if event.epoch != self.target_epoch:
            return
        self._begin(member_id, ASSIGN, begin_ns)
        if event.details.get("complete", True):
            self._completing.append(member_id)

    def assigned(self, event: Event) -> None:
        """The member gets partitions that are free."""
        span = self._open.get(event.member_id)
        partitions = event.details.get("partitions", {})
        self._counts["assigned"] += self._add_partitions(span, partitions)
        if event.epoch == self.target_epoch and event.details.get("complete", True):
            self._completing.append(event.member_id)

    def settle(self, at_ns: int) -> None:
        """All events of one input are there: those that it has completed are done."""
        for member_id in self._completing:
            self._done.add(member_id)
            span = self._open.get(member_id)
            if span is not None:
                self._end(member_id, at_ns, skip=span.begin_ns == at_ns and not span.count)
        self._completing.clear()

    def replaced(self, event: Event) -> None:
        """A static member is back under another id: its own way counts, not that of the old one."""
        self._done.discard(event.details.get("replaces", ""))

    # Members of both types ----------------------------------------------------------------

    def left(self, event: Event, at_ns: int, *, fenced: bool) -> None:
        """A member has left, or was fenced: then its span has failed."""
        member_id = event.member_id
        self._counts["fenced"] += fenced
        if fenced and member_id not in self._open and member_id not in self._done:
            self._begin_late(member_id)
        self._done.discard(member_id)
        if member_id in self._open:
            self._open[member_id].attributes["groupd.left"] = event.cause
            self._end(member_id, at_ns, event.cause if fenced else "")
        elif not fenced:
            self.note(event, at_ns)

    def _begin_late(self, member_id: str) -> None:
        """A span of a member of which nothing was heard: since the group waits for it."""
        if self.target_epoch >= 0:
            self._begin(member_id, ASSIGN, self._target_ns)
        elif self._phase is not None and self.group_type == CLASSIC:
            name = "rejoin" if self._phase.name == "join" else "sync"
            self._begin(member_id, name, self._phase.begin_ns)

    # Its end ------------------------------------------------------------------------------

    def end(
        self,
        outcome: str,
        now_ns: int,
        traces_left_out: int = 0,
        following: OpenRebalance | None = None,
    ) -> list[Span]:
        """All spans, the root last. `following`: the rebalance that takes its place; what members
        are giving up goes on there."""
        at_ns = self.at(now_ns)
        if self._phase is not None:
            self.end_phase(at_ns, unfinished=True)
        for member_id, span in list(self._open.items()):
            if following is not None and span.name == REVOKE:
                following.take_over(member_id, span, at_ns)
            span.attributes["groupd.unfinished"] = True
            self._end(member_id, at_ns)
        self._places.give_back(len(self._kept))
        children = sorted((kept[-1] for kept in self._kept), key=lambda one: one.begin_ns)
        self._kept = []
        if not self.sampled:
            return []
        return [*children, self._root(outcome, at_ns, traces_left_out, following)]

    def take_over(self, member_id: str, span: OpenSpan, at_ns: int) -> None:
        mine = self._begin(member_id, span.name, at_ns)
        if mine is not None:
            mine.attributes |= span.attributes
            mine.partitions, mine.count = span.partitions, span.count

    def _root(
        self, outcome: str, at_ns: int, traces_left_out: int, following: OpenRebalance | None
    ) -> Span:
        facts: dict[str, Value] = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": self.group_id,
            "groupd.group.type": self.group_type,
            "groupd.epoch": self.epoch,
            "groupd.cause": self.cause,
            "groupd.outcome": outcome,
            "groupd.members": self.members,
        }
        facts |= {f"groupd.{name}": count for name, count in self._figures(traces_left_out)}
        links = (following.link,) if following is not None and following.sampled else ()
        trace_id, span_id = self.link.trace_id, self.link.span_id
        begin, notes = self._begin_ns, tuple(self._notes)
        return Span(trace_id, span_id, 0, "rebalance", begin, at_ns, facts, "", notes, links)

    def _figures(self, traces_left_out: int) -> Sequence[tuple[str, int]]:
        """Numbers that are told where they are not 0."""
        figures = {
            "partitions_assigned": self._counts["assigned"],
            "partitions_revoked": self._counts["revoked"],
            "members_fenced": self._counts["fenced"],
            "spans_left_out": self._left_out,
            "traces_left_out": traces_left_out,
        }
        return [(name, number) for name, number in figures.items() if number]

    # Spans --------------------------------------------------------------------------------

    def _begin(self, member_id: str, name: str, begin_ns: int) -> OpenSpan | None:
        """The open span of the member; None: not sampled, or there is no place."""
        if not self.sampled or member_id in self._open:
            return self._open.get(member_id)
        if len(self._open) >= self._limits.members or not self._places.take():
            self._left_out += 1
            return None
        span = self._open[member_id] = OpenSpan(name, begin_ns, {"groupd.member.id": member_id})
        return span

    def _end(
        self,
        member_id: str,
        at_ns: int,
        error: str = "",
        *,
        skip: bool = False,
    ) -> None:
        """`skip`: the span tells nothing."""
        span = self._open.pop(member_id)
        self._places.give_back()
        if skip:
            return
        if span.count:
            span.attributes["groupd.partitions"] = tuple(span.partitions)
            span.attributes["groupd.partitions.count"] = span.count
        self._finish(span, at_ns, error)

    def _finish(self, open_: OpenSpan, at_ns: int, error: str = "") -> None:
        if not self.sampled:
            return
        trace_id, parent_id = self.link.trace_id, self.link.span_id
        span_id, begin_ns = self._ids.generate_span_id(), open_.begin_ns
        attributes = open_.attributes
        span = Span(trace_id, span_id, parent_id, open_.name, begin_ns, at_ns, attributes, error)
        kept = (bool(error), at_ns - begin_ns, span_id, span)
        if len(self._kept) < self._limits.spans and self._places.take():
            heappush(self._kept, kept)
            return
        self._left_out += 1
        if self._kept:
            heappushpop(self._kept, kept)

    def _add_partitions(self, span: OpenSpan | None, named: Mapping[str, Sequence[int]]) -> int:
        """Add partitions, by topic, to a span if there is one; returns how many they are."""
        count = sum(len(numbers) for numbers in named.values())
        if span is not None:
            span.count += count
            room = self._limits.partitions - len(span.partitions)
            span.partitions += _names(named, room)
        return count


def _names(named: Mapping[str, Sequence[int]], most: int) -> list[str]:
    found: list[str] = []
    for topic, numbers in named.items():
        found += [f"{topic}-{number}" for number in numbers[: max(0, most - len(found))]]
    return found
