"""TCP links that can be cut and slowed down one by one. They run in a thread of their own, so that
they go on whatever the test waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from tests.support.ports import free_ports

T = TypeVar("T")
How = Literal["refused", "silent"]
CALL_S = 10.0
CHUNK = 65536


class Link:
    """What connects to `port` of 127.0.0.1 talks to `target`, a port there, too."""

    def __init__(self, links: Links, target: int) -> None:
        self.port = 0
        self.target = target
        self._links = links
        self._delay_s = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self, how: How) -> None:
        """`refused`: all connections end, and there are no new ones. `silent`: nothing is passed on
        any more, and nobody is told; what was sent meanwhile arrives once it is mended."""
        self._links.call(self._cut(how))

    def slow(self, delay_s: float) -> None:
        """Whatever is sent takes so long, each way."""
        self._delay_s = delay_s

    def mend(self) -> None:
        """All is as at the start."""
        self._delay_s = 0.0
        self._links.call(self.open())

    async def open(self) -> None:
        self._flowing.set()
        if self._server is None:
            self.port = self.port or free_ports("127.0.0.1", 1)
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        await self._cut("refused")

    async def _cut(self, how: How) -> None:
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
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()


class Links:
    """Makes links, and runs them until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: list[Link] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop of the links."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_S)

    def add(self, target: int) -> Link:
        """An open link to that port."""

        async def made() -> Link:
            link = Link(self, target)
            await link.open()
            return link

        link = self.call(made())
        self._links.append(link)
        return link

    def close(self) -> None:
        for link in self._links:
            self.call(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()
