"""The audit log: which client was denied what, and which one changed what
(docs/spec/security.md#7).

Its lines are structured events of the logger `groupd.audit`, each with the field `log=audit`.
Denials are at INFO and grants at DEBUG. Changes are at INFO too, and each has its line, with one
exception: commits by clients that are no members of the group. They may be an operator's reset, but
consumers that choose their partitions themselves commit in the same way, every few seconds. So one
client has one line for a topic in a window.

An order at the console is no such commit: each has its line. If the coordinator has not answered,
the line says that the change was only ordered.

A line has at most `PLACES_MAX` partitions, because longer lines are cut off in the log. More
partitions have several lines. A check for which the client did not name the resource has no line.
No line has a secret.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from logging import DEBUG
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.core.slices import chunks
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.protocol.messages.acls import AclBinding

LOG = "audit"
"""The value of the field `log` in every line."""

WINDOW_S = 10.0
"""Equal denials have one line in a window of this many seconds."""
LINES_MAX = 100
"""The most lines for denials in a window."""
RESETS_MAX = 1000
"""The most lines for resets of offsets in a window."""
PLACES_MAX = 100
"""The most partitions in a line."""

log = structlog.get_logger("groupd.audit", log=LOG)


class AuditedDecision(Struct, frozen=True):
    """A decision of the authorizer: which client was denied or granted what. Denials with equal
    fields have one line in a window. `api`: the name of the request's API; "" if the check is not
    for a request."""

    principal: str
    client: str
    operation: str
    resource: str
    api: str
    rule: str


class _Window:
    """The lines that have been written in a window. `left_out`: the event of the line that says how
    many lines were left out."""

    def __init__(self, most: int, left_out: str) -> None:
        self._most = most
        self._left_out = left_out
        self._until = 0.0
        self._seen: set[Hashable] = set()
        self._count = 0

    def has_room(self, line: Hashable, now: float) -> bool:
        """Whether to write the line. Counts it as left out if not."""
        if now >= self._until:
            self._until = now + WINDOW_S
            self._seen.clear()
            if self._count:
                log.info(self._left_out, count=self._count)
                self._count = 0
        if line in self._seen or len(self._seen) >= self._most:
            self._count += 1
            return False
        self._seen.add(line)
        return True

    def leaves_out(self, lines: Sequence[Hashable], now: float) -> bool:
        """Whether none of the lines would be written. If so, they count as left out."""
        if now >= self._until:
            return False
        if len(self._seen) < self._most and not self._seen.issuperset(lines):
            return False
        self._count += len(lines)
        return True


class Audit:
    """Writes the lines of the audit log. `elapsed()`: a clock in seconds."""

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._elapsed = elapsed
        self._denials = _Window(LINES_MAX, "denials left out")
        self._resets = _Window(RESETS_MAX, "resets of offsets left out")
        self.listeners: list[Callable[[AuditedDecision], None]] = []
        """They are called with every denial, also with those that have no line."""
        self.grants = False
        """Whether grants are written. Code that checks rights looks at this first."""

    def look_at_level(self) -> None:
        """Finds out whether the log takes lines at DEBUG."""
        logger = log.bind()
        enabled = getattr(logger, "is_enabled_for", None) or getattr(logger, "isEnabledFor", None)
        self.grants = enabled is not None and bool(enabled(DEBUG))

    # Decisions ----------------------------------------------------------------------------

    def denied(self, decision: AuditedDecision) -> None:
        for listener in self.listeners:
            listener(decision)
        if self._denials.has_room(decision, self._elapsed()):
            log.info("denied", **_facts(decision))

    def granted(self, decision: AuditedDecision) -> None:
        log.debug("granted", **_facts(decision))

    # Changes ------------------------------------------------------------------------------

    def acl_created(self, by: RequestContext, acl: AclBinding) -> None:
        self._changed("ACL created", by, acl=acl_text(acl))

    def acl_deleted(self, by: RequestContext, acl: AclBinding) -> None:
        self._changed("ACL deleted", by, acl=acl_text(acl))

    def user_changed(self, by: RequestContext, user: str, mechanism: str, *, deleted: bool) -> None:
        """Writes that a SCRAM credential was set or deleted."""
        event = "user's credential deleted" if deleted else "user's credential set"
        self._changed(event, by, user=user, mechanism=mechanism)

    def quota_changed(self, by: RequestContext, entity: str, key: str, value: float | None) -> None:
        """Writes that a quota was set, or removed (`value` None). `entity`: in words, such as "user
        alice, client-id *"."""
        event = "quota removed" if value is None else "quota set"
        self._changed(event, by, entity=entity, key=key, value=value)

    def offsets_deleted(
        self,
        by: RequestContext,
        group: str,
        topic: str,
        partitions: Sequence[int],
        *,
        known: bool = True,
    ) -> None:
        """Writes that the offsets of `partitions` were deleted. `known` False: it is not known
        whether they were."""
        event, facts = _event("offsets deleted", known)
        for some in chunks(partitions, PLACES_MAX):
            self._changed(event, by, group=group, topic=topic, partitions=some, **facts)

    def offsets_moved(
        self,
        by: RequestContext,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        *,
        known: bool = True,
    ) -> None:
        """Writes that an operator at the console has set offsets. `offsets`: by partition. `known`
        False: it is not known whether they were set."""
        event, facts = _event("offsets reset", known)
        for some in chunks(offsets.items(), PLACES_MAX):
            self._changed(event, by, group=group, topic=topic, offsets=dict(some), **facts)

    def offsets_reset(
        self,
        by: RequestContext,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        transactional_id: str | None = None,
    ) -> None:
        """Writes that a client which is no member of the group has set offsets. `offsets`: by
        partition. `transactional_id`: the transaction that sets them if it is committed. One client
        has one line for a topic in a window."""
        if not self._resets.has_room(_reset(by, group, topic), self._elapsed()):
            return
        facts: dict[str, Any] = {"group": group, "topic": topic, "offsets": offsets}
        if transactional_id is not None:
            facts["transactional_id"] = transactional_id
        self._changed("offsets reset", by, **facts)

    def leaves_out_resets(self, by: RequestContext, group: str, topics: Sequence[str]) -> bool:
        """Whether `offsets_reset` would write no line for any of these topics. If so, they count as
        left out."""
        lines = [_reset(by, group, topic) for topic in topics]
        return self._resets.leaves_out(lines, self._elapsed())

    def group_deleted(self, by: RequestContext, group: str) -> None:
        self._changed("group deleted", by, group=group)

    def _changed(self, event: str, by: RequestContext, **facts: Any) -> None:
        shown = {
            name: plain(value) if isinstance(value, str) else value for name, value in facts.items()
        }
        log.info(event, principal=plain(by.principal), client=by.client_host, **shown)


