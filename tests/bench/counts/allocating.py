"""Runs a module and writes down what each of its requests allocates:
`python allocating.py OUT MODULE ARGUMENT...`.

OUT has of each request, by the correlation id: the bytes that it needed at most at once, those that
it left behind, and the memory blocks that it left behind. It is over when the next one comes.
"""

from __future__ import annotations

import json
import runpy
import sys
import tracemalloc
from array import array
from pathlib import Path

from groupd.coordinator.server.connection import Connection

CORRELATION = slice(8, 12)
MOST = 100_000
"""Requests. There is room for all of them from the beginning, because notes would be allocations,
too."""
FIELDS = 4
_receive = Connection.data_received
_notes = array("q", bytes(8 * FIELDS * MOST))
_count = 0


def _received(self: Connection, data: bytes) -> None:
    global _count
    at = _count * FIELDS
    _notes[at + 1], _notes[at + 2] = tracemalloc.get_traced_memory()
    _notes[at + 3] = sys.getallocatedblocks()
    _notes[at] = int.from_bytes(data[CORRELATION], "big")
    _count += 1
    tracemalloc.reset_peak()
    _receive(self, data)


def _write(path: Path) -> None:
    requests: dict[int, list[tuple[int, int, int]]] = {}
    for at in range(0, (_count - 1) * FIELDS, FIELDS):
        number, before, _, blocks = _notes[at : at + FIELDS]
        _, after, peak, blocks_after = _notes[at + FIELDS : at + 2 * FIELDS]
        found = peak - before, after - before, blocks_after - blocks
        requests.setdefault(number, []).append(found)
    path.write_text(json.dumps(requests))


def main() -> None:
    out, module, *arguments = sys.argv[1:]
    sys.argv[:] = [module, *arguments]
    Connection.data_received = _received  # type: ignore[method-assign]
    tracemalloc.start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        _write(Path(out))


if __name__ == "__main__":
    main()
