"""What the state of a share-partition gives to others: what is to be written, what is over, what is
to be copied, what is shown (docs/spec/share-group.md#4)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.coordinator.share_partitions.acquisition import LogBatch
from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.protocol.messages.share_state import ShareStateBatch


class PendingWrite(Struct, frozen=True, eq=False):
    """What is to be written to the persister. If `batches` is empty nothing needs to be written. In
    each case `InFlightRecords.confirm` or `undo` is called with it afterwards. `number`, `ranges`:
    which offsets wait for this write. `stays`: their states remain even if it fails."""

    batches: tuple[ShareStateBatch, ...]
    number: int
    ranges: Sequence[LogBatch]
    stays: bool


class FinishedRecords(Struct, frozen=True):
    """Neighbouring records that will not be delivered any more."""

    first_offset: int
    last_offset: int
    delivery_count: int
    end: DeliveryEnd


class DeadLetters(Struct, frozen=True):
    """Neighbouring records that are to be copied to the dead-letter queue. `end`: REJECTED or
    LIMIT."""

    first_offset: int
    last_offset: int
    delivery_count: int
    end: DeliveryEnd


class InFlightRange(Struct, frozen=True):
    """Neighbouring offsets in one state, for people. `member_id`, `lock_until_ms`: of the lock on
    them, also while `write_pending`: then `state` is not durable yet. `end`: None if it is not
    known or there is none."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int
    member_id: str | None
    lock_until_ms: int | None
    write_pending: bool
    end: DeliveryEnd | None
