"""A main process and its workers in one event loop: real daemon, real sockets, no processes."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from socket import socket
from typing import Any, cast

import pytest

import groupd.coordinator.workers.hosting
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import offsets_log_name, partition_for
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.workers.channel import Channel
from groupd.coordinator.workers.cluster import Cluster
from groupd.coordinator.workers.hosting import Hosting, WorkerOptions
from groupd.coordinator.workers.link import WorkerState
from groupd.coordinator.workers.messages import LogRead, WorkerOperation, encode
from groupd.coordinator.workers.worker import Worker
from groupd.protocol.errors import ErrorCode
from groupd.storage.log import Append, LogFenced, LogUnavailable, Store
from groupd.storage.memory import MemoryStore
from tests.support.remote_store import connect
from tests.support.wire_client import WireClient

SHARDS = 4
CONFIG = replace(CoordinatorConfig(), offsets_topic_num_partitions=SHARDS)


class InProcess:
    """A worker whose process is this one. `kill` is the end of its channel."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.pid = 1

    def kill(self) -> None:
        self.worker.channel.abort()

    async def wait(self) -> int:
        await self.worker.channel.lost.wait()
        # What a process would take along with it.
        await self.worker._stop()
        return -9


class Spawned:
    """`Spawn`; remembers the workers by node id, the newest of each. `go_on`: they may start."""

    def __init__(self) -> None:
        self.workers: dict[int, Worker] = {}
        self.lives = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, node_id: int, bound: socket, channel: Channel) -> InProcess:
        await self.go_on.wait()
        worker = Worker(bound.dup(), lambda: None)
        await connect(channel, worker.channel)
        self.workers[node_id] = worker
        self.lives += 1
        return InProcess(worker)


@pytest.fixture
async def spawned(monkeypatch: pytest.MonkeyPatch) -> Spawned:
    made = Spawned()
    whole = Cluster.__init__

    def with_spawn(self: Cluster, *arguments: object) -> None:
        whole(self, *arguments[:-1], made)  # type: ignore[arg-type]

    monkeypatch.setattr(groupd.coordinator.workers.hosting.Cluster, "__init__", with_spawn)
    monkeypatch.setattr(
        "groupd.coordinator.workers.worker.configure_logging", lambda *_, **__: None
    )
    return made


@pytest.fixture
async def store() -> MemoryStore:
    return MemoryStore()


OPTIONS = DaemonOptions(
    listen=("127.0.0.1", 0),
    admin=None,
    topics=(("orders", 4),),
    config=CONFIG,
    workers=WorkerOptions(2),
)


@pytest.fixture
async def daemon(spawned: Spawned, store: MemoryStore) -> AsyncIterator[Daemon]:
    made = Daemon(OPTIONS, store=store)
    await made.start()
    yield made
    await made.stop()


def hosting(daemon: Daemon) -> Hosting:
    assert daemon._hosting is not None
    return daemon._hosting


def group_of(shard: int) -> str:
    return next(f"g{n}" for n in range(1000) if partition_for(f"g{n}", SHARDS) == shard)


async def ask(address: tuple[str, int], api: str, version: int, **fields: object) -> dict:  # type: ignore[type-arg]
    """Asks from a thread: the daemon is in this one."""

    def call() -> dict:  # type: ignore[type-arg]
        with WireClient(*address) as client:
            return client.call(api, version, **fields)

    return await asyncio.to_thread(call)


def address(daemon: Daemon, node_id: int) -> tuple[str, int]:
    node = daemon.parts.nodes[node_id]
    return node.host, node.port


async def commit(daemon: Daemon, node_id: int, group: str, offset: int) -> int:
    places = [
        {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}
    ]
    reply = await ask(
        address(daemon, node_id),
        "OffsetCommit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=places,
    )
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


async def test_shards_are_spread_and_write_to_the_one_store(
    daemon: Daemon, store: MemoryStore
) -> None:
    for shard in range(SHARDS):
        assert await commit(daemon, shard % 2 + 1, group_of(shard), 7) == 0
        assert len(await store.read(offsets_log_name(shard), 0, 1 << 20)) == 1
    assert daemon.broker.shards == []
    assert daemon.broker.writer.transactions >= 1


