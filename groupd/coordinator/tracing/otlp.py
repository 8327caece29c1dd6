"""Sends rebalances that have ended as spans, as OTLP over HTTP. Only this module knows
OpenTelemetry.

The library's `BatchSpanProcessor` keeps a queue of limited length and sends on its own thread, so
nothing waits for a receiver that is slow or dead. Settings for which groupd has no key are the
library's own: OTEL_BSP_*, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE and others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import structlog
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from groupd.coordinator.config.admin_settings import (
    FROM_ENVIRONMENT,
    AdminSettings,
    parse_headers,
)
from groupd.coordinator.core.types import Event as CoreEvent
from groupd.coordinator.history.rebalance import GroupRebalance, RebalancePart
from groupd.coordinator.history.rebalance_text import cause_text

log = structlog.get_logger("groupd.tracing")

DEFAULT_SERVICE = "groupd"
_UNKNOWN = "unknown_service"
"""The library gives a service without a name a name that begins with this."""
TEXT_MAX = 1000
"""The most characters of one text: clients choose names and reasons."""
NOTES_MAX = 20
"""The most events of a root span."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
LIBRARY = "opentelemetry"
"""The names of the library's loggers begin with this."""
LOG_INTERVAL_S = 60.0

Attributes = Mapping[str, str | int | tuple[str, ...]]


class SpanMaker:
    """Makes the spans of rebalances that have ended and are `detailed`."""

    def __init__(self, ids: IdGenerator, resource: Resource) -> None:
        self._ids = ids
        self._resource = resource
        self._scope = InstrumentationScope("groupd")
        self._roots: dict[GroupRebalance, SpanContext] = {}
        """The root spans of rebalances that are still under way. The previous trace links to
        them."""

    def spans(self, rebalance: GroupRebalance, traces_left_out: int) -> list[ReadableSpan]:
        """Returns the spans of the parts, the earliest first, and the root span last. Times are in
        nanoseconds."""
        assert rebalance.end is not None
        root = self._roots.pop(rebalance, None) or self._context()
        counts = {
            "partitions_assigned": rebalance.assigned,
            "partitions_revoked": rebalance.revoked,
            "members_fenced": rebalance.fenced,
            "spans_left_out": rebalance.parts_left_out,
            "traces_left_out": traces_left_out,
        }
        facts = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": rebalance.group_id,
            "groupd.group.type": rebalance.group_type,
            "groupd.epoch": rebalance.epoch,
            "groupd.cause": cause_text(rebalance),
            "groupd.outcome": rebalance.end.value,
            "groupd.members": rebalance.members or 0,
            **_named({name: number for name, number in counts.items() if number}),
        }
        links: list[Link] = []
        following = rebalance.following
        if following is not None and following.detailed:
            self._roots[following] = self._context()
            links.append(Link(self._roots[following], _bounded({})))
        whole = ReadableSpan(
            "rebalance",
            context=root,
            resource=self._resource,
            attributes=_bounded(facts),
            events=[
                Event(event.kind.value, _bounded(_note(event)), at_ns)
                for at_ns, event in rebalance.steps[:NOTES_MAX]
            ],
            links=links,
            status=Status(),
            start_time=rebalance.since,
            end_time=rebalance.until,
            instrumentation_scope=self._scope,
        )
        return [*(self._child(root, part) for part in rebalance.parts), whole]

    def _context(self, trace_id: int | None = None) -> SpanContext:
        trace_id = trace_id or self._ids.generate_trace_id()
        span_id = self._ids.generate_span_id()
        return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)

    def _child(self, root: SpanContext, part: RebalancePart) -> ReadableSpan:
        facts: dict[str, str | int | tuple[str, ...]] = {**part.facts}
        if part.member_id:
            facts["member.id"] = part.member_id
        if part.count:
            facts |= {"partitions": tuple(part.partitions), "partitions.count": part.count}
        failed = Status(StatusCode.ERROR, part.error[:TEXT_MAX]) if part.error else Status()
        return ReadableSpan(
            part.kind.value,
            context=self._context(root.trace_id),
            parent=root,
            resource=self._resource,
            attributes=_bounded(_named(facts)),
            status=failed,
            start_time=part.since,
            end_time=part.until,
            instrumentation_scope=self._scope,
        )


class OtlpSpans:
    """Sends spans. At the end call `stop`, from a thread because it takes long; `cut` makes it end
    early; call `leave` last. The settings in the environment may make the library raise any
    exception."""

    def __init__(self, settings: AdminSettings, node_id: int) -> None:
        endpoint = settings.otel_traces_endpoint
        self._log = LibraryLog()
        self._log.listen()
        try:
            self._exporter = OTLPSpanExporter(
                endpoint=None if endpoint == FROM_ENVIRONMENT else endpoint,
                headers=dict(parse_headers(settings.otel_traces_headers)) or None,
            )
            self._processor = BatchSpanProcessor(self._exporter)
            resource = _resource(node_id)
        except Exception:
            self._log.leave()
            raise
        self._maker = SpanMaker(RandomIdGenerator(), resource)

    def send(self, rebalance: GroupRebalance, traces_left_out: int) -> None:
        for span in self._maker.spans(rebalance, traces_left_out):
            self._processor.on_end(span)

    def stop(self) -> None:
        """Send what is left."""
        self._processor.shutdown()

    def cut(self) -> None:
        """Do not send again what could not be sent."""
        self._exporter.shutdown()

    def leave(self) -> None:
        """Give the library's log back to the library."""
        self._log.leave()


class LibraryLog(logging.Handler):
    """Writes what the library logs to groupd's own log: one line in `LOG_INTERVAL_S`, and the next
    line says how many were left out. If a receiver is down, each attempt logs several lines.
    `elapsed`: a clock in seconds."""

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._elapsed = elapsed
        self._next_s = float("-inf")
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        # No lock is needed: `handle` holds one.
        now_s = self._elapsed()
        if now_s < self._next_s:
            self._left_out += 1
            return
        self._next_s = now_s + LOG_INTERVAL_S
        left_out, self._left_out = self._left_out, 0
        more = {"left_out": left_out} if left_out else {}
        log.warning("traces are not delivered", reason=record.getMessage(), **more)

    def listen(self) -> None:
        logger = logging.getLogger(LIBRARY)
        logger.addHandler(self)
        logger.propagate = False

    def leave(self) -> None:
        logger = logging.getLogger(LIBRARY)
        logger.removeHandler(self)
        logger.propagate = not logger.handlers


def _note(event: CoreEvent) -> Attributes:
    facts: dict[str, str | int] = {"cause": event.cause}
    if event.member_id:
        facts["member.id"] = event.member_id
    if event.epoch >= 0:
        facts["epoch"] = event.epoch
    return _named(facts)


def _named(facts: Attributes) -> Attributes:
    return {f"groupd.{name}": value for name, value in facts.items()}


def _bounded(attributes: Attributes) -> BoundedAttributes:
    """Returns attributes of the class that exporters of older versions expect."""
    return BoundedAttributes(attributes=dict(attributes), max_value_len=TEXT_MAX)


def _resource(node_id: int) -> Resource:
    own = Resource.create({"groupd.node.id": node_id})
    named = not str(own.attributes[SERVICE_NAME]).startswith(_UNKNOWN)
    return own if named else own.merge(Resource({SERVICE_NAME: DEFAULT_SERVICE}))
