"""What every store does: logs, fencing, atomic appends, the catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from groupd.storage.log import (
    EXTENTS_MAX,
    Append,
    ConfigEntry,
    LogFenced,
    LogState,
    LogUnavailable,
    RowExtent,
    SecurityEntry,
    Store,
    StoredBatch,
    StoredTopic,
)

if TYPE_CHECKING:
    from conftest import Disk

EVERYTHING = 1 << 30


def batch(name: str, base: int, last: int | None = None, **fields: object) -> Append:
    append = Append(name, 1, base, base if last is None else last, base, b"%d" % base)
    return replace(append, **fields)  # type: ignore[arg-type]


async def offsets(store: Store, name: str, start: int = 0, limit: int = EVERYTHING) -> list[int]:
    return [found.base_offset for found in await store.read(name, start, limit)]


async def test_open_takes_ownership(store: Store) -> None:
    assert await store.open("a") == LogState("a", 1, 0, 0)
    await store.append([batch("a", 0, 4)])
    assert await store.open("a") == LogState("a", 2, 0, 5)
    states = await store.open_many(["b", "a", "b"])
    assert states == {"b": LogState("b", 1, 0, 0), "a": LogState("a", 3, 0, 5)}
    assert list(states) == ["b", "a"]
    assert await store.open_many([]) == {}


async def test_open_of_very_many_logs(store: Store) -> None:
    names = [f"log-{number}" for number in range(1201)]
    await store.open_many(names[:700])
    states = await store.open_many(names)
    assert list(states) == names
    assert [state.owner_epoch for state in states.values()] == [2] * 700 + [1] * 501


async def test_append_and_read(store: Store) -> None:
    await store.open_many(["a", "b"])
    await store.append([])
    await store.append(
        [
            batch("a", 0, 9, max_timestamp_ms=-1, payload=b"\x00\xff" * 100),
            batch("b", 0, max_timestamp_ms=2**60, payload=b""),
            batch("a", 10),
        ]
    )
    await store.append([batch("a", 11, 12, payload=b"last")])
    first = StoredBatch(0, 9, -1, b"\x00\xff" * 100)
    assert await store.read("a", 0, EVERYTHING) == [
        first,
        StoredBatch(10, 10, 10, b"10"),
        StoredBatch(11, 12, 11, b"last"),
    ]
    assert await store.read("a", 9, 1) == [first]
    assert await offsets(store, "a", 10) == [10, 11]
    assert await offsets(store, "a", 12) == [11]
    assert await offsets(store, "a", 13) == []
    assert await offsets(store, "a", 1 << 60) == []
    assert await store.read("b", 0, 0) == [StoredBatch(0, 0, 2**60, b"")]
    assert await store.read("unknown", 0, EVERYTHING) == []


async def test_read_stops_at_max_bytes(store: Store) -> None:
    await store.open("a")
    await store.append([batch("a", base, payload=bytes(10)) for base in range(5)])
    assert await offsets(store, "a", 0, 30) == [0, 1, 2]
    assert await offsets(store, "a", 1, 29) == [1, 2]
    assert await offsets(store, "a", 1, 3) == [1]
    assert await store.read("a", 1, 9, min_one=False) == []
    assert len(await store.read("a", 1, 10, min_one=False)) == 1


async def test_reading_a_long_log_in_parts(store: Store) -> None:
    await store.open("a")
    await store.append([batch("a", base) for base in range(5000)])
    found: list[int] = []
    while part := await offsets(store, "a", len(found)):
        found += part
    assert found == list(range(5000))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(batch("a", 4), id="overlap"),
        pytest.param(batch("a", 6), id="gap"),
        pytest.param(batch("a", 5, owner_epoch=0), id="older-owner"),
        pytest.param(batch("a", 5, owner_epoch=2), id="no-such-owner"),
        pytest.param(batch("unknown", 0), id="unknown-log"),
    ],
)
async def test_fencing_writes_nothing(store: Store, wrong: Append) -> None:
    await store.open_many(["a", "b", "c"])
    await store.append([batch("a", 0, 4)])
    with pytest.raises(LogFenced) as caught:
        await store.append([batch("b", 0), wrong, batch("c", 0)])
    assert caught.value.logs == (wrong.name,)
    assert await offsets(store, "b") == []
    assert await offsets(store, "a") == [0]
    await store.append([batch("b", 0), batch("a", 5), batch("c", 0)])
    assert await offsets(store, "a") == [0, 5]


async def test_fencing_names_every_log(store: Store) -> None:
    await store.open_many(["a", "b", "c"])
    await store.open_many(["a", "c"])
    with pytest.raises(LogFenced) as caught:
        await store.append([batch("a", 0), batch("b", 0), batch("c", 0)])
    assert sorted(caught.value.logs) == ["a", "c"]
    assert await offsets(store, "b") == []


@pytest.mark.parametrize("second", [batch("a", 2), batch("a", 0), batch("a", 1, owner_epoch=2)])
async def test_batches_of_a_log_follow_each_other(store: Store, second: Append) -> None:
    await store.open("a")
    with pytest.raises(LogFenced, match="a"):
        await store.append([batch("a", 0), second])
    assert await offsets(store, "a") == []


async def test_backward_batch_is_a_bug_of_the_caller(store: Store) -> None:
    await store.open("a")
    with pytest.raises(ValueError, match=r"a: batch 5\.\.4"):
        await store.append([batch("a", 5, 4)])


async def test_a_new_owner_fences_the_old_one(disk: Disk) -> None:
    await disk.store.open("a")
    await disk.store.append([batch("a", 0)])
    store = await disk.reopen()
    assert await store.open("a") == LogState("a", 2, 0, 1)
    with pytest.raises(LogFenced):
        await store.append([batch("a", 1)])
    await store.append([batch("a", 1, owner_epoch=2)])
    assert await offsets(store, "a") == [0, 1]


async def test_concurrent_appends_to_many_logs(store: Store) -> None:
    names = [f"log-{number}" for number in range(20)]
    await store.open_many(names)
    for base in range(3):
        await asyncio.gather(*[store.append([batch(name, base)]) for name in names])
    assert [await offsets(store, name) for name in names] == [[0, 1, 2]] * 20


async def test_concurrent_appends_to_one_log_fence_all_but_one(store: Store) -> None:
    await store.open("a")
    results = await asyncio.gather(
        *[store.append([batch("a", 0)]) for _ in range(5)], return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["LogFenced"] * 4 + ["NoneType"]
    assert await offsets(store, "a") == [0]


async def test_timestamps(store: Store) -> None:
    await store.open_many(["a", "b", "empty"])
    times = [10, 30, 20, 30, 5]
    await store.append(
        [batch("a", base, max_timestamp_ms=time) for base, time in enumerate(times)]
        + [batch("b", 0, max_timestamp_ms=99)]
    )

    async def first(time: int) -> int | None:
        found = await store.first_at_or_after("a", time)
        return found and found.base_offset

    assert [await first(time) for time in (-1, 10, 11, 30, 31)] == [0, 0, 1, 1, None]
    newest = await store.with_max_timestamp("a")
    assert newest == StoredBatch(1, 1, 30, b"1")
    await store.truncate_before("a", 2)
    assert await first(-1) == 2
    newest = await store.with_max_timestamp("a")
    assert newest is not None
    assert newest.base_offset == 3
    for name in ("empty", "unknown"):
        assert await store.first_at_or_after(name, 0) is None
        assert await store.with_max_timestamp(name) is None


async def test_sizes_of_logs(store: Store) -> None:
    assert await store.log_sizes() == {}
    await store.open_many(["a", "b", "empty"])
    await store.append(
        [batch("a", 0, 4, payload=b"x" * 7), batch("a", 5, payload=b"x"), batch("b", 0)]
    )
    assert await store.log_sizes() == {"a": 8, "b": 1}
    await store.truncate_before("a", 5)
    await store.truncate_before("b", 1)
    assert await store.log_sizes() == {"a": 1}


async def test_extents_and_size(store: Store) -> None:
    await store.open_many(["a", "b"])
    await store.append(
        [batch("a", base, base + 1, payload=b"x" * (base + 1)) for base in range(0, 1400, 2)]
        + [batch("b", 0, payload=b"other")]
    )
    found = await store.extents("a", 3)
    assert found[:2] == [RowExtent(2, 3, 2, 3), RowExtent(4, 5, 4, 5)]
    assert len(found) == EXTENTS_MAX
    assert await store.extents("a", 3, 1) == found[:1]
    rest = await store.extents("a", found[-1].last_offset + 1)
    assert rest[0].base_offset == found[-1].last_offset + 1
    assert await store.size("a", 5) == 1 + 3
    await store.truncate_before("a", 1399)
    assert await store.extents("a", 0) == [RowExtent(1398, 1399, 1398, 1399)]
    assert await store.size("a", 1400) == 1399
    for name, offset in (("a", 1400), ("unknown", 0)):
        assert await store.extents(name, offset) == []
    for name, end_offset in (("a", 1399), ("unknown", 1400)):
        assert await store.size(name, end_offset) == 0


async def test_ends_of_logs_that_need_not_be_open(disk: Disk) -> None:
    store = disk.store
    names = [f"log-{number}" for number in range(1201)]
    await store.open_many(names[:1200])
    await store.append([batch("log-7", 0, 4), batch("log-1199", 0)])
    await store.truncate_before("log-7", 3)
    store = await disk.reopen()
    ends = await store.ends(names)
    assert len(ends) == 1200
    assert (ends["log-7"], ends["log-1199"], ends["log-0"]) == ((3, 5), (0, 1), (0, 0))
    assert await store.ends(["no-such-log"]) == await store.ends([]) == {}


async def test_truncate(disk: Disk) -> None:
    store = disk.store
    await store.open("a")
    await store.append([batch("a", base, base + 9) for base in range(0, 6000, 10)])
    await store.truncate_before("a", 5985)
    assert await offsets(store, "a") == [5980, 5990]
    await store.truncate_before("a", 100)
    assert (await store.open("a")).start_offset == 5985
    store = await disk.reopen()
    assert await store.open("a") == LogState("a", 3, 5985, 6000)
    await store.truncate_before("a", 1 << 40)
    assert await offsets(store, "a") == []
    assert await store.open("a") == LogState("a", 4, 6000, 6000)
    await store.append([batch("a", 6000, owner_epoch=4)])
    assert await offsets(store, "a") == [6000]
    await store.truncate_before("unknown", 5)
    assert await offsets(store, "unknown") == []


async def test_only_its_owner_cuts_a_log(store: Store) -> None:
    await store.open("a")
    await store.append([batch("a", base) for base in range(4)])
    assert (await store.open("a")).owner_epoch == 2
    with pytest.raises(LogFenced):
        await store.truncate_before("a", 3, 1)
    assert await offsets(store, "a") == [0, 1, 2, 3]
    await store.truncate_before("a", 3, 2)
    assert await offsets(store, "a") == [3]
    await store.truncate_before("unknown", 3, 2)


async def test_delete(disk: Disk) -> None:
    store = disk.store
    await store.open_many(["a", "b", "c"])
    await store.append([batch("a", base) for base in range(600)] + [batch("b", 0), batch("c", 0)])
    await store.delete(["a", "c", "unknown"])
    assert await offsets(store, "a") == []
    with pytest.raises(LogFenced):
        await store.append([batch("a", 600)])
    assert await store.open("a") == LogState("a", 1, 0, 0)
    assert await offsets(store, "a") == []
    store = await disk.reopen()
    assert await offsets(store, "b") == [0]
    assert await store.open_many(["b", "c"]) == {
        "b": LogState("b", 2, 0, 1),
        "c": LogState("c", 1, 0, 0),
    }


async def test_everything_survives_a_restart(disk: Disk) -> None:
    store = disk.store
    cluster_id = await store.cluster_id()
    topic = StoredTopic(bytes(range(16)), "orders", 3, (("cleanup.policy", "compact"),))
    await store.open("a")
    await store.append([batch("a", 0, 2), batch("a", 3)])
    await store.put_topic(topic)
    await store.put_configs([ConfigEntry(4, "", "group.max.size", "5")])
    await store.change_security([SecurityEntry("acl", "k", "v")])
    assert await store.next_producer_ids(10) == 0
    store = await disk.reopen()
    assert await store.cluster_id() == cluster_id
    assert await offsets(store, "a") == [0, 3]
    assert await store.topics() == [topic]
    assert await store.configs() == [(4, "", "group.max.size", "5")]
    assert await store.security_entries("acl") == [("k", "v")]
    assert await store.next_producer_ids(1) == 10
    assert await store.next_producer_ids(1000) == 11


async def test_cluster_id_looks_like_kafkas(store: Store) -> None:
    cluster_id = await store.cluster_id()
    assert len(cluster_id) == 22
    assert cluster_id == await store.cluster_id()
    assert not cluster_id.startswith("-")


async def test_topics(store: Store) -> None:
    orders = StoredTopic(b"o" * 16, "orders", 3, (("a", "1"), ("b", "ü")))
    audit = StoredTopic(b"a" * 16, "audit", 1)
    await store.put_topic(orders)
    await store.put_topic(audit)
    assert await store.topics() == [audit, orders]
    grown = replace(orders, partitions=6, configs=())
    await store.put_topic(grown)
    assert await store.topics() == [audit, grown]
    await store.delete_topic(audit.topic_id)
    await store.delete_topic(b"?" * 16)
    assert await store.topics() == [grown]


async def test_configs(store: Store) -> None:
    await store.put_configs([ConfigEntry(32, "g", "consumer.session.timeout.ms", "46000")])
    await store.put_configs([ConfigEntry(4, "1", "b", "2")])
    await store.put_configs([ConfigEntry(4, "1", "a", "1")])
    await store.put_configs([ConfigEntry(4, "1", "a", "3")])
    assert await store.configs() == [
        (4, "1", "a", "3"),
        (4, "1", "b", "2"),
        (32, "g", "consumer.session.timeout.ms", "46000"),
    ]
    await store.put_configs([ConfigEntry(4, "1", "b", None)])
    await store.put_configs([ConfigEntry(4, "2", "b", None)])
    assert len(await store.configs()) == 2


async def test_security_entries(store: Store) -> None:
    long = "ü" * 20_000
    await store.change_security(
        [
            SecurityEntry("acl", "b", "1"),
            SecurityEntry("acl", "a", "1"),
            SecurityEntry("acl", long, "2"),
            SecurityEntry("scram", "a", "3"),
            SecurityEntry("acl", "a", "4"),
        ]
    )
    assert await store.security_entries("acl") == [("a", "4"), ("b", "1"), (long, "2")]
    assert await store.security_entries("scram") == [("a", "3")]
    assert await store.security_entries("quota") == []
    await store.change_security(
        [
            SecurityEntry("acl", "b", None),
            SecurityEntry("acl", "never", None),
            SecurityEntry("acl", "a", "5"),
        ]
    )
    await store.change_security([])
    assert await store.security_entries("acl") == [("a", "5"), (long, "2")]


async def test_producer_ids_are_never_given_twice(store: Store) -> None:
    firsts = await asyncio.gather(*[store.next_producer_ids(100) for _ in range(10)])
    assert sorted(firsts) == list(range(0, 1000, 100))
    with pytest.raises(ValueError, match="0 producer ids"):
        await store.next_producer_ids(0)


async def test_an_append_waits_for_few_others(disk: Disk) -> None:
    """Topics that are made and deleted by many clients must not hold up everybody's commits."""
    store = disk.store
    await store.open("a")
    done: list[str] = []

    async def note(name: str, call: Awaitable[object]) -> None:
        await call
        done.append(name)

    others = [asyncio.create_task(note("other", store.open(f"log-{i}"))) for i in range(20)]
    others += [asyncio.create_task(note("other", store.delete([f"none-{i}"]))) for i in range(20)]
    await asyncio.sleep(0)
    waiting = len(others) - len(done)  # in memory none
    await note("append", store.append([batch("a", 0)]))
    before = done.index("append")
    await asyncio.gather(*others)
    assert before <= 3 or not waiting
    assert len(done) == 41
    assert await offsets(store, "a") == [0]


async def test_a_closed_store_is_unavailable(store: Store) -> None:
    await store.open("a")
    await store.close()
    await store.close()
    for attempt in (
        store.append([batch("a", 0)]),
        store.open("a"),
        store.read("a", 0, 1),
        store.with_max_timestamp("a"),
        store.log_sizes(),
        store.truncate_before("a", 1),
        store.delete(["a"]),
        store.cluster_id(),
        store.topics(),
        store.configs(),
        store.put_configs([ConfigEntry(4, "", "a", "b")]),
        store.security_entries("acl"),
        store.change_security([SecurityEntry("acl", "a", "b")]),
        store.next_producer_ids(1),
    ):
        with pytest.raises(LogUnavailable):
            await attempt
