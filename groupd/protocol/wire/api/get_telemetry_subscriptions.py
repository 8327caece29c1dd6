"""GetTelemetrySubscriptions (71), v0. Always flexible."""

from __future__ import annotations

from groupd.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsReply,
    GetTelemetrySubscriptionsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> GetTelemetrySubscriptionsRequest:
    client = reader.uuid()
    return GetTelemetrySubscriptionsRequest(client)


def write(writer: Writer, reply: GetTelemetrySubscriptionsReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.uuid(reply.client)
    writer.int32(reply.subscription_id)
    writer.array(reply.compressions, Writer.int8)
    writer.int32(reply.push_interval_ms)
    writer.int32(reply.max_bytes)
    writer.boolean(reply.delta_temporality)
    writer.array(reply.metrics, Writer.string)


API = api(
    71,
    GetTelemetrySubscriptionsRequest,
    "0",
    "0+",
    read,
    write,
    code_only(GetTelemetrySubscriptionsReply),
)
