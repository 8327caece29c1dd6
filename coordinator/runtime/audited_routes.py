"""The routes of requests whose effect the audit log names: OffsetDelete, DeleteGroups, and commits
by clients that are no members (docs/spec/security.md#7).

A line is written when the reply says that it happened, before the reply is sent. A client that
hangs up early changes nothing about that. Without an authorizer nobody is audited, and the plain
routes (`groupd.coordinator.runtime.routes`) serve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.slices import WORK_ITEMS, Steps, Work
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, Place, Route
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.security.audit import Audit
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    TopicErrors,
)

LINE_WEIGHT = WORK_ITEMS // 16
"""To write a line counts as so many items of `slices.Work`."""

Note = Callable[[RequestContext, Any, Any], Steps[None]]
"""(context, request, reply): writes what has happened."""


def audited(routes: Mapping[type, Route], audit: Audit) -> dict[type, Route]:
    """The same routes, of which some write to the audit log."""
    notes = _Notes(audit)
    found = dict(routes)
    for kind, note in (
        (OffsetDeleteRequest, notes.offsets_deleted),
        (DeleteGroupsRequest, notes.groups_deleted),
        (OffsetCommitRequest, notes.offsets_reset),
    ):
        route = found[kind]
        found[kind] = replace(route, place=_noted(route.place, note))
    return found


def _noted(place: Place, note: Note) -> Place:
    def go(broker: Broker, context: RequestContext, request: Any) -> None:
        if isinstance(request, OffsetCommitRequest) and not _is_reset(request):
            place(broker, context, request)
            return
        waiter = _Noted(broker, context, request, note)
        place(broker, broker.part(context, waiter), request)

    return go


def _is_reset(request: OffsetCommitRequest) -> bool:
    """Whether the client says that it is no member. It is told so if the group has members."""
    return request.generation_or_epoch < 0 and not request.member_id


class _Noted(Waiter):
    """Writes to the audit log, then answers the client, which may have gone by then."""

    __slots__ = ("_broker", "_context", "_note")

    def __init__(self, broker: Broker, context: RequestContext, request: Any, note: Note) -> None:
        super().__init__(request, context.token.failure)
        self._broker = broker
        self._context = context
        self._note = note

    def hold(self) -> None:
        self._context.token.hold()

    def send(self, reply: Any) -> None:
        self._broker.work_on(self._context.token, self._noted(reply))

    def lose(self) -> None:
        client = self._context.token
        client.forget()
        client.lose()

    def _noted(self, reply: Any) -> Steps[None]:
        yield from self._note(self._context, self.request, reply)
        self._context.token.answer(reply)


class _Notes:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def groups_deleted(
        self, by: RequestContext, _: DeleteGroupsRequest, reply: DeleteGroupsReply
    ) -> Steps[None]:
        work = Work()
        for group in reply.results:
            if work.enough(LINE_WEIGHT):
                yield
            if group.error == ErrorCode.NONE:
                self._audit.group_deleted(by, group.group_id)

    def offsets_deleted(
        self, by: RequestContext, request: OffsetDeleteRequest, reply: OffsetDeleteReply
    ) -> Steps[None]:
        found = yield from _done(reply.topics)
        yield from self._lines(self._audit.offsets_deleted, by, request.group_id, found)

    def offsets_reset(
        self, by: RequestContext, request: OffsetCommitRequest, reply: OffsetCommitReply
    ) -> Steps[None]:
        found = yield from _done(reply.topics)
        yield from self._lines(self._audit.offsets_reset, by, request.group_id, found)

    def _lines(
        self,
        write: Callable[[RequestContext, str, str, int], None],
        by: RequestContext,
        group: str,
        found: Mapping[str, int],
    ) -> Steps[None]:
        work = Work()
        for topic, partitions in found.items():
            if work.enough(LINE_WEIGHT):
                yield
            write(by, group, topic, partitions)


def _done(topics: Sequence[TopicErrors]) -> Steps[dict[str, int]]:
    """In how many partitions of each topic it happened."""
    work = Work()
    found: dict[str, int] = {}
    for topic in topics:
        for partition in topic.partitions:
            if work.enough():
                yield
            if partition.error == ErrorCode.NONE:
                found[topic.name] = found.get(topic.name, 0) + 1
    return found
