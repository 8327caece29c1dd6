"""A rebalance that has ended as the spans of a trace: plain data, times and identifiers are given.

The root span lasts as long as the rebalance. Below it there are its phases and the parts of its
members. Times are nanoseconds since the epoch, as OTLP has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from groupd.coordinator.core.types import Event
from groupd.coordinator.history.rebalance import GroupRebalance, MemberPart
from groupd.coordinator.history.rebalance_text import cause_text

Value = str | int | bool | tuple[str, ...]
Attributes = Mapping[str, Value]


class Note(Struct, frozen=True):
    """Something that happened at one moment of a span."""

    name: str
    at_ns: int
    attributes: Attributes


class Link(Struct, frozen=True):
    """A span of another trace."""

    trace_id: int
    span_id: int


class Span(Struct, frozen=True):
    """A finished span. `parent_id` 0: the root of its trace. `error`: why it failed, "" if it did
    not."""

    trace_id: int
    span_id: int
    parent_id: int
    name: str
    begin_ns: int
    end_ns: int
    attributes: Attributes
    error: str = ""
    notes: tuple[Note, ...] = ()
    links: tuple[Link, ...] = ()


class Ids(Protocol):
    """Makes identifiers; the library's own generator has this form."""

    def generate_trace_id(self) -> int: ...

    def generate_span_id(self) -> int: ...


def spans_of(
    rebalance: GroupRebalance,
    root: Link,
    following: Link | None,
    ids: Ids,
    traces_left_out: int,
) -> list[Span]:
    """The spans of a rebalance that has ended, by their begin, and the root last. `root`: the
    identifiers of the root; `following`: those of the trace of the rebalance that superseded it."""

    def child(name: str, begin_ns: int, end_ns: int, facts: Attributes, error: str = "") -> Span:
        trace_id, parent_id = root.trace_id, root.span_id
        span_id = ids.generate_span_id()
        return Span(trace_id, span_id, parent_id, name, begin_ns, end_ns, facts, error)

    until = rebalance.until
    assert until is not None
    assert rebalance.end is not None
    phases = [
        child(one.name, one.since, one.until, _named(one.facts or {"unfinished": True}))
        for one in rebalance.phases
    ]
    parts = [
        child(one.kind.value, one.since, one.until or until, _facts(one), one.left * one.fenced)
        for one in rebalance.parts
    ]
    counts = {
        "partitions_assigned": rebalance.assigned,
        "partitions_revoked": rebalance.revoked,
        "members_fenced": rebalance.fenced,
        "spans_left_out": rebalance.parts_left_out,
        "traces_left_out": traces_left_out,
    }
    facts = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": rebalance.group_id,
        "groupd.group.type": rebalance.group_type,
        "groupd.epoch": rebalance.epoch,
        "groupd.cause": cause_text(rebalance),
        "groupd.outcome": rebalance.end.value,
        "groupd.members": rebalance.members or 0,
        **_named({name: number for name, number in counts.items() if number}),
    }
    children = sorted([*phases, *parts], key=lambda one: one.begin_ns)
    notes = tuple(_note(at_ns, event) for at_ns, event in rebalance.steps)
    links = () if following is None else (following,)
    trace_id, span_id, since = root.trace_id, root.span_id, rebalance.since
    whole = Span(trace_id, span_id, 0, "rebalance", since, until, facts, "", notes, links)
    return [*children, whole]


def _facts(part: MemberPart) -> Attributes:
    facts: dict[str, Value] = {"member.id": part.member_id}
    if part.rebalance_timeout_ms is not None:
        facts["rebalance_timeout_ms"] = part.rebalance_timeout_ms
    if part.count:
        facts |= {"partitions": tuple(part.partitions), "partitions.count": part.count}
    if part.left:
        facts["left"] = part.left
    if not part.finished:
        facts["unfinished"] = True
    return _named(facts)


def _note(at_ns: int, event: Event) -> Note:
    facts: dict[str, Value] = {"cause": event.cause}
    if event.member_id:
        facts["member.id"] = event.member_id
    if event.epoch >= 0:
        facts["epoch"] = event.epoch
    return Note(event.kind.value, at_ns, _named(facts))


def _named(facts: Attributes) -> Attributes:
    return {f"groupd.{name}": value for name, value in facts.items()}
