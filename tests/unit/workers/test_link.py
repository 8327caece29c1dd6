"""Supervision of one worker, with time that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.workers.link import (
    BACKOFF_MAX_MS,
    BACKOFF_MS,
    FIRST_LIVES,
    FIRST_PINGS,
    PING_INTERVAL_MS,
    STEADY_MS,
    WorkerState,
)
from groupd.coordinator.workers.messages import Health, WorkerOperation, encode
from groupd.storage.log import LogError, LogUnavailable
from tests.support.loop_turns import until
from tests.unit.workers.harness import TIMEOUT_MS, Lives, StubWorker

Make = Callable[..., Lives]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[Lives] = []

    def new(*script: Callable[[], StubWorker]) -> Lives:
        made.append(Lives(*script))
        return made[-1]

    yield new
    for lives in made:
        await lives.close()


async def test_it_is_told_who_it_is_and_then_serves(make: Make) -> None:
    lives = make()
    await lives.link.launch()
    assert lives.worker.asked == []
    lives.link.supervise()
    await lives.serving(1)
    assert lives.worker.asked[0] is WorkerOperation.START
    assert lives.link.pid == lives.worker.pid
    await lives.link.first_served()


async def test_while_it_loads_it_does_not_serve(make: Make) -> None:
    lives = make(lambda: StubWorker(slow_start=True))
    lives.link.supervise()
    await until(lambda: lives.workers and lives.worker.started is not None)
    assert lives.link.state is WorkerState.STARTING
    with pytest.raises(LogError):
        await lives.link.ask(WorkerOperation.METRICS)
    lives.worker.started.set_result(encode(Health()))
    await lives.serving(1)


async def test_one_that_ends_is_started_again_after_a_pause(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    lives.workers[0].exit(1)
    await lives.down()
    assert lives.link.state is WorkerState.DOWN
    lives.clock.advance(BACKOFF_MS - 1)
    await asyncio.sleep(0)
    assert len(lives.workers) == 1
    lives.clock.advance(1)
    await lives.serving(2)
    assert lives.link.restarts == 1


async def test_pauses_grow_up_to_a_limit_and_shrink_after_a_long_life(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    pauses = []
    for life in range(1, 9):
        await lives.serving(life)
        lives.worker.exit(1)
        await lives.down()
        before_ms = lives.clock.now().monotonic_ms
        next_ms = lives.clock.next_timer_ms()
        assert next_ms is not None
        pauses.append(next_ms - before_ms)
        lives.clock.advance(pauses[-1])
    assert pauses == [200, 400, 800, 1600, 3200, 6400, BACKOFF_MAX_MS, BACKOFF_MAX_MS]
    await lives.serving(9)
    for _ in range(STEADY_MS // PING_INTERVAL_MS):
        lives.clock.advance(PING_INTERVAL_MS)
        await until(lambda: lives.link._unanswered == 0)
    lives.worker.exit(1)
    await lives.serving(10)


async def test_one_that_does_not_answer_is_killed_and_replaced(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    await until(lambda: lives.link._unanswered == 0)
    lives.worker.deaf = True
    for _ in range(TIMEOUT_MS // PING_INTERVAL_MS):
        lives.clock.advance(PING_INTERVAL_MS)
        assert lives.link.serving
    lives.clock.advance(PING_INTERVAL_MS)
    await lives.down()
    assert lives.workers[0].killed, "or two of them would serve the same groups"
    lives.clock.advance(BACKOFF_MS)
    await lives.serving(2)


async def test_a_machine_that_slept_kills_nobody(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    await until(lambda: lives.link._unanswered == 0)
    for _ in range(3):
        # One timer fires, however late: that is one ping without an answer.
        lives.clock._monotonic_ms += 100 * TIMEOUT_MS
        lives.clock.advance(0)
        await until(lambda: lives.link._unanswered == 0)
    assert lives.link.serving
    assert lives.link.restarts == 0


async def test_a_process_that_is_slow_to_start_is_given_time(make: Make) -> None:
    lives = make(lambda: StubWorker(deaf=True))
    lives.link.supervise()
    await until(lambda: lives.workers and WorkerOperation.START in lives.worker.asked)
    for _ in range(FIRST_PINGS - 1):
        lives.clock.advance(PING_INTERVAL_MS)
    assert not lives.worker.killed
    lives.clock.advance(PING_INTERVAL_MS)
    await lives.down()
    assert lives.workers[0].killed


async def test_one_that_cannot_start_is_tried_again(make: Make) -> None:
    lives = make(broken)
    lives.cannot_spawn = 1
    lives.link.supervise()
    await lives.down()
    assert lives.workers == []
    lives.clock.advance(BACKOFF_MS)
    await until(lambda: len(lives.workers) == 1 and lives.workers[0].killed)
    await lives.down()
    lives.clock.advance(2 * BACKOFF_MS)
    await lives.serving(2)


def broken() -> StubWorker:
    worker = StubWorker()
    worker.failing[WorkerOperation.START] = ValueError("no such assignor")
    return worker


async def let_pass(lives: Lives, pause_ms: int) -> None:
    """Lets a life pass that never serves, and the pause after it."""
    before = len(lives.workers)
    lives.clock.advance(pause_ms)
    await until(lambda: len(lives.workers) > before and lives.worker.killed)


async def test_one_that_has_never_served_is_given_up(make: Make) -> None:
    lives = make(*[broken] * (FIRST_LIVES + 1))
    lives.link.supervise()
    serving = asyncio.ensure_future(lives.link.first_served())
    await until(lambda: lives.workers and lives.worker.killed)
    await lives.down()
    assert lives.link.trouble == ": no such assignor (1 times in a row)"
    for life in range(FIRST_LIVES - 1):
        assert not serving.done()
        await let_pass(lives, BACKOFF_MS << life)
        await until(lambda: serving.done() or lives.clock.next_timer_ms() is not None)
    with pytest.raises(DaemonFailed) as failed:
        await serving
    tries = f"{FIRST_LIVES} times in a row"
    assert str(failed.value) == f"worker 1 cannot be started: no such assignor ({tries})"
    lives.clock.advance(BACKOFF_MAX_MS)
    await asyncio.sleep(0)
    assert len(lives.workers) == FIRST_LIVES


async def test_one_that_has_served_is_tried_for_ever(make: Make) -> None:
    lives = make(StubWorker, *[broken] * (2 * FIRST_LIVES))
    lives.link.supervise()
    await lives.serving(1)
    lives.worker.exit(1)
    await lives.down()
    pause_ms = BACKOFF_MS
    assert lives.link.trouble == ""
    for life in range(2 * FIRST_LIVES):
        await let_pass(lives, pause_ms)
        await lives.down()
        assert lives.link.trouble == f": no such assignor ({life + 1} times in a row)"
        pause_ms = min(2 * pause_ms, BACKOFF_MAX_MS)
    lives.clock.advance(pause_ms)
    await lives.serving(2 * FIRST_LIVES + 2)
    assert lives.link.trouble == ""


async def test_a_bug_does_not_leave_a_worker_away_for_ever(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = make()
    with monkeypatch.context() as broken:
        broken.setattr(lives.link, "_make_start", lambda: {}["missing"])
        lives.link.supervise()
        await lives.down()
    lives.clock.advance(BACKOFF_MS)
    await lives.serving(2)


async def test_pings_tell_how_it_does(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    lives.worker.health = Health(3, ("__consumer_offsets-4",))
    lives.clock.advance(PING_INTERVAL_MS)
    await until(lambda: lives.link.health.loading == 3)
    assert lives.link.health.failed == ("__consumer_offsets-4",)
    lives.worker.exit(1)
    await lives.down()
    assert lives.link.health == Health(), "what the last one said is not true of the next"


async def test_news_go_to_one_that_was_told_and_are_acknowledged(make: Make) -> None:
    lives = make(lambda: StubWorker(slow_start=True))
    lives.link.tell(WorkerOperation.METADATA, b"before its start: that will say it all")
    lives.link.supervise()
    await until(lambda: lives.workers and lives.worker.started is not None)
    lives.link.tell(WorkerOperation.METADATA, b"while it loads")
    assert lives.link.behind() == set(), "nobody waits for one that does not serve"
    assert lives.worker.started is not None
    lives.worker.started.set_result(encode(Health()))
    await lives.serving(1)
    lives.link.tell(WorkerOperation.METADATA, b"while it serves")
    (behind,) = lives.link.behind()
    assert await behind == b""
    await until(lambda: lives.link.behind() == set())
    assert lives.worker.asked.count(WorkerOperation.METADATA) == 2


async def test_one_that_cannot_take_in_news_is_started_anew(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    lives.worker.failing[WorkerOperation.METADATA] = KeyError("a bug")
    lives.link.tell(WorkerOperation.METADATA, b"")
    await lives.down()
    lives.clock.advance(BACKOFF_MS)
    await lives.serving(2)


async def test_stop_is_asked_for_and_nobody_comes_after(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    await lives.link.stop(5)
    assert WorkerOperation.STOP in lives.worker.asked
    assert lives.link.state is WorkerState.STOPPED
    lives.clock.advance(BACKOFF_MAX_MS)
    await asyncio.sleep(0)
    assert len(lives.workers) == 1


async def test_stop_kills_one_that_takes_too_long(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    lives.worker.deaf = True
    await lives.link.stop(0.01)
    assert lives.worker.killed


async def test_stop_in_the_pause_before_the_next_life(make: Make) -> None:
    lives = make()
    lives.link.supervise()
    await lives.serving(1)
    lives.worker.exit(1)
    await lives.down()
    await lives.link.stop(1)
    assert len(lives.workers) == 1


async def test_stop_before_it_was_supervised(make: Make) -> None:
    lives = make()
    await lives.link.launch()
    await lives.link.stop(1)
    assert lives.worker.killed
    assert lives.worker.asked == []


async def test_stop_before_it_has_answered_anything_kills_it_at_once(make: Make) -> None:
    """Its process still loads modules, which may take seconds, and has no clients."""
    lives = make(lambda: StubWorker(deaf=True))
    lives.link.supervise()
    await until(lambda: lives.workers and WorkerOperation.PING in lives.worker.asked)
    await lives.link.stop(3600)
    assert lives.worker.killed
    assert WorkerOperation.STOP not in lives.worker.asked
    assert lives.link.state is WorkerState.STOPPED


async def test_stop_while_it_starts_waits_for_its_answer(make: Make) -> None:
    """A worker gives up its start when it is to stop, which is no reason to kill it."""
    lives = make(lambda: StubWorker(slow_start=True))
    lives.link.supervise()
    await until(lambda: lives.link._heard)
    worker = lives.worker
    worker.on_stop = asyncio.get_running_loop().create_future()
    stopping = asyncio.ensure_future(lives.link.stop(5))
    await until(lambda: WorkerOperation.STOP in worker.asked)
    assert worker.started is not None
    worker.started.set_exception(LogUnavailable("given up"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not worker.killed
    worker.on_stop.set_result(b"")
    await stopping
    assert lives.link.state is WorkerState.STOPPED
