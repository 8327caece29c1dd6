"""Group commit: what shares a transaction, who learns of which failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import structlog

from groupd.coordinator.runtime.writer import WARNING_INTERVAL_NS, LogWriter
from groupd.storage.log import Append, LogError, LogFenced, LogUnavailable
from groupd.storage.memory import MemoryStore


def batch(name: str, owner: int, offset: int) -> Append:
    return Append(name, owner, offset, offset, 0, b"payload")


class RecordingStore(MemoryStore):
    """A memory store that remembers which logs each transaction wrote to."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[list[str]] = []
        self.gate: asyncio.Event | None = None

    async def append(self, batches: Sequence[Append]) -> None:
        self.transactions.append([b.name for b in batches])
        if self.gate is not None:
            await self.gate.wait()
        await super().append(batches)


@pytest.fixture
async def store() -> RecordingStore:
    store = RecordingStore()
    await store.start()
    return store


async def test_what_arrives_during_an_append_shares_the_next_transaction(
    store: RecordingStore,
) -> None:
    owners = {name: (await store.open(name)).owner_epoch for name in "abc"}
    writer = LogWriter(store)
    writer.start()
    store.gate = asyncio.Event()
    first = writer.append([batch("a", owners["a"], 0)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = writer.append([batch("b", owners["b"], 0)])
    third = writer.append([batch("c", owners["c"], 0)])
    store.gate.set()
    await asyncio.gather(first, second, third)
    assert store.transactions == [["a"], ["b", "c"]]
    await writer.close()


async def test_a_fenced_log_fails_alone(store: RecordingStore) -> None:
    good = (await store.open("good")).owner_epoch
    stale = (await store.open("stale")).owner_epoch
    await store.open("stale")  # a new owner
    writer = LogWriter(store)
    fenced = writer.append([batch("stale", stale, 0)])
    fine = writer.append([batch("good", good, 0)])
    writer.start()
    with pytest.raises(LogFenced):
        await fenced
    await fine
    assert (await store.read("good", 0, 1000))[0].base_offset == 0
    await writer.close()


async def test_an_unavailable_store_fails_everything_in_the_transaction() -> None:
    class Broken(MemoryStore):
        async def append(self, batches: Sequence[Append]) -> None:
            raise LogUnavailable("disk full")

    store = Broken()
    await store.start()
    writer = LogWriter(store)
    results = [writer.append([batch(name, 1, 0)]) for name in "ab"]
    writer.start()
    outcomes = await asyncio.gather(*results, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LogUnavailable, LogUnavailable]
    assert writer.failures == 1
    await writer.close()


async def test_an_unexpected_error_is_an_unknown_outcome_and_the_writer_lives() -> None:
    class Odd(MemoryStore):
        fail = True

        async def append(self, batches: Sequence[Append]) -> None:
            if self.fail:
                raise RuntimeError("bug")
            await super().append(batches)

    store = Odd()
    await store.start()
    owner = (await store.open("a")).owner_epoch
    writer = LogWriter(store)
    writer.start()
    with pytest.raises(LogError, match="bug"):
        await writer.append([batch("a", owner, 0)])
    store.fail = False
    await writer.append([batch("a", owner, 0)])
    await writer.close()


async def test_a_store_that_refuses_is_one_warning_with_its_cause_and_one_line_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(MemoryStore):
        fail = True

        async def append(self, batches: Sequence[Append]) -> None:
            if self.fail:
                raise LogUnavailable("database or disk is full")
            await super().append(batches)

    # The warning interval is counted on this clock, which the test moves by hand.
    now_ns = [0]
    monkeypatch.setattr("groupd.coordinator.runtime.writer.elapsed_ns", lambda: now_ns[0])
    store = Full()
    await store.start()
    owner = (await store.open("a")).owner_epoch
    writer = LogWriter(store)
    writer.start()

    async def refused() -> None:
        with pytest.raises(LogUnavailable):
            await writer.append([batch("a", owner, 0)])

    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await refused()
        now_ns[0] += WARNING_INTERVAL_NS
        await refused()
        store.fail = False
        for offset in range(3):
            await writer.append([batch("a", owner, offset)])
    await writer.close()
    full, over = "the store refuses writes", "the store takes writes again"
    assert [(line["event"], line["failures"]) for line in lines] == [
        (full, 1),
        (full, 6),
        (over, 6),
    ]
    assert lines[0]["log_level"] == "warning"
    assert lines[0]["cause"] == "database or disk is full"


async def test_close_writes_what_still_waits(store: RecordingStore) -> None:
    owner = (await store.open("a")).owner_epoch
    writer = LogWriter(store)
    writer.start()
    pending = writer.append([batch("a", owner, 0)])
    await writer.close()
    assert pending.done()
    assert pending.exception() is None


class Faulty:
    """A source that raises in `take` or in `done`."""

    def __init__(self, batches: list[Append], *, take: bool = False, done: bool = False) -> None:
        self.batches = batches
        self.told: list[LogError | None] = []
        self._take, self._done = take, done

    def take(self) -> list[Append]:
        if self._take:
            raise RuntimeError("bug in take")
        return self.batches

    def done(self, error: LogError | None) -> None:
        self.told.append(error)
        if self._done:
            raise RuntimeError("bug in done")


async def test_a_source_that_raises_costs_nobody_else_and_not_the_writer(
    store: RecordingStore,
) -> None:
    owners = {name: (await store.open(name)).owner_epoch for name in "abc"}
    writer = LogWriter(store)
    cannot_take = Faulty([], take=True)
    cannot_hear = Faulty([batch("b", owners["b"], 0)], done=True)
    writer.mark(cannot_take)
    writer.mark(cannot_hear)
    fine = writer.append([batch("a", owners["a"], 0)])
    writer.start()
    await fine
    assert [type(error) for error in cannot_take.told] == [LogUnavailable]
    assert cannot_hear.told == [None]
    await writer.append([batch("c", owners["c"], 0)])
    await writer.close()


async def test_a_closed_writer_refuses_at_once(store: RecordingStore) -> None:
    owner = (await store.open("a")).owner_epoch
    writer = LogWriter(store)
    writer.start()
    await writer.close()
    with pytest.raises(LogUnavailable, match="closed"):
        await writer.append([batch("a", owner, 0)])
    late = Faulty([])
    writer.mark(late)
    assert [type(error) for error in late.told] == [LogUnavailable]
