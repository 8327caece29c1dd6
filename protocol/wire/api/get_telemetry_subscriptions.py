"""GetTelemetrySubscriptions (71), v0. Always flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsReply,
    GetTelemetrySubscriptionsRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> GetTelemetrySubscriptionsRequest:
    client = reader.uuid()
    reader.end()
    return GetTelemetrySubscriptionsRequest(client)


def encode(reply: GetTelemetrySubscriptionsReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.uuid(reply.client)
    writer.int32(reply.subscription_id)
    writer.array(reply.compressions, writer.int8)
    writer.int32(reply.push_interval_ms)
    writer.int32(reply.max_bytes)
    writer.boolean(reply.delta_temporality)
    writer.array(reply.metrics, writer.string)
    writer.end()
    return writer.buffer


def failure(
    request: GetTelemetrySubscriptionsRequest, code: ErrorCode, message: str | None
) -> GetTelemetrySubscriptionsReply:
    return GetTelemetrySubscriptionsReply(code)


API = Api(
    71,
    "GetTelemetrySubscriptions",
    0,
    0,
    _FLEXIBLE_FROM,
    GetTelemetrySubscriptionsRequest,
    decode,
    encode,
    failure,
)
