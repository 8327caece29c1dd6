"""Finished spans as OTLP over HTTP: the one module that knows OpenTelemetry.

The library's `BatchSpanProcessor` keeps a queue of limited length and sends on its own thread, so a
receiver that is slow or dead keeps nobody waiting. Settings that groupd has no key for are the
library's own: OTEL_BSP_*, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE and others.
"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from groupd.coordinator.config.admin_settings import (
    FROM_ENVIRONMENT,
    AdminSettings,
    parse_headers,
)
from groupd.coordinator.tracing.spans import Attributes, Ids, Span

DEFAULT_SERVICE = "groupd"
_UNKNOWN = "unknown_service"
"""The library's name for a service without a name begins so."""
TEXT_MAX = 1000
"""The most characters of one text; clients choose names and reasons."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpSpans:
    """Call `stop` in the end, from a thread: it takes its time. `cut` ends it early."""

    def __init__(self, settings: AdminSettings, node_id: int) -> None:
        endpoint = settings.otel_traces_endpoint
        self._exporter = OTLPSpanExporter(
            endpoint=None if endpoint == FROM_ENVIRONMENT else endpoint,
            headers=dict(parse_headers(settings.otel_traces_headers)) or None,
        )
        self._processor = BatchSpanProcessor(self._exporter)
        self._resource = _resource(node_id)
        self._scope = InstrumentationScope("groupd")
        self.ids: Ids = RandomIdGenerator()

    def send(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._processor.on_end(self._readable(span))

    def stop(self) -> None:
        """Send what is left."""
        self._processor.shutdown()

    def cut(self) -> None:
        """Do not send again what could not be sent."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        parent = span.parent_id
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=_context(span.trace_id, parent) if parent else None,
            resource=self._resource,
            attributes=_bounded(span.attributes),
            events=[Event(note.name, _bounded(note.attributes), note.at_ns) for note in span.notes],
            links=[
                Link(_context(link.trace_id, link.span_id), _bounded({})) for link in span.links
            ],
            status=Status(StatusCode.ERROR, span.error[:TEXT_MAX]) if span.error else Status(),
            start_time=span.begin_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _bounded(attributes: Attributes) -> BoundedAttributes:
    """The class that exporters of older versions count on."""
    return BoundedAttributes(attributes=dict(attributes), max_value_len=TEXT_MAX)


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _resource(node_id: int) -> Resource:
    own = Resource.create({"groupd.node.id": node_id})
    named = not str(own.attributes[SERVICE_NAME]).startswith(_UNKNOWN)
    return own if named else own.merge(Resource({SERVICE_NAME: DEFAULT_SERVICE}))
