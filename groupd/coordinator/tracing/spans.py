"""Spans as plain data. Times are nanoseconds since the epoch, as OTLP has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

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
