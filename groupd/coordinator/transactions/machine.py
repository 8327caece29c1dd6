"""The machine of a shard of transactional ids: a `TransactionTable` that speaks in outcomes.

An input is a decided `Change`. Its record counts once it is durable, as in Kafka, where the change
is made in the callback of the append: until then the id is pending (`table`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
)
from groupd.coordinator.transactions.metadata import Change, TransactionMetadata
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.schema import Record

OWNER = "transactions"

TransactionRecord = tuple[str, TransactionMetadata | None]
"""A transactional id and its metadata; None: the id is forgotten. See `log_records`."""


class TransactionMachine:
    """A `runtime.machine.Machine`. It has no deadlines, no tasks, and parks nothing: the
    coordinator of the node has one alarm for the ids of all shards."""

    def __init__(self, table: TransactionTable) -> None:
        self.table = table

    def handle(self, context: RequestContext, request: Change, now: Instant) -> Outcome:
        """`request` is a change that the table has begun. Its answer is given once its record is
        durable."""
        return Outcome(
            records=_records(request.transactional_id, request.metadata),
            replies=[(context.token, request.answer)],
            completion=Completion(OWNER, request),
        )

    def rewrite(self, transactional_id: str, metadata: TransactionMetadata) -> Outcome:
        """The present record of an id once more, so that older ones are not needed."""
        return Outcome(records=_records(transactional_id, metadata))

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        change: Change = completion.data
        if error is None:
            self.table.applied(change)
        elif change.transactional_id in self.table.entries:
            self.table.refused(change)
        return Outcome()

    def replay_all(
        self,
        records: Iterable[TransactionRecord],
        offsets: Iterable[int],
        producer: tuple[int, int] | None,
    ) -> None:
        """Live: the records have their places in the log. (A load replays into the table.)"""
        for (transactional_id, _), offset in zip(records, offsets, strict=False):
            self.table.entries[transactional_id].offset = offset

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        return Outcome()

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        return Outcome()

    def answered(self, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
        return Outcome()

    def unload(self) -> Outcome:
        return Outcome()

    def discard(self) -> None:
        pass

    def next_deadline(self) -> int | None:
        return None

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        return []

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        pass


def _records(transactional_id: str, metadata: TransactionMetadata | None) -> list[Record]:
    """One record of this log. Outcomes are typed for records of groups."""
    return cast("list[Record]", [(transactional_id, metadata)])
