"""Counts the memory that batches take while they are unpacked: `tracemalloc` sees no mappings."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from typing import Any
from unittest import mock


class Unpacked:
    """`now`, `most`: bytes in mappings; `traced`: the most bytes of other objects."""

    def __init__(self) -> None:
        self.now = self.most = self.traced = 0


@contextmanager
def counted_memory() -> Iterator[Unpacked]:
    """Counts what is taken inside of the context, which must take all of it there."""
    found = Unpacked()

    class Counted(mmap):
        def __new__(cls, number: int, size: int, **how: Any) -> Counted:
            found.now += size
            found.most = max(found.most, found.now)
            made = super().__new__(cls, number, size, **how)
            made.size_taken = size
            return made

        size_taken: int

        def __del__(self) -> None:
            found.now -= self.size_taken

    with mock.patch("groupd.protocol.records.compression.mmap", Counted):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            yield found
            found.traced = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
