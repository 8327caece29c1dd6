"""What a crash test needs to know of a store: how a daemon is told of it, and how one is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support.postgres import running_postgres

Arguments = Callable[[Path], list[str]]
"""Takes an empty directory; returns the flags that make a daemon keep its data in a store of its
own, the same one for every start."""


@contextmanager
def sqlite() -> Iterator[Arguments]:
    yield lambda directory: ["--data-dir", str(directory / "data")]


@contextmanager
def postgres() -> Iterator[Arguments]:
    with running_postgres() as server:
        yield lambda directory: [
            *["--data-dir", str(directory / "data")],
            *["--store", server.url(server.new_database())],
        ]


STORES: Mapping[str, Callable[[], AbstractContextManager[Arguments]]] = {
    "postgres": postgres,
    "sqlite": sqlite,
}
