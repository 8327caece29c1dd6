"""Notes which clients have sent requests to the broker, which groups they named, and which request
each client sent last.

This is the outermost layer between the connections and the broker, so it also sees requests that a
fault holds back.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.types import Instant
from groupd.coordinator.faults.layer import groups_of
from groupd.coordinator.faults.traffic import watch
from groupd.coordinator.security.audit import AuditedDecision
from groupd.coordinator.server.slot import ClientConnection, Requests, Slot
from groupd.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from groupd.protocol.wire.registry import Api

CONNECTIONS_MAX = 1000
GROUPS_MAX = 2000
TOPICS_MAX = 200
SHOWN_MAX = 10
DENIALS_MAX = 100
DENIALS_SHOWN = 5
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class _Seen(Struct):
    """One connection. `asked`: the API of its last request, which came at `at_ms` (monotonic)."""

    client_id: str
    asked: str
    at_ms: int
    requests: int = 0
    software: str = ""


class Clients:
    """The connections and their last requests. At most `CONNECTIONS_MAX` are kept; the connection
    that has been quiet for longest is forgotten first. `groups`: the groups that requests have
    named, at most `GROUPS_MAX`, the latest last; `topics`: likewise the topics that Metadata
    requests have named, at most `TOPICS_MAX`. `now`: real time. `asked(client_id, request)` is
    called for every request."""

    def __init__(self, now: Callable[[], Instant], asked: Callable[[str, Any], None]) -> None:
        self._now = now
        self._asked = asked
        self._seen: OrderedDict[ClientConnection, _Seen] = OrderedDict()
        self.groups: OrderedDict[str, None] = OrderedDict()
        self.topics: OrderedDict[str, None] = OrderedDict()

    def wrap(self, inner: Requests) -> Requests:
        return _Layer(inner, self)

    def forget(self) -> None:
        """Forget all connections: a new broker starts, and no client is connected to it yet."""
        self._seen.clear()

    def note(self, slot: Slot, api: Api, request: Any) -> None:
        now_ms = self._now().monotonic_ms
        client_id = slot.header.client_id or ""
        seen = self._seen.get(slot.connection)
        if seen is None:
            seen = self._seen[slot.connection] = _Seen(client_id, api.name, now_ms)
        self._seen.move_to_end(slot.connection)
        seen.client_id, seen.asked, seen.at_ms = client_id, api.name, now_ms
        seen.requests += 1
        if isinstance(request, ApiVersionsRequest):
            software = (request.client_software_name, request.client_software_version)
            seen.software = " ".join(filter(None, software))
        if len(self._seen) > CONNECTIONS_MAX:
            self._seen.popitem(last=False)
        self._asked(client_id, request)
        _keep(self.groups, groups_of(request), GROUPS_MAX)
        if isinstance(request, MetadataRequest) and request.topics is not None:
            _keep(self.topics, (name for name, _ in request.topics if name), TOPICS_MAX)

    def text(self) -> str:
        """The open connections as text, the most recently active first. If none is open, the text
        says how many were closed."""
        now_ms = self._now().monotonic_ms
        lines = [
            f"  {seen.client_id or '(no client id)'}"
            + (f" ({seen.software})" if seen.software else "")
            + f": {seen.requests} requests, last {seen.asked} "
            + f"{(now_ms - seen.at_ms) / 1000:.1f} s ago"
            for connection, seen in reversed(self._seen.items())
            if not connection.closed
        ]
        closed = len(self._seen) - len(lines)
        shown = lines[:SHOWN_MAX]
        if len(lines) > SHOWN_MAX:
            shown.append(f"  ... {len(lines) - SHOWN_MAX} more connections")
        if not lines:
            return f"clients: none is connected ({closed} were)" if closed else "clients: none"
        return "\n".join(["clients:", *shown])


def _keep(known: OrderedDict[str, None], names: Iterable[str], most: int) -> None:
    for name in names:
        known[name] = None
        known.move_to_end(name)
    while len(known) > most:
        known.popitem(last=False)


class _Layer:
    """A `Requests` that notes every request on its way to the broker."""

    def __init__(self, inner: Requests, clients: Clients) -> None:
        self._inner = inner
        self._clients = clients

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        note = partial(self._clients.note, slot, api, request)
        note()
        watch(slot, note)
        self._inner.submit(slot, api, request)

    def forget(self, slot: Slot) -> None:
        self._inner.forget(slot)


class Denials:
    """Counts what the ACLs have refused to clients: how many times each of the last `DENIALS_MAX`
    different denials occurred, the latest last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, decision: AuditedDecision) -> None:
        key = (_right(decision), decision.api or "a request")
        self._seen[key] = self._seen.get(key, 0) + 1
        self._seen.move_to_end(key)
        if len(self._seen) > DENIALS_MAX:
            self._seen.popitem(last=False)

    def lines(self) -> list[str]:
        """The latest denials as lines of text, under a heading; empty if there were none."""
        latest = list(reversed(self._seen.items()))[:DENIALS_SHOWN]
        shown = [f"  {api}: {right} ({count} times)" for (right, api), count in latest]
        return ["refused by the ACLs:", *shown] if shown else []


def _right(decision: AuditedDecision) -> str:
    """The denied right, written like a rule of `add_acls`."""
    kind, _, name = decision.resource.split(":", 2)
    operation = _WORD.sub("_", decision.operation).upper()
    who = decision.principal.removeprefix("User:")
    return f"{who} may not {operation} {_WORD.sub('-', kind).lower()} {name}"
