"""Log lines as text and as JSON, one line each, on stderr."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from enum import Enum, IntEnum

import pytest
import structlog
from msgspec import Struct

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.logs import configure_logging, log_loop_errors
from groupd.coordinator.runtime import event_log
from groupd.protocol.messages.secret import Secret


@pytest.fixture(autouse=True)
def defaults_again() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_text_is_key_value_with_time_level_and_event_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("text", "info")
    structlog.get_logger().info("serving", kafka=("127.0.0.1", 9092), reason="two\nlines")
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("timestamp=20")
    assert line.endswith('level=info event=serving kafka=127.0.0.1:9092 reason="two\\nlines"')


class Colour(Enum):
    RED = "red"


class Code(IntEnum):
    FINE = 0


class Thing(Struct, frozen=True):
    name: str
    data: bytes
    places: tuple[tuple[str, int], ...] = ()


VALUES: dict[str, tuple[object, str, object]] = {
    "text": ("plain", "plain", "plain"),
    "words": ('say "no"', '"say \\"no\\""', 'say "no"'),
    "empty": ("", '""', ""),
    "number": (7, "7", 7),
    "flag": (True, "yes", True),
    "enum": (Colour.RED, "red", "red"),
    "code": (Code.FINE, "FINE", 0),
    "bytes": (b"\x00\xff", "00ff", "00ff"),
    "secret": (Secret(b"hush"), '"<4 secret bytes>"', "<4 secret bytes>"),
    "address": (("::1", 9092), "::1:9092", ["::1", 9092]),
    "list": (["a", "b"], "a,b", ["a", "b"]),
    "nested": ([["a", 1], ["b", 2]], "[a,1],[b,2]", [["a", 1], ["b", 2]]),
    "mapping": ({"orders": [2, 3]}, "orders:[2,3]", {"orders": [2, 3]}),
    "object": (
        Thing("t", b"\x01", (("orders", 1),)),
        '"Thing name:t data:01 places:[[orders:1]]"',
        {"name": "t", "data": "01", "places": [["orders", 1]]},
    ),
    "error": (ValueError("boom"), "boom", "boom"),
    "class": (Thing, "Thing", "Thing"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_text_for_people_and_typed_for_programs(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value, text, typed = VALUES[kind]
    configure_logging("text", "info")
    structlog.get_logger().info("e", value=value, nothing=None)
    assert capsys.readouterr().err.endswith(f"event=e value={text}\n")
    configure_logging("json", "info")
    structlog.get_logger().info("e", value=value)
    assert json.loads(capsys.readouterr().err)["value"] == typed


def test_a_traceback_follows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text", "info")
    try:
        raise RuntimeError("bug")
    except RuntimeError:
        structlog.get_logger().exception("request failed", shard=3)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith('level=error event="request failed" shard=3')
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "RuntimeError: bug"


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", "INFO")
    try:
        raise RuntimeError("bug")
    except RuntimeError:
        structlog.get_logger().exception("request failed", request=object)
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["event"]) == ("error", "request failed")
    assert "RuntimeError: bug" in entry["exception"]
    assert entry["timestamp"].endswith("Z")


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_lines_below_the_level_are_left_out(
    level: str, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("text", level)
    log = structlog.get_logger()
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(capsys.readouterr().err.splitlines()) == shown


async def test_what_goes_wrong_in_a_callback_is_a_line_like_any_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("text", "info")
    loop = asyncio.get_running_loop()
    log_loop_errors(loop)
    loop.call_soon(lambda: 1 // 0)
    await asyncio.sleep(0)
    written = capsys.readouterr().err
    assert 'event="callback failed"' in written
    assert "ZeroDivisionError" in written


def test_events_an_operator_acts_on_are_info_others_debug_failures_warnings() -> None:
    levels = {}
    for kind in EventKind:
        with structlog.testing.capture_logs() as lines:
            event_log.log_events(3, [Event("consumer", kind, "g", "m", epoch=7, cause="why")])
        (line,) = lines
        levels[kind] = line.pop("log_level")
        assert line == {
            "event": kind.value,
            "shard": 3,
            "group": "g",
            "member": "m",
            "epoch": 7,
            "cause": "why",
        }
    assert levels[EventKind.MEMBER_FENCED] == "info"
    assert levels[EventKind.ASSIGNOR_FAILED] == "warning"
    assert levels[EventKind.OFFSETS_COMMITTED] == "debug", "nothing per commit at info"


def test_an_event_shows_only_what_it_has() -> None:
    with structlog.testing.capture_logs() as lines:
        event_log.log_events(0, [Event("consumer", EventKind.GROUP_CREATED, "g")])
    assert lines == [{"event": "group-created", "log_level": "info", "shard": 0, "group": "g"}]


def test_commits_are_logged_by_loggers_that_cannot_be_asked_for_their_level() -> None:
    """The program whose tests start a broker may have configured structlog in its own way."""
    lines: list[str] = []

    class Lines:
        def debug(self, event: str, **facts: object) -> None:
            lines.append(event)

    structlog.configure(
        processors=[lambda _, __, event: event],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *_: Lines(),
    )
    event_log.log_events(0, [Event("consumer", EventKind.OFFSETS_COMMITTED, "g")])
    assert lines == ["offsets-committed"]
