"""The routes of requests whose effect is written to the audit log: OffsetDelete, DeleteGroups, and
commits by clients that are not members, in a transaction or not (docs/spec/security.md#7).

A line is written when the reply says that the change was made, before the reply is sent. It is
written as well if the client hangs up early. Without an authorizer no client is audited, and the
plain routes (`groupd.coordinator.runtime.routes`) are used. What an operator does at the console is
always audited, by the code that makes the requests (`groupd.coordinator.moves.own_broker`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.offsets.commit import CommitRequest
from groupd.coordinator.core.slices import WORK_ITEMS, Pace, Steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, Dispatch, Route
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
"""Writing a line counts as this many items of `slices.Pace`."""

FEW_TOPICS = 16
"""A commit with at most this many topics is checked before it is carried out for whether it needs
audit lines. With more topics only its reply is searched, in slices."""

Note = Callable[[RequestContext, Any, Any], Steps[None]]
"""(context, request, reply): writes the audit lines for what has been changed."""


def audited(routes: Mapping[type, Route], audit: Audit) -> dict[type, Route]:
    """Returns `routes`, in which the audited ones write to the audit log."""
    notes = _Notes(audit)
    found = dict(routes)
    for kind, note in (
        (OffsetDeleteRequest, notes.offsets_deleted),
        (DeleteGroupsRequest, notes.groups_deleted),
        (OffsetCommitRequest, notes.offsets_reset),
        (TxnOffsetCommitRequest, notes.offsets_reset),
    ):
        route = found[kind]
        found[kind] = replace(route, dispatch=_noted(route.dispatch, note, audit))
    return found


def _noted(dispatch: Dispatch, note: Note, audit: Audit) -> Dispatch:
    def go(broker: Broker, context: RequestContext, request: Any) -> None:
        if context.access.audited_by_asker or (
            isinstance(request, CommitRequest) and not _may_have_lines(audit, context, request)
        ):
            dispatch(broker, context, request)
            return
        waiter = _Noted(broker, context, request, note)
        dispatch(broker, broker.part(context, waiter), request)

    return go


def _may_have_lines(audit: Audit, context: RequestContext, request: CommitRequest) -> bool:
    """Whether the commit may need lines in the audit log. Consumers that choose their partitions
    themselves commit often, but seldom need one."""
    if not _is_reset(request):
        return False
    topics = [topic.name for topic in request.topics[:FEW_TOPICS]]
    if not all(topics) or len(request.topics) > FEW_TOPICS:
        return True
    return not audit.leaves_out_resets(context, request.group_id, topics)


def _is_reset(request: CommitRequest) -> bool:
    """Whether the client commits as a non-member. A group that has members refuses such a
    commit."""
    return request.generation_or_epoch < 0 and not request.member_id


class _Noted(Waiter):
    """Writes to the audit log, then answers the client, which may be gone by then."""

    __slots__ = ("_broker", "_context", "_note")

    def __init__(self, broker: Broker, context: RequestContext, request: Any, note: Note) -> None:
        super().__init__(request, context.token.failure)
        self._broker = broker
        self._context = context
        self._note = note

    def block_connection(self) -> None:
        self._context.token.block_connection()

    def send(self, reply: Any) -> None:
        self._broker.work.answer(self._context.token, self._noted(reply))

    def on_no_reply(self) -> None:
        client = self._context.token
        client.forget()
        client.on_no_reply()

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
        request: CommitRequest,
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
    """Returns the offsets that the request commits: topic (its name, or its id if the request has
    only the id) -> partition -> offset."""
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
    """Returns the partitions for which the reply has no error: (name, id) of the topic ->
    partitions."""
    pace = Pace()
    found: dict[tuple[str, TopicId], list[int]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if pace.due():
                yield
            if partition.error == ErrorCode.NONE:
                found.setdefault((topic.name, topic.topic_id), []).append(partition.partition)
    return found
