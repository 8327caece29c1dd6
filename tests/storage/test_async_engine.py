"""What `storage.async_engine` takes of SQLAlchemy is not all public: a new version that has it no
longer is to be noticed here, by name, and not in a daemon that does not start."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import subprocess
import sys

from sqlalchemy.engine import create, default

HINT = "look at storage/async_engine.py: sqlalchemy.ext.asyncio is the public way"


def test_a_call_runs_in_a_greenlet_that_waits_for_coroutines() -> None:
    util = importlib.import_module("sqlalchemy.util")
    for name in ("greenlet_spawn", "await_only"):
        assert hasattr(util, name), f"sqlalchemy.util.{name} is gone; {HINT}"

    async def driver() -> int:
        await asyncio.sleep(0)
        return 7

    assert asyncio.run(util.greenlet_spawn(lambda: util.await_only(driver()))) == 7


def test_create_engine_takes_asyncio_dialects_when_told() -> None:
    assert '"_is_async"' in inspect.getsource(create), f"_is_async is gone; {HINT}"
    assert hasattr(default.DefaultDialect, "is_async"), f"is_async of dialects is gone; {HINT}"


def test_the_orm_is_not_loaded() -> None:
    loaded = "import groupd.storage.sqlite, sys; sys.exit('sqlalchemy.orm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
