"""A TCP proxy in the test's own loop that cuts or freezes connections when the test says so."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal

When = Literal["before", "after"]


class Proxy:
    """`cut_at(text, when)`: the next connection whose client sends `text` ends, before the server
    gets that or after the server has answered it. `freeze`: nothing is passed on any more.
    `answer`: every client gets these bytes, as if the server had sent them."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: tuple[bytes, When] | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._abandoned: list[asyncio.StreamWriter] = []
        self._abandoning = False
        self.cuts = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._abandoned:
            end.close()

    def abandon(self) -> None:
        """End all connections on the client's side; the server does not learn of it."""
        self._abandoning = True
        for task in self._tasks:
            task.cancel()

    def cut_at(self, text: bytes, when: When) -> None:
        self._cut = text, when

    def answer(self, data: bytes) -> None:
        for client in self._clients:
            client.write(data)

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        self._clients.add(writer)
        answered = asyncio.Event()
        cut = asyncio.Event()
        pumps = [
            asyncio.ensure_future(self._requests(reader, server_writer, answered, cut)),
            asyncio.ensure_future(self._answers(server_reader, writer, answered, cut)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._clients.discard(writer)
            writer.close()
            if self._abandoning:
                self._abandoned.append(server_writer)
            else:
                server_writer.close()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answered: asyncio.Event,
        cut: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            if self._cut is not None and self._cut[0] in data:
                when, self._cut = self._cut[1], None
                self.cuts += 1
                if when == "before":
                    return
                cut.set()
                writer.write(data)
                await answered.wait()
                return
            writer.write(data)
            await writer.drain()

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answered: asyncio.Event,
        cut: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            if cut.is_set():
                answered.set()
                return
            writer.write(data)
            await writer.drain()
