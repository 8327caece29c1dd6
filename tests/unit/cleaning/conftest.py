from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from groupd.coordinator.runtime.process_tuning import threads_have_short_turns
from groupd.storage.memory import MemoryStore
from groupd.storage.open import create_store
from tests.unit.cleaning.harness import Bench


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """As in a daemon: beside a test that never rests, the threads of SQLite otherwise starve."""
    before = sys.getswitchinterval()
    threads_have_short_turns()
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=["memory", "sqlite"])
def make_bench(request, tmp_path):
    """Starts a bench: `await make_bench(**settings)`."""
    store = MemoryStore() if request.param == "memory" else create_store(None, tmp_path)
    return lambda **settings: Bench(store, **settings).start()


@pytest.fixture
async def bench(make_bench):
    made = await make_bench()
    yield made
    await made.stop()
