"""The switch, what the library gets, and that nothing of it ever harms the broker."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.tracing import otlp, tracing
from groupd.coordinator.tracing.otlp import LOG_INTERVAL_S, LibraryLog
from groupd.coordinator.tracing.tracing import Listeners, Tracing
from tests.unit.tracing.traced import MS, begun, reached

ENDPOINT = {"groupd.otel.traces.endpoint": "http://127.0.0.1:4318/v1/traces"}


def settings(**more: str) -> CoordinatorConfig:
    keys = {f"groupd.otel.{name.replace('_', '.')}": value for name, value in more.items()}
    return with_settings(CoordinatorConfig(), {**ENDPOINT, **keys})


class Kept(SpanExporter):
    """An exporter that keeps what it gets; `asked` is what the library's own was made with."""

    spans: list[ReadableSpan]
    asked: dict[str, object]

    def __init__(self, **asked: object) -> None:
        Kept.spans, Kept.asked = [], asked

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        Kept.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to close."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Kept]]:
    monkeypatch.setattr(otlp, "OTLPSpanExporter", Kept)
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    yield Kept
    assert logging.getLogger("opentelemetry").handlers == []


def following(config: CoordinatorConfig, wall_ms: Sequence[int] = ()) -> tuple[Tracing, Listeners]:
    times = iter(wall_ms)
    traced, listeners = Tracing(config, lambda: next(times, 99) * MS), Listeners()
    traced.follow(listeners, 7)
    return traced, listeners


def test_without_an_endpoint_nobody_listens() -> None:
    assert following(CoordinatorConfig())[1] == []


async def test_a_rebalance_goes_out_as_the_library_has_it(kept: type[Kept]) -> None:
    traced, (listener,) = following(settings(), [1, 5])
    listener(3, begun(2, 1))
    listener(3, reached("m1", 2, foo=[0, 1]))
    await traced.stop()
    target, assign, root = kept.spans
    assert (root.name, root.parent, root.start_time, root.end_time) == (
        "rebalance",
        None,
        1 * MS,
        5 * MS,
    )
    assert root.context is not None
    for child in (target, assign):
        assert child.parent is not None
        assert child.context is not None
        assert child.parent.span_id == root.context.span_id
        assert child.context.trace_id == root.context.trace_id
    assert root.resource.attributes["service.name"] == "groupd"
    assert root.resource.attributes["groupd.node.id"] == 7
    assert [event.name for event in root.events] == ["group-epoch-bumped"]
    assert kept.asked == {"endpoint": ENDPOINT["groupd.otel.traces.endpoint"], "headers": None}


async def test_what_is_open_at_the_stop_goes_out_too(kept: type[Kept]) -> None:
    traced, (listener,) = following(settings())
    listener(0, begun(2, 5))
    await traced.stop()
    attributes = kept.spans[-1].attributes
    assert attributes is not None
    assert attributes["groupd.outcome"] == "stopped"
    listener(0, begun(3, 5))
    await traced.stop()
    assert len(kept.spans) == 2


async def test_environment_and_settings_say_where_and_who(
    kept: type[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-groups")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    config = settings(traces_endpoint="environment", traces_headers="api-key=a%20b,x=1")
    traced, (listener,) = following(config)
    listener(0, begun(2, 1))
    await traced.stop()
    assert kept.asked == {"endpoint": None, "headers": {"api-key": "a b", "x": "1"}}
    resource = kept.spans[-1].resource.attributes
    assert resource["service.name"] == "orders-groups"
    assert resource["deployment.environment.name"] == "test"


def test_the_librarys_own_switch_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert following(settings())[1] == []


async def test_an_error_in_a_trace_is_logged_and_goes_no_further(
    kept: type[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    traced, (listener,) = following(settings())
    listener(0, begun(2, 5))
    with capture_logs() as lines:
        listener(0, [*begun(3, 5)[:1], reached("m1", 2)[0], begun(4, 1)[1], None])  # type: ignore[list-item]
    assert [(line["event"], line["shard"]) for line in lines] == [("a trace failed", 0)]
    await traced.stop()


async def test_a_receiver_that_does_not_answer_ends_the_wait(
    kept: type[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event

    waiting, cut = Event(), Event()

    def export(_: Kept, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        waiting.set()
        cut.wait(30)
        return SpanExportResult.FAILURE

    monkeypatch.setattr(Kept, "export", export)
    monkeypatch.setattr(Kept, "shutdown", lambda _: cut.set())
    monkeypatch.setattr(tracing, "FLUSH_S", 0.05)
    traced, (listener,) = following(settings())
    listener(0, begun(2, 5))
    with capture_logs() as lines:
        await traced.stop()
    assert waiting.is_set()
    assert cut.is_set()
    assert [line["event"] for line in lines] == [
        "traces are lost: the receiver has not taken them in time"
    ]


def test_without_the_packages_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "groupd.coordinator.tracing.otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'groupd\[otel\]'") as raised:
        Tracing(settings())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("groupd.otel.traces.endpoint", "localhost:4318"),
        ("groupd.otel.traces.endpoint", "grpc://localhost:4317"),
        ("groupd.otel.traces.endpoint", "http://"),
        ("groupd.otel.traces.endpoint", "http://[::1/v1/traces"),
        ("groupd.otel.traces.endpoint", "http://localhost:99999/v1/traces"),
        ("groupd.otel.traces.endpoint", "http://local host/v1/traces"),
        ("groupd.otel.traces.endpoint", "http://me:s3cret@localhost/v1/traces"),
        ("groupd.otel.traces.headers", "api-key"),
        ("groupd.otel.traces.headers", "api key=s3cret"),
        ("groupd.otel.traces.headers", "api-key=s3cret%0d%0ahost: x"),
    ],
)
def test_bad_settings_are_refused_in_one_line(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        with_settings(CoordinatorConfig(), {key: value})
    text = str(raised.value)
    assert key in text
    assert "\n" not in text
    assert "s3cret" not in text


def test_the_library_has_one_line_a_minute() -> None:
    now = 0.0
    handler = LibraryLog(lambda: now)
    handler.listen()
    logger = logging.getLogger("opentelemetry.exporter.something")
    try:
        with capture_logs() as lines:
            for _ in range(5):
                logger.warning("Transient error %s", "refused")
            now = LOG_INTERVAL_S
            logger.error("Failed to export")
            logger.info("nothing to say")
    finally:
        handler.leave()
    assert [(line["reason"], line.get("left_out")) for line in lines] == [
        ("Transient error refused", None),
        ("Failed to export", 4),
    ]
