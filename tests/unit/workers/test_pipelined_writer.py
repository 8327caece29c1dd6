"""The writer of a worker: what may be under way at a time, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from groupd.coordinator.workers.pipelined_writer import UNDER_WAY_MAX, PipelinedWriter
from groupd.storage.log import Append, LogError, LogFenced, LogUnavailable


class HeldLogs:
    """Appends that wait for `settle`."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], asyncio.Future[None]]] = []

    async def append(self, batches: Sequence[Append]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls.append(([batch.name for batch in batches], future))
        await future

    @property
    def names(self) -> list[list[str]]:
        return [names for names, _ in self.calls]

    def settle(self, number: int, error: LogError | None = None) -> None:
        future = self.calls[number][1]
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


class Log:
    """A source: numbers of batches that wait, and what it was told."""

    def __init__(self, name: str, writer: PipelinedWriter) -> None:
        self.name, self._writer = name, writer
        self.waiting = 0
        self.told: list[LogError | None] = []
        self.under_way = False

    def write(self) -> None:
        self.waiting += 1
        self._writer.mark(self)

    def take(self) -> list[Append]:
        assert not self.under_way, "taken again before it was told"
        self.under_way = True
        taken, self.waiting = self.waiting, 0
        return [Append(self.name, 1, n, n, 0, b"x") for n in range(taken)]

    def done(self, error: LogError | None) -> None:
        self.under_way = False
        self.told.append(error)


@pytest.fixture
async def logs() -> HeldLogs:
    return HeldLogs()


@pytest.fixture
async def writer(logs: HeldLogs) -> AsyncIterator[PipelinedWriter]:
    made = PipelinedWriter(logs)  # type: ignore[arg-type]
    made.start()
    yield made
    for _, future in logs.calls:
        if not future.done():
            future.set_result(None)
    await made.close()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_other_logs_do_not_wait_and_the_same_one_does(
    writer: PipelinedWriter, logs: HeldLogs
) -> None:
    a, b = Log("a", writer), Log("b", writer)
    a.write()
    await turns()
    a.write()
    a.write()
    b.write()
    await turns()
    assert logs.names == [["a"], ["b"]]
    logs.settle(1)
    await turns()
    assert (a.told, b.told) == ([], [None])
    logs.settle(0)
    await turns()
    assert logs.names == [["a"], ["b"], ["a", "a"]], "what it gathered meanwhile, together"
    logs.settle(2)
    await turns()
    assert a.told == [None, None]
    assert not writer.busy


async def test_what_comes_together_goes_together(writer: PipelinedWriter, logs: HeldLogs) -> None:
    sources = [Log(name, writer) for name in "abc"]
    for source in sources:
        source.write()
    await turns()
    assert logs.names == [["a", "b", "c"]]


async def test_there_is_a_limit(writer: PipelinedWriter, logs: HeldLogs) -> None:
    sources = [Log(f"log-{n}", writer) for n in range(UNDER_WAY_MAX + 3)]
    for source in sources:
        source.write()
        await turns()
    assert len(logs.calls) == UNDER_WAY_MAX
    logs.settle(0)
    await turns()
    assert logs.names[-1] == [f"log-{UNDER_WAY_MAX + n}" for n in range(3)]


async def test_failures_are_told_to_those_they_concern(
    writer: PipelinedWriter, logs: HeldLogs
) -> None:
    a, b, c = (Log(name, writer) for name in "abc")
    a.write()
    b.write()
    await turns()
    c.write()
    await turns()
    logs.settle(0, LogFenced(["a"]))
    logs.settle(1, LogUnavailable("away"))
    await turns()
    assert isinstance(a.told[0], LogFenced)
    assert isinstance(c.told[0], LogUnavailable)
    assert logs.names[-1] == ["b"], "again without the fenced one"
    logs.settle(2)
    await turns()
    assert b.told == [None]
    assert writer.failures == 2


async def test_close_waits_for_what_is_under_way_and_what_waits(
    writer: PipelinedWriter, logs: HeldLogs
) -> None:
    a = Log("a", writer)
    a.write()
    await turns()
    a.write()
    closing = asyncio.ensure_future(writer.close())
    await turns()
    assert not closing.done()
    logs.settle(0)
    await turns()
    assert not closing.done()
    logs.settle(1)
    await closing
    assert a.told == [None, None]
    a.write()
    assert isinstance(a.told[2], LogUnavailable), "a closed writer refuses at once"
