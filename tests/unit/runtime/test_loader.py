"""Reading a log back: what is skipped, what fails the shard, and who tries again."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.core.metadata_image import TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Outcome
from groupd.coordinator.runtime import collector, loader
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.storage.log import Append, LogCorrupt, LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.unit.runtime.harness import (
    Bench,
    commit,
    commit_errors,
    committed,
    consumer_join,
    fetch,
    settle,
)

LOG = "__consumer_offsets-0"
RawRecord = tuple[bytes | None, bytes | None]


def offset(group: str, value: int) -> RawRecord:
    record = Record(OffsetCommitKey(group, "t", 0), OffsetCommitValue(value))
    return encode_key(record.key), encode_value(record)


async def store_with(*batches: list[RawRecord] | bytes) -> MemoryStore:
    """A store whose shard 0 holds these batches; bytes go in as they are."""
    store = MemoryStore()
    await store.start()
    state = await store.open(LOG)
    at = 0
    for batch in batches:
        count = 1 if isinstance(batch, bytes) else len(batch)
        payload = batch if isinstance(batch, bytes) else bytes(encode_batch(at, 0, 0, batch))
        last = at + count - 1
        await store.append([Append(LOG, state.owner_epoch, at, last, 0, payload)])
        at += count
    return store


async def test_an_unknown_record_type_is_skipped_with_one_warning() -> None:
    strange: RawRecord = (b"\x00\x63future", b"\x00\x00")
    store = await store_with([offset("g", 1), strange], [strange, offset("g", 2)])
    with capture_logs() as logs:
        bench = await Bench(store).start()
    assert committed(await bench.answer(fetch("g"))) == [2]
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["type"], entry["records"]) for entry in warnings] == [(99, 2)]
    assert bench.shard.loaded_records == 2
    assert bench.shard.durable_offset == 4
    await bench.broker.close()


async def test_an_embedded_broker_hides_nothing_from_its_users_collector() -> None:
    records = 2 * collector.FREEZE_RECORDS
    store = await store_with([offset(f"g{n}", n) for n in range(records)])
    before = gc.get_freeze_count()
    bench = await Bench(store).start()
    assert bench.shard.loaded_records == records
    assert gc.get_freeze_count() <= before
    await bench.broker.close()


async def test_a_record_without_key_is_skipped() -> None:
    bench = await Bench(await store_with([(None, b"?"), offset("g", 1)])).start()
    assert committed(await bench.answer(fetch("g"))) == [1]
    await bench.broker.close()


async def test_a_legacy_offset_record_is_read() -> None:
    """Value v0 with the key v0 of Kafka before 0.9: offset, metadata, commit timestamp."""
    key, _ = offset("g", 0)
    assert key is not None
    value = b"\x00\x00" + (41).to_bytes(8, "big") + b"\x00\x01m" + (5).to_bytes(8, "big")
    bench = await Bench(await store_with([(b"\x00\x00" + key[2:], value)])).start()
    assert committed(await bench.answer(fetch("g"))) == [41]
    await bench.broker.close()


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param([(offset("g", 1)[0], b"\x00\x01")], id="value cut short"),
        pytest.param([(b"\x00", b"")], id="key cut short"),
        pytest.param(b"\x00" * 80, id="no batch"),
        pytest.param(bytes(encode_batch(0, 0, 0, [offset("g", 1)]))[:-3], id="batch cut short"),
    ],
)
async def test_a_damaged_log_fails_its_shard_and_no_other(damaged: Any) -> None:
    bench = Bench(await store_with(damaged), shards=2)
    with capture_logs() as logs:
        await bench.start()
    assert bench.broker.served.states == [CoordinatorState.FAILED, CoordinatorState.ACTIVE]
    assert [entry["event"] for entry in logs] == ["shard cannot be loaded"]
    assert bench.broker.served.loading == 1
    names = {bench.broker.shard_of(name).partition: name for name in ("a", "b", "c", "d")}
    reply = await bench.answer(commit(names[0], 1))
    assert commit_errors(reply) == [ErrorCode.NOT_COORDINATOR]
    assert commit_errors(await bench.answer(commit(names[1], 1))) == [ErrorCode.NONE]
    assert bench.clock.next_timer_ms() is not None
    bench.clock.advance(60_000)
    await settle()
    assert bench.broker.shards[0].state is CoordinatorState.FAILED, "reading again mends nothing"
    await bench.broker.close()


async def test_an_error_in_replay_fails_the_shard_at_start_not_the_daemon() -> None:
    def change(shard: GroupCoordinatorShard) -> None:
        def failing(group_id: str, topic: str, offsets: Any) -> None:
            raise KeyError("bug")

        shard.replay_offsets = failing  # type: ignore[method-assign]

    bench = Bench(await store_with([offset("g", 1)]), change=change)
    with capture_logs() as logs:
        await bench.start()
    assert bench.shard.state is CoordinatorState.FAILED
    assert "KeyError" in logs[-1]["reason"]
    await bench.broker.close()


async def test_an_error_when_timers_start_fails_the_shard_at_start_not_the_daemon() -> None:
    def change(shard: GroupCoordinatorShard) -> None:
        def failing(now: Any) -> Outcome:
            raise KeyError("bug")

        shard.on_loaded = failing  # type: ignore[method-assign]

    bench = await Bench(change=change).start()
    assert bench.shard.state is CoordinatorState.FAILED
    await bench.broker.close()


async def test_a_store_that_cannot_be_read_at_start_is_asked_again() -> None:
    store = await store_with([offset("g", 1)])
    store.fail_next_read(LogUnavailable("away"))
    bench = await Bench(store).start()
    await settle()
    assert bench.shard.state is CoordinatorState.FAILED
    bench.clock.advance(500)
    await settle()
    assert committed(await bench.answer(fetch("g"))) == [1]
    await bench.broker.close()


async def test_a_store_that_finds_its_bytes_damaged_is_not_asked_again() -> None:
    store = await store_with([offset("g", 1)])
    store.fail_next_read(LogCorrupt("bad page"))
    bench = await Bench(store).start()
    bench.clock.advance(60_000)
    await settle()
    assert bench.shard.state is CoordinatorState.FAILED
    await bench.broker.close()


async def test_a_hole_in_the_log_fails_the_shard() -> None:
    class Holed(MemoryStore):
        async def read(self, *args: Any, **options: Any) -> list[Any]:
            return []

    store = Holed()
    await store.start()
    state = await store.open(LOG)
    payload = bytes(encode_batch(0, 0, 0, [offset("g", 1)]))
    await store.append([Append(LOG, state.owner_epoch, 0, 0, 0, payload)])
    with capture_logs() as logs:
        bench = await Bench(store).start()
    assert bench.shard.state is CoordinatorState.FAILED
    assert "nothing at offset 0" in logs[-1]["reason"]
    await bench.broker.close()


async def test_topics_and_configs_that_change_during_a_reload_are_not_missed() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 7))
    await bench.answer(consumer_join("c", "m1"))
    bench.store.fail_next_append()
    bench.store.fail_next_read()
    await bench.answer(commit("g", 8))
    assert bench.shard.state is CoordinatorState.FAILED
    bench.change_topics(TopicImage(b"n" * 16, "new", 1), deleted=("t",))
    bench.broker.on_group_configs("c", {"consumer.session.timeout.ms": "50000"})
    bench.clock.advance(500)
    await settle()
    state = bench.shard.shard.state
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert sorted(state.image.by_name) == ["new"]
    assert state.group_configs == {"c": {"consumer.session.timeout.ms": "50000"}}
    assert bench.shard.shard.offset_count() == 0, "the deleted topic's offsets are gone"
    again = await bench.restart()
    assert again.shard.shard.offset_count() == 0
    await again.broker.close()


async def test_other_work_gets_turns_while_a_long_log_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "TURN_RECORDS", 50)
    store = await store_with(*[[offset(f"g{n}", 1)] * 100 for n in range(100)])
    bench = Bench(store)
    loading = asyncio.ensure_future(bench.start())
    turns = 0
    while not loading.done():
        await settle(1)
        turns += 1
    assert turns > 10_000 // 50
    assert bench.shard.loaded_records == 10_000
    await bench.broker.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda batch: batch[:-2] + b"?" + batch[-1:], "wrong checksum"),
        (lambda batch: (7).to_bytes(8, "big") + batch[8:], "offsets 7 to 7, not 0 to 0"),
        (lambda batch: batch + batch, "offsets 0 to 0, not 1 to 0"),
    ],
    ids=["LG-02 payload", "LG-02 base offset", "LG-02 twice"],
)
async def test_a_batch_that_is_not_what_the_row_says_fails_the_shard(
    change: Any, said: str
) -> None:
    bench = Bench(await store_with(change(bytes(encode_batch(0, 0, 0, [offset("g", 1)])))))
    with capture_logs() as logs:
        await bench.start()
    assert bench.shard.state is CoordinatorState.FAILED
    assert said in logs[-1]["reason"]
    assert f"{LOG} at offset 0" in logs[-1]["reason"]
    await bench.broker.close()
