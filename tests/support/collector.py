"""The OpenTelemetry Collector's own receiver as a process, and the spans that it got."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.support.ports import free_ports
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import otlp_collector

HOST = "127.0.0.1"
WAIT_S = 30.0
ERROR = 2
"""OTLP's code of the status of a span that failed."""


class ReceivedSpan(Struct, frozen=True):
    """One span as it came in. `links`: (trace id, span id)."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    begin_ns: int
    end_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    error: str
    notes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


class Collector:
    """`endpoint` is for the setting of the daemon."""

    def __init__(self, directory: Path) -> None:
        port = free_ports(HOST, 1)
        self.endpoint = f"http://{HOST}:{port}/v1/traces"
        self._file = directory / "spans.jsonl"
        command = [otlp_collector(), f"{HOST}:{port}", str(self._file)]
        self._process = ChildProcess(command, stderr_path=directory / "collector.log")
        wait_until(
            lambda: self._process.stdout_lines, WAIT_S, "the collector", self._process.output
        )

    def spans(self) -> list[ReceivedSpan]:
        """All that have come so far."""
        lines = self._file.read_text().splitlines(keepends=True)
        return [
            _span(span, resource)
            for line in lines
            if line.endswith("\n")
            for resource in json.loads(line)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def roots(self, group: str) -> list[ReceivedSpan]:
        """The rebalances of a group, in order."""
        key = "messaging.consumer.group.name"
        found = [span for span in self.spans() if span.attributes.get(key) == group]
        return sorted(found, key=lambda span: span.begin_ns)

    def below(self, root: ReceivedSpan) -> list[ReceivedSpan]:
        found = [span for span in self.spans() if span.parent_id == root.span_id]
        return sorted(found, key=lambda span: span.begin_ns)

    def close(self) -> None:
        self._process.close()


@contextmanager
def collecting(directory: Path) -> Iterator[Collector]:
    collector = Collector(directory)
    try:
        yield collector
    finally:
        collector.close()


def _span(span: dict[str, Any], resource: dict[str, Any]) -> ReceivedSpan:
    status = span.get("status", {})
    return ReceivedSpan(
        span["traceId"],
        span["spanId"],
        span.get("parentSpanId", ""),
        span["name"],
        int(span["startTimeUnixNano"]),
        int(span["endTimeUnixNano"]),
        _attributes(span),
        _attributes(resource["resource"]),
        status.get("message", "") if status.get("code") == ERROR else "",
        tuple(event["name"] for event in span.get("events", ())),
        tuple((link["traceId"], link["spanId"]) for link in span.get("links", ())),
    )


def _attributes(of: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: _value(one["value"]) for one in of.get("attributes", ())}


def _value(value: dict[str, Any]) -> Any:
    ((kind, plain),) = value.items()
    if kind == "intValue":
        return int(plain)
    if kind == "arrayValue":
        return [_value(one) for one in plain["values"]]
    return plain
