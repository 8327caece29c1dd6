"""A killed writer leaves whole appends only."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from groupd.storage.open import create_store
from groupd.storage.sqlite import SqliteBackend


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groupd.sqlite"


_WRITER = """
import asyncio, sys
from groupd.storage.log import Append
from groupd.storage.open import create_store

async def main():
    store = create_store(None, sys.argv[1])
    await store.start()
    names = [f"log-{number}" for number in range(5)]
    states = await store.open_many(names)
    base = states[names[0]].next_offset
    while True:
        await store.append([
            Append(name, states[name].owner_epoch, base, base, base, b"%d" % base * 500)
            for name in names
        ])
        base += 1
        print(base, flush=True)

asyncio.run(main())
"""


@pytest.mark.crash
async def test_lg_06_killed_while_appending(database: Path) -> None:
    acknowledged = 0
    for round_ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(database.parent)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(20 + round_):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().splitlines():
            acknowledged = int(line) if line.isdigit() else acknowledged
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        backend = SqliteBackend(database)
        await backend.start()
        check = await backend.read(
            lambda connection: connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        )
        await backend.close()
        assert check == "ok"
        store = create_store(None, database.parent)
        await store.start()
        states = await store.open_many([f"log-{number}" for number in range(5)])
        (end,) = {state.next_offset for state in states.values()}
        assert end in (acknowledged, acknowledged + 1)
        for name in states:
            found = await store.read(name, 0, 1 << 30)
            assert [item.base_offset for item in found] == list(range(end))
            assert all(item.payload == b"%d" % item.base_offset * 500 for item in found)
        await store.close()
