"""A worker that is stopped, wherever its start may be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.workers.channel import Answer, Channel
from groupd.coordinator.workers.messages import Start, WorkerOperation, encode
from groupd.coordinator.workers.worker import Worker
from groupd.storage.log import LogError
from tests.support.remote_store import connect

SHARDS = (0, 2)


class Main:
    """The other end: its logs answer nothing until `answers`."""

    def __init__(self) -> None:
        self.channel = Channel(self._serve)
        self.bound = socket.create_server(("127.0.0.1", 0))
        self.worker = Worker(self.bound.dup(), self._orphaned)
        self.asked = asyncio.Event()
        self.orphaned = False

    def _orphaned(self) -> None:
        self.orphaned = True

    def _serve(self, operation: WorkerOperation, body: bytes) -> Answer:
        self.asked.set()
        return asyncio.get_running_loop().create_future()

    def start(self, assignors: tuple[str, ...] = ("uniform",)) -> asyncio.Future[bytes]:
        config = replace(
            CoordinatorConfig(), offsets_topic_num_partitions=4, consumer_assignors=assignors
        )
        start = Start(1, "127.0.0.1", 1, SHARDS, config, MetadataImage(), {}, "text", "info", "c")
        return self.channel.start_call(WorkerOperation.START, encode(start))

    async def stopped(self) -> bool:
        """Whether STOP is carried out, with no error in the log, and nobody listens afterwards. The
        socket itself is the main process's."""
        with capture_logs() as logs:
            answer = await asyncio.wait_for(self.channel.call(WorkerOperation.STOP), 10)
        assert [line for line in logs if line["log_level"] == "error"] == []
        with socket.create_connection(self.bound.getsockname()):
            for _ in range(20):
                await asyncio.sleep(0)
        return answer == b"" and self.worker.connections.accepted == 0


@pytest.fixture
async def main(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Main]:
    monkeypatch.setattr(
        "groupd.coordinator.workers.worker.configure_logging", lambda *_, **__: None
    )
    made = Main()
    await connect(made.channel, made.worker.channel)
    yield made
    made.channel.close()
    await made.worker.channel.lost.wait()
    made.bound.close()
    assert not made.orphaned, "it was stopped in order"


async def test_stopped_before_it_is_told_who_it_is(main: Main) -> None:
    assert await main.stopped()


async def test_stopped_after_a_start_that_failed(main: Main) -> None:
    with pytest.raises(Exception, match="no:such"):
        await main.start(("no:such",))
    assert await main.stopped()


async def test_stopped_while_it_loads(main: Main) -> None:
    starting = main.start()
    await main.asked.wait()
    assert await main.stopped()
    with pytest.raises(LogError):
        await starting


async def test_stopped_right_behind_its_start(main: Main) -> None:
    starting = main.start()
    assert await main.stopped()
    with pytest.raises(LogError):
        await starting


async def test_stopped_twice(main: Main) -> None:
    starting = main.start()
    assert await main.stopped()
    assert await main.stopped()
    with pytest.raises(LogError):
        await starting


@pytest.mark.parametrize(
    "operation",
    [
        WorkerOperation.METADATA,
        WorkerOperation.GROUP_CONFIGS,
        WorkerOperation.MARKER,
        WorkerOperation.METRICS,
    ],
)
async def test_what_needs_a_start_is_refused_before_it(
    main: Main, operation: WorkerOperation
) -> None:
    with capture_logs() as logs, pytest.raises(LogError, match="has not started"):
        await main.channel.call(operation, b"{}")
    assert logs == []
    assert await main.stopped()
