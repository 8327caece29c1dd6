"""How long a log line may be, and how many lines one event may have."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.log_limits import LINES_MAX, WINDOW_S, LineLimit, bounded
from groupd.coordinator.logs import configure_logging
from groupd.coordinator.security import audit
from groupd.protocol.messages.groups import DescribeGroupsRequest
from groupd.protocol.messages.sasl import SaslAuthenticateRequest
from groupd.protocol.messages.secret import Secret

LINE_MAX = 8192


@pytest.fixture(autouse=True)
def defaults_again() -> Iterator[None]:
    yield
    structlog.reset_defaults()


HUGE: dict[str, object] = {
    "text": "x" * 2_000_000,
    "escaped": "\x00" * 2_000_000,
    "other letters": "ü" * 2_000_000,
    "bytes": bytes(2_000_000),
    "list": ["x"] * 1_000_000,
    "list of long texts": ["x" * 1000] * 1000,
    "mapping": dict.fromkeys(range(100_000), "v"),
    "request": DescribeGroupsRequest(("x",) * 1_000_000),
    "nested": [[[[[[[["deep"] * 10] * 10] * 10] * 10] * 10] * 10] * 10] * 10,
    "error": ValueError("x" * 2_000_000),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("before", [0, 3900, 5000])
def test_no_part_of_a_secret_is_logged(
    form: str, before: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(form, "info")
    request = SaslAuthenticateRequest(Secret(b"hush" * 2000))
    structlog.get_logger().error("request failed", before="x" * before, request=request)
    line = capsys.readouterr().err
    assert "request" in line
    assert b"hush".hex() not in line
    assert "hush" not in line


@pytest.mark.parametrize("kind", HUGE)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_huge_value_makes_a_short_line(
    form: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(form, "info")
    structlog.get_logger().error("request failed", before=1, request=HUGE[kind], other=HUGE[kind])
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) <= LINE_MAX
    assert "..." in line or kind == "bytes"
    if form == "json":
        assert json.loads(line)["event"] == "request failed"


def test_the_cost_does_not_grow_with_the_value() -> None:
    request = DescribeGroupsRequest(("x" * 10,) * 1_000_000)
    tracemalloc.start()
    try:
        bounded(None, "error", {"event": "request failed", "request": request})
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_long_traceback_keeps_its_ends(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(depth: int) -> None:
        if depth % 2 or depth:
            fail(depth - 1)
        else:
            raise RuntimeError("x" * 100_000 + " the end")

    configure_logging(form, "info")
    try:
        fail(100)
    except RuntimeError:
        structlog.get_logger().exception("request failed", request=HUGE["request"])
    written = capsys.readouterr().err
    assert len(written) <= LINE_MAX
    assert "Traceback" in written
    assert "the end" in written


def test_small_values_stay_as_they_are() -> None:
    context = RequestContext(object(), 1, "c", "/h")
    event: dict[str, Any] = {"a": ("h", 1), "b": {1: [2]}, "c": b"x", "d": None, "e": context}
    assert bounded(None, "info", dict(event)) == event | {"b": {"1": [2]}}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def move(self, seconds: float) -> None:
        self.now += seconds
        due, self.due = self.due, []
        for at, call in due:
            assert at <= self.now
            call()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> list[dict[str, Any]]:
    """The lines that a logger with a limit writes."""
    found: list[dict[str, Any]] = []

    class Lines:
        def warning(self, **line: Any) -> None:
            found.append(line)

        debug = info = warning

    structlog.configure(
        processors=[LineLimit(lambda: clock.now, clock.later), lambda _, __, event: ((), event)],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *_: Lines(),
        cache_logger_on_first_use=False,
    )
    return found


@pytest.mark.slow
def test_an_event_has_so_many_lines_and_then_one_with_their_number(
    clock: Clock, lines: list[dict[str, Any]]
) -> None:
    log = structlog.get_logger()
    for client in range(200_000):
        log.warning("connection closed", client=client)
    log.warning("stopped")
    assert [line["event"] for line in lines] == ["connection closed"] * LINES_MAX + ["stopped"]
    assert len(clock.due) == 1
    del lines[:]
    clock.move(WINDOW_S)
    left_out = {"of": "connection closed", "left_out": 200_000 - LINES_MAX}
    assert lines == [{"event": "log lines left out", **left_out}]
    log.warning("connection closed", client=1)
    assert lines[-1] == {"event": "connection closed", "client": 1}


def test_without_a_timer_the_next_line_tells(
    clock: Clock, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(clock, "later", no_thread)
    structlog.configure(
        processors=[LineLimit(lambda: clock.now, clock.later), lambda _, __, event: ((), event)]
    )
    log = structlog.get_logger()
    for _ in range(LINES_MAX + 7):
        log.warning("a")
    clock.move(WINDOW_S)
    log.warning("b")
    assert [line.get("left_out") for line in lines[-2:]] == [7, None]


def test_a_quiet_event_waits_for_nobody(clock: Clock, lines: list[dict[str, Any]]) -> None:
    log = structlog.get_logger()
    for _ in range(5):
        for _ in range(LINES_MAX):
            log.warning("a")
            log.warning("b")
        clock.move(WINDOW_S)
    assert len(lines) == 5 * 2 * LINES_MAX
    assert clock.due == []


def test_lines_at_debug_have_no_limit(lines: list[dict[str, Any]]) -> None:
    log = structlog.get_logger()
    for _ in range(3 * LINES_MAX):
        log.debug("offsets-committed")
    assert len(lines) == 3 * LINES_MAX


def test_no_line_of_the_audit_log_is_left_out(lines: list[dict[str, Any]]) -> None:
    """Who has changed an ACL must be found there; denials have a limit of their own."""
    for number in range(3 * LINES_MAX):
        structlog.get_logger("groupd.audit", log=audit.LOG).info("ACL created", acl=number)
    assert len(lines) == 3 * LINES_MAX


def test_many_events_share_a_limit(clock: Clock, lines: list[dict[str, Any]]) -> None:
    log = structlog.get_logger()
    for number in range(5_000):
        log.warning(f"event {number}")
    assert len(lines) == 1000 + LINES_MAX
    clock.move(WINDOW_S)
    assert lines[-1]["left_out"] == 4000 - LINES_MAX


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk full")])
def test_a_line_that_cannot_be_written_costs_only_itself(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("groupd.coordinator.logs.fields_text", fail)
    configure_logging("text", "info")
    structlog.get_logger().error("request failed")
