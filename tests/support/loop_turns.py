"""Counts the Python calls of each turn of the event loop. A count does not depend on the machine,
so it stands for the time that others have to wait."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import structlog
from msgspec import Struct

from groupd.protocol.messages.offsets import CommitRows


class Turns:
    """A context manager for a coroutine: counts until it is left. `most`: the most calls in one
    turn, and by function in `most_called`. Other threads are not counted."""

    def __init__(self) -> None:
        self.turns = 0
        self.most = 0
        self.most_called: dict[str, int] = {}
        self._calls = 0
        self._called: dict[str, int] = {}

    def __enter__(self) -> Turns:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._end()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "_run_once":
            self._end()
        self._calls += 1
        self._called[code.co_qualname] = self._called.get(code.co_qualname, 0) + 1

    def _end(self) -> None:
        """A turn is over."""
        self.turns += 1
        if self._calls > self.most:
            self.most, self.most_called = self._calls, self._called
        self._calls, self._called = 0, {}

    def __str__(self) -> str:
        called = sorted(self.most_called.items(), key=lambda one: -one[1])[:12]
        return f"{self.most} calls in one turn: " + ", ".join(f"{n} {name}" for name, n in called)


class OneStepATurn:
    """A clock for `LongWork`, in nanoseconds: each turn of the loop works one step."""

    def __init__(self) -> None:
        self._now_ns = 0

    def __call__(self) -> int:
        self._now_ns += 1_500_000
        return self._now_ns


@contextmanager
def without_log() -> Iterator[None]:
    """No log lines, as in a daemon at its default level: what is not written costs nothing."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.configure(**before)


def arrays(hint: Any, path: str) -> Iterator[str]:
    """The paths of the arrays in a field of this type, or in a message; those in a tuple by their
    place."""
    if get_origin(hint) in (Union, UnionType):
        for kind in get_args(hint):
            yield from arrays(kind, path)
    elif get_origin(hint) is tuple:
        kinds = get_args(hint)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            yield path
            (item, _) = kinds
            nested = get_origin(item) is tuple and Ellipsis in get_args(item)
            yield from arrays(item, f"{path}." if nested else path)
        else:
            for place, kind in enumerate(kinds):
                yield from arrays(kind, f"{path}.{place}")
    elif hint is CommitRows:
        yield path
    elif isinstance(hint, type) and issubclass(hint, Struct):
        for name, kind in get_type_hints(hint).items():
            yield from arrays(kind, f"{path}.{name}")


async def until(condition: Callable[[], object]) -> None:
    """Gives other tasks and sockets their turns until `condition()` is true."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
