"""The log from before shards: its ids move into the logs of their shards, whenever a process dies
and whoever serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.coordinator_types import transactions_log_name
from groupd.coordinator.transactions.loading import LEGACY_EPOCHS, LEGACY_TRANSACTIONS_LOG
from groupd.coordinator.transactions.metadata import (
    TransactionMetadata,
    TransactionState,
    to_record,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.log import Append, LogUnavailable
from groupd.storage.memory import MemoryStore
from groupd.storage.units import TRANSACTIONS, Unit
from tests.support.manual_clock import ManualClock
from tests.unit.transactions.harness import NONE, T0, T1, TIMEOUT_MS, Bench, marker, settle

SHARDS = {"transaction_state_log_num_partitions": 4}
STARTS = 7
"""How often the old log was opened: its last coordinator epoch is 6."""

NOW_MS = ManualClock().now().wall_ms
NOT_FOUND = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def metadata(producer_id: int, **fields: Any) -> TransactionMetadata:
    return TransactionMetadata(producer_id, 3, TIMEOUT_MS, NOW_MS, **fields)


OPEN = metadata(1, state=TransactionState.ONGOING, partitions=frozenset({T0}), start_ms=NOW_MS)
OLD = {
    "open": OPEN,
    "committing": metadata(
        2,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset({T0, T1}),
        start_ms=NOW_MS,
    ),
    "complete": metadata(3, state=TransactionState.COMPLETE_ABORT),
    "unused": metadata(4),
}
SHOWN = {
    "open": "Ongoing",
    "committing": "CompleteCommit",
    "complete": "CompleteAbort",
    "unused": "Empty",
}
HOME = {name: partition_for(name, 4) for name in OLD}


async def old_store(records_at_once: int = 2) -> MemoryStore:
    """A store as an older version has left it: each id has an old record and its last one; one more
    id was forgotten."""
    store = MemoryStore()
    await store.start()
    for _ in range(STARTS):
        state = await store.open(LEGACY_TRANSACTIONS_LOG)
    records = [to_record(name, metadata(99)) for name in (*OLD, "forgotten")]
    records += [to_record(name, value) for name, value in OLD.items()]
    records += [to_record("forgotten", None)]
    for first in range(0, len(records), records_at_once):
        some = records[first : first + records_at_once]
        last = first + len(some) - 1
        batch = encode_batch(first, 0, NOW_MS, some)
        name = LEGACY_TRANSACTIONS_LOG
        await store.append([Append(name, state.owner_epoch, first, last, NOW_MS, batch)])
    return store


async def check(bench: Bench, names: Any = OLD) -> None:
    for name in names:
        assert bench.shown(name).state == SHOWN[name], name
        assert bench.shown(name).producer_id == OLD[name].producer_id


async def records(store: MemoryStore, name: str) -> int:
    return sum(
        batch.last_offset - batch.base_offset + 1 for batch in await store.read(name, 0, 1 << 30)
    )


async def test_every_id_is_in_its_shard_after_the_first_start() -> None:
    store = await old_store()
    before = await store.read(LEGACY_TRANSACTIONS_LOG, 0, 1 << 30)
    bench = await Bench(store, **SHARDS).start()
    await check(bench)
    assert bench.shown("forgotten").error is NOT_FOUND
    assert {name: shard.partition for shard in bench.coordinator.shards.values()
            for name in shard.table.entries} == HOME  # fmt: skip
    # The producer of the open transaction goes on with it.
    assert await bench.add(1, 3, T1, name="open") is NONE
    assert (await bench.end(1, 3, True, name="open")).error is NONE
    await settle()
    assert bench.shown("open").state == "CompleteCommit"
    # The new logs count, the old one is as it was.
    fresh = await bench.restart()
    assert fresh.shown("open").state == "CompleteCommit"
    await check(fresh, set(OLD) - {"open"})
    assert await store.read(LEGACY_TRANSACTIONS_LOG, 0, 1 << 30) == before
    assert (await store.open(LEGACY_TRANSACTIONS_LOG)).owner_epoch == STARTS + 1
    await fresh.stop()


async def test_a_marker_of_an_id_that_has_moved_is_not_fenced() -> None:
    bench = await Bench(await old_store(), **SHARDS).start()
    (written,) = [written for written, _ in bench.markers.calls]
    assert written == marker(2, 3, True, 1, owner=LEGACY_EPOCHS)
    seen = ProducerStates()
    seen.marked(marker(2, 3, False, 1, owner=STARTS - 1), 0, 0)
    seen.check_marker(written)  # raises nothing
    # Also after the next start, when the old log is not read any more.
    fresh = await bench.restart()
    assert await fresh.add(2, 3, T0, name="committing") is NONE
    assert (await fresh.end(2, 3, True, name="committing")).error is NONE
    await settle()
    assert [found.coordinator_epoch for found, _ in fresh.markers.calls] == [LEGACY_EPOCHS + 1]
    await fresh.stop()


async def test_a_log_that_was_trimmed_is_read_from_its_start() -> None:
    store = await old_store()
    await store.truncate_before(LEGACY_TRANSACTIONS_LOG, 4)
    bench = await Bench(store, **SHARDS).start()
    await check(bench)
    await bench.stop()


async def test_ids_that_are_not_used_expire_after_they_have_moved() -> None:
    bench = await Bench(
        await old_store(), transactional_id_expiration_ms=3_600_000, **SHARDS
    ).start()
    bench.clock.advance(3_600_000)
    await settle()
    assert bench.shown("unused").error is NOT_FOUND
    fresh = await bench.restart()
    # Its shard is not empty, so the old log does not bring it back.
    assert fresh.shown("unused").error is NOT_FOUND
    await fresh.stop()


@pytest.mark.parametrize("applied", [True, False])
async def test_a_takeover_that_fails_is_tried_again(applied: bool) -> None:
    store = await old_store()
    store.fail_next_append(applied=applied)
    bench = await Bench(store, **SHARDS).start()
    bench.clock.advance(500)
    await settle()
    await check(bench)
    for number in set(HOME.values()):
        names = [name for name, home in HOME.items() if home == number]
        expected = len(names) + ("committing" in names)
        assert await records(store, transactions_log_name(number)) == expected
    await bench.stop()


async def test_a_process_that_dies_while_shards_take_over() -> None:
    store = await old_store()
    numbers = sorted(set(HOME.values()))
    assert len(numbers) > 1
    for died_after in range(len(numbers) + 1):
        # As many shards have taken over as appends were made.
        bench = Bench(store, **SHARDS)
        for _ in range(died_after):
            store.fail_next_append(applied=True)
        for _ in range(len(numbers) - died_after):
            store.fail_next_append()
        await bench.start()
        await bench.stop()
        while store.append_faults:
            store._append_faults.popleft()
    fresh = await Bench(store, **SHARDS).start()
    await check(fresh)
    await fresh.stop()


async def test_an_old_log_that_cannot_be_read_keeps_its_shards_waiting() -> None:
    store = await old_store()
    store.fail_next_read()
    bench = await Bench(store, **SHARDS).start()
    bench.clock.advance(500)
    await settle()
    await check(bench)
    await bench.stop()


async def test_a_damaged_old_log_stops_the_shards_that_have_nothing_of_their_own() -> None:
    store = await old_store()
    state = await store.open(LEGACY_TRANSACTIONS_LOG)
    end = state.next_offset
    key, _ = to_record("open", None)
    batch = encode_batch(end, 0, NOW_MS, [(key, b"\x00\x09")])
    await store.append(
        [Append(LEGACY_TRANSACTIONS_LOG, state.owner_epoch, end, end, NOW_MS, batch)]
    )
    bench = await Bench(store, **SHARDS).start()
    assert (await bench.init(name="open"))[0] is ErrorCode.NOT_COORDINATOR
    assert bench.coordinator.served.loading == 4
    await bench.stop()


async def test_nodes_of_a_cluster_take_over_each_their_shards() -> None:
    store = await old_store()
    nodes = [await Bench(store, alone=False, **SHARDS).start() for _ in range(2)]
    place = {HOME["open"]: 0, HOME["committing"]: 1}
    units = {number: Unit(TRANSACTIONS, number) for number in range(4)}
    for number, unit in units.items():
        await nodes[place.get(number, 0)].host.serve(unit, 1)
    await settle()
    for name, home in HOME.items():
        await check(nodes[place.get(home, 0)], [name])
    # What has moved once is not taken from the old log again.
    first, second = nodes
    assert await first.add(1, 3, T1, name="open") is NONE
    await first.host.give_up(units[HOME["open"]])
    await second.host.serve(units[HOME["open"]], 2)
    assert [topic.partitions for topic in second.shown("open").topics] == [(0, 1)]
    for node in nodes:
        await node.stop()


async def test_a_shard_that_left_before_its_takeover_was_written() -> None:
    store = await old_store()
    first, second = [await Bench(store, alone=False, **SHARDS).start() for _ in range(2)]
    unit = Unit(TRANSACTIONS, HOME["open"])
    store.hold_appends()
    serving = asyncio.create_task(first.host.serve(unit, 1))
    await settle()
    first.host.drop(unit)
    serving.cancel()
    second_serves = asyncio.create_task(second.host.serve(unit, 2))
    await settle()
    store.release_appends()
    await second_serves
    await settle()
    await check(second, ["open"])
    # And back to the node that has handed its ids out once.
    await second.host.give_up(unit)
    await first.host.serve(unit, 3)
    await check(first, ["open"])
    await asyncio.gather(first.stop(), second.stop())


async def test_a_takeover_that_the_store_has_lost_is_made_again() -> None:
    store = await old_store()
    bench = await Bench(store, alone=False, **SHARDS).start()
    unit = Unit(TRANSACTIONS, HOME["open"])
    await bench.host.serve(unit, 1)
    bench.host.drop(unit)
    await store.delete([transactions_log_name(unit.number)])  # as a standby that lagged behind
    await bench.host.serve(unit, 2)
    await check(bench, ["open"])
    await bench.stop()


async def test_a_store_without_the_old_log_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await store.start()
    asked: list[str] = []
    ends = store.ends

    async def watched(names: Sequence[str]) -> dict[str, tuple[int, int]]:
        asked.extend(names)
        return await ends(names)

    monkeypatch.setattr(store, "ends", watched)
    bench = await Bench(store, **SHARDS).start()
    assert asked == [LEGACY_TRANSACTIONS_LOG]
    assert (await bench.init(name="open"))[0] is NONE
    shard = bench.coordinator.shards.get(HOME["open"])
    assert shard is not None
    assert shard.coordinator_epoch == 0
    await bench.stop()


async def test_the_store_refuses_to_be_read() -> None:
    store = await old_store()
    store.fail_next_read(LogUnavailable("away"))
    bench = await Bench(store, alone=False, **SHARDS).start()
    unit = Unit(TRANSACTIONS, HOME["open"])
    await bench.host.serve(unit, 1)
    assert (await bench.init(name="open"))[0] is ErrorCode.NOT_COORDINATOR
    await settle()
    bench.clock.advance(500)
    await settle()
    await check(bench, ["open"])
    await bench.stop()