class Halting:
    """A store that does not answer its call number `at` before `go_on`."""

    def __init__(self, store: MemoryStore, at: int) -> None:
        self._store, self._left = store, at
        self.halted, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.halted.set()
                await self.go_on.wait()
            return await found(*given, **named)

        return call


async def test_a_start_is_given_up_wherever_it_waits_for_the_store(spawned: Spawned) -> None:
    """It ends as cancelled, whatever is there by then, and not by an error of its own."""
    for at in count(1):
        store = Halting(MemoryStore(), at)
        starting = asyncio.create_task((made := Daemon(OPTIONS, store=cast(Store, store))).start())
        halted = asyncio.create_task(store.halted.wait())
        await asyncio.wait({starting, halted}, return_when=asyncio.FIRST_COMPLETED)
        halted.cancel()
        if starting.done():
            store.go_on.set()
            await starting
            await made.stop()
            break
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert at > 10


async def test_a_worker_reaches_its_own_logs_only(daemon: Daemon, spawned: Spawned) -> None:
    channel = spawned.workers[1].channel
    foreign = offsets_log_name(1)
    for operation, question in (
        (WorkerOperation.OPEN, [offsets_log_name(0), foreign]),
        (WorkerOperation.APPEND, [Append(foreign, 1, 0, 0, 0, b"x")]),
        (WorkerOperation.READ, LogRead(foreign, 0, 100, min_one=True)),
        (WorkerOperation.DELETE, ["__transaction_state-0"]),
    ):
        with pytest.raises(LogFenced):
            await channel.call(operation, encode(question))
    with pytest.raises(ValueError, match="START is not for the main process"):
        await channel.call(WorkerOperation.START)


async def test_a_worker_that_was_thought_dead_cannot_append(
    daemon: Daemon, spawned: Spawned, store: MemoryStore
) -> None:
    """Its successor has opened the logs; what it sent before comes too late."""
    group = group_of(0)
    assert await commit(daemon, 1, group, 1) == 0
    old = spawned.workers[1]._broker.shards[0]
    epoch, end = old._owner_epoch, old.durable_offset
    hosting(daemon).cluster.links[0]._channel.abort()  # type: ignore[union-attr]
    async with asyncio.timeout(10):
        while spawned.lives < 3 or not hosting(daemon).cluster.links[0].serving:
            await asyncio.sleep(0.01)
    late = Append(offsets_log_name(0), epoch, end, end, 0, b"late")
    with pytest.raises(LogFenced):
        await spawned.workers[1].channel.call(WorkerOperation.APPEND, encode([late]))
    assert await commit(daemon, 1, group, 2) == 0
    assert len(await store.read(offsets_log_name(0), 0, 1 << 20)) == 2


async def test_a_failed_append_reloads_the_shard_of_the_worker(
    daemon: Daemon, store: MemoryStore, spawned: Spawned
) -> None:
    group = group_of(1)
    assert await commit(daemon, 2, group, 1) == 0
    store.fail_next_append(LogUnavailable("disk full"), applied=True)
    assert await commit(daemon, 2, group, 2) == ErrorCode.NOT_COORDINATOR
    async with asyncio.timeout(10):
        while spawned.workers[2]._broker.loading:
            await asyncio.sleep(0.01)
    places = [{"name": "orders", "partition_indexes": [0]}]
    reply = await ask(
        address(daemon, 2), "OffsetFetch", 8, groups=[{"group_id": group, "topics": places}]
    )
    (partition,) = reply["groups"][0]["topics"][0]["partitions"]
    assert partition["committed_offset"] == 2, "the log has decided"
    assert spawned.lives == 2, "no worker had to end for that"


