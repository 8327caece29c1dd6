"""The child process of `GroupCoordinator.start(process=True)`: a broker that takes calls over its
standard streams and ends when they are closed."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future
from functools import partial
from typing import Any

from groupd.testing.frames import Frames
from groupd.testing.loop_thread import LoopThread

STARTED = 0
"""The number of the answer that reports whether the start succeeded."""


def main() -> None:
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


if __name__ == "__main__":
    main()