def _event(done: str, known: bool) -> tuple[str, dict[str, str]]:
    """The event and the additional fields of a line about an order of an operator."""
    return (done, {}) if known else (f"{done}: ordered", {"outcome": "not known"})


def _reset(by: RequestContext, group: str, topic: str) -> Hashable:
    """The key of a line. Resets with equal keys have one line in a window."""
    return by.principal, by.client_host, group, topic


def resource_text(resource: int, name: str, pattern: int = PatternType.LITERAL) -> str:
    """`Topic:LITERAL:orders`, as Kafka's audit log writes it."""
    return f"{_camel(Resource(resource).name)}:{PatternType(pattern).name}:{name}"


def operation_text(operation: int) -> str:
    """`DescribeConfigs`, as Kafka's audit log writes it."""
    return _camel(Operation(operation).name)


def api_text(request: type | None) -> str:
    """`OffsetCommit`, as Kafka's audit log writes it."""
    return "" if request is None else request.__name__.removesuffix("Request")


def acl_text(acl: AclBinding) -> str:
    """`ALLOW User:alice from * Read on Topic:LITERAL:orders`."""
    return (
        f"{Permission(acl.permission).name} {acl.principal} from {acl.host} "
        f"{operation_text(acl.operation)} on "
        f"{resource_text(acl.resource_type, acl.name, acl.pattern)}"
    )


def _facts(decision: AuditedDecision) -> dict[str, str]:
    return {
        "principal": plain(decision.principal),
        "operation": decision.operation,
        "resource": plain(decision.resource),
        "api": decision.api,
        "client": decision.client,
        "rule": plain(decision.rule),
    }


def plain(text: str) -> str:
    """The text without control characters. Clients choose names, and no name may look like a line
    of the log."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