async def test_the_answer_to_a_creation_waits_for_the_workers(
    daemon: Daemon, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupd.coordinator.workers.main_frontend.WAIT_S", 60)
    release = asyncio.Event()
    worker = spawned.workers[2]
    serve = worker.channel._serve

    async def later(operation: WorkerOperation, body: bytes) -> bytes:
        await release.wait()
        answer = serve(operation, body)
        assert isinstance(answer, bytes)
        return answer

    monkeypatch.setattr(
        worker.channel,
        "_serve",
        lambda operation, body: (
            later(operation, body)
            if operation is WorkerOperation.METADATA
            else serve(operation, body)
        ),
    )
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    # It comes in at a worker, which forwards it.
    creating = asyncio.ensure_future(
        ask(address(daemon, 1), "CreateTopics", 7, topics=[topic], timeout=1000)
    )
    async with asyncio.timeout(10):
        while spawned.workers[1]._topics.topic("new") is None:
            await asyncio.sleep(0.001)
    assert hosting(daemon).cluster.behind()
    assert not creating.done()
    assert spawned.workers[2]._topics.topic("new") is None
    release.set()
    assert (await creating)["topics"][0]["error_code"] == 0
    assert spawned.workers[2]._topics.topic("new") is not None


async def test_deleted_topics_lose_their_offsets_at_the_worker(
    daemon: Daemon, spawned: Spawned
) -> None:
    assert await commit(daemon, 1, group_of(0), 1) == 0
    reply = await ask(
        address(daemon, 0),
        "DeleteTopics",
        6,
        topics=[{"name": "orders", "topic_id": None}],
        timeout=1000,
    )
    assert reply["responses"][0]["error_code"] == 0
    async with asyncio.timeout(10):
        while any(shard.shard.offset_count() for shard in spawned.workers[1]._broker.shards):
            await asyncio.sleep(0.01)


async def test_readiness_names_the_worker_that_is_away(daemon: Daemon, spawned: Spawned) -> None:
    cluster = hosting(daemon).cluster
    assert cluster.not_ready() is None
    cluster.links[1].state = WorkerState.DOWN
    assert cluster.not_ready() == "worker 2 is down"
    assert cluster.nodes == daemon.parts.nodes[1:], "it stays in the metadata"
    cluster.links[1].state = WorkerState.SERVING


async def test_who_looks_for_a_worker_that_is_away_is_answered_when_it_is_back(
    daemon: Daemon, spawned: Spawned
) -> None:
    """COORDINATOR_NOT_AVAILABLE three times in a row makes librdkafka wait for ever."""
    group, link = group_of(1), hosting(daemon).cluster.links[1]
    spawned.go_on.clear()
    link._channel.abort()  # type: ignore[union-attr]
    async with asyncio.timeout(10):
        while link.serving:
            await asyncio.sleep(0.001)
    found = await ask(
        address(daemon, 0), "FindCoordinator", 4, key_type=0, coordinator_keys=[group]
    )
    (coordinator,) = found["coordinators"]
    assert coordinator["error_code"] == 0
    assert (coordinator["node_id"], coordinator["port"]) == (2, address(daemon, 2)[1])
    assert hosting(daemon).cluster.find_node(1, "tx") == daemon.parts.nodes[0]
    committing = asyncio.ensure_future(commit(daemon, 2, group, 1))
    spawned.go_on.set()
    assert await committing in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert spawned.lives == 3


async def test_connections_are_counted_where_they_are(daemon: Daemon, spawned: Spawned) -> None:
    await ask(address(daemon, 1), "Metadata", 12, topics=None)
    counted: ConnectionStats = spawned.workers[1].connections
    assert sum(counted.requests.values()) == 1
    assert sum(daemon.connections.requests.values()) == 0, "a forwarded one counts once"


def test_one_process_loads_nothing_of_it() -> None:
    code = (
        "import sys, groupd.coordinator.cli.main\n"
        "import groupd.coordinator.cli.serve, groupd.coordinator.daemon.daemon\n"
        "import groupd.coordinator.admin.metrics, groupd.coordinator.admin.routes\n"
        "sys.exit(any(name.startswith('groupd.coordinator.workers') for name in sys.modules))"
    )
    root = Path(__file__).resolve().parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
