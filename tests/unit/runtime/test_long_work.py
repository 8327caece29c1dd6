"""Long work comes in slices, and takes turns with other long work."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Generator

import pytest

from groupd.coordinator.runtime import long_work
from groupd.coordinator.runtime.long_work import LongWork
from tests.support.loop_turns import until


class Clock:
    """A clock of nanoseconds that each look moves on, so that a slice has two steps."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 700_000
        return self.now_ns


def work_named(name: str, steps: int, log: list[str]) -> Generator[None, None, str]:
    for _ in range(steps):
        log.append(name)
        yield
    return name


async def test_pieces_take_turns() -> None:
    work, log, done = LongWork(Clock()), [], []  # type: ignore[var-annotated]
    for name in "abc":
        assert not work.add(work_named(name, 5, log), done.append)
    await until(lambda: len(done) == 3)
    # The first step of each is done at once, then each has two steps in its turn.
    assert "".join(log) == "abc" + "aabbcc" * 2
    assert done == ["a", "b", "c"]
    assert work.under_way == 0


async def test_short_work_is_done_at_once() -> None:
    work, done = LongWork(Clock()), []  # type: ignore[var-annotated]
    assert work.add(work_named("a", 0, []), done.append)
    assert done == ["a"]
    assert await work.run(work_named("b", 0, [])) == "b"


async def test_beyond_the_bound_pieces_wait_in_line_but_replies_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_work, "PIECES_AT_ONCE", 1)
    work, log, done = LongWork(Clock()), [], []  # type: ignore[var-annotated]
    work.add(work_named("a", 7, log), done.append)
    work.add(work_named("b", 3, log), done.append)
    work.add_reply(work_named("r", 4, log), done.append, lambda: True)
    assert work.under_way == 2
    await until(lambda: len(done) == 3)
    assert "".join(log) == "ab" + "aarr" * 2 + "aaaa"[: 7 - 5] + "bb"
    assert done == ["r", "a", "b"]


async def test_work_that_nobody_wants_any_more_is_dropped_also_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_work, "PIECES_AT_ONCE", 1)
    work, log, done, wanted = LongWork(Clock()), [], [], [True]  # type: ignore[var-annotated]
    work.add(work_named("a", 9, log), done.append, lambda: wanted[0])
    work.add(work_named("b", 9, log), done.append, lambda: wanted[0])
    work.add(work_named("c", 2, log), done.append)
    wanted[0] = False
    await until(lambda: done == ["c"])
    assert "".join(log) == "abcc"


@pytest.mark.parametrize("steps", [0, 3])
async def test_an_error_ends_the_work_and_is_told(steps: int) -> None:
    def broken() -> Generator[None, None, None]:
        for _ in range(steps):
            yield
        raise ValueError("no more")

    work, done = LongWork(Clock()), []  # type: ignore[var-annotated]
    work.add(broken(), done.append)
    await until(lambda: len(done) == 1)
    assert isinstance(done[0], ValueError)
    with pytest.raises(ValueError, match="no more"):
        await work.run(broken())


async def test_a_caller_that_is_cancelled_drops_its_work() -> None:
    work, log = LongWork(Clock()), []  # type: ignore[var-annotated]
    task = asyncio.ensure_future(work.run(work_named("a", 1000, log)))
    await asyncio.sleep(0)
    task.cancel()
    await until(lambda: work.under_way == 0)
    assert len(log) < 10


async def test_a_clock_that_stands_still_runs_each_piece_to_its_end() -> None:
    work, log, done = LongWork(lambda: 0), [], []  # type: ignore[var-annotated]
    for name in "ab":
        work.add(work_named(name, 5, log), done.append)
    await until(lambda: len(done) == 2)
    assert "".join(log) == "ab" + "aaaa" + "bbbb"


class AtHand:
    """Stands for what steps work on, which may be large."""


@pytest.mark.slow
@pytest.mark.parametrize("stops", [0, 3])
async def test_an_error_does_not_keep_what_the_steps_had_at_hand(stops: int) -> None:
    """Python looks for cycles now and then only; unpacked batches cannot wait for that."""
    had: list[weakref.ref[AtHand]] = []

    def broken() -> Generator[None, None, None]:
        at_hand = AtHand()
        had.append(weakref.ref(at_hand))
        for _ in range(stops):
            yield
        raise ValueError("no more")

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            await LongWork(Clock()).run(broken())
        await asyncio.sleep(0)  # the loop is done with what has woken us
        assert had[0]() is None
    finally:
        gc.enable()
