"""Thirty days of a daemon on a fast clock, with its store on disk: what it keeps stays bounded.

Everything that ends does end meanwhile: records by retention, old values of keys by compaction,
offsets and groups that nobody uses, transactional ids, topics, members. What is counted after
twelve days, when all of it has begun, may not have grown much after thirty.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import PROFILES, with_settings
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.logtools.findings import Finding
from groupd.coordinator.logtools.verify import verify_store
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.waiting import Callback
from groupd.coordinator.transactions.shard import TransactionShard
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.data import (
    InitProducerIdRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    OffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.messages.topics import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
)
from groupd.protocol.messages.transactions import EndTxnRequest
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.open import create_reader
from groupd.testing.clock import ControlledClock

HOUR_MS = 3_600_000
STEP_HOURS = 8
DAYS = 30
FULL_DAY = 12
"""From this day on everything has reached the end of its life at least once."""
GROWTH = 1.25
WAL_BYTES_MAX = 32 << 20
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.retention.minutes": "2880",
    "groupd.history.retention.ms": str(3 * 24 * HOUR_MS),
    "log.retention.ms": str(3 * 24 * HOUR_MS),
    "log.roll.hours": "12",
    "transactional.id.expiration.ms": str(2 * 24 * HOUR_MS),
    # Fewer timers than by default, so that a day takes two seconds.
    "log.retention.check.interval.ms": str(STEP_HOURS * HOUR_MS),
    "log.cleaner.backoff.ms": str(STEP_HOURS * HOUR_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(HOUR_MS),
    "offsets.retention.check.interval.ms": str(HOUR_MS),
}


@dataclass
class Kept:
    """What a daemon holds."""

    disk_bytes: int
    """The size of the database, free pages included."""
    wal_bytes: int
    rows: int
    objects: int
    counts: dict[str, int] = field(default_factory=dict)


class Soak:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ControlledClock("frozen")
        self.daemon: Daemon
        self.step = 0

    async def start(self) -> None:
        options = DaemonOptions(
            listen=("127.0.0.1", 0),
            admin=None,
            data_dir=self.directory,
            topics=(("events", 2), ("short", 1)),
            config=with_settings(PROFILES["test"], SETTINGS),
        )
        self.daemon = Daemon(options, self.clock, socket_clock=SystemClock())
        await self.daemon.start()
        # It is trimmed as often as a log of thousands of transactions a day.
        self.transactions().trimmer.records_min = 100

    def transactions(self) -> TransactionShard:
        """The one shard of transactional ids."""
        shard = self.daemon.parts.transactions.served.get(0)
        assert shard is not None
        return shard

    async def ask(self, request: Any, version: int) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def refused(_: Any, code: ErrorCode, message: str | None) -> AssertionError:
            return AssertionError(f"{type(request).__name__}: {code.name} {message}")

        waiter = Callback(request, refused, future.set_result)
        self.daemon.broker.submit(RequestContext(waiter, version, client_id="soak"), request)
        reply = await future
        assert not isinstance(reply, AssertionError), reply
        return reply

    async def create(self, name: str, **configs: str) -> None:
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        reply = await self.ask(CreateTopicsRequest((NewTopic(name, 1, 1, configs=settings),)), 7)
        assert reply.topics[0].error == ErrorCode.NONE, reply

    async def produce(
        self, topic: str, partition: int, payload: bytes, transactional_id: str | None = None
    ) -> None:
        part = ProduceTopic(topic, NO_TOPIC_ID, (ProducePartition(partition, payload),))
        request = ProduceRequest((part,), transactional_id=transactional_id)
        reply = await self.ask(request, 12)
        assert reply.topics[0].partitions[0].error == ErrorCode.NONE, reply

    def batch(self, *keys: bytes, producer: tuple[int, int] = (-1, -1), **how: bool) -> bytes:
        pairs = [(key, b"%d" % self.step + b"x" * 500) for key in keys]
        return encode_batch(0, -1, self.clock.now().wall_ms, pairs, *producer, 0, **how)

    async def commit(self, group: str) -> None:
        parts = tuple(CommitPartition(n, self.step) for n in range(2))
        request = OffsetCommitRequest(group, (commit_topic("events", parts),))
        reply = await self.ask(request, 9)
        assert reply.topics[0].partitions[0].error == ErrorCode.NONE, reply

    async def live_and_leave(self, group: str) -> None:
        member = f"m{self.step}"
        joined = await self.ask(
            ConsumerGroupHeartbeatRequest(
                group,
                member,
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=("events",),
                topic_partitions=(),
            ),
            1,
        )
        assert joined.error == ErrorCode.NONE, joined
        left = await self.ask(ConsumerGroupHeartbeatRequest(group, member, -1), 1)
        assert left.error == ErrorCode.NONE, left

    async def transact(self, name: str) -> None:
        begun = await self.ask(InitProducerIdRequest(name), 5)
        assert begun.error == ErrorCode.NONE, begun
        producer = (begun.producer_id, begun.producer_epoch)
        payload = self.batch(b"t", producer=producer, transactional=True)
        await self.produce("state", 0, payload, name)
        committed = self.step % 3 > 0
        ended = await self.ask(EndTxnRequest(name, *producer, committed), 5)
        assert ended.error == ErrorCode.NONE, ended

    async def work(self) -> None:
        """Sends what comes in within a step."""
        day = self.step * STEP_HOURS // 24
        plain = await self.ask(InitProducerIdRequest(None), 5)
        producer = (plain.producer_id, plain.producer_epoch)
        keys = [b"key-%d" % ((self.step * 7 + n) % 100) for n in range(20)]
        work: list[Awaitable[None]] = [
            self.produce("events", 0, self.batch(b"e", producer=producer)),
            self.produce("short", 0, self.batch(b"s")),
            # A key of its own every step, deleted again: tombstones end, too.
            self.produce("state", 0, self.batch(*keys, b"once-%d" % self.step)),
            self.transact(f"tx-{day}"),
            self.live_and_leave(f"members-{day}"),
        ]
        work += [self.produce("events", 1, self.batch(b"e")) for _ in range(5)]
        work += [self.commit(f"group-{n}") for n in range(100)]
        work += [self.commit(f"group-of-day-{day}-{n}") for n in range(10)]
        await asyncio.gather(*work)
        gone = encode_batch(
            0, -1, self.clock.now().wall_ms, [(b"once-%d" % (self.step - 12), None)]
        )
        await self.produce("state", 0, gone)
        if self.step * STEP_HOURS % 24 == 0:
            await self.create(f"of-day-{day}")
            await self.produce(f"of-day-{day}", 0, self.batch(b"d"))
            old = f"of-day-{day - 3}"
            if self.daemon.parts.data_plane.catalogue.topic(old) is not None:
                await self.ask(DeleteTopicsRequest(((old, NO_TOPIC_ID),)), 6)

    async def settle(self) -> None:
        turns = 0
        while turns < 3:
            await asyncio.sleep(0)
            busy = self.daemon.parts.topic_cleaner.busy or not self.daemon.broker.idle
            turns = 0 if busy else turns + 1

    async def pass_time(self) -> None:
        await self.clock.advance(STEP_HOURS * HOUR_MS, self.settle)
        self.step += 1
        if self.step * STEP_HOURS % 24 == 0:
            # It is not timed by the clock of the groups.
            await self.daemon.parts.cleaner.round()

    def kept(self) -> Kept:
        file = self.directory / "groupd.sqlite"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            rows, pages, page_bytes = (
                connection.execute(query).fetchone()[0]
                for query in (
                    "SELECT count(*) FROM log_batch",
                    "PRAGMA page_count",
                    "PRAGMA page_size",
                )
            )
        gc.collect()
        plane, catalogue = self.daemon.parts.data_plane, self.daemon.parts.data_plane.catalogue
        logs = [
            log
            for topic in catalogue.topics()
            for partition in range(topic.partitions)
            if (log := plane.partitions.is_open(topic, partition)) is not None
        ]
        transactions = self.transactions()
        return Kept(
            pages * page_bytes,
            file.with_name("groupd.sqlite-wal").stat().st_size,
            rows,
            len(gc.get_objects()),
            {
                "topics": len(catalogue.topics()),
                "transactional ids": len(transactions.table.entries),
                "groups": sum(len(s.shard.group_states()) for s in self.daemon.broker.shards),
                "aborted transactions": sum(
                    len(log.producers.transactions.aborted(0, 1 << 62)) for log in logs
                ),
                "producers": max((log.producers.count for log in logs), default=0),
            },
        )


@pytest.mark.timeout(300)  # some 20 s of work on a machine of its own
async def test_disk_and_memory_stay_bounded(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    await soak.start()
    compact = {"cleanup_policy": "compact", "delete_retention_ms": str(12 * HOUR_MS)}
    await soak.create("state", **compact)
    seen: dict[int, Kept] = {}
    try:
        for step in range(DAYS * 24 // STEP_HOURS):
            if step * STEP_HOURS % 24 == 0:
                seen[step * STEP_HOURS // 24] = soak.kept()
            await soak.work()
            await soak.pass_time()
        seen[DAYS] = soak.kept()
    finally:
        await soak.daemon.stop()
        soak.clock.close()
    print(*(f"{day}: {kept}" for day, kept in seen.items()), sep="\n")
    before, after = seen[FULL_DAY], seen[DAYS]
    assert after.disk_bytes <= before.disk_bytes * GROWTH
    assert after.wal_bytes <= WAL_BYTES_MAX
    assert after.rows <= before.rows * GROWTH
    assert after.objects <= before.objects * GROWTH
    for name, count in before.counts.items():
        assert after.counts[name] <= count * GROWTH + 2, name
    assert await findings(tmp_path) == []


async def findings(directory: Path) -> list[Finding]:
    """What `groupd log verify` says."""
    found: list[Finding] = []
    reader = create_reader(None, directory)
    await reader.start()
    try:
        await verify_store(reader, found.append)
    finally:
        await reader.close()
    return found
