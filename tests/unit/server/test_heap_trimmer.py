"""Memory is given back to the system after a crowd of clients."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime import process_tuning
from groupd.coordinator.server.byte_budget import FREE_BYTES, Account, ByteBudget
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.heap_trimmer import MUCH, HeapTrimmer
from tests.support.manual_clock import ManualClock
from tests.unit.server.harness import Client, FakeTransport, a_listener, own_resources

CROWD = MUCH // FREE_BYTES


class Setting:
    def __init__(self) -> None:
        self.budget = ByteBudget(1 << 30, ManualClock())
        self.account = Account(self.budget, lambda callback: None, lambda: None)
        self.given_back = 0
        self.heap_trimmer = HeapTrimmer(self.budget, self._gone)

    def _gone(self) -> None:
        self.given_back += 1

    def look(self, accepted: int = 0, opened: int = 0) -> int:
        """How often memory has been given back, after a look."""
        self.heap_trimmer.look(accepted, opened)
        return self.given_back


def test_a_crowd_that_comes_and_goes_between_two_looks_is_noticed_once() -> None:
    setting = Setting()
    assert setting.look(CROWD - 1, 0) == 0
    assert setting.look(3 * CROWD, 5) == 1
    assert setting.look(3 * CROWD, 5) == 1


def test_a_crowd_counts_until_it_has_gone() -> None:
    setting = Setting()
    assert setting.look(2 * CROWD, 2 * CROWD) == 0
    assert setting.look(2 * CROWD, 2 * CROWD) == 0
    assert setting.look(2 * CROWD, CROWD + 1) == 0
    assert setting.look(2 * CROWD, CROWD) == 1
    assert setting.look(2 * CROWD, 1) == 1
    assert setting.look(2 * CROWD, 0) == 2


def test_large_frames_and_replies_count() -> None:
    setting = Setting()
    setting.account.grow(MUCH + FREE_BYTES)
    assert setting.look() == 0
    setting.account.grow(-MUCH)
    assert setting.look() == 1
    setting.account.grow(MUCH)
    setting.account.grow(-MUCH)
    assert setting.look() == 2
    assert setting.look() == 2


async def test_the_sweep_of_the_connections_looks() -> None:
    clock, stats, shared = ManualClock(), ConnectionStats(), own_resources()
    listener = a_listener(CoordinatorConfig(), clock, Client(), stats, shared)
    await listener.start("127.0.0.1", 0)
    looks: list[tuple[int, int]] = []
    shared.heap_trimmer.look = lambda *seen: looks.append(seen)  # type: ignore[method-assign]
    connection = listener._make()
    connection.connection_made(FakeTransport())
    clock.advance(60_000)
    connection.connection_lost(None)
    clock.advance(30_000)
    listener.close_listener()
    assert looks == [(1, 1), (1, 1), (1, 0)]


def test_only_a_process_of_our_own_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    over = threading.Event()

    def trim(pad: int) -> None:
        trimmed.append(pad)
        over.set()

    library = SimpleNamespace(malloc_trim=trim, mallopt=lambda option, value: 1)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(process_tuning, "_ours", False)
    process_tuning.give_back_small_blocks()
    assert trimmed == []
    process_tuning.give_back_large_blocks()
    process_tuning.give_back_small_blocks()
    assert over.wait(10)
    assert trimmed == [0]
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    process_tuning.give_back_small_blocks()
