"""Where a broker under test runs: on a thread of this process (`LoopThread`), or in a process of
its own (`ChildProcess`). Both have the same methods.

The child process receives calls over its standard streams and ends when they are closed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import uvloop

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.logs import log_through_stdlib
from groupd.testing.engine import Engine, HarnessOptions
from groupd.testing.operations import Operations

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

_LENGTH = struct.Struct(">I")
STARTED = 0
"""The number of the answer that reports whether the start succeeded."""
CLOSE_TIMEOUT_S = 5.0


class Frames:
    """Sends pickled objects over two pipes, one for each direction: a length of four bytes, then
    the pickle. Pickle is safe here, because both ends are the same program and we start the other
    one. Any thread may call `send`; only one thread may call `receive`."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()

    def send(self, value: Any) -> None:
        data = pickle.dumps(value)
        with self._lock:
            self._writer.write(_LENGTH.pack(len(data)) + data)
            self._writer.flush()

    def receive(self) -> Any:
        """The next object. Raises EOFError if the other end has closed the pipe."""
        head = self._reader.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise EOFError
        (length,) = _LENGTH.unpack(head)
        data = self._reader.read(length)
        if len(data) < length:
            raise EOFError
        return pickle.loads(data)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class LoopThread:
    """A broker on a thread. Call `start` first, then `call` any number of times from any thread,
    then `close`."""

    def __init__(self, options: HarnessOptions) -> None:
        log_through_stdlib()
        self._engine = Engine(options)
        self._loop = uvloop.new_event_loop()
        self._operations = Operations(self._engine)
        if options.control:
            from groupd.testing.control_api import ControlApi

            self._engine.control = ControlApi(self._operations)
        self._thread = threading.Thread(target=self._run, name="groupd", daemon=True)
        self._closed = False

    def start(self) -> Future[Any]:
        """Begin to start the broker. The future has the result of `Operations.addresses`, or an
        error."""
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(), self._loop)

    def call(self, name: str, *args: Any, **options: Any) -> Future[Any]:
        """Call the method `name` of `Operations`. Raises HarnessError if the broker is closed."""
        if self._closed:
            raise HarnessError("the broker is closed")
        coroutine = getattr(self._operations, name)(*args, **options)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Stop the broker and the thread. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._engine.stop(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _start(self) -> Any:
        await self._engine.start()
        return await self._operations.addresses()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:  # calls that still wait, although their callers are gone
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            asyncio.set_event_loop(None)


def main() -> None:
    """The main function of the child process."""
    # What the broker prints must not mix with the frames on stdout.
    frames = Frames(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    try:
        thread = LoopThread(frames.receive())
    except ValueError as error:  # a wrong setting
        frames.send((STARTED, None, error))
        return
    thread.start().add_done_callback(partial(_answer, frames, STARTED))
    while True:
        try:
            number, name, args, options = frames.receive()
        except EOFError:
            break
        thread.call(name, *args, **options).add_done_callback(partial(_answer, frames, number))
    thread.close()


def _answer(frames: Frames, number: int, done: Future[Any]) -> None:
    error = done.exception()
    frames.send((number, None if error else done.result(), error))


class ChildProcess:
    """A broker in a child process, with the same methods as `LoopThread`. `pid`: its process id,
    for sending signals."""

    def __init__(self, options: HarnessOptions) -> None:
        self._options = options
        self._numbers = itertools.count(STARTED + 1)
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._process: subprocess.Popen[bytes]
        self._frames: Frames
        self._reader = threading.Thread(target=self._read, name="groupd-calls", daemon=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> Future[Any]:
        root = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from groupd.testing import broker_hosts"
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{code}; broker_hosts.main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        started = self._calls[STARTED] = Future()
        self._reader.start()
        try:
            self._frames.send(self._options)
        except OSError:
            self._fail_calls()
        return started

    def call(self, name: str, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._gone:
                raise HarnessError("the broker's process is gone")
            number = next(self._numbers)
            self._calls[number] = future
        try:
            self._frames.send((number, name, args, options))
        except OSError:
            self._fail_calls()
        return future

    def close(self) -> None:
        """Stop the broker and end the process. A second call does nothing."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            # If the process died, the buffer may still have a call that it did not read. Closing
            # then tries to write that call.
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        while True:
            try:
                number, result, error = self._frames.receive()
            except (EOFError, OSError, ValueError):
                self._fail_calls()
                return
            with self._lock:
                future = self._calls.pop(number)
            if error is not None:
                future.set_exception(error)
            elif future.set_running_or_notify_cancel():
                future.set_result(result)

    def _fail_calls(self) -> None:
        with self._lock:
            self._gone = True
            calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(HarnessError("the broker's process is gone"))
