"""Signals while the daemon starts, serves and stops; one process, no subprocess."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from groupd.coordinator.cli import serve, stop_signals
from groupd.coordinator.daemon.daemon import CannotStart
from groupd.coordinator.failures import DaemonFailed


class FakeDaemon:
    """`start` waits for `go`; every step is noted."""

    kafka_addresses: ClassVar[dict[str, tuple[str, int]]] = {"PLAINTEXT": ("127.0.0.1", 1)}
    admin_address = ("::1", 2)
    has_certificates = False

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.taken = asyncio.Event()
        self.steps: list[str] = []
        self.error: Exception | None = None

    async def start(self) -> None:
        self.steps.append("start")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.steps.append("given up")
            raise
        if self.error is not None:
            raise self.error
        self.steps.append("started")

    async def lost(self) -> str:
        await self.taken.wait()
        return "another has it"

    async def stop(self) -> None:
        self.steps.append("stop")


@pytest.fixture
async def daemon(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeDaemon]:
    monkeypatch.setattr(serve.collector, "serve", lambda: None)
    monkeypatch.setattr(stop_signals, "STOP", stop_signals.StopRequest())
    before = {number: signal.getsignal(number) for number in stop_signals.NUMBERS}
    stop_signals.catch()
    yield FakeDaemon()
    for number, handler in before.items():
        signal.signal(number, handler)


async def running(daemon: Any) -> asyncio.Task[None]:
    task = asyncio.ensure_future(serve._run(daemon, lambda: None))
    while "start" not in daemon.steps:
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_the_start_gives_it_up(
    daemon: FakeDaemon, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    task = await running(daemon)
    os.kill(os.getpid(), number)
    async with asyncio.timeout(5):
        await task
    assert daemon.steps == ["start", "given up"]
    assert "ready" not in capsys.readouterr().out


async def test_a_signal_while_it_serves_stops_it(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    task = await running(daemon)
    daemon.go.set()
    while "started" not in daemon.steps:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await task
    assert daemon.steps == ["start", "started", "stop"]
    assert capsys.readouterr().out == "groupd ready kafka=127.0.0.1:1 admin=[::1]:2\n"


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_further_signals_change_nothing(daemon: FakeDaemon, first: signal.Signals) -> None:
    daemon.go.set()
    task = await running(daemon)
    for number in (first, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    async with asyncio.timeout(5):
        await task
    os.kill(os.getpid(), signal.SIGTERM)
    assert daemon.steps == ["start", "started", "stop"]


async def test_a_signal_from_before_the_loop_counts(daemon: FakeDaemon) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await serve._run(daemon, lambda: None)  # type: ignore[arg-type]
    assert "started" not in daemon.steps


async def test_a_daemon_whose_store_is_taken_over_stops(daemon: FakeDaemon) -> None:
    daemon.go.set()
    daemon.taken.set()
    with pytest.raises(DaemonFailed, match="another has it"):
        async with asyncio.timeout(5):
            await serve._run(daemon, lambda: None)  # type: ignore[arg-type]
    assert daemon.steps == ["start", "started", "stop"]


async def test_a_start_that_fails_is_told_and_not_stopped(daemon: FakeDaemon) -> None:
    daemon.error = CannotStart("because")
    daemon.go.set()
    with pytest.raises(CannotStart, match="because"):
        await serve._run(daemon, lambda: None)  # type: ignore[arg-type]
    assert daemon.steps == ["start"]
