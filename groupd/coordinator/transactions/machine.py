"""The machine of a shard of transactional ids: puts a `TransactionTable` behind the interface of
machines.

An input is a `TransactionChange` that the table has decided. It takes effect once its record is
durable, as in Kafka, where it is made in the callback of the append. Until then the id is pending
(`table`).
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
from groupd.coordinator.runtime.machine import Machine
from groupd.coordinator.transactions.metadata import TransactionChange, TransactionMetadata
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.schema import Record

OWNER = "transactions"

TransactionRecord = tuple[str, TransactionMetadata | None]
"""A transactional id and its metadata; None: the id is forgotten. `metadata.to_record` encodes
it."""


class TransactionMachine(Machine):
    """A `runtime.machine.Machine`. It has no deadlines and no tasks, and parks no request: the
    coordinator of the node has one alarm for the ids of all shards."""

    def __init__(self, table: TransactionTable) -> None:
        self.table = table

    def handle(self, context: RequestContext, request: TransactionChange, now: Instant) -> Outcome:
        """Write `request`, a change that the table has begun. It is answered when its record is
        durable."""
        return Outcome(
            records=_records(request.transactional_id, request.metadata),
            replies=[(context.token, request.answer)],
            completion=Completion(OWNER, request),
        )

    def rewrite(self, transactional_id: str, metadata: TransactionMetadata) -> Outcome:
        """Write the present record of an id once more, so that older records are not needed."""
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
        """Note the offsets of records that were just written. (A load replays into the table.)"""
        for (transactional_id, _), offset in zip(records, offsets, strict=False):
            self.table.entries[transactional_id].offset = offset


def _records(transactional_id: str, metadata: TransactionMetadata | None) -> list[Record]:
    """Returns a list with one record of this log. The cast is needed because an `Outcome` has
    records of groups."""
    return cast("list[Record]", [(transactional_id, metadata)])
