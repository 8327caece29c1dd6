"""The store of an embedded broker reports what takes effect, by the rules of the log."""

from __future__ import annotations

from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.schema import OffsetCommitValue, Record
from groupd.storage.log import Append
from groupd.testing.store import OFFSETS_LOG, WatchedStore
from tests.unit.logtools.harness import batch, commit, gone, marker

LOG = f"{OFFSETS_LOG}0"
P, Q = 7, 8


async def reported(*payloads: bytes) -> list[int | None]:
    """The committed offsets that the listeners hear of, None for a tombstone."""
    store = WatchedStore()
    await store.start()
    epoch = (await store.open(LOG)).owner_epoch
    heard: list[Record] = []
    store.listeners.append(heard.extend)
    for payload in payloads:
        header = parse_header(payload)
        await store.append([Append(LOG, epoch, header.base_offset, header.last_offset, 0, payload)])
    return [
        record.value.offset if isinstance(record.value, OffsetCommitValue) else None
        for record in heard
    ]


async def test_a_transaction_takes_effect_with_its_commit() -> None:
    first, second = batch(0, commit(5), producer=P), batch(1, commit(6), producer=Q)
    ends = marker(2, P, commit=True), marker(3, Q, commit=False)
    assert await reported(first, second) == []
    assert await reported(first, second, *ends) == [5]


async def test_a_later_commit_outside_of_the_transaction_stays() -> None:
    held = batch(0, commit(5), producer=P), batch(1, commit(9)), marker(2, P, commit=True)
    assert await reported(*held) == [9]


async def test_of_two_transactions_the_later_record_stays() -> None:
    first, second = batch(0, commit(5), producer=P), batch(1, commit(6), producer=Q)
    ends = marker(2, Q, commit=True), marker(3, P, commit=True)
    assert await reported(first, second, *ends) == [6]


async def test_a_tombstone_drops_what_is_pending() -> None:
    held = batch(0, commit(5), producer=P), batch(1, gone(commit(5))), marker(2, P, commit=True)
    assert await reported(*held) == [None]
