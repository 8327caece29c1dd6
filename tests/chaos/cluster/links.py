"""TCP links that can be cut and slowed down one by one. They run in a process of their own: what
the test itself does must not make them slow."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Coroutine
from contextlib import suppress
from multiprocessing.managers import BaseManager
from typing import Any, Literal, TypeVar

from tests.support.ports import free_ports

T = TypeVar("T")
How = Literal["refused", "silent"]
CALL_S = 10.0
CHUNK = 65536


class Link:
    """What connects to `port` of 127.0.0.1 talks to `target`, a port there, too."""

    def __init__(self, process: Any, number: int, port: int, target: int) -> None:
        self.port = port
        self._process, self._number, self._target = process, number, target

    def cut(self, how: How) -> None:
        """`refused`: all connections end, and there are no new ones. `silent`: nothing is passed on
        any more, and nobody is told; what was sent meanwhile arrives once it is mended."""
        self._process.cut(self._number, how)

    def slow(self, delay_s: float) -> None:
        """Whatever is sent takes so long, each way."""
        self._process.slow(self._number, delay_s)

    def mend(self, target: int | None = None) -> None:
        """All is as at the start, or leads to another `target`."""
        self._target = target or self._target
        self._process.mend(self._number, self._target)


class Links:
    """Makes links, and runs them until `close`."""

    def __init__(self) -> None:
        self._manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        self._manager.start()
        self._process = self._manager.Pipes()  # type: ignore[attr-defined]

    def add(self, target: int) -> Link:
        """An open link to that port."""
        number, port = self._process.add(target)
        return Link(self._process, number, port, target)

    def close(self) -> None:
        self._manager.shutdown()


# In the other process -------------------------------------------------------------------------


class _Pipe:
    """A link, in the loop of its process."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.target = target
        self.delay_s = 0.0
        self._flowing = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._flowing.set()
        if self._server is None:
            self.port = self.port or free_ports("127.0.0.1", 1)
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self, how: How) -> None:
        if how == "silent":
            self._flowing.clear()
            return
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends = [writer]
        pumps: list[asyncio.Task[None]] = []
        try:
            with suppress(OSError):
                theirs, other = await asyncio.open_connection("127.0.0.1", self.target)
                ends.append(other)
                pumps += [
                    asyncio.ensure_future(self._pump(reader, other)),
                    asyncio.ensure_future(self._pump(theirs, writer)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            return  # the link was cut
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in ends:
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()


class _Pipes:
    """All links, by number."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pipes: list[_Pipe] = []
        threading.Thread(target=self._loop.run_forever, name="links", daemon=True).start()

    def add(self, target: int) -> tuple[int, int]:
        """The number of a new one, and its port."""

        async def made() -> _Pipe:
            pipe = _Pipe(target)
            await pipe.open()
            return pipe

        self._pipes.append(self._call(made()))
        return len(self._pipes) - 1, self._pipes[-1].port

    def cut(self, number: int, how: How) -> None:
        self._call(self._pipes[number].cut(how))

    def slow(self, number: int, delay_s: float) -> None:
        self._pipes[number].delay_s = delay_s

    def mend(self, number: int, target: int) -> None:
        pipe = self._pipes[number]
        pipe.target, pipe.delay_s = target, 0.0
        self._call(pipe.open())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_S)


class _Manager(BaseManager):
    pass


_Manager.register("Pipes", _Pipes)
