"""PushTelemetry (72), v0. Always flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.telemetry import PushTelemetryReply, PushTelemetryRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> PushTelemetryRequest:
    client = reader.uuid()
    subscription_id = reader.int32()
    terminating = reader.boolean()
    compression = reader.int8()
    metrics = reader.bytes_()
    reader.end()
    return PushTelemetryRequest(client, subscription_id, terminating, compression, metrics)


def encode(reply: PushTelemetryReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.end()
    return writer.buffer


def failure(
    request: PushTelemetryRequest, code: ErrorCode, message: str | None
) -> PushTelemetryReply:
    return PushTelemetryReply(code)


API = Api(72, "PushTelemetry", 0, 0, _FLEXIBLE_FROM, PushTelemetryRequest, decode, encode, failure)
