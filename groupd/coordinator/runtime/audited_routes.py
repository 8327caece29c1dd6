"""The routes of requests whose effect the audit log names: OffsetDelete, DeleteGroups, and commits
by clients that are no members, in a transaction or not (docs/spec/security.md#7).

A line is written when the reply says that it happened, before the reply is sent. A client that
hangs up early changes nothing about that. Without an authorizer no client is audited, and the plain
routes (`groupd.coordinator.runtime.routes`) serve. An operator at the console has lines in either
case, from who makes these requests (`groupd.coordinator.moves.own_broker`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.slices import WORK_ITEMS, Pace, Steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, HandOn, Route
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.security.audit import Audit
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.groups import DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.messages.offsets import (
    CommitTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)

LINE_WEIGHT = WORK_ITEMS // 16
"""Writing a line counts as this many items of `slices.Work`."""

FEW_TOPICS = 16
"""Only a commit of so few topics is checked for lines before it is carried out. For a larger one
the reply is looked through in slices."""

Commit = OffsetCommitRequest | TxnOffsetCommitRequest

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
        (TxnOffsetCommitRequest, notes.offsets_reset),
    ):
        route = found[kind]
        found[kind] = replace(route, place=_noted(route.place, note, audit))
    return found


def _noted(place: HandOn, note: Note, audit: Audit) -> HandOn:
    def go(broker: Broker, context: RequestContext, request: Any) -> None:
        if context.access.audited_by_asker or (
            isinstance(request, Commit) and not _may_have_lines(audit, context, request)
        ):
            place(broker, context, request)
            return
        waiter = _Noted(broker, context, request, note)
        place(broker, broker.part(context, waiter), request)

    return go


def _may_have_lines(audit: Audit, context: RequestContext, request: Commit) -> bool:
    """Whether the commit may have lines in the audit log. Consumers that choose their partitions
    themselves commit often, but seldom have a line."""
    if not _is_reset(request):
        return False
    topics = [topic.name for topic in request.topics[:FEW_TOPICS]]
    if not all(topics) or len(request.topics) > FEW_TOPICS:
        return True
    return not audit.leaves_out_resets(context, request.group_id, topics)


def _is_reset(request: Commit) -> bool:
    """Whether the client says that it is no member. A group with members refuses that."""
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
        pace = Pace()
        for group in reply.results:
            if pace.due(LINE_WEIGHT):
                yield
            if group.error == ErrorCode.NONE:
                self._audit.group_deleted(by, group.group_id)

    def offsets_deleted(
        self, by: RequestContext, request: OffsetDeleteRequest, reply: OffsetDeleteReply
    ) -> Steps[None]:
        pace = Pace()
        for (topic, _), partitions in (yield from _done(reply.topics)).items():
            if pace.due(LINE_WEIGHT):
                yield
            self._audit.offsets_deleted(by, request.group_id, topic, partitions)

    def offsets_reset(
        self,
        by: RequestContext,
        request: Commit,
        reply: OffsetCommitReply | TxnOffsetCommitReply,
    ) -> Steps[None]:
        pace = Pace()
        transaction = (
            request.transactional_id if isinstance(request, TxnOffsetCommitRequest) else None
        )
        asked = yield from _asked(request.topics)
        for (topic, topic_id), partitions in (yield from _done(reply.topics)).items():
            wanted = asked[topic] if topic in asked else asked[topic_id]
            offsets = {}
            for partition in partitions:
                if pace.due():
                    yield
                offsets[partition] = wanted[partition]
            if pace.due(LINE_WEIGHT):
                yield
            self._audit.offsets_reset(by, request.group_id, topic, offsets, transaction)


def _asked(topics: Sequence[CommitTopic]) -> Steps[dict[str | TopicId, dict[int, int]]]:
    """The offsets that the request commits: topic (its name, or its id if the request has only
    that) -> partition -> offset."""
    pace = Pace()
    found: dict[str | TopicId, dict[int, int]] = {}
    for topic in topics:
        offsets = found.setdefault(topic.name or topic.topic_id, {})
        for partition in topic.partitions:
            if pace.due():
                yield
            offsets[partition.partition] = partition.offset
    return found


def _done(topics: Sequence[TopicErrors]) -> Steps[dict[tuple[str, TopicId], list[int]]]:
    """The partitions for which the reply has no error: (name, id) of the topic -> partitions."""
    pace = Pace()
    found: dict[tuple[str, TopicId], list[int]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if pace.due():
                yield
            if partition.error == ErrorCode.NONE:
                found.setdefault((topic.name, topic.topic_id), []).append(partition.partition)
    return found
