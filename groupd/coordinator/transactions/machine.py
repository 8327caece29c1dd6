"""The machine of a shard of transactional ids: a `TransactionTable` that speaks in outcomes.

An input is a decided `TransactionChange`. Its record counts once it is durable, as in Kafka, where
the change is made in the callback of the append: until then the id is pending (`table`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Instant,
    Outcome,
    RequestContext,
)
from groupd.coordinator.runtime.machine import QuietMachine
from groupd.coordinator.transactions.metadata import TransactionChange, TransactionMetadata
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.schema import Record

OWNER = "transactions"

TransactionRecord = tuple[str, TransactionMetadata | None]
"""A transactional id and its metadata; None: the id is forgotten. See `log_records`."""


class TransactionMachine(QuietMachine):
    """A `runtime.machine.Machine`. It has no deadlines, no tasks, and parks nothing: the
    coordinator of the node has one alarm for the ids of all shards."""

    def __init__(self, table: TransactionTable) -> None:
        self.table = table

    def handle(self, context: RequestContext, request: TransactionChange, now: Instant) -> Outcome:
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
        change: TransactionChange = completion.data
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


def _records(transactional_id: str, metadata: TransactionMetadata | None) -> list[Record]:
    """One record of this log. Outcomes are typed for records of groups."""
    return cast("list[Record]", [(transactional_id, metadata)])
